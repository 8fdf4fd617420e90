//! The fields of an entry that the user reviews before approving it.
//!
//! Invariants: every field that enters the content hash is included. No secret of the user is
//! included. Literals from the project's file that look like secrets are shown to the user who
//! decides, and masked in stored records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::approved_content::{HASHED_KEYS, HashMode, kind_name};
use super::pinned_program::{Program, ProgramLocation};
use crate::expand::{Environment, Segment, segments};
use crate::masked_entry::{MaskedEntry, to_json};
use crate::raw::{RawKind, RawValue};
use crate::secret::Secret;
use crate::secret_detection::{self, has_secret_ending};
use crate::server::ServerConfig;

/// Variables whose values are shown in a review, because they contain no secret.
const PUBLIC_VARIABLES: [&str; 12] = [
    "HOME", "USER", "LOGNAME", "PWD", "SHELL", "LANG", "TERM", "TMPDIR", "TZ", "EDITOR",
    "HOSTNAME", "PATH",
];

/// The fields that decide what an entry runs. Variables that may contain secrets stay references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReviewFields(Map<String, Json>);

/// A field that differs between two reviews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewChange {
    /// The field; variables and headers by name, such as `env.TOKEN`.
    pub field: String,
    /// The earlier value; `None` if the field is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Json>,
    /// The current value; `None` if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Json>,
}

impl ReviewFields {
    /// The fields by key. In addition to the keys of the entry: `program`, the file that `command`
    /// resolves to, `programHash`, if that file belongs to the project, and `variables`, the user's
    /// variables that the entry reads.
    pub fn as_object(&self) -> &Map<String, Json> {
        &self.0
    }

    /// Returns the fields that differ from `before`.
    pub fn changes_since(&self, before: &Self) -> Vec<ReviewChange> {
        let (old, new) = (before.flatten(), self.flatten());
        let find = |fields: &[(String, Json)], field: &str| {
            let found = fields.iter().find(|(name, _)| name == field);
            found.map(|(_, value)| value.clone())
        };
        let removed = old.iter().filter(|(name, _)| find(&new, name).is_none());
        new.iter()
            .chain(removed)
            .map(|(field, _)| ReviewChange {
                field: field.clone(),
                before: find(&old, field),
                after: find(&new, field),
            })
            .filter(|change| change.before != change.after)
            .collect()
    }

    fn flatten(&self) -> Vec<(String, Json)> {
        let mut flatten = Vec::new();
        for (key, value) in &self.0 {
            match value {
                Json::Object(members) => {
                    let member =
                        |(name, value): (&String, &Json)| (format!("{key}.{name}"), value.clone());
                    flatten.extend(members.iter().map(member));
                }
                _ => flatten.push((key.clone(), value.clone())),
            }
        }
        flatten
    }
}

/// Whether literals of the project's file that look like secrets are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskLiterals {
    /// For records and for JSON output.
    On,
    /// For the user who decides.
    Off,
}

