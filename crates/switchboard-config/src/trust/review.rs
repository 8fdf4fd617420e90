//! What a person is shown of an entry before they consent to it.
//!
//! Invariants: every field that counts for the hash is shown; and no secret is. A literal of the
//! project's file is none to a person who decides about it, and may be one in what is kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::approved_content::{WEIGHTS, Weight, kind_name};
use super::pinned_program::{Place, Program};
use crate::expand::{Environment, Piece, pieces};
use crate::masked_entry::{WrittenEntry, to_json};
use crate::raw::{RawKind, RawValue};
use crate::secret::Secret;
use crate::secret_detection::{self, has_secret_ending};
use crate::server::ServerConfig;

/// Variables that hold no secret, so that a person may see what they stand for.
const HARMLESS: [&str; 12] = [
    "HOME", "USER", "LOGNAME", "PWD", "SHELL", "LANG", "TERM", "TMPDIR", "TZ", "EDITOR",
    "HOSTNAME", "PATH",
];

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Json>,
    /// What is shown; `None` if the field is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// Whether literals that look like secrets are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Masks {
    /// For what is kept and for programs.
    On,
    /// For the person who decides.
    Off,
}

pub(super) fn show(
    raw: &RawValue,
    config: &ServerConfig,
    program: Option<&Program>,
    root: &Path,
    environment: &dyn Environment,
    masks: Masks,
) -> Shown {
    let written = WrittenEntry::from_raw(raw);
    let mut fields = Map::new();
    for (key, weight) in WEIGHTS {
        let member = raw.member(key).map(|member| &member.value);
        let value = match (key, weight, member) {
            (_, Weight::None, _) => None,
            ("type", ..) => Some(json!(kind_name(&config.transport))),
            ("cwd", _, Some(value)) => {
                let cwd = filled_in(value, environment, masks);
                cwd.as_str().map(|cwd| {
                    let cwd: PathBuf = root.join(cwd).components().collect();
                    json!(cwd.to_string_lossy())
                })
            }
            (_, Weight::Expanded, value) => value.map(|value| filled_in(value, environment, masks)),
            ("env" | "headers", _, value) => value.map(|value| named_values(value, masks)),
            ("headersHelper", _, value) if masks == Masks::Off => value.map(to_json),
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

/// Nothing, if there is no such program.
fn program_fields(program: &Program) -> Vec<(String, Json)> {
    let path = program.path.iter();
    let path = path.map(|path| ("program".to_owned(), json!(path.to_string_lossy())));
    let hash = match &program.place {
        Place::InProject(digest) => Some(json!(format!("sha256:{digest}"))),
        _ => None,
    };
    let hash = hash.map(|hash| ("programHash".to_owned(), hash));
    path.chain(hash).collect()
}

/// What would be handed over, as far as it is no secret: what the user's own variables hold stays a
/// reference to them.
fn filled_in(value: &RawValue, environment: &dyn Environment, masks: Masks) -> Json {
    let fill_in = |piece: Piece<'_>| match piece {
        Piece::Literal(literal) => literal.to_owned(),
        Piece::Reference { name, default, .. } => match environment.variable(name) {
            Some(value) if is_harmless(name) => value,
            Some(_) => format!("${{{name}}}"),
            None => default.unwrap_or_default().to_owned(),
        },
    };
    match &value.kind {
        RawKind::Text(text) => {
            let filled: String = pieces(text).map(fill_in).collect();
            match masks {
                Masks::On => json!(secret_detection::mask_known_tokens(&filled)),
                Masks::Off => json!(filled),
            }
        }
        RawKind::Number(digits) => json!(digits),
        RawKind::List(items) => items
            .iter()
            .map(|item| filled_in(item, environment, masks))
            .collect(),
        _ => Json::Null,
    }
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with("XDG_") || name.starts_with("LC_")
}

/// Variables or headers as written. Only what a name gives away as a secret is hidden: what is asked
/// about may well be in a value, `LD_PRELOAD` for one.
fn named_values(value: &RawValue, masks: Masks) -> Json {
    let shown = value.members().iter().map(|member| {
        let is_secret = masks == Masks::On && has_secret_ending(&member.key);
        let text = match &member.value.kind {
            RawKind::Text(text) if is_secret => pieces(text).map(|piece| masked(&piece)).collect(),
            RawKind::Text(text) if masks == Masks::Off => text.clone(),
            RawKind::Text(text) => secret_detection::mask_known_tokens(text),
            _ if is_secret => Secret::MASK.to_owned(),
            RawKind::Number(digits) => digits.clone(),
            RawKind::Bool(flag) => flag.to_string(),
            _ => String::new(),
        };
        (member.key.clone(), json!(text))
    });
    Json::Object(shown.collect())
}

fn masked(piece: &Piece<'_>) -> String {
    match piece {
        Piece::Reference {
            name,
            default: Some(default),
            ..
        } if !default.is_empty() => format!("${{{name}:-{}}}", Secret::MASK),
        Piece::Reference { written, .. } => (*written).to_owned(),
        Piece::Literal(_) => Secret::MASK.to_owned(),
    }
}

/// Which of the user's variables an entry reads.
fn variables(raw: &RawValue) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for key in ["command", "args", "cwd", "url", "env", "headers", "tls"] {
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
