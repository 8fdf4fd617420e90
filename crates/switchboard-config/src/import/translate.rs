//! One entry of another program, translated key by key.
//!
//! Values of a wrong type are passed on as they are, so that the check of the finished entry tells
//! what is wrong with them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::client_format::{Key, Remote, Unit};
use super::variables::{Place, Speller, Workspace};
use super::{Client, Whereabouts};
use crate::expand::{Piece, pieces};
use crate::masked_entry::to_json;
use crate::raw::{RawKind, RawMember, RawValue};
use crate::scope::Scope;
use crate::server_name::ServerName;
use crate::text::replace_control_chars;
use crate::validate::{EntryProblem, parse_server};

/// The longest limit that an entry may have here, in milliseconds: a day.
const MAX_MILLIS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;

/// A limit in seconds that is longer was meant in milliseconds, where a client had both.
const MAX_SECONDS: f64 = 3600.0;

/// What is known of an entry besides itself.
pub(super) struct Job<'a> {
    pub(super) client: Client,
    pub(super) name: &'a ServerName,
    /// The file that the entry stands in.
    pub(super) root: &'a RawValue,
    pub(super) whereabouts: &'a Whereabouts<'a>,
    /// Where it is to be written.
    pub(super) scope: Scope,
    pub(super) belongs_to_project: bool,
    pub(super) is_disabled: bool,
    /// Switched off in this project alone.
    pub(super) is_disabled_here: bool,
}

/// An entry of ours, and what is to be said of it.
pub(super) struct Translated {
    pub(super) entry: Map<String, Json>,
    pub(super) notes: Vec<String>,
    pub(super) problem: Option<EntryProblem>,
}

pub(super) fn translate(raw: &RawValue, job: &Job<'_>) -> Translated {
    if !matches!(raw.kind, RawKind::Object(_)) {
        let message = format!("expected an object, found {}", raw.kind_name());
        return Translated {
            entry: Map::new(),
            notes: Vec::new(),
            problem: Some(EntryProblem::new(message)),
        };
    }
    let mut draft = Draft::new(raw, job);
    for member in raw.members() {
        draft.take(member);
    }
    draft.finish(job)
}

struct Draft<'a> {
    client: Client,
    speller: Speller<'a>,
    kind: Option<Json>,
    url_kind: Option<Remote>,
    command: Option<Json>,
    args: Vec<Json>,
    env: Map<String, Json>,
    cwd: Option<Json>,
    passed_on: Vec<Json>,
    url: Option<Json>,
    headers: Map<String, Json>,
    /// Everything else, by our names.
    more: Map<String, Json>,
    left_out: Vec<String>,
    problem: Option<EntryProblem>,
}

impl<'a> Draft<'a> {
    fn new(raw: &RawValue, job: &Job<'a>) -> Self {
        let format = job.client.format();
        let is_env = |member: &&RawMember| format.key(&member.key) == Some(Key::Env);
        let env = raw.members().iter().filter(is_env);
        let own: BTreeSet<_> = env
            .flat_map(|env| env.value.members())
            .map(|variable| variable.key.clone())
            .collect();
        let here = job.whereabouts.here.to_string_lossy().into_owned();
        Self {
            client: job.client,
            speller: Speller {
                client: job.client.title(),
                notation: format.notation,
                whereabouts: job.whereabouts,
                workspace: match job.scope {
                    Scope::Project => Workspace::Root,
                    Scope::Local => Workspace::Path(here),
                    _ => Workspace::Current,
                },
                own,
                inputs: job.root.member("inputs").map(|inputs| &inputs.value),
                notes: Vec::new(),
            },
            kind: None,
            url_kind: None,
            command: None,
            args: Vec::new(),
            env: Map::new(),
            cwd: None,
            passed_on: Vec::new(),
            url: None,
            headers: Map::new(),
            more: Map::new(),
            left_out: Vec::new(),
            problem: None,
        }
    }

