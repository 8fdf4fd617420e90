//! Picks a valid and unique name for an imported server.

use super::{Client, ImportedServer};
use crate::server_name::ServerName;
use crate::text::sanitize_name;

/// Maximum length in characters of a name that is derived from an invalid name, without the number
/// that makes it unique.
const MAX_CHARS: usize = 64;

/// Returns the name for a server that its client calls `original`, and a note if the name differs.
/// The result is not the name of one of `siblings`, the servers of the same section. Always returns
/// a name, because the candidates are numbered.
pub(super) fn choose(
    original: &str,
    client: Client,
    siblings: &[ImportedServer],
) -> Option<(ServerName, Option<String>)> {
    let is_free = |name: &ServerName| siblings.iter().all(|sibling| sibling.name != *name);
    if let Some(name) = ServerName::new(original).ok().filter(is_free) {
        return Some((name, None));
    }
    let clean: String = sanitize_name(original).chars().take(MAX_CHARS).collect();
    let clean = match clean.trim() {
        "" => client.as_str(),
        clean => clean,
    };
    let numbered = (2..).map(|number: u64| format!("{clean}-{number}"));
    let name = std::iter::once(clean.to_owned())
        .chain(numbered)
        .filter_map(|name| ServerName::new(name).ok())
        .find(is_free)?;
    let note = format!("renamed to {name}: the original name is not valid");
    Some((name, Some(note)))
}
