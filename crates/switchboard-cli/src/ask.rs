//! Permission from the person at the terminal.
//!
//! The question shows the server, the tool's raw name, exactly what would be sent, and what the server
//! claims of the tool. Anything but a clear yes is a no.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use switchboard::content::for_terminal;
use switchboard::mcp::ToolAnnotations;
use switchboard::{BoxFuture, Interaction, PermissionAnswer, PermissionQuestion};

use crate::render::Screen;
use crate::render::style::{Paint, Style};

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    /// `--yes` was given.
    Yes,
    Person(Style),
    Nobody,
}

/// Asks, as far as there is somebody to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    answers: Answers,
}

impl Ask {
    /// `yes`: every question is answered with yes.
    pub(crate) fn new(screen: &Screen, yes: bool) -> Self {
        let answers = match yes {
            true => Answers::Yes,
            false if screen.can_ask => Answers::Person(screen.side_style),
            false => Answers::Nobody,
        };
        Self { answers }
    }
}

impl Interaction for Ask {
    fn permit<'a>(&'a self, question: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
        Box::pin(async move {
            match self.answers {
                Answers::Yes => PermissionAnswer::Allow,
                Answers::Person(style) => ask(&question, style).await,
                Answers::Nobody => PermissionAnswer::NobodyToAsk,
            }
        })
    }
}

async fn ask(question: &PermissionQuestion<'_>, style: Style) -> PermissionAnswer {
    let text = wording(question, style);
    // Reading a line blocks; a thread may, and is left behind if the call is cancelled meanwhile.
    let answer = tokio::task::spawn_blocking(move || read_answer(&text)).await;
    match answer {
        Ok(Ok(answer)) if is_yes(&answer) => PermissionAnswer::Allow,
        _ => PermissionAnswer::Deny,
    }
}

fn wording(question: &PermissionQuestion<'_>, style: Style) -> String {
    let label = |text: &str| style.paint(Paint::Dim, text);
    let server = for_terminal(question.tool.server.as_str());
    let tool = for_terminal(question.tool.tool.as_str());
    let mut lines = vec![
        format!("{}  {server}", label("server")),
        format!("{}    {}", label("tool"), style.paint(Paint::Bold, &tool)),
        format!("{}   {}", label("sends"), exactly(question.arguments)),
    ];
    let claims = hints(question.annotations);
    if !claims.is_empty() {
        let paint = match question.annotations.destructive {
            Some(true) => Paint::Red,
            _ => Paint::Plain,
        };
        lines.push(format!(
            "{}  {}",
            label("claims"),
            style.paint(paint, &claims.join(", "))
        ));
    }
    lines.push(format!("Call it? {} ", label("[y/N]")));
    lines.join("\n")
}

/// The arguments as JSON. What a terminal would not show, or show elsewhere, is spelled out.
fn exactly(arguments: &serde_json::Map<String, serde_json::Value>) -> String {
    let json = serde_json::to_string(arguments).unwrap_or_default();
    if for_terminal(&json) == json {
        return json;
    }
    let mut spelled = String::with_capacity(json.len());
    for letter in json.chars() {
        if matches!(letter, ' '..='~') {
            spelled.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(spelled, "\\u{unit:04x}");
        }
    }
    spelled
}

/// What a server claims of a tool, in words.
pub(crate) fn hints(annotations: &ToolAnnotations) -> Vec<&'static str> {
    let words = [
        (annotations.read_only, "read-only", "changes things"),
        (annotations.destructive, "destructive", "not destructive"),
        (annotations.idempotent, "idempotent", "not idempotent"),
        (annotations.open_world, "open world", "closed world"),
    ];
    let claimed = words.into_iter().filter_map(|(claim, yes, no)| {
        let claim = claim?;
        Some(if claim { yes } else { no })
    });
    claimed.collect()
}

pub(crate) fn read_answer(question: &str) -> io::Result<String> {
    // Not locked while a person thinks: whoever is interrupted then has something to say there.
    io::stderr().write_all(question.as_bytes())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for yes in ["y\n", "Y\n", " yes \n", "YES"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yep\n", "no yes\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }

    #[test]
    fn arguments_are_shown_exactly() {
        let arguments = |text: &str| serde_json::Map::from_iter([("a".to_owned(), text.into())]);
        assert_eq!(exactly(&arguments("plain ü")), r#"{"a":"plain ü"}"#);
        assert_eq!(exactly(&arguments("\u{202e}ü")), r#"{"a":"\u202e\u00fc"}"#);
        assert_eq!(exactly(&arguments("\u{e0041}")), r#"{"a":"\udb40\udc41"}"#);
    }
}
