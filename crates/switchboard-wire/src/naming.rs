//! How a tool is spelled for a model: `mcp__server__tool`.
//!
//! Pure: a pair's name depends on the pair alone. It knows no catalog and decides nothing: the pair
//! is the identity, the wire name only its spelling.
//!
//! Invariant: a wire name is at most 64 characters of `[A-Za-z0-9_-]`, and it splits one way, at the
//! first `__` after `mcp__`, because a server part never holds `__` and never begins or ends with `_`.

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

/// The longest wire name that model providers accept.
const WIRE_CHARS: usize = 64;

/// What a server may take of it, so that a tool always has at least 25 characters.
const SERVER_CHARS: usize = 32;

/// `_` and eight hexadecimal digits.
const SUFFIX_CHARS: usize = 9;

/// Why a tool has no wire name: somebody else holds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name `{wire}` already belongs to {holder}")]
pub struct NameClash {
    /// The name that was wanted.
    pub wire: WireName,
    /// The tool that has it.
    pub holder: ToolId,
}

/// Spells a pair for a model. The same pair is always spelled the same.
pub fn wire_name(server: &ServerName, tool: &ToolName) -> WireName {
    let server_part = spell_server(server);
    let tool_part = spell_tool(server, &server_part, tool);
    join(&server_part, &tool_part)
}

/// The server's part of its tools' names; equal to the server's name wherever that is possible.
pub fn server_part(server: &ServerName) -> String {
    spell_server(server).into_owned()
}

/// The tool's part of its name; equal to the raw name wherever that is possible.
///
/// It depends on the server too, which may leave more or less room.
pub fn tool_part(server: &ServerName, tool: &ToolName) -> String {
    spell_tool(server, &spell_server(server), tool).into_owned()
}

/// Splits a wire name into its server part and its tool part.
pub fn split_wire_name(wire: &str) -> Option<(&str, &str)> {
    wire.strip_prefix(PREFIX)?
        .split_once(SEPARATOR)
        .filter(|(server, tool)| !server.is_empty() && !tool.is_empty())
}

/// Which of a whole list holds each name, by its place: no name is held by two.
///
/// Where two want one, the pair that is spelled as it is wins over the pair that had to be changed;
/// among equals the first. A pair listed twice is named once.
pub fn holders(names: &[(&WireName, bool)]) -> HashMap<WireName, usize> {
    let mut holders = HashMap::with_capacity(names.len());
    let is_exact = |place: usize| names.get(place).is_some_and(|(_, is_exact)| *is_exact);
    for (place, (wire, _)) in names.iter().enumerate() {
        let holder = holders.entry((*wire).clone()).or_insert(place);
        if is_exact(place) && !is_exact(*holder) {
            *holder = place;
        }
    }
    holders
}

/// A wire name, and whether it shows both raw names unchanged.
#[derive(Debug)]
pub struct Spelled {
    /// The wire name.
    pub wire: WireName,
    /// Whether both raw names appear in it unchanged.
    pub is_exact: bool,
}

impl Spelled {
    /// Encodes a pair.
    pub fn new(server: &ServerName, tool: &ToolName) -> Self {
        let server_part = spell_server(server);
        let tool_part = spell_tool(server, &server_part, tool);
        Self {
            wire: join(&server_part, &tool_part),
            is_exact: server_part == server.as_str() && tool_part == tool.as_str(),
        }
    }
}

fn join(server_part: &str, tool_part: &str) -> WireName {
    [PREFIX, server_part, SEPARATOR, tool_part].concat().into()
}

fn spell_server(server: &ServerName) -> Cow<'_, str> {
    let raw = server.as_str();
    let splits_cleanly = !raw.contains(SEPARATOR) && !raw.starts_with('_') && !raw.ends_with('_');
    if splits_cleanly && is_speakable(raw, SERVER_CHARS) {
        return Cow::Borrowed(raw);
    }
    let mut stem = String::with_capacity(SERVER_CHARS);
    for letter in raw.chars().map(speakable) {
        if letter != '_' || !(stem.is_empty() || stem.ends_with('_')) {
            stem.push(letter);
        }
        if stem.len() == SERVER_CHARS - SUFFIX_CHARS {
            break;
        }
    }
    let stem = match stem.trim_end_matches('_') {
        "" => "server",
        stem => stem,
    };
    Cow::Owned(format!("{stem}_{}", digest(&[raw])))
}

fn spell_tool<'a>(server: &ServerName, server_part: &str, tool: &'a ToolName) -> Cow<'a, str> {
    let raw = tool.as_str();
    let room = WIRE_CHARS - PREFIX.len() - SEPARATOR.len() - server_part.len().min(SERVER_CHARS);
    if is_speakable(raw, room) {
        return Cow::Borrowed(raw);
    }
    let stem: String = raw
        .chars()
        .map(speakable)
        .take(room - SUFFIX_CHARS)
        .collect();
    let stem = if stem.is_empty() { "tool" } else { &stem };
    Cow::Owned(format!("{stem}_{}", digest(&[server.as_str(), raw])))
}

fn is_speakable(raw: &str, room: usize) -> bool {
    !raw.is_empty() && raw.len() <= room && raw.chars().all(|letter| speakable(letter) == letter)
}

fn speakable(letter: char) -> char {
    match letter {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => letter,
        _ => '_',
    }
}

/// Eight hexadecimal digits over the raw names. Each goes in with its length in front: a name may
/// hold any character, so none could separate two of them.
fn digest(names: &[&str]) -> String {
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
