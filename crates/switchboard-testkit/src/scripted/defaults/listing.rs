//! Splits lists into pages, with the cursors that the script configures.

use serde_json::{Value, json};

use super::{DefaultResponse, INVALID_PARAMS, Request, add_cache_hints, complete, insert};
use crate::script::{Cursors, Script};

/// Members of list entries that define content inside the fake server. They are removed before an
/// entry is sent.
const PRIVATE: [&str; 5] = ["text", "blob", "contents", "changes", "messages"];

/// All entries of a list, and the key under which the result of a list request contains them.
pub(super) struct Listing {
    key: &'static str,
    entries: Vec<Value>,
}

impl Listing {
    /// The list that the result contains under `key`.
    pub(super) fn of(key: &'static str, entries: Vec<Value>) -> Self {
        Self { key, entries }
    }

    /// Returns the page that the cursor of the request selects.
    pub(super) fn page(&self, script: &Script, request: &Request, modern: bool) -> DefaultResponse {
        let count = self.entries.len();
        let size = script.page_size.unwrap_or(count).max(1);
        let page = match request.params.get("cursor") {
            None | Some(Value::Null) => Some(0),
            Some(cursor) => cursor.as_str().and_then(|cursor| page_of(cursor, script)),
        };
        let Some(page) = page else {
            return DefaultResponse::error(INVALID_PARAMS, "unknown cursor");
        };
        let entries = self
            .entries
            .iter()
            .skip(page.saturating_mul(size))
            .take(size);
        let listed: Vec<_> = entries.map(|entry| self.without_private(entry)).collect();
        let is_last = page.saturating_add(1).saturating_mul(size) >= count;
        let next = match script.cursors {
            Cursors::Plain | Cursors::EmptyFirst if is_last => None,
            Cursors::EmptyFirst if page == 0 => Some(String::new()),
            Cursors::Loop => Some(cursor_to(1, script)),
            Cursors::Plain | Cursors::EmptyFirst | Cursors::Endless => {
                Some(cursor_to(page + 1, script))
            }
        };
        let mut result = json!({self.key: listed});
        insert(&mut result, "nextCursor", next.as_ref());
        if modern {
            add_cache_hints(&mut result, script);
        }
        DefaultResponse::Result(complete(result, modern))
    }

    fn without_private(&self, entry: &Value) -> Value {
        let mut listed = entry.clone();
        // Tools have no private members and are sent verbatim.
        if let (Some(fields), true) = (listed.as_object_mut(), self.key != "tools") {
            fields.retain(|name, _| !PRIVATE.contains(&name.as_str()));
        }
        listed
    }
}

fn cursor_to(page: usize, script: &Script) -> String {
    let number = page.to_string();
    let padding = script.cursor_bytes.saturating_sub(number.len());
    number + &".".repeat(padding)
}

fn page_of(cursor: &str, script: &Script) -> Option<usize> {
    if cursor.is_empty() && script.cursors == Cursors::EmptyFirst {
        return Some(1);
    }
    cursor.trim_end_matches('.').parse().ok()
}
