//! The results of the server: text, dense structure, JSON bombs and listings.

use std::collections::HashMap;

const PAGE: usize = 500;

/// Caches bodies by shape and size.
#[derive(Default)]
pub struct Bodies(HashMap<(String, usize), Vec<u8>>);

impl Bodies {
    /// A body of about `size` bytes in this shape.
    pub fn of(&mut self, shape: &str, size: usize) -> &[u8] {
        self.0
            .entry((shape.to_owned(), size))
            .or_insert_with(|| make(shape, size).into_bytes())
    }
}

fn make(shape: &str, size: usize) -> String {
    let numbered = || (0..).map(|number| format!(r#""{number}":0"#));
    match shape {
        "blob" => "x".repeat(size),
        "dense" => {
            let row = r#"{"id":12345,"ok":true,"tags":["a","b"],"at":[1.5,2.5]}"#;
            rows(size, std::iter::repeat(row.to_owned()))
        }
        "bomb-objects" => rows(size, std::iter::repeat(r#"{"":0}"#.to_owned())),
        "bomb-lists" => rows(size, std::iter::repeat("[0]".to_owned())),
        "bomb-deep" => format!(
            r#"{{"rows":{}{}}}"#,
            "[".repeat(size / 2),
            "]".repeat(size / 2)
        ),
        "bomb-wide" => format!("{{{}}}", join_up_to(size, numbered())),
        "bomb-keys" => {
            let long = "k".repeat(256 * 1024);
            let keys = (0..).map(|number| format!(r#""{number}{long}":0"#));
            format!("{{{}}}", join_up_to(size, keys))
        }
        _ => r#"{"ok":true}"#.to_owned(),
    }
}

fn rows(size: usize, rows: impl Iterator<Item = String>) -> String {
    format!(r#"{{"rows":[{}]}}"#, join_up_to(size, rows))
}

/// Joins as many items as fit into `size` bytes, at least one.
fn join_up_to(size: usize, mut items: impl Iterator<Item = String>) -> String {
    let mut all = items.next().unwrap_or_default();
    for item in items {
        if all.len() + item.len() + 1 > size {
            break;
        }
        all.push(',');
        all.push_str(&item);
    }
    all
}

/// Returns the page of a listing at a cursor.
pub fn listing_page(tools: Option<usize>, cursor: Option<&str>) -> String {
    let Some(tools) = tools else {
        return callable_tools();
    };
    let begin: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap_or(tools));
    let end = (begin + PAGE).min(tools);
    let page: Vec<String> = (begin..end).map(typical_tool).collect();
    let more = match end {
        end if end < tools => format!(r#","nextCursor":"{end}""#),
        _ => String::new(),
    };
    format!(r#"{{"tools":[{}]{more}}}"#, page.join(","))
}

fn callable_tools() -> String {
    let sized = |name: &str| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"size":{{"type":"integer"}}}},"required":["size"]}}}}"#
        )
    };
    let echo = r#"{"name":"echo","description":"Returns its message","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}}"#;
    let names = [
        "blob",
        "dense",
        "bomb-objects",
        "bomb-lists",
        "bomb-deep",
        "bomb-wide",
        "bomb-keys",
    ];
    let sized: Vec<String> = names.into_iter().map(sized).collect();
    format!(r#"{{"tools":[{echo},{}]}}"#, sized.join(","))
}

/// A tool of about 450 bytes, the size of tools in popular servers.
fn typical_tool(number: usize) -> String {
    format!(
        r#"{{"name":"search_issues_{number}","description":"Search the issues of a repository by text, state and label, newest first","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string","description":"Words to look for"}},"state":{{"type":"string","enum":["open","closed","all"]}},"limit":{{"type":"integer","minimum":1,"maximum":100}},"labels":{{"type":"array","items":{{"type":"string"}}}}}},"required":["query"]}},"annotations":{{"readOnlyHint":true}}}}"#
    )
}
