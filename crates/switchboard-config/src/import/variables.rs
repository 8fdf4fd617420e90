//! Variables as other programs spell them, spelled as we do: `${NAME}` and `${NAME:-default}`.
//!
//! What we have no word for, a question to the user or the content of a file, becomes a variable that
//! has to be set, and a note says so: a wrong value is never handed to a server. Text that a client
//! hands over as it stands reaches the server as it stands from here too.

use std::collections::BTreeSet;

use super::client_format::Notation;
use super::{Platform, Whereabouts};
use crate::raw::{RawKind, RawValue};
use crate::text::replace_control_chars;

/// The longest reference that is looked for. Without an end to the search, a text of nothing but
/// openings would take for ever.
const MAX_REFERENCE: usize = 512;

/// Where in an entry a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A program or a folder.
    Path,
    Argument,
    /// A variable, a header or an address.
    Value,
}

/// What the folder that a client works in is called here.
#[derive(Clone, Debug)]
pub(super) enum Workspace {
    /// The project, by its path.
    Path(String),
    /// Whatever folder somebody works in.
    Current,
    /// The entry runs in the project's root in any case.
    Root,
}

/// Spells the texts of one entry.
pub(super) struct Speller<'a> {
    pub(super) client: &'static str,
    pub(super) notation: Notation,
    pub(super) whereabouts: &'a Whereabouts<'a>,
    pub(super) workspace: Workspace,
    /// The variables that the entry itself sets for its server.
    pub(super) own: BTreeSet<String>,
    /// What the client asks its user for.
    pub(super) inputs: Option<&'a RawValue>,
    pub(super) notes: Vec<String>,
}

