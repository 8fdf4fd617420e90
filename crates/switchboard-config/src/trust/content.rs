//! What of a project's entry consent is about: its hash, and what a person is shown of it.
//!
//! Both are made from the same values at the same moment. Invariant: two entries with the same hash do
//! the same when they run, whatever else is written in them; and no secret stands in what is shown.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use super::program::{Place, Program};
use crate::expand::{Environment, Piece, pieces};
use crate::raw::{RawKind, RawValue};
use crate::secret::{MASK, is_named_like_a_secret};
use crate::server::{RemoteKind, ServerConfig, TransportConfig};
use crate::written::WrittenEntry;

/// Changes with the encoding: approvals of another one are asked for again.
const VERSION: &str = "switchboard server entry, version 1";

/// What a key of an entry has to do with what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// It says what runs: counts with its variables filled in.
    Expanded,
    /// It says how it runs, or holds secrets: counts as written, so that a rotated token does not ask
    /// again.
    AsWritten,
    /// It says when it runs, or for how long: never asks again.
    None,
}

/// Every known key. One that is not known is not read, and has no weight.
const WEIGHTS: [(&str, Weight); 23] = [
    ("type", Weight::Expanded),
    ("command", Weight::Expanded),
    ("args", Weight::Expanded),
    ("cwd", Weight::Expanded),
    ("url", Weight::Expanded),
    ("env", Weight::AsWritten),
    ("inheritEnv", Weight::AsWritten),
    ("keepDaemons", Weight::AsWritten),
    ("headers", Weight::AsWritten),
    ("headersHelper", Weight::AsWritten),
    ("auth", Weight::AsWritten),
    ("oauth", Weight::AsWritten),
    ("id", Weight::AsWritten),
    ("name", Weight::AsWritten),
    // Both widen what may be called without a question.
    ("trustAnnotations", Weight::AsWritten),
    ("tools", Weight::AsWritten),
    ("timeout", Weight::None),
    ("startupTimeout", Weight::None),
    ("maxConcurrentCalls", Weight::None),
    ("reconnect", Weight::None),
    ("lazy", Weight::None),
    ("disabled", Weight::None),
    ("alwaysLoad", Weight::None),
];

/// Variables that hold no secret, so that a person may see what they stand for.
const HARMLESS: [&str; 12] = [
    "HOME", "USER", "LOGNAME", "PWD", "SHELL", "LANG", "TERM", "TMPDIR", "TZ", "EDITOR",
    "HOSTNAME", "PATH",
];

/// The hash of everything in an entry that says what runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(String);

impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a person is shown of an entry before they consent: every field that says what runs. Variables
/// that may hold secrets stay references, and literal secrets are masked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shown(Map<String, Json>);

/// Something that is shown in another way than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Which field; a variable or header by its name, `env.TOKEN`.
    pub field: String,
    /// What was shown; `None` if the field was not there.
    pub before: Option<Json>,
    /// What is shown; `None` if the field is gone.
    pub after: Option<Json>,
}

impl Shown {
    /// The fields by their keys. Besides those of an entry there are `program`, the file that `command`
    /// means, `programHash` if it is one of the project's, and `variables`, which of the user's the
    /// entry reads.
    pub fn as_object(&self) -> &Map<String, Json> {
        &self.0
    }

    /// What is different here from `before`.
    pub fn changes_since(&self, before: &Self) -> Vec<Change> {
        let (old, new) = (before.flat(), self.flat());
        let find = |fields: &[(String, Json)], field: &str| {
            let found = fields.iter().find(|(name, _)| name == field);
            found.map(|(_, value)| value.clone())
        };
        let gone = old.iter().filter(|(name, _)| find(&new, name).is_none());
        new.iter()
            .chain(gone)
            .map(|(field, _)| Change {
                field: field.clone(),
                before: find(&old, field),
                after: find(&new, field),
            })
            .filter(|change| change.before != change.after)
            .collect()
    }

    fn flat(&self) -> Vec<(String, Json)> {
        let mut flat = Vec::new();
        for (key, value) in &self.0 {
            match value {
                Json::Object(members) => {
                    let member =
                        |(name, value): (&String, &Json)| (format!("{key}.{name}"), value.clone());
                    flat.extend(members.iter().map(member));
                }
                _ => flat.push((key.clone(), value.clone())),
            }
        }
        flat
    }
}

/// The part of an entry that consent is about.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// `None`: part of it cannot be read, so nothing can be said about whether it stays the same.
    pub(crate) hash: Option<ContentHash>,
    pub(crate) shown: Shown,
}

