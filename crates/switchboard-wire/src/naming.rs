//! Tool names for models: encodes (server, tool) as `mcp__server__tool` and splits it again.
//!
//! Pure functions: the wire name of a pair depends on that pair alone. Decisions are made on the
//! pair, never on the wire name.
//!
//! Invariant: a wire name is at most 64 characters of `[A-Za-z0-9_-]`. It splits in one way, at the
//! first `__` after `mcp__`, because a server part contains no `__` and neither starts nor ends
//! with `_`.

use std::borrow::Cow;
use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::id::{ServerName, ToolId, ToolName, WireName};

#[cfg(test)]
mod tests;

/// The prefix of every wire name.
pub const PREFIX: &str = "mcp__";

/// Separates the server part of a wire name from the tool part.
pub const SEPARATOR: &str = "__";

/// The longest tool name that all model providers accept.
const MAX_WIRE_CHARS: usize = 64;

/// Maximum length of the server part. It leaves at least 25 characters for the tool part.
const MAX_SERVER_CHARS: usize = 32;

/// Length of the suffix of a changed name: `_` and eight hexadecimal digits.
const SUFFIX_CHARS: usize = 9;

/// Maximum length of a server part before its suffix.
const MAX_STEM_CHARS: usize = MAX_SERVER_CHARS - SUFFIX_CHARS;

/// Another tool already has the wire name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name `{wire}` already belongs to {holder}")]
pub struct NameClash {
    /// The wire name.
    pub wire: WireName,
    /// The tool that has it.
    pub holder: ToolId,
}

/// Returns the wire name of a tool.
pub fn wire_name(server: &ServerName, tool: &ToolName) -> WireName {
    EncodedName::new(server, tool).wire
}

/// Returns the server part of the wire names of a server's tools. It equals the server's name if
/// that is a valid part.
pub fn server_part(server: &ServerName) -> String {
    encode_server(server).into_owned()
}

/// Returns the tool part of a wire name. It equals the tool's name if that is valid and short
/// enough.
///
/// It depends on the server, too: the length of the server part decides how much fits.
pub fn tool_part(server: &ServerName, tool: &ToolName) -> String {
    encode_tool(server, &encode_server(server), tool).into_owned()
}

/// Splits a wire name into its server part and its tool part.
#[inline]
pub fn split_wire_name(wire: &str) -> Option<(&str, &str)> {
    wire.strip_prefix(PREFIX)?
        .split_once(SEPARATOR)
        .filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
}

/// A wire name, and whether it contains both raw names unchanged.
#[doc(hidden)]
#[derive(Debug)]
pub struct EncodedName {
    /// The wire name.
    pub wire: WireName,
    /// Whether both raw names appear in it unchanged.
    pub is_exact: bool,
}

impl EncodedName {
    /// Encodes a pair.
    pub fn new(server: &ServerName, tool: &ToolName) -> Self {
        let server_part = encode_server(server);
        let tool_part = encode_tool(server, &server_part, tool);
        Self {
            wire: [PREFIX, &server_part, SEPARATOR, &tool_part]
                .concat()
                .into(),
            is_exact: server_part == server.as_str() && tool_part == tool.as_str(),
        }
    }
}

/// Assigns each wire name of a list to one entry of that list, by index.
///
/// `names` holds the wire names and whether each is exact. If several entries have the same name,
/// the first exact one wins, or else the first one.
#[doc(hidden)]
pub fn assign_wire_names(names: &[(&WireName, bool)]) -> HashMap<WireName, usize> {
    let mut owners = HashMap::with_capacity(names.len());
    let is_exact = |index: usize| names.get(index).is_some_and(|(_, is_exact)| *is_exact);
    for (index, (wire, _)) in names.iter().enumerate() {
        let owner = owners.entry((*wire).clone()).or_insert(index);
        if is_exact(index) && !is_exact(*owner) {
            *owner = index;
        }
    }
    owners
}

fn encode_server(server: &ServerName) -> Cow<'_, str> {
    let raw = server.as_str();
    let splits_cleanly = !raw.contains(SEPARATOR) && !raw.starts_with('_') && !raw.ends_with('_');
    if splits_cleanly && is_valid_name(raw, MAX_SERVER_CHARS) {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(format!("{}_{}", server_stem(raw), short_hash(&[raw])))
}