impl Speller<'_> {
    pub(super) fn spell(&mut self, text: &str, place: Place) -> String {
        let mut rest = text;
        let mut spelled = String::with_capacity(text.len());
        if place == Place::Path
            && let Some(behind) = rest.strip_prefix('~')
            && (behind.is_empty() || behind.starts_with(['/', '\\']))
        {
            spelled.push_str(self.home());
            rest = behind;
        }
        while let Some(first) = rest.chars().next() {
            let found = self.reference(rest, place);
            let (piece, length) = match &found {
                Some((piece, length)) => (piece.as_str(), *length),
                None => (
                    rest.get(..first.len_utf8()).unwrap_or_default(),
                    first.len_utf8(),
                ),
            };
            spelled.push_str(piece);
            rest = rest.get(length..).unwrap_or_default();
        }
        spelled
    }

    fn home(&self) -> &'static str {
        match self.whereabouts.platform {
            Platform::Windows => "${USERPROFILE}",
            _ => "${HOME}",
        }
    }

    /// The reference that `text` begins with as we spell it, and how long it is there.
    fn reference(&mut self, text: &str, place: Place) -> Option<(String, usize)> {
        if let Some(inside) = enclosed(text, "${", '}') {
            let spelled = self.braced(inside, place)?;
            return Some((spelled, inside.len() + 3));
        }
        match self.notation {
            Notation::Braces => {
                let inside = enclosed(text, "{", '}')?;
                let spelled = match inside.split_once(':')? {
                    ("env", name) => reference_to(name)?,
                    ("file", path) => self.ask_for(path, &format!("the content of {path}")),
                    _ => return None,
                };
                Some((spelled, inside.len() + 2))
            }
            Notation::Shell if text.starts_with('$') => {
                let name = text.get(1..).unwrap_or_default();
                let name = name.get(..name_length(name))?;
                Some((reference_to(name)?, name.len() + 1))
            }
            Notation::Shell if self.whereabouts.platform == Platform::Windows => {
                let name = enclosed(text, "%", '%')?;
                Some((reference_to(name)?, name.len() + 2))
            }
            _ => None,
        }
    }

    /// What `${inside}` is here.
    fn braced(&mut self, inside: &str, place: Place) -> Option<String> {
        let (word, rest) = inside.split_once(':').unwrap_or((inside, ""));
        match word {
            "env" if inside != word => return reference_to(rest),
            "input" if inside != word => return Some(self.input(rest)),
            "file" if inside != word => {
                return Some(self.ask_for(rest, &format!("the content of {rest}")));
            }
            "command" | "config" if inside != word => {
                return Some(self.ask_for(rest, &format!("the {word} {rest}")));
            }
            _ => {}
        }
        if self.notation == Notation::Editor
            && let Some(spelled) = self.predefined(word)
        {
            return Some(spelled);
        }
        let is_name = name_length(word) == word.len() && !word.is_empty();
        (is_name && (inside == word || rest.starts_with('-')))
            .then(|| self.plain(word, inside, place))
    }

    /// A reference that is spelled as ours are, whether or not the client knows such.
    fn plain(&mut self, name: &str, inside: &str, place: Place) -> String {
        // Without its default, which may be a secret.
        let shown = format!("${{{name}}}");
        let is_filled_in = match self.notation {
            Notation::Ours | Notation::Shell => {
                self.whereabouts.environment.variable(name).is_some()
            }
            Notation::None | Notation::Editor | Notation::Braces => false,
        };
        if place == Place::Argument && self.own.contains(name) && !is_filled_in {
            // The server gets the variable and fills it in by itself.
            self.note(format!(
                "the server itself fills in {shown}; ${{DOLLAR:-$}} keeps that from happening earlier"
            ));
            return format!("${{DOLLAR:-$}}{{{inside}}}");
        }
        if !matches!(self.notation, Notation::Ours | Notation::Shell) {
            let client = self.client;
            self.note(format!(
                "{shown} is filled in here; {client} hands it over as it stands"
            ));
        }
        format!("${{{inside}}}")
    }

    fn predefined(&mut self, word: &str) -> Option<String> {
        let separator = match self.whereabouts.platform {
            Platform::Windows => "\\",
            _ => "/",
        };
        let spelled = match word {
            "workspaceFolder" | "workspaceRoot" | "cwd" => self.workspace_folder(),
            "workspaceFolderBasename" => {
                let here = self.whereabouts.here.file_name()?;
                self.note(format!(
                    "${{{word}}} is the name of the folder you are in now"
                ));
                here.to_string_lossy().into_owned()
            }
            "userHome" => self.home().to_owned(),
            "pathSeparator" | "/" => separator.to_owned(),
            _ => return None,
        };
        Some(spelled)
    }

    fn workspace_folder(&mut self) -> String {
        match &self.workspace {
            Workspace::Path(path) => path.clone(),
            Workspace::Root => ".".to_owned(),
            Workspace::Current => {
                self.note("${workspaceFolder} is the folder you are in when it starts".to_owned());
                "${PWD:-.}".to_owned()
            }
        }
    }

    /// A question to the user is a variable that the user sets.
    fn input(&mut self, id: &str) -> String {
        let inputs = self.inputs.map(|inputs| &inputs.kind);
        let Some(RawKind::List(inputs)) = inputs else {
            return self.ask_for(id, &format!("the input {id}"));
        };
        let text = |input: &RawValue, key: &str| match &input.member(key)?.value.kind {
            RawKind::Text(text) => Some(text.clone()),
            _ => None,
        };
        let input = inputs
            .iter()
            .find(|input| text(input, "id").as_deref() == Some(id));
        let words = input.and_then(|input| text(input, "description"));
        let words = words.map_or_else(|| format!("the input {id}"), |words| format!("“{words}”"));
        let default = input
            .and_then(|input| text(input, "default"))
            .filter(|default| !default.is_empty() && !default.contains(['}', '$']));
        match default {
            None => self.ask_for(id, &words),
            Some(default) => {
                let name = variable_name(id);
                let client = self.client;
                self.note(format!(
                    "{client} asks for {}; here {name} may say something else than the default",
                    replace_control_chars(&words)
                ));
                format!("${{{name}:-{default}}}")
            }
        }
    }

    /// Something that only the user can provide.
    fn ask_for(&mut self, id: &str, words: &str) -> String {
        let name = variable_name(id);
        let client = self.client;
        self.note(format!(
            "{client} puts in {}; here set the variable {name} to it",
            replace_control_chars(words)
        ));
        format!("${{{name}}}")
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// What stands between `open` at the very start of `text` and the next `close`.
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

/// The length of the variable's name that `text` begins with.
fn name_length(text: &str) -> usize {
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return 0;
    }
    let end = text.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    end.unwrap_or(text.len())
}

/// The name of a variable that stands for `id`: the last part of a path, in capitals.
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