    fn take(&mut self, member: &RawMember) {
        let value = &member.value;
        if matches!(value.kind, RawKind::Null) {
            return;
        }
        match self.client.format().key(&member.key) {
            None | Some(Key::Description) => self.left_out.push(member.key.clone()),
            Some(Key::Type) => self.take_type(value),
            Some(Key::Command) => self.take_command(value),
            Some(Key::Args) => self.take_args(value),
            Some(Key::Env) => take_members(
                value,
                &mut self.env,
                &mut self.speller,
                "env",
                &mut self.more,
            ),
            Some(Key::Headers) => take_members(
                value,
                &mut self.headers,
                &mut self.speller,
                "headers",
                &mut self.more,
            ),
            Some(Key::Cwd) => self.cwd = Some(self.spelled(value, Place::Path)),
            Some(Key::Url) if self.url.is_some() => self.left_out.push(member.key.clone()),
            Some(Key::Url) => self.url = Some(self.spelled(value, Place::Value)),
            Some(Key::UrlOf(remote)) => {
                self.url_kind = Some(remote);
                let url = self.spelled(value, Place::Value);
                if self.url.replace(url).is_some() {
                    self.left_out.push("url".to_owned());
                }
            }
            Some(Key::PassedOn) => self.take_passed_on(value),
            Some(Key::HeadersFromVariables) => {
                for header in value.members() {
                    let reference = reference_of(&header.value);
                    self.headers.insert(header.key.clone(), reference);
                }
            }
            Some(Key::BearerVariable) => {
                let bearer = match reference_of(value) {
                    Json::String(reference) => json!(format!("Bearer {reference}")),
                    other => other,
                };
                self.headers.insert("Authorization".to_owned(), bearer);
            }
            Some(Key::CallTimeout(unit)) => self.take_limit("timeout", member, unit),
            Some(Key::StartTimeout(unit)) => self.take_limit("startupTimeout", member, unit),
            Some(Key::Timeout(unit)) => self.take_both_limits(member, unit),
            Some(Key::Enabled) => self.take_switch(member, false),
            Some(Key::Disabled) => self.take_switch(member, true),
            Some(Key::Same) => {
                self.more.insert(member.key.clone(), to_json(value));
            }
            Some(Key::Lost(instead)) => self.lose(&member.key, instead),
            Some(Key::LostIfTrue(instead)) => {
                if !matches!(value.kind, RawKind::Bool(false)) {
                    self.lose(&member.key, instead);
                }
            }
            Some(Key::Foreign(word)) => self.take_source(value, word),
        }
    }

    fn lose(&mut self, key: &str, instead: &str) {
        let key = replace_control_chars(key);
        self.speller.note(format!("`{key}` is left out: {instead}"));
    }

    fn spelled(&mut self, value: &RawValue, place: Place) -> Json {
        match &value.kind {
            RawKind::Text(text) => Json::String(self.speller.spell(text, place)),
            _ => to_json(value),
        }
    }

    fn take_type(&mut self, value: &RawValue) {
        let RawKind::Text(word) = &value.kind else {
            self.kind = Some(to_json(value));
            return;
        };
        match word.as_str() {
            // What is said by a command or an address alone.
            "stdio" | "local" | "remote" => {}
            "http" | "streamable-http" | "streamableHttp" | "streamable_http" => {
                self.url_kind.get_or_insert(match self.client {
                    Client::VsCode => Remote::Negotiated,
                    _ => Remote::Http,
                });
            }
            "sse" => self.url_kind = Some(Remote::Sse),
            "ws" | "websocket" => {
                let problem =
                    EntryProblem::new("it is reached over WebSocket, which is not spoken here")
                        .hint("ask whether the server speaks streamable HTTP too");
                self.problem = Some(problem);
            }
            _ => self.kind = Some(json!(word)),
        }
    }

