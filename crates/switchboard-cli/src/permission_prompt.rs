//! Permission from the person at the terminal.
//!
//! The question shows the server, the tool's raw name, escaped_json what would be sent, and what the server
//! claims of the tool. Anything but a clear yes is a no. *Always* is a yes that also writes a rule, and
//! says which and where.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use switchboard::content::for_terminal;
use switchboard::mcp::ToolAnnotations;
use switchboard::permission::RuleScope;
use switchboard::{PermissionAnswer, PermissionQuestion};

use crate::always_allow::{RuleFile, pattern};
use crate::render::Console;
use crate::render::style::{Paint, Style};
use crate::terminal::{LineInput, Terminal, Typed};

/// Who answers.
#[derive(Clone, Debug)]
enum Responder {
    /// `--yes` was given.
    AlwaysYes,
    Terminal(Style),
    NoInteraction,
}

/// Asks, as far as there is somebody to ask.
#[derive(Clone, Debug)]
pub(crate) struct PermissionPrompt {
    answers: Responder,
    terminal: Terminal,
    /// Where *always* can be written to.
    rule_files: Vec<RuleFile>,
}

impl PermissionPrompt {
    /// `yes`: every question is answered with yes.
    pub(crate) fn new(console: &Console, yes: bool, rule_files: Vec<RuleFile>) -> Self {
        let answers = match yes {
            true => Responder::AlwaysYes,
            false if console.can_ask => Responder::Terminal(console.stderr_style),
            false => Responder::NoInteraction,
        };
        Self {
            answers,
            terminal: console.terminal.clone(),
            rule_files,
        }
    }

    /// May this call be made?
    pub(crate) async fn ask_permission(
        &self,
        question: &PermissionQuestion<'_>,
    ) -> PermissionAnswer {
        match self.answers {
            Responder::AlwaysYes => PermissionAnswer::Allow,
            Responder::Terminal(style) => self.ask(question, style).await,
            Responder::NoInteraction => PermissionAnswer::NobodyToAsk,
        }
    }

    async fn ask(&self, question: &PermissionQuestion<'_>, style: Style) -> PermissionAnswer {
        let form = self.form(question, style);
        let mut turn = self.terminal.acquire().await;
        let answer = form.fill_in(&mut turn).await;
        answer.unwrap_or(PermissionAnswer::Deny)
    }

    fn form(&self, question: &PermissionQuestion<'_>, style: Style) -> PermissionForm {
        let pattern = pattern(question.tool);
        let helps = |file: &&RuleFile| file.overrides(question.decision);
        let rule_files = self.rule_files.iter().filter(helps).cloned();
        PermissionForm {
            text: question_text(question, style),
            rule_files: rule_files.filter(|_| pattern.is_some()).collect(),
            pattern: pattern.unwrap_or_default(),
            style,
        }
    }
}

/// One question, on its way to the person and back.
struct PermissionForm {
    text: String,
    /// What a rule would be about.
    pattern: String,
    /// Where a rule would help.
    rule_files: Vec<RuleFile>,
    style: Style,
}

impl PermissionForm {
    async fn fill_in(&self, input: &mut LineInput) -> io::Result<PermissionAnswer> {
        let choices = if self.rule_files.is_empty() {
            "[y/N]"
        } else {
            "[y]es, [a]lways, [N]o"
        };
        let choices = self.style.paint(Paint::Dim, choices);
        let question = format!("Call it? {choices} ");
        io::stderr().write_all(format!("{}\n", self.text).as_bytes())?;
        loop {
            let Typed::Line(answer) = input.ask(&question).await? else {
                return Ok(PermissionAnswer::Deny);
            };
            match parse_reply(&answer) {
                Some(PermissionReply::Once) => return Ok(PermissionAnswer::Allow),
                Some(PermissionReply::Always) if !self.rule_files.is_empty() => {
                    return self.always(input).await;
                }
                Some(PermissionReply::No) => return Ok(PermissionAnswer::Deny),
                Some(PermissionReply::Always) | None => {}
            }
        }
    }