pub(super) fn review_fields(
    raw: &RawValue,
    config: &ServerConfig,
    program: Option<&Program>,
    root: &Path,
    environment: &dyn Environment,
    mask: MaskLiterals,
) -> ReviewFields {
    let masked_entry = MaskedEntry::from_raw(raw);
    let mut fields = Map::new();
    for (key, mode) in HASHED_KEYS {
        let member = raw.member(key).map(|member| &member.value);
        let value = match (key, mode, member) {
            (_, HashMode::None, _) => None,
            ("type", ..) => Some(json!(kind_name(&config.transport))),
            ("cwd", _, Some(value)) => {
                let cwd = expand_public(value, environment, mask);
                cwd.as_str().map(|cwd| {
                    let cwd: PathBuf = root.join(cwd).components().collect();
                    json!(cwd.to_string_lossy())
                })
            }
            (_, HashMode::Expanded, value) => {
                value.map(|value| expand_public(value, environment, mask))
            }
            ("env" | "headers", _, value) => value.map(|value| env_or_headers(value, mask)),
            ("headersHelper", _, value) if mask == MaskLiterals::Off => value.map(to_json),
            (_, HashMode::AsWritten, _) => masked_entry.as_object().get(key).cloned(),
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
    ReviewFields(fields)
}

/// Returns no fields if the program was not found.
fn program_fields(program: &Program) -> Vec<(String, Json)> {
    let path = program.path.iter();
    let path = path.map(|path| ("program".to_owned(), json!(path.to_string_lossy())));
    let hash = match &program.location {
        ProgramLocation::InProject(digest) => Some(json!(format!("sha256:{digest}"))),
        _ => None,
    };
    let hash = hash.map(|hash| ("programHash".to_owned(), hash));
    path.chain(hash).collect()
}

/// Expands public variables and defaults. References to the user's other variables stay references.
fn expand_public(value: &RawValue, environment: &dyn Environment, mask: MaskLiterals) -> Json {
    let expand_segment = |segment: Segment<'_>| match segment {
        Segment::Literal(literal) => literal.to_owned(),
        Segment::Reference { name, default, .. } => match environment.variable(name) {
            Some(value) if is_public_variable(name) => value,
            Some(_) => format!("${{{name}}}"),
            None => default.unwrap_or_default().to_owned(),
        },
    };
    match &value.kind {
        RawKind::Text(text) => {
            let filled: String = segments(text).map(expand_segment).collect();
            match mask {
                MaskLiterals::On => json!(secret_detection::mask_known_tokens(&filled)),
                MaskLiterals::Off => json!(filled),
            }
        }
        RawKind::Number(digits) => json!(digits),
        RawKind::List(items) => items
            .iter()
            .map(|item| expand_public(item, environment, mask))
            .collect(),
        _ => Json::Null,
    }
}

fn is_public_variable(name: &str) -> bool {
    PUBLIC_VARIABLES.contains(&name) || name.starts_with("XDG_") || name.starts_with("LC_")
}

/// Variables or headers as written. If `mask` is on, values with the name of a secret and tokens of
/// well-known services are masked. Other values, such as that of `LD_PRELOAD`, may be what the user
/// has to see.
fn env_or_headers(value: &RawValue, mask: MaskLiterals) -> Json {
    let fields = value.members().iter().map(|member| {
        let is_secret = mask == MaskLiterals::On && has_secret_ending(&member.key);
        let text = match &member.value.kind {
            RawKind::Text(text) if is_secret => segments(text)
                .map(|segment| mask_segment(&segment))
                .collect(),
            RawKind::Text(text) if mask == MaskLiterals::Off => text.clone(),
            RawKind::Text(text) => secret_detection::mask_known_tokens(text),
            _ if is_secret => Secret::MASK.to_owned(),
            RawKind::Number(digits) => digits.clone(),
            RawKind::Bool(flag) => flag.to_string(),
            _ => String::new(),
        };
        (member.key.clone(), json!(text))
    });
    Json::Object(fields.collect())
}

fn mask_segment(segment: &Segment<'_>) -> String {
    match segment {
        Segment::Reference {
            name,
            default: Some(default),
            ..
        } if !default.is_empty() => format!("${{{name}:-{}}}", Secret::MASK),
        Segment::Reference { written, .. } => (*written).to_owned(),
        Segment::Literal(_) => Secret::MASK.to_owned(),
    }
}

/// The user's variables that an entry reads.
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
        RawKind::Text(text) => names.extend(segments(text).filter_map(|segment| match segment {
            Segment::Reference { name, .. } => Some(name.to_owned()),
            Segment::Literal(_) => None,
        })),
        RawKind::List(items) => items.iter().for_each(|item| collect_variables(item, names)),
        RawKind::Object(members) => members
            .iter()
            .for_each(|member| collect_variables(&member.value, names)),
        _ => {}
    }
}
