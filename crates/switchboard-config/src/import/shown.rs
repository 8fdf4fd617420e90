//! An entry of another program as it may be shown before anything is done with it.
//!
//! People keep secrets in arguments and addresses too, and whoever looks at what could be imported did
//! not ask to see them. Invariant: what follows the name of a secret is never shown.

use serde_json::{Map, Value as Json};

use crate::raw::RawValue;
use crate::secret::MASK;
use crate::written::WrittenEntry;

/// Parts of the names of secrets.
const TELLING: [&str; 10] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "api-key",
    "api_key",
    "authorization",
    "credential",
    "bearer",
];

pub(super) fn masked(entry: &Map<String, Json>) -> WrittenEntry {
    let mut entry = entry.clone();
    if let Some(Json::Array(args)) = entry.get_mut("args") {
        mask_arguments(args);
    }
    if let Some(Json::String(url)) = entry.get_mut("url") {
        *url = mask_address(url);
    }
    WrittenEntry::from_raw(&RawValue::from_json(&Json::Object(entry)))
}

fn mask_arguments(args: &mut [Json]) {
    let mut is_secret = false;
    for arg in args {
        let Json::String(text) = arg else {
            continue;
        };
        let was_announced = std::mem::take(&mut is_secret);
        if was_announced && !text.starts_with("--") {
            *text = mask_text(text, 0);
            continue;
        }
        if let Some(masked) = mask_named(text) {
            *text = masked;
        } else if text.starts_with('-') {
            is_secret = is_telling(text);
        } else {
            *text = mask_address(text);
        }
    }
}

/// A text such as `--api-key=…`, `TOKEN=…` or `Authorization: …` without its value.
fn mask_named(text: &str) -> Option<String> {
    let at = text.find(['=', ':'])?;
    let name = text.get(..at)?;
    let is_name = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    (is_name && is_telling(name)).then(|| mask_text(text, at + 1))
}

/// `text` with everything from `start` on hidden, unless a variable stands there.
fn mask_text(text: &str, start: usize) -> String {
    let (name, value) = text.split_at_checked(start).unwrap_or(("", text));
    let bare = value.trim_start().trim_start_matches("Bearer ");
    let is_reference = bare.starts_with("${") && bare.find('}') == Some(bare.len() - 1);
    if is_reference && !bare.contains(":-") {
        return text.to_owned();
    }
    format!("{name}{MASK}")
}

/// An address without what stands before its host and behind its question mark.
fn mask_address(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) if is_telling(query) || query.contains("key=") => {
            (rest, format!("?{MASK}"))
        }
        Some((rest, query)) => (rest, format!("?{query}")),
        None => (rest, String::new()),
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(host_end).unwrap_or((rest, ""));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{MASK}@{host}{path}{query}"),
        None => format!("{scheme}://{authority}{path}{query}"),
    }
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|part| name.contains(part))
        || name.ends_with("-key")
        || name.ends_with("_key")
        || name.trim_start_matches('-') == "header"
        || name == "-H".to_ascii_lowercase()
}
