//! Translates one foreign entry key by key.
//!
//! Values of a wrong type are copied unchanged, so that the validation of the finished entry
//! reports them. A note reports flags of a wrong type.

mod timeouts;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::client_format::{KeyMeaning, Remote};
use super::variables::{TextPosition, VariableRewriter, Workspace};
use super::{Client, ImportContext};
use crate::expand::{Segment, segments};
use crate::masked_entry::to_json;
use crate::raw::{RawKind, RawMember, RawValue};
use crate::scope::Scope;
use crate::server_name::ServerName;
use crate::text::{quote_for_shell, replace_control_chars};
use crate::validate::{EntryError, parse_server};

/// What the translation of an entry depends on, apart from the entry itself.
pub(super) struct TranslateContext<'a> {
    pub(super) client: Client,
    pub(super) name: &'a ServerName,
    /// The root value of the file.
    pub(super) root: &'a RawValue,
    pub(super) import: &'a ImportContext<'a>,
    /// The scope to write the entry to.
    pub(super) scope: Scope,
    pub(super) is_project_scoped: bool,
    pub(super) is_disabled: bool,
    /// True if the server is disabled in the current project only.
    pub(super) is_disabled_in_project: bool,
}

/// The translated entry, with notes about differences.
pub(super) struct TranslatedEntry {
    pub(super) entry: Map<String, Json>,
    pub(super) notes: Vec<String>,
    pub(super) problem: Option<EntryError>,
}

pub(super) fn translate(raw: &RawValue, context: &TranslateContext<'_>) -> TranslatedEntry {
    if !matches!(raw.kind, RawKind::Object(_)) {
        let message = format!("expected an object, found {}", raw.kind_name());
        return TranslatedEntry {
            entry: Map::new(),
            notes: Vec::new(),
            problem: Some(EntryError::new(message)),
        };
    }
    let mut draft = EntryDraft::new(raw, context);
    for member in raw.members() {
        draft.read(member);
    }
    draft.finish(context)
}

struct EntryDraft<'a> {
    client: Client,
    rewriter: VariableRewriter<'a>,
    kind: Option<Json>,
    url_kind: Option<Remote>,
    command: Option<Json>,
    args: Vec<Json>,
    env: Map<String, Json>,
    cwd: Option<Json>,
    inherit_env: Vec<Json>,
    url: Option<Json>,
    headers: Map<String, Json>,
    /// Values by the name of their key in Switchboard: those of keys that have no field in this
    /// struct, and those of a wrong type.
    more: Map<String, Json>,
    ignored_keys: Vec<String>,
    problem: Option<EntryError>,
}

impl<'a> EntryDraft<'a> {
    fn new(raw: &RawValue, context: &TranslateContext<'a>) -> Self {
        let format = context.client.format();
        let is_env = |member: &&RawMember| format.key(&member.key) == Some(KeyMeaning::Env);
        let env = raw.members().iter().filter(is_env);
        let entry_variables: BTreeSet<_> = env
            .flat_map(|env| env.value.members())
            .map(|variable| variable.key.clone())
            .collect();
        let project_dir = context.import.project_dir.to_string_lossy().into_owned();
        Self {
            client: context.client,
            rewriter: VariableRewriter {
                client: context.client.title(),
                syntax: format.variable_syntax,
                context: context.import,
                workspace: match context.scope {
                    Scope::Project => Workspace::Root,
                    Scope::Local => Workspace::Path(project_dir),
                    _ => Workspace::Current,
                },
                entry_variables,
                inputs: context.root.member("inputs").map(|inputs| &inputs.value),
                notes: Vec::new(),
            },
            kind: None,
            url_kind: None,
            command: None,
            args: Vec::new(),
            env: Map::new(),
            cwd: None,
            inherit_env: Vec::new(),
            url: None,
            headers: Map::new(),
            more: Map::new(),
            ignored_keys: Vec::new(),
            problem: None,
        }
    }

