//! What a server of another program is called here.

use super::{Client, Found};
use crate::server_name::ServerName;
use crate::text::sanitize_name;

/// The longest name that is made up.
const MAX_CHARS: usize = 64;

/// The name for a server that is called `written` there, and a note if it is another one. `beside` are
/// those that stand beside it. Always `Some`: one of the names that are tried is free.
pub(super) fn choose(
    written: &str,
    client: Client,
    beside: &[Found],
) -> Option<(ServerName, Option<String>)> {
    let is_free = |name: &ServerName| beside.iter().all(|found| found.name != *name);
    if let Some(name) = ServerName::new(written).ok().filter(is_free) {
        return Some((name, None));
    }
    let clean: String = sanitize_name(written).chars().take(MAX_CHARS).collect();
    let clean = match clean.trim() {
        "" => client.as_str(),
        clean => clean,
    };
    let numbered = (2..).map(|number: u64| format!("{clean}-{number}"));
    let name = std::iter::once(clean.to_owned())
        .chain(numbered)
        .filter_map(|name| ServerName::new(name).ok())
        .find(is_free)?;
    let note = format!("it is called {name} here: the name it has there cannot be used");
    Some((name, Some(note)))
}