impl Content {
    /// Takes the content of a valid entry of the project at `root`.
    pub(crate) fn of(
        raw: &RawValue,
        config: &ServerConfig,
        root: &Path,
        environment: &dyn Environment,
    ) -> Self {
        let program = match &config.transport {
            TransportConfig::Stdio(stdio) => Some(Program::find(stdio, root, environment)),
            _ => None,
        };
        Self {
            hash: hash(raw, config, program.as_ref()),
            shown: show(raw, config, program.as_ref(), root, environment),
        }
    }
}

fn hash(raw: &RawValue, config: &ServerConfig, program: Option<&Program>) -> Option<ContentHash> {
    let mut encoder = Encoder(Sha256::new());
    encoder.text(VERSION);
    for (key, weight) in WEIGHTS {
        match weight {
            Weight::Expanded => encoder.expanded(key, config),
            Weight::AsWritten => {
                if let Some(member) = raw.member(key) {
                    encoder.text(key);
                    encoder.value(&member.value);
                }
            }
            Weight::None => {}
        }
    }
    match program.map(|program| &program.place) {
        Some(Place::Unreadable) => return None,
        Some(Place::Elsewhere) | None => {}
        Some(Place::Linked) => encoder.program(program, ""),
        Some(Place::Missing) => encoder.program(program, "missing"),
        Some(Place::InProject(digest)) => encoder.program(program, digest),
    }
    Some(ContentHash(format!("sha256:{}", encoder.finish())))
}

/// Writes values so that different ones never read the same: each says how long it is.
struct Encoder(Sha256);

impl Encoder {
    fn text(&mut self, text: &str) {
        self.bytes(b't', text.as_bytes());
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) {
        self.count(kind, bytes.len());
        self.0.update(bytes);
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.0.update([kind]);
        self.0.update((count as u64).to_le_bytes());
    }

    /// A field as it is when everything is filled in.
    fn expanded(&mut self, key: &str, config: &ServerConfig) {
        let transport = &config.transport;
        match (key, transport) {
            ("type", transport) => {
                self.text(key);
                self.text(kind_name(transport));
            }
            ("command", TransportConfig::Stdio(stdio)) => {
                self.text(key);
                self.text(&stdio.command);
            }
            ("args", TransportConfig::Stdio(stdio)) => {
                self.text(key);
                self.count(b'l', stdio.args.len());
                stdio.args.iter().for_each(|arg| self.text(arg));
            }
            ("cwd", TransportConfig::Stdio(stdio)) => {
                if let Some(cwd) = &stdio.cwd {
                    self.text(key);
                    self.bytes(b'p', cwd.as_os_str().as_encoded_bytes());
                }
            }
            ("url", transport) => {
                if let Some(url) = transport.url() {
                    self.text(key);
                    self.text(url);
                }
            }
            _ => {}
        }
    }

    /// A value as it is written. The order of keys means nothing.
    fn value(&mut self, value: &RawValue) {
        match &value.kind {
            RawKind::Null => self.count(b'z', 0),
            RawKind::Bool(flag) => self.count(b'b', usize::from(*flag)),
            RawKind::Number(digits) => self.bytes(b'n', digits.as_bytes()),
            RawKind::Text(text) => self.text(text),
            RawKind::List(items) => {
                self.count(b'l', items.len());
                items.iter().for_each(|item| self.value(item));
            }
            RawKind::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.key.cmp(&b.key));
                self.count(b'o', members.len());
                for member in members {
                    self.text(&member.key);
                    self.value(&member.value);
                }
            }
        }
    }

    fn program(&mut self, program: Option<&Program>, digest: &str) {
        let path = program.and_then(|program| program.path.as_deref());
        let path = path.unwrap_or(Path::new(""));
        self.text("program");
        self.bytes(b'p', path.as_os_str().as_encoded_bytes());
        self.text(digest);
    }

    fn finish(self) -> String {
        super::program::hex(&self.0.finalize())
    }
}

/// As on the wire, but telling apart what was left open.
fn kind_name(transport: &TransportConfig) -> &'static str {
    match transport {
        TransportConfig::Remote(remote) if remote.kind == RemoteKind::Negotiated => "http or sse",
        other => other.kind_name(),
    }
}