    fn read(&mut self, member: &RawMember) {
        let value = &member.value;
        if matches!(value.kind, RawKind::Null) {
            return;
        }
        match self.client.format().key(&member.key) {
            None | Some(KeyMeaning::Ignored) => self.ignored_keys.push(member.key.clone()),
            Some(KeyMeaning::Type) => self.read_type(value),
            Some(KeyMeaning::Command) => self.read_command(value),
            Some(KeyMeaning::Args) => self.read_args(value),
            Some(KeyMeaning::Env) => read_members(
                value,
                &mut self.env,
                &mut self.rewriter,
                "env",
                &mut self.more,
            ),
            Some(KeyMeaning::Headers) => read_members(
                value,
                &mut self.headers,
                &mut self.rewriter,
                "headers",
                &mut self.more,
            ),
            Some(KeyMeaning::Cwd) => self.cwd = Some(self.rewritten(value, TextPosition::Path)),
            Some(KeyMeaning::Url) if self.url.is_some() => {
                self.ignored_keys.push(member.key.clone());
            }
            Some(KeyMeaning::Url) => self.url = Some(self.rewritten(value, TextPosition::Value)),
            Some(KeyMeaning::UrlOf(remote)) => {
                self.url_kind = Some(remote);
                let url = self.rewritten(value, TextPosition::Value);
                if self.url.replace(url).is_some() {
                    self.ignored_keys.push("url".to_owned());
                }
            }
            Some(KeyMeaning::InheritEnv) => self.read_inherit_env(value),
            Some(KeyMeaning::HeadersFromVariables) => {
                for header in value.members() {
                    let reference = variable_reference(&header.value);
                    self.headers.insert(header.key.clone(), reference);
                }
            }
            Some(KeyMeaning::BearerVariable) => {
                let bearer = match variable_reference(value) {
                    Json::String(reference) => json!(format!("Bearer {reference}")),
                    other => other,
                };
                self.headers.insert("Authorization".to_owned(), bearer);
            }
            Some(KeyMeaning::CallTimeout(unit)) => self.read_timeout("timeout", member, unit),
            Some(KeyMeaning::StartTimeout(unit)) => {
                self.read_timeout("startupTimeout", member, unit);
            }
            Some(KeyMeaning::Timeout(unit)) => self.read_both_timeouts(member, unit),
            Some(KeyMeaning::Enabled) => self.read_flag(member, false),
            Some(KeyMeaning::Disabled) => self.read_flag(member, true),
            Some(KeyMeaning::Unchanged) => {
                self.more.insert(member.key.clone(), to_json(value));
            }
            Some(KeyMeaning::Unsupported(instead)) => self.note_unsupported(&member.key, instead),
            Some(KeyMeaning::UnsupportedIfTrue(instead)) => {
                if !matches!(value.kind, RawKind::Bool(false)) {
                    self.note_unsupported(&member.key, instead);
                }
            }
            Some(KeyMeaning::ClientOnly(word)) => self.read_source(value, word),
        }
    }

    fn note_unsupported(&mut self, key: &str, instead: &str) {
        let key = replace_control_chars(key);
        self.rewriter.note(format!("ignored `{key}`: {instead}"));
    }

    fn rewritten(&mut self, value: &RawValue, position: TextPosition) -> Json {
        match &value.kind {
            RawKind::Text(text) => Json::String(self.rewriter.rewrite(text, position)),
            _ => to_json(value),
        }
    }