    async fn always(&self, input: &mut LineInput) -> io::Result<PermissionAnswer> {
        let Some(file) = self.choose_rule_file(input).await? else {
            return Ok(PermissionAnswer::Deny);
        };
        let told = match file.allow(&self.pattern) {
            Ok(written) => format!(
                "wrote {} to {} ({})\nto undo, take it out there\n",
                for_terminal(&written.rule),
                written.location,
                file.scope
            ),
            // The yes was clear; that it could not be kept changes nothing about it.
            Err(error) => format!("this once, because no rule could be written: {error}\n"),
        };
        io::stderr().write_all(told.as_bytes())?;
        Ok(PermissionAnswer::Allow)
    }

    /// Where the rule is to stand; `None`: nowhere, and then it is a no.
    async fn choose_rule_file(&self, input: &mut LineInput) -> io::Result<Option<&RuleFile>> {
        let [only] = self.rule_files.as_slice() else {
            let choices = self.style.paint(Paint::Dim, "[L]ocal, [u]ser");
            let question = "Always in this project, or everywhere? ";
            let typed = input.ask(&format!("{question}{choices} ")).await?;
            // The end of the input is no answer; an empty line is.
            let Typed::Line(answer) = typed else {
                return Ok(None);
            };
            let scope = match answer.trim().to_ascii_lowercase().as_str() {
                "" | "l" | "local" => RuleScope::Local,
                "u" | "user" => RuleScope::User,
                _ => return Ok(None),
            };
            return Ok(self.rule_files.iter().find(|file| file.scope == scope));
        };
        Ok(Some(only))
    }
}

fn question_text(question: &PermissionQuestion<'_>, style: Style) -> String {
    let label = |text: &str| style.paint(Paint::Dim, text);
    let server = for_terminal(question.tool.server.as_str());
    let tool = for_terminal(question.tool.tool.as_str());
    let mut lines = vec![
        format!("{}  {server}", label("server")),
        format!("{}    {}", label("tool"), style.paint(Paint::Bold, &tool)),
        format!("{}   {}", label("sends"), escaped_json(question.arguments)),
    ];
    let claims = annotation_labels(question.annotations);
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
    lines.join("\n")
}

/// The arguments as JSON. What a terminal would not show, or show elsewhere, is spelled out.
fn escaped_json(arguments: &serde_json::Map<String, serde_json::Value>) -> String {
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
pub(crate) fn annotation_labels(annotations: &ToolAnnotations) -> Vec<&'static str> {
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

pub(crate) fn prompt_line(question: &str) -> io::Result<String> {
    // Not locked while a person thinks: whoever is interrupted then has something to say there.
    io::stderr().write_all(question.as_bytes())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer)
}

/// What a person typed.
#[derive(Debug, PartialEq, Eq)]
enum PermissionReply {
    Once,
    Always,
    No,
}

/// `None`: none of the three, so it is asked again. Enter is a no.
fn parse_reply(answer: &str) -> Option<PermissionReply> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(PermissionReply::Once),
        "a" | "always" => Some(PermissionReply::Always),
        "" | "n" | "no" => Some(PermissionReply::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for yes in ["y\n", "Y\n", " yes \n", "YES"] {
            assert_eq!(parse_reply(yes), Some(PermissionReply::Once), "{yes:?}");
        }
        for always in ["a\n", "Always\n"] {
            assert_eq!(
                parse_reply(always),
                Some(PermissionReply::Always),
                "{always:?}"
            );
        }
        for no in ["", "\n", "n\n", " No \n"] {
            assert_eq!(parse_reply(no), Some(PermissionReply::No), "{no:?}");
        }
        for neither in ["yep\n", "perhaps\n", "yes please\n", "aa\n"] {
            assert_eq!(parse_reply(neither), None, "{neither:?}");
        }
    }

    #[test]
    fn arguments_are_shown_exactly() {
        let arguments = |text: &str| serde_json::Map::from_iter([("a".to_owned(), text.into())]);
        assert_eq!(escaped_json(&arguments("plain ü")), r#"{"a":"plain ü"}"#);
        assert_eq!(
            escaped_json(&arguments("\u{202e}ü")),
            r#"{"a":"\u202e\u00fc"}"#
        );
        assert_eq!(
            escaped_json(&arguments("\u{e0041}")),
            r#"{"a":"\udb40\udc41"}"#
        );
    }
}
