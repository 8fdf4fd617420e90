//! Rewrites the variable references of other clients to `${NAME}` and `${NAME:-default}`.
//!
//! A reference without an equivalent, such as a prompt to the user or the content of a file,
//! becomes a variable that the user has to set, and a note names the variable. If a client passes
//! `${NAME}` to the server literally, a note tells that Switchboard expands it.

use std::collections::BTreeSet;

use super::client_format::VariableSyntax;
use super::{ImportContext, Platform};
use crate::raw::{RawKind, RawValue};
use crate::text::replace_control_chars;

/// Maximum length of a reference. Without a maximum, scanning a text that repeats `${` would take
/// quadratic time.
const MAX_REFERENCE: usize = 512;

/// The role of a text in an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextPosition {
    /// A program or a directory.
    Path,
    Argument,
    /// A variable, a header or a URL.
    Value,
}

/// How to refer to the workspace directory of a client.
#[derive(Clone, Debug)]
pub(super) enum Workspace {
    /// The path of the project.
    Path(String),
    /// The current directory when the server starts.
    Current,
    /// `.`: the server runs in the project root.
    Root,
}

/// Rewrites the texts of one entry.
pub(super) struct VariableRewriter<'a> {
    pub(super) client: &'static str,
    pub(super) syntax: VariableSyntax,
    pub(super) context: &'a ImportContext<'a>,
    pub(super) workspace: Workspace,
    /// The variables that the entry sets for its server.
    pub(super) entry_variables: BTreeSet<String>,
    /// The inputs that the client prompts for.
    pub(super) inputs: Option<&'a RawValue>,
    pub(super) notes: Vec<String>,
}