    fn take_command(&mut self, value: &RawValue) {
        match &value.kind {
            RawKind::List(words) => {
                let mut words = words.iter();
                let program = words.next();
                self.command = program.map(|program| self.spelled(program, Place::Path));
                let words: Vec<_> = words
                    .map(|word| self.spelled(word, Place::Argument))
                    .collect();
                self.args.splice(0..0, words);
            }
            RawKind::Object(members) => {
                for member in members {
                    match member.key.as_str() {
                        "path" => self.command = Some(self.spelled(&member.value, Place::Path)),
                        "args" | "env" => self.take(member),
                        key => self.left_out.push(format!("command.{key}")),
                    }
                }
            }
            _ => self.command = Some(self.spelled(value, Place::Path)),
        }
    }

    fn take_args(&mut self, value: &RawValue) {
        let RawKind::List(words) = &value.kind else {
            self.more.insert("args".to_owned(), to_json(value));
            return;
        };
        for word in words {
            let word = self.spelled(word, Place::Argument);
            self.args.push(word);
        }
    }

    fn take_passed_on(&mut self, value: &RawValue) {
        let RawKind::List(names) = &value.kind else {
            self.more.insert("inheritEnv".to_owned(), to_json(value));
            return;
        };
        for name in names {
            // Either the name itself or an object that says where the variable is found.
            let name = name.member("name").map_or(name, |member| &member.value);
            self.passed_on.push(to_json(name));
        }
    }

    fn take_switch(&mut self, member: &RawMember, off: bool) {
        match member.value.kind {
            RawKind::Bool(flag) if flag == off => {
                self.more.insert("disabled".to_owned(), json!(true));
            }
            RawKind::Bool(_) => {}
            _ => self.left_out.push(member.key.clone()),
        }
    }

    fn take_source(&mut self, value: &RawValue, foreign: &str) {
        if matches!(&value.kind, RawKind::Text(word) if word == foreign) {
            let client = self.client;
            let message =
                format!("an extension of {client} starts it; there is nothing to run here");
            let problem = EntryProblem::new(message)
                .hint("add the server itself: switchboard add NAME -- COMMAND");
            self.problem = Some(problem);
        }
    }

    fn take_both_limits(&mut self, member: &RawMember, unit: Unit) {
        if let RawKind::Object(limits) = &member.value.kind {
            for limit in limits {
                match limit.key.as_str() {
                    "startup" => self.take_limit("startupTimeout", limit, unit),
                    "request" => self.take_limit("timeout", limit, unit),
                    key => self.left_out.push(format!("{}.{key}", member.key)),
                }
            }
            return;
        }
        self.take_limit("startupTimeout", member, unit);
        self.take_limit("timeout", member, unit);
    }

