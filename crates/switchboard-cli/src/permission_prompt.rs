//! Asks the user for permission to call a tool.
//!
//! The question shows the server, the tool's raw name, the exact arguments and the tool's
//! annotations. Only a clear yes or "always" allows the call. An unclear answer repeats the
//! question, and any other answer denies the call. "Always" also saves a rule; the output names the
//! rule and its file.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use switchboard::content::for_terminal;
use switchboard::mcp::ToolAnnotations;
use switchboard::permission::{PermissionRequest, PermissionResponse, RuleScope};

use crate::always_allow::{OwnSettingsFile, pattern};
use crate::render::Console;
use crate::render::style::{Paint, Style};
use crate::terminal::{LineInput, Terminal, Typed};

/// How permission questions are answered.
#[derive(Clone, Debug)]
enum Responder {
    /// Every question is answered with yes, because `--yes` was given.
    AlwaysYes,
    Terminal(Style),
    /// No person can be asked, because stdin or stderr is no terminal.
    NoInteraction,
}

/// Answers permission questions: with yes after `--yes`, otherwise by asking on the terminal.
#[derive(Clone, Debug)]
pub(crate) struct PermissionPrompt {
    responder: Responder,
    terminal: Terminal,
    /// The settings files that the answer "always" can save an allow rule to.
    rule_files: Vec<OwnSettingsFile>,
}

impl PermissionPrompt {
    /// If `yes` is true, every question is answered with yes.
    pub(crate) fn new(console: &Console, yes: bool, rule_files: Vec<OwnSettingsFile>) -> Self {
        let responder = match yes {
            true => Responder::AlwaysYes,
            false if console.can_ask => Responder::Terminal(console.stderr_style),
            false => Responder::NoInteraction,
        };
        Self {
            responder,
            terminal: console.terminal.clone(),
            rule_files,
        }
    }

    pub(crate) async fn ask_permission(&self, request: &PermissionRequest) -> PermissionResponse {
        match self.responder {
            Responder::AlwaysYes => PermissionResponse::Allow,
            Responder::Terminal(style) => self.ask(request, style).await,
            Responder::NoInteraction => PermissionResponse::NoInteraction,
        }
    }

    async fn ask(&self, request: &PermissionRequest, style: Style) -> PermissionResponse {
        let form = self.build_form(request, style);
        let mut guard = self.terminal.acquire().await;
        let answer = form.ask(&mut guard).await;
        answer.unwrap_or(PermissionResponse::Deny)
    }

    fn build_form(&self, request: &PermissionRequest, style: Style) -> PermissionForm {
        let pattern = pattern(&request.tool);
        let is_useful = |file: &&OwnSettingsFile| file.overrides(&request.decision);
        let rule_files = self.rule_files.iter().filter(is_useful).cloned();
        PermissionForm {
            text: render_question(request, style),
            rule_files: rule_files.filter(|_| pattern.is_some()).collect(),
            pattern: pattern.unwrap_or_default(),
            style,
        }
    }
}

/// One question as shown on the terminal.
struct PermissionForm {
    text: String,
    /// The pattern of the allow rule that the answer "always" saves. Matches only the tool in the
    /// question.
    pattern: String,
    /// The settings files in which the allow rule would take effect. If empty, "always" is not
    /// offered.
    rule_files: Vec<OwnSettingsFile>,
    style: Style,
}

impl PermissionForm {
    async fn ask(&self, input: &mut LineInput) -> io::Result<PermissionResponse> {
        let choices = if self.rule_files.is_empty() {
            "[y/N]"
        } else {
            "[y]es, [a]lways with any arguments, [N]o"
        };
        let choices = self.style.paint(Paint::Dim, choices);
        let question = format!("Allow this call? {choices} ");
        io::stderr().write_all(format!("{}\n", self.text).as_bytes())?;
        loop {
            let Typed::Line(answer) = input.ask(&question).await? else {
                return Ok(PermissionResponse::Deny);
            };
            match parse_reply(&answer) {
                Some(PermissionReply::Once) => return Ok(PermissionResponse::Allow),
                Some(PermissionReply::Always) if !self.rule_files.is_empty() => {
                    return self.allow_always(input).await;
                }
                Some(PermissionReply::No) => return Ok(PermissionResponse::Deny),
                Some(PermissionReply::Always) | None => {}
            }
        }
    }

    async fn allow_always(&self, input: &mut LineInput) -> io::Result<PermissionResponse> {
        let Some(file) = self.choose_rule_file(input).await? else {
            return Ok(PermissionResponse::Deny);
        };
        let message = match file.allow(&self.pattern) {
            Ok(saved) => format!(
                "Saved rule {} to {} ({} scope)\nTo undo, delete it there.\n",
                for_terminal(&saved.rule),
                saved.location,
                file.scope
            ),
            // The user allowed the call, so it is made even if the rule cannot be saved.
            Err(error) => format!("Allowed once; could not save the rule: {error}\n"),
        };
        io::stderr().write_all(message.as_bytes())?;
        Ok(PermissionResponse::Allow)
    }

    /// Asks which file to save the allow rule to. `None` means that the call is denied.
    async fn choose_rule_file(
        &self,
        input: &mut LineInput,
    ) -> io::Result<Option<&OwnSettingsFile>> {
        let [only] = self.rule_files.as_slice() else {
            let choices = self
                .style
                .paint(Paint::Dim, "[P]roject, [e]verywhere, [n]o");
            let question = format!("Always in this project, or everywhere? {choices} ");
            loop {
                // At the end of input, the call is denied.
                let Typed::Line(answer) = input.ask(&question).await? else {
                    return Ok(None);
                };
                match parse_scope(&answer) {
                    Some(ScopeReply::Scope(scope)) => {
                        return Ok(self.rule_files.iter().find(|file| file.scope == scope));
                    }
                    Some(ScopeReply::No) => return Ok(None),
                    None => {}
                }
            }
        };
        Ok(Some(only))
    }
}