/// The readable part of a changed server name, before the hash. If the name is too long, the
/// beginning is dropped up to a whole word: names of packages differ at the end.
fn server_stem(raw: &str) -> String {
    let words = replace_invalid_runs(raw, usize::MAX);
    let tail = match words.len().checked_sub(MAX_STEM_CHARS) {
        None | Some(0) => words.as_str(),
        Some(cut) => whole_words(&words, cut),
    };
    match tail.trim_matches('_') {
        "" => "server".to_owned(),
        stem => stem.to_owned(),
    }
}

/// The text from byte `cut` on, without the word that is cut there. The cut word stays if dropping
/// it would leave less than half.
fn whole_words(words: &str, cut: usize) -> &str {
    let tail = words.get(cut..).unwrap_or_default();
    if words
        .get(..cut)
        .is_some_and(|before| before.ends_with(['_', '-']))
    {
        return tail;
    }
    match tail.split_once(['_', '-']) {
        Some((word, rest)) if word.len() < tail.len() / 2 => rest,
        _ => tail,
    }
}

/// Replaces each invalid character by `_`, without two `_` in a row, up to `max_chars` characters.
/// The result does not start or end with `_`.
fn replace_invalid_runs(raw: &str, max_chars: usize) -> String {
    let mut words = String::new();
    for letter in raw.chars().map(replace_invalid) {
        if letter != '_' || !(words.is_empty() || words.ends_with('_')) {
            words.push(letter);
        }
        if words.len() == max_chars {
            break;
        }
    }
    words.truncate(words.trim_end_matches('_').len());
    words
}

/// The server part that earlier releases derived from a name. `None` if it is the same today.
///
/// Those releases kept the beginning of a long name. Rules that users saved may contain it.
pub fn former_server_part(server: &ServerName) -> Option<String> {
    let raw = server.as_str();
    let Cow::Owned(part) = encode_server(server) else {
        return None;
    };
    let stem = match replace_invalid_runs(raw, MAX_STEM_CHARS) {
        stem if stem.is_empty() => "server".to_owned(),
        stem => stem,
    };
    let former = format!("{stem}_{}", short_hash(&[raw]));
    (former != part).then_some(former)
}

/// The wire name that earlier releases gave a tool. `None` if it is the same today.
pub fn former_wire_name(server: &ServerName, tool: &ToolName) -> Option<WireName> {
    let server_part = former_server_part(server)?;
    let tool_part = encode_tool(server, &server_part, tool);
    Some(
        [PREFIX, &server_part, SEPARATOR, &tool_part]
            .concat()
            .into(),
    )
}

fn encode_tool<'a>(server: &ServerName, server_part: &str, tool: &'a ToolName) -> Cow<'a, str> {
    let raw = tool.as_str();
    let server_chars = server_part.len().min(MAX_SERVER_CHARS);
    let max_chars = MAX_WIRE_CHARS - PREFIX.len() - SEPARATOR.len() - server_chars;
    if is_valid_name(raw, max_chars) {
        return Cow::Borrowed(raw);
    }
    let stem: String = raw
        .chars()
        .map(replace_invalid)
        .take(max_chars - SUFFIX_CHARS)
        .collect();
    let stem = if stem.is_empty() { "tool" } else { &stem };
    Cow::Owned(format!("{stem}_{}", short_hash(&[server.as_str(), raw])))
}

fn is_valid_name(raw: &str, max_chars: usize) -> bool {
    let is_valid = |letter| replace_invalid(letter) == letter;
    !raw.is_empty() && raw.len() <= max_chars && raw.chars().all(is_valid)
}

fn replace_invalid(letter: char) -> char {
    match letter {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => letter,
        _ => '_',
    }
}

/// Returns eight hexadecimal digits of a hash over the raw names. Each name is preceded by its
/// length: a name may contain any character, so no separator would be unambiguous.
fn short_hash(names: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for name in names {
        hasher.update((name.len() as u64).to_be_bytes());
        hasher.update(name);
    }
    let hash = hasher.finalize();
    let first = hash
        .first_chunk()
        .map_or(0, |four| u32::from_be_bytes(*four));
    format!("{first:08x}")
}