    /// Puts a limit down in milliseconds.
    fn take_limit(&mut self, ours: &str, member: &RawMember, unit: Unit) {
        let written = match &member.value.kind {
            RawKind::Number(digits) => digits.replace('_', "").parse::<f64>().ok(),
            _ => None,
        };
        let Some(written) = written.filter(|number| number.is_finite()) else {
            self.more.insert(ours.to_owned(), to_json(&member.value));
            return;
        };
        let key = replace_control_chars(&member.key);
        let millis = match unit {
            Unit::Milliseconds => written,
            Unit::SecondsOfLate if written > MAX_SECONDS => {
                let note = format!("`{key}` is taken for milliseconds, as older versions have it");
                self.speller.note(note);
                written
            }
            Unit::Seconds | Unit::SecondsOfLate => written * 1000.0,
        };
        if millis < 1.0 || (self.client == Client::ClaudeCode && millis < 1000.0) {
            let note = format!("`{key}` is left out: it is too short to mean anything");
            return self.speller.note(note);
        }
        if millis > MAX_MILLIS {
            self.speller.note(format!("`{key}` is cut to a day"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies between one and the milliseconds of a day"
        )]
        let millis = millis.min(MAX_MILLIS).round() as u64;
        self.more.insert(ours.to_owned(), json!(millis));
    }

    fn finish(mut self, job: &Job<'_>) -> Translated {
        let is_off_here = job.is_disabled_here && !job.is_disabled;
        if job.is_disabled || (is_off_here && job.scope == Scope::Local) {
            self.more.insert("disabled".to_owned(), json!(true));
        } else if is_off_here {
            let client = self.client;
            self.speller.note(format!(
                "{client} has it switched off in this project; to do that here too: switchboard disable {}",
                job.name
            ));
        }
        if job.belongs_to_project && self.command.is_some() && job.scope != Scope::Project {
            self.anchor(job.whereabouts.here);
        }
        let left_out = std::mem::take(&mut self.left_out);
        if !left_out.is_empty() {
            let keys: Vec<_> = left_out
                .iter()
                .map(|key| format!("`{}`", replace_control_chars(key)))
                .collect();
            self.speller.note(format!(
                "left out, for nothing here corresponds to it: {}",
                keys.join(", ")
            ));
        }
        let mut notes = std::mem::take(&mut self.speller.notes);
        let problem = self.problem.take();
        let entry = self.into_entry();
        let unset = unset_variables(&entry, job.whereabouts);
        if !unset.is_empty() {
            notes.push(format!("not set at the moment: {}", unset.join(", ")));
        }
        let problem = problem.or_else(|| check(job, &entry));
        Translated {
            entry,
            notes,
            problem,
        }
    }

    /// Makes what is relative to the project mean the same from everywhere.
    fn anchor(&mut self, here: &Path) {
        let join = |text: &str| Json::String(here.join(text).to_string_lossy().into_owned());
        let has_drive = |text: &str| text.get(1..3).is_some_and(|behind| behind == ":\\");
        let is_relative =
            |text: &str| !text.starts_with("${") && !Path::new(text).has_root() && !has_drive(text);
        match &self.cwd {
            None => self.cwd = Some(json!(here.to_string_lossy())),
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
        let passed_on = (!self.passed_on.is_empty()).then(|| json!(self.passed_on));
        put("inheritEnv", passed_on);
        put("url", self.url);
        put(
            "headers",
            (!self.headers.is_empty()).then(|| json!(self.headers)),
        );
        entry.extend(self.more);
        entry
    }
}

fn take_members(
    value: &RawValue,
    into: &mut Map<String, Json>,
    speller: &mut Speller<'_>,
    ours: &str,
    more: &mut Map<String, Json>,
) {
    if !matches!(value.kind, RawKind::Object(_)) {
        more.insert(ours.to_owned(), to_json(value));
        return;
    }
    for member in value.members() {
        let value = match &member.value.kind {
            RawKind::Text(text) => Json::String(speller.spell(text, Place::Value)),
            // A variable without a value is one that is not set.
            RawKind::Null => continue,
            _ => to_json(&member.value),
        };
        into.insert(member.key.clone(), value);
    }
}

/// The variable that a value names.
fn reference_of(value: &RawValue) -> Json {
    match &value.kind {
        RawKind::Text(name) => json!(format!("${{{name}}}")),
        _ => to_json(value),
    }
}

/// The variables that an entry needs and nobody has set.
fn unset_variables(entry: &Map<String, Json>, whereabouts: &Whereabouts<'_>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for key in ["command", "args", "env", "cwd", "url", "headers"] {
        let value = entry.get(key);
        each_text(value.unwrap_or(&Json::Null), &mut |text| {
            for piece in pieces(text) {
                if let Piece::Reference {
                    name,
                    default: None,
                    ..
                } = piece
                    && whereabouts.environment.variable(name).is_none()
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

/// What would be wrong with the entry here. A variable that is not set yet is not held against it.
fn check(job: &Job<'_>, entry: &Map<String, Json>) -> Option<EntryProblem> {
    let environment = |name: &str| {
        let value = job.whereabouts.environment.variable(name);
        Some(value.unwrap_or_else(|| "https://not.set".to_owned()))
    };
    parse_server(job.name, &Json::Object(entry.clone()), &environment).err()
}