fn show(
    raw: &RawValue,
    config: &ServerConfig,
    program: Option<&Program>,
    root: &Path,
    environment: &dyn Environment,
) -> Shown {
    let written = WrittenEntry::from_raw(raw);
    let mut fields = Map::new();
    for (key, weight) in WEIGHTS {
        let member = raw.member(key).map(|member| &member.value);
        let value = match (key, weight, member) {
            (_, Weight::None, _) => None,
            ("type", ..) => Some(json!(kind_name(&config.transport))),
            ("cwd", _, Some(value)) => {
                let cwd = filled_in(value, environment);
                cwd.as_str().map(|cwd| {
                    let cwd: PathBuf = root.join(cwd).components().collect();
                    json!(cwd.to_string_lossy())
                })
            }
            (_, Weight::Expanded, value) => value.map(|value| filled_in(value, environment)),
            ("env" | "headers", _, value) => value.map(named_values),
            (_, Weight::AsWritten, _) => written.as_object().get(key).cloned(),
        };
        fields.extend(value.map(|value| (key.to_owned(), value)));
        if key == "command" {
            fields.extend(program.into_iter().flat_map(program_fields));
        }
    }
    let variables = variables(raw);
    if !variables.is_empty() {
        fields.insert("variables".to_owned(), json!(variables));
    }
    Shown(fields)
}

fn program_fields(program: &Program) -> Vec<(String, Json)> {
    let path = program.path.as_ref();
    let path = path.map(|path| json!(path.to_string_lossy()));
    let mut fields = vec![("program".to_owned(), path.unwrap_or(Json::Null))];
    if let Place::InProject(digest) = &program.place {
        fields.push(("programHash".to_owned(), json!(format!("sha256:{digest}"))));
    }
    fields
}

/// What would be handed over, as far as it is no secret: what the user's own variables hold stays a
/// reference to them.
fn filled_in(value: &RawValue, environment: &dyn Environment) -> Json {
    let fill_in = |piece: Piece<'_>| match piece {
        Piece::Literal(literal) => literal.to_owned(),
        Piece::Reference { name, default, .. } => match environment.variable(name) {
            Some(value) if is_harmless(name) => value,
            Some(_) => format!("${{{name}}}"),
            None => default.unwrap_or_default().to_owned(),
        },
    };
    match &value.kind {
        RawKind::Text(text) => json!(pieces(text).map(fill_in).collect::<String>()),
        RawKind::Number(digits) => json!(digits),
        RawKind::List(items) => items
            .iter()
            .map(|item| filled_in(item, environment))
            .collect(),
        _ => Json::Null,
    }
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("XDG_") || name.starts_with("LC_")
}

/// Variables or headers as written. Only what a name gives away as a secret is hidden: what is asked
/// about may well be in a value, `LD_PRELOAD` for one.
fn named_values(value: &RawValue) -> Json {
    let shown = value.members().iter().map(|member| {
        let is_secret = is_named_like_a_secret(&member.key);
        let text = match &member.value.kind {
            RawKind::Text(text) if is_secret => pieces(text).map(masked).collect(),
            RawKind::Text(text) => text.clone(),
            _ if is_secret => MASK.to_owned(),
            RawKind::Number(digits) => digits.clone(),
            RawKind::Bool(flag) => flag.to_string(),
            _ => String::new(),
        };
        (member.key.clone(), json!(text))
    });
    Json::Object(shown.collect())
}

fn masked(piece: Piece<'_>) -> String {
    match piece {
        Piece::Reference {
            name,
            default: Some(default),
            ..
        } if !default.is_empty() => format!("${{{name}:-{MASK}}}"),
        Piece::Reference { written, .. } => written.to_owned(),
        Piece::Literal(_) => MASK.to_owned(),
    }
}

/// Which of the user's variables an entry reads.
fn variables(raw: &RawValue) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for key in ["command", "args", "cwd", "url", "env", "headers"] {
        if let Some(member) = raw.member(key) {
            collect_variables(&member.value, &mut names);
        }
    }
    names
}

fn collect_variables(value: &RawValue, names: &mut BTreeSet<String>) {
    match &value.kind {
        RawKind::Text(text) => names.extend(pieces(text).filter_map(|piece| match piece {
            Piece::Reference { name, .. } => Some(name.to_owned()),
            Piece::Literal(_) => None,
        })),
        RawKind::List(items) => items.iter().for_each(|item| collect_variables(item, names)),
        RawKind::Object(members) => members
            .iter()
            .for_each(|member| collect_variables(&member.value, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{Approval, ENTRY_KEYS};

    #[test]
    fn every_known_key_has_the_weight_that_its_reference_says() {
        let weighs = |name: &str| {
            let mut weights = WEIGHTS.iter().filter(|(key, _)| *key == name);
            let (_, weight) = weights.next().unwrap();
            !matches!(weight, Weight::None)
        };
        for key in ENTRY_KEYS {
            let asks_again = key.approval == Approval::AsksAgain;
            assert_eq!(weighs(key.name), asks_again, "{}", key.name);
        }
        assert_eq!(WEIGHTS.len(), ENTRY_KEYS.len());
    }
}