fn render_question(request: &PermissionRequest, style: Style) -> String {
    let label = |text: &str| style.paint(Paint::Dim, text);
    let server = for_terminal(request.tool.server.as_str());
    let tool = for_terminal(request.tool.tool.as_str());
    let mut lines = vec![
        format!("{}  {server}", label("server")),
        format!("{}    {}", label("tool"), style.paint(Paint::Bold, &tool)),
        format!("{}   {}", label("sends"), escape_json(&request.arguments)),
    ];
    let hints = annotation_labels(&request.annotations);
    if !hints.is_empty() {
        let paint = match request.annotations.destructive {
            Some(true) => Paint::Red,
            _ => Paint::Plain,
        };
        lines.push(format!(
            "{}   {}",
            label("hints"),
            style.paint(paint, &hints.join(", "))
        ));
    }
    lines.join("\n")
}

/// The arguments as JSON. If a terminal would hide or reorder a character, every character outside
/// printable ASCII is escaped.
fn escape_json(arguments: &serde_json::Map<String, serde_json::Value>) -> String {
    let json = serde_json::to_string(arguments).unwrap_or_default();
    if for_terminal(&json) == json {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if matches!(letter, ' '..='~') {
            escaped.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// The tool's annotations as labels. Annotations are unverified claims of the server.
pub(crate) fn annotation_labels(annotations: &ToolAnnotations) -> Vec<&'static str> {
    let labels = [
        (annotations.read_only, "read-only", "not read-only"),
        (annotations.destructive, "destructive", "not destructive"),
        (annotations.idempotent, "idempotent", "not idempotent"),
        (annotations.open_world, "open world", "closed world"),
    ];
    let claimed = labels.into_iter().filter_map(|(claim, yes, no)| {
        let claim = claim?;
        Some(if claim { yes } else { no })
    });
    claimed.collect()
}

/// Prints a question and reads one line.
pub(crate) fn prompt_line(question: &str) -> io::Result<String> {
    // The stderr lock is not held while waiting: a signal handler may need to print.
    io::stderr().write_all(question.as_bytes())?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer)
}

#[derive(Debug, PartialEq, Eq)]
enum PermissionReply {
    Once,
    Always,
    No,
}

/// Parses an answer. `None` means that the answer is not understood and the question is repeated.
/// An empty line is a no.
fn parse_reply(answer: &str) -> Option<PermissionReply> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(PermissionReply::Once),
        "a" | "always" => Some(PermissionReply::Always),
        "" | "n" | "no" => Some(PermissionReply::No),
        _ => None,
    }
}

/// An answer to the question where "always" applies.
#[derive(Debug, PartialEq, Eq)]
enum ScopeReply {
    Scope(RuleScope),
    No,
}

/// Parses the answer to the question where "always" applies. An empty line is this project. `None`
/// means that the question is repeated.
fn parse_scope(answer: &str) -> Option<ScopeReply> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "" | "p" | "project" | "l" | "local" => Some(ScopeReply::Scope(RuleScope::Local)),
        "e" | "everywhere" | "u" | "user" => Some(ScopeReply::Scope(RuleScope::User)),
        "n" | "no" => Some(ScopeReply::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_letters_choose_the_scope() {
        for project in ["", "p", "Project", "local", "l"] {
            let reply = parse_scope(project);
            assert_eq!(
                reply,
                Some(ScopeReply::Scope(RuleScope::Local)),
                "{project}"
            );
        }
        for everywhere in ["e", "everywhere", "USER", "u"] {
            let reply = parse_scope(everywhere);
            assert_eq!(
                reply,
                Some(ScopeReply::Scope(RuleScope::User)),
                "{everywhere}"
            );
        }
        assert_eq!(parse_scope("no"), Some(ScopeReply::No));
        assert_eq!(parse_scope("maybe"), None);
    }

    #[test]
    fn only_a_clear_yes_allows() {
        for yes in ["y\n", "Y\n", " yes \n", "YES"] {
            assert_eq!(parse_reply(yes), Some(PermissionReply::Once), "{yes:?}");
        }
        for always in ["a\n", "Always\n"] {
            let reply = parse_reply(always);
            assert_eq!(reply, Some(PermissionReply::Always), "{always:?}");
        }
        for no in ["", "\n", "n\n", " No \n"] {
            assert_eq!(parse_reply(no), Some(PermissionReply::No), "{no:?}");
        }
        for unclear in ["yep\n", "perhaps\n", "yes please\n", "aa\n"] {
            assert_eq!(parse_reply(unclear), None, "{unclear:?}");
        }
    }

    #[test]
    fn unprintable_arguments_are_escaped() {
        let arguments = |text: &str| serde_json::Map::from_iter([("a".to_owned(), text.into())]);
        assert_eq!(escape_json(&arguments("plain ü")), r#"{"a":"plain ü"}"#);
        assert_eq!(
            escape_json(&arguments("\u{202e}ü")),
            r#"{"a":"\u202e\u00fc"}"#
        );
        assert_eq!(
            escape_json(&arguments("\u{e0041}")),
            r#"{"a":"\udb40\udc41"}"#
        );
    }
}