    fn read_type(&mut self, value: &RawValue) {
        let RawKind::Text(word) = &value.kind else {
            self.kind = Some(to_json(value));
            return;
        };
        match word.as_str() {
            // Redundant: `command` or `url` implies the transport.
            "stdio" | "local" | "remote" => {}
            "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {
                self.url_kind.get_or_insert(match self.client {
                    Client::VsCode => Remote::Negotiated,
                    _ => Remote::Http,
                });
            }
            "sse" => self.url_kind = Some(Remote::Sse),
            "ws" | "websocket" => {
                let problem = EntryError::new("WebSocket transport is not supported")
                    .hint("check whether the server also supports streamable HTTP");
                self.problem = Some(problem);
            }
            _ => self.kind = Some(json!(word)),
        }
    }

    fn read_command(&mut self, value: &RawValue) {
        match &value.kind {
            RawKind::List(words) => {
                let mut words = words.iter();
                let program = words.next();
                self.command = program.map(|program| self.rewritten(program, TextPosition::Path));
                let words: Vec<_> = words
                    .map(|word| self.rewritten(word, TextPosition::Argument))
                    .collect();
                self.args.splice(0..0, words);
            }
            RawKind::Object(members) => {
                for member in members {
                    match member.key.as_str() {
                        "path" => {
                            self.command = Some(self.rewritten(&member.value, TextPosition::Path));
                        }
                        "args" | "env" => self.read(member),
                        key => self.ignored_keys.push(format!("command.{key}")),
                    }
                }
            }
            _ => self.command = Some(self.rewritten(value, TextPosition::Path)),
        }
    }

    fn read_args(&mut self, value: &RawValue) {
        let RawKind::List(words) = &value.kind else {
            self.more.insert("args".to_owned(), to_json(value));
            return;
        };
        for word in words {
            let word = self.rewritten(word, TextPosition::Argument);
            self.args.push(word);
        }
    }

    fn read_inherit_env(&mut self, value: &RawValue) {
        let RawKind::List(names) = &value.kind else {
            self.more.insert("inheritEnv".to_owned(), to_json(value));
            return;
        };
        for name in names {
            // An item is either a name or an object with a `name`.
            let name = name.member("name").map_or(name, |member| &member.value);
            self.inherit_env.push(to_json(name));
        }
    }

    fn read_flag(&mut self, member: &RawMember, off: bool) {
        match member.value.kind {
            RawKind::Bool(flag) if flag == off => {
                self.more.insert("disabled".to_owned(), json!(true));
            }
            RawKind::Bool(_) => {}
            _ => self.ignored_keys.push(member.key.clone()),
        }
    }

    fn read_source(&mut self, value: &RawValue, foreign: &str) {
        if matches!(&value.kind, RawKind::Text(word) if word == foreign) {
            let client = self.client;
            let message = format!("started by a {client} extension; no command to import");
            let problem = EntryError::new(message)
                .hint("add the server itself: switchboard add NAME -- COMMAND");
            self.problem = Some(problem);
        }
    }

    fn finish(mut self, context: &TranslateContext<'_>) -> TranslatedEntry {
        let is_disabled_in_project = context.is_disabled_in_project && !context.is_disabled;
        if context.is_disabled || (is_disabled_in_project && context.scope == Scope::Local) {
            self.more.insert("disabled".to_owned(), json!(true));
        } else if is_disabled_in_project {
            let client = self.client;
            self.rewriter.note(format!(
                "disabled in {client} for this project; to disable it here: switchboard disable {}",
                quote_for_shell(context.name.as_str())
            ));
        }
        if context.is_project_scoped && self.command.is_some() && context.scope != Scope::Project {
            self.make_absolute(context.import.project_dir);
        }
        let ignored_keys = std::mem::take(&mut self.ignored_keys);
        if !ignored_keys.is_empty() {
            let keys: Vec<_> = ignored_keys
                .iter()
                .map(|key| format!("`{}`", replace_control_chars(key)))
                .collect();
            self.rewriter
                .note(format!("ignored, not supported: {}", keys.join(", ")));
        }
        let mut notes = std::mem::take(&mut self.rewriter.notes);
        let problem = self.problem.take();
        let entry = self.into_entry();
        let unset = unset_variables(&entry, context.import);
        if !unset.is_empty() {
            notes.push(format!("variables not set: {}", unset.join(", ")));
        }
        let problem = problem.or_else(|| check(context, &entry));
        TranslatedEntry {
            entry,
            notes,
            problem,
        }
    }

    /// Makes the paths in `cwd` and `command` absolute if they are relative to the project, because
    /// the entry is written outside of the project. A `command` is such a path if it starts with
    /// `./` or `../`.
    fn make_absolute(&mut self, project_dir: &Path) {
        let join = |text: &str| Json::String(project_dir.join(text).to_string_lossy().into_owned());
        let has_drive = |text: &str| text.get(1..3).is_some_and(|after| after == ":\\");
        let is_relative =
            |text: &str| !text.starts_with("${") && !Path::new(text).has_root() && !has_drive(text);
        match &self.cwd {
            None => self.cwd = Some(json!(project_dir.to_string_lossy())),
            Some(Json::String(cwd)) if is_relative(cwd) => self.cwd = Some(join(cwd)),
            Some(_) => {}
        }
        if let Some(Json::String(command)) = &self.command
            && (command.starts_with("./") || command.starts_with("../"))
        {
            self.command = Some(join(command.trim_start_matches("./")));
        }
    }

    fn into_entry(self) -> Map<String, Json> {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Option<Json>| {
            if let Some(value) = value {
                entry.insert(key.to_owned(), value);
            }
        };
        let remote = self.url_kind.unwrap_or(self.client.format().url);
        let kind = match remote {
            Remote::Http => Some(json!("http")),
            Remote::Sse => Some(json!("sse")),
            Remote::Negotiated => None,
        };
        let kind = kind.filter(|_| self.url.is_some() && self.command.is_none());
        put("type", self.kind.or(kind));
        put("command", self.command);
        put("args", (!self.args.is_empty()).then(|| json!(self.args)));
        put("env", (!self.env.is_empty()).then(|| json!(self.env)));
        put("cwd", self.cwd);
        let inherit_env = (!self.inherit_env.is_empty()).then(|| json!(self.inherit_env));
        put("inheritEnv", inherit_env);
        put("url", self.url);
        put(
            "headers",
            (!self.headers.is_empty()).then(|| json!(self.headers)),
        );
        entry.extend(self.more);
        entry
    }
}