impl VariableRewriter<'_> {
    pub(super) fn rewrite(&mut self, text: &str, position: TextPosition) -> String {
        let mut rest = text;
        let mut rewritten = String::with_capacity(text.len());
        if position == TextPosition::Path
            && let Some(rest_of_path) = rest.strip_prefix('~')
            && (rest_of_path.is_empty() || rest_of_path.starts_with(['/', '\\']))
        {
            rewritten.push_str(self.home());
            rest = rest_of_path;
        }
        while let Some(first) = rest.chars().next() {
            let found = self.reference(rest, position);
            let (piece, length) = match &found {
                Some((piece, length)) => (piece.as_str(), *length),
                None => (
                    rest.get(..first.len_utf8()).unwrap_or_default(),
                    first.len_utf8(),
                ),
            };
            rewritten.push_str(piece);
            rest = rest.get(length..).unwrap_or_default();
        }
        rewritten
    }

    fn home(&self) -> &'static str {
        match self.context.platform {
            Platform::Windows => "${USERPROFILE}",
            _ => "${HOME}",
        }
    }

    /// Rewrites the reference at the start of `text`. Returns the new text and the length of the
    /// reference.
    fn reference(&mut self, text: &str, position: TextPosition) -> Option<(String, usize)> {
        if let Some(inside) = enclosed(text, "${", '}') {
            let rewritten = self.rewrite_braced(inside, position)?;
            return Some((rewritten, inside.len() + 3));
        }
        match self.syntax {
            VariableSyntax::Braces => {
                let inside = enclosed(text, "{", '}')?;
                let rewritten = match inside.split_once(':')? {
                    ("env", name) => reference_to(name)?,
                    ("file", path) => self.user_variable(path, &format!("the content of {path}")),
                    _ => return None,
                };
                Some((rewritten, inside.len() + 2))
            }
            VariableSyntax::Shell if text.starts_with('$') => {
                let name = text.get(1..).unwrap_or_default();
                let name = name.get(..name_length(name))?;
                Some((reference_to(name)?, name.len() + 1))
            }
            VariableSyntax::Shell if self.context.platform == Platform::Windows => {
                let name = enclosed(text, "%", '%')?;
                Some((reference_to(name)?, name.len() + 2))
            }
            _ => None,
        }
    }

    /// Rewrites `${inside}`.
    fn rewrite_braced(&mut self, inside: &str, position: TextPosition) -> Option<String> {
        let (word, rest) = inside.split_once(':').unwrap_or((inside, ""));
        match word {
            "env" if inside != word => return reference_to(rest),
            "input" if inside != word => return Some(self.input(rest)),
            "file" if inside != word => {
                return Some(self.user_variable(rest, &format!("the content of {rest}")));
            }
            "command" | "config" if inside != word => {
                return Some(self.user_variable(rest, &format!("the {word} {rest}")));
            }
            _ => {}
        }
        if self.syntax == VariableSyntax::Editor
            && let Some(rewritten) = self.predefined(word)
        {
            return Some(rewritten);
        }
        let is_name = name_length(word) == word.len() && !word.is_empty();
        (is_name && (inside == word || rest.starts_with('-')))
            .then(|| self.keep_reference(word, inside, position))
    }

    /// Handles a reference that is already in the syntax of Switchboard. The client may pass it
    /// literally.
    fn keep_reference(&mut self, name: &str, inside: &str, position: TextPosition) -> String {
        // Notes show the reference without its default, which may be a secret.
        let shown = format!("${{{name}}}");
        let is_expanded = match self.syntax {
            VariableSyntax::Native | VariableSyntax::Shell => {
                self.context.environment.variable(name).is_some()
            }
            VariableSyntax::None | VariableSyntax::Editor | VariableSyntax::Braces => false,
        };
        if position == TextPosition::Argument && self.entry_variables.contains(name) && !is_expanded
        {
            // The entry sets this variable for the server, so the server expands the reference.
            self.note(format!(
                "{shown} is expanded by the server; escaped as ${{DOLLAR:-$}} here"
            ));
            return format!("${{DOLLAR:-$}}{{{inside}}}");
        }
        if !matches!(self.syntax, VariableSyntax::Native | VariableSyntax::Shell) {
            let client = self.client;
            self.note(format!(
                "{shown} is expanded here; {client} passes it literally"
            ));
        }
        format!("${{{inside}}}")
    }

    fn predefined(&mut self, word: &str) -> Option<String> {
        let separator = match self.context.platform {
            Platform::Windows => "\\",
            _ => "/",
        };
        let rewritten = match word {
            "workspaceFolder" | "workspaceRoot" | "cwd" => self.workspace_folder(),
            "workspaceFolderBasename" => {
                let directory = self.context.project_dir.file_name()?;
                self.note(format!(
                    "${{{word}}} becomes the name of the current directory"
                ));
                directory.to_string_lossy().into_owned()
            }
            "userHome" => self.home().to_owned(),
            "pathSeparator" | "/" => separator.to_owned(),
            _ => return None,
        };
        Some(rewritten)
    }

    fn workspace_folder(&mut self) -> String {
        match &self.workspace {
            Workspace::Path(path) => path.clone(),
            Workspace::Root => ".".to_owned(),
            Workspace::Current => {
                self.note(
                    "${workspaceFolder} becomes the directory the server is started in".to_owned(),
                );
                "${PWD:-.}".to_owned()
            }
        }
    }

    /// Turns a prompt of the client into a variable.
    fn input(&mut self, id: &str) -> String {
        let inputs = self.inputs.map(|inputs| &inputs.kind);
        let Some(RawKind::List(inputs)) = inputs else {
            return self.user_variable(id, &format!("the input {id}"));
        };
        let text = |input: &RawValue, key: &str| match &input.member(key)?.value.kind {
            RawKind::Text(text) => Some(text.clone()),
            _ => None,
        };
        let input = inputs
            .iter()
            .find(|input| text(input, "id").as_deref() == Some(id));
        let description = input.and_then(|input| text(input, "description"));
        let description = description.map_or_else(
            || format!("the input {id}"),
            |description| format!("“{description}”"),
        );
        let default = input
            .and_then(|input| text(input, "default"))
            .filter(|default| !default.is_empty() && !default.contains(['}', '$']));
        match default {
            None => self.user_variable(id, &description),
            Some(default) => {
                let name = variable_name(id);
                let client = self.client;
                self.note(format!(
                    "{client} prompts for {}; set {name} to override the default",
                    replace_control_chars(&description)
                ));
                format!("${{{name}:-{default}}}")
            }
        }
    }

    /// Returns a reference to a variable that the user has to set, and adds a note. `description`
    /// tells in the note what the client would insert.
    fn user_variable(&mut self, id: &str, description: &str) -> String {
        let name = variable_name(id);
        let client = self.client;
        self.note(format!(
            "{client} inserts {}; set the variable {name} instead",
            replace_control_chars(description)
        ));
        format!("${{{name}}}")
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The text between `open` at the start of `text` and the next `close`.
fn enclosed<'t>(text: &'t str, open: &str, close: char) -> Option<&'t str> {
    let inside = text.strip_prefix(open)?;
    let within = inside.char_indices().take(MAX_REFERENCE);
    let end = within.into_iter().find(|(_, letter)| *letter == close)?.0;
    inside.get(..end)
}

fn reference_to(name: &str) -> Option<String> {
    let is_name = !name.is_empty() && name_length(name) == name.len();
    is_name.then(|| format!("${{{name}}}"))
}

/// Length of the variable name at the start of `text`.
fn name_length(text: &str) -> usize {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    end.unwrap_or(text.len())
}

/// Makes a variable name from `id`. If `id` is a path, only its last part is used. ASCII letters
/// become upper case, digits stay, and other characters become `_`, except at both ends of the
/// name. A name that would be empty or start with a digit gets the prefix `INPUT_`.
fn variable_name(id: &str) -> String {
    let last = id.rsplit(['/', '\\']).find(|part| !part.is_empty());
    let capitals: String = last
        .unwrap_or_default()
        .chars()
        .take(64)
        .map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
            _ => '_',
        })
        .collect();
    let capitals = capitals.trim_matches('_');
    if capitals.is_empty() || capitals.starts_with(|first: char| first.is_ascii_digit()) {
        format!("INPUT_{capitals}")
    } else {
        capitals.to_owned()
    }
}