fn read_members(
    value: &RawValue,
    into: &mut Map<String, Json>,
    rewriter: &mut VariableRewriter<'_>,
    key: &str,
    more: &mut Map<String, Json>,
) {
    if !matches!(value.kind, RawKind::Object(_)) {
        more.insert(key.to_owned(), to_json(value));
        return;
    }
    for member in value.members() {
        let value = match &member.value.kind {
            RawKind::Text(text) => Json::String(rewriter.rewrite(text, TextPosition::Value)),
            // A null value means that the variable or header is not set.
            RawKind::Null => continue,
            _ => to_json(&member.value),
        };
        into.insert(member.key.clone(), value);
    }
}

/// A reference to the variable that the value names.
fn variable_reference(value: &RawValue) -> Json {
    match &value.kind {
        RawKind::Text(name) => json!(format!("${{{name}}}")),
        _ => to_json(value),
    }
}

/// Returns the unset variables that an entry references without a default.
fn unset_variables(entry: &Map<String, Json>, context: &ImportContext<'_>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for key in ["command", "args", "env", "cwd", "url", "headers"] {
        let value = entry.get(key);
        each_text(value.unwrap_or(&Json::Null), &mut |text| {
            for segment in segments(text) {
                if let Segment::Reference {
                    name,
                    default: None,
                    ..
                } = segment
                    && context.environment.variable(name).is_none()
                {
                    names.insert(name.to_owned());
                }
            }
        });
    }
    names.into_iter().collect()
}

fn each_text(value: &Json, look: &mut dyn FnMut(&str)) {
    match value {
        Json::String(text) => look(text),
        Json::Array(items) => items.iter().for_each(|item| each_text(item, look)),
        Json::Object(members) => members.values().for_each(|value| each_text(value, look)),
        _ => {}
    }
}

/// Validates the entry. Unset variables get a placeholder, because the user may set them later.
fn check(context: &TranslateContext<'_>, entry: &Map<String, Json>) -> Option<EntryError> {
    let environment = |name: &str| {
        let value = context.import.environment.variable(name);
        Some(value.unwrap_or_else(|| "https://not.set".to_owned()))
    };
    parse_server(context.name, &Json::Object(entry.clone()), &environment).err()
}
