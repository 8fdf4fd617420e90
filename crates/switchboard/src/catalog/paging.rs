//! All pages of a server's listing.
//!
//! Invariant: it ends, whatever cursors the server makes up.

use std::collections::HashSet;

use crate::limits::Limits;
use crate::mcp::Tool;
use crate::session::{Patience, RequestError, Session};

/// What a server listed, and what there was to note about it.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<Tool>,
    pub(crate) notes: Vec<String>,
}

/// Asks for one page after the other. A listing that does not come to an end is cut, with a note;
/// one that fails on its way fails as a whole.
pub(crate) async fn list_tools(
    session: &Session,
    limits: &Limits,
    patience: Patience,
) -> Result<Listing, RequestError> {
    let mut listing = Listing::default();
    if session
        .hello()
        .is_some_and(|hello| !hello.capabilities.tools)
    {
        return Ok(listing);
    }
    let mut cursor = None;
    let mut seen = HashSet::new();
    for _ in 0..limits.list_pages {
        let page = session.list_tools(cursor.as_deref(), patience).await?;
        let left_out = page.left_out.into_iter();
        listing
            .notes
            .extend(left_out.map(|left| format!("tool {}: {}", left.what, left.why)));
        listing.tools.extend(page.tools);
        if listing.tools.len() > limits.tools_per_server {
            let most = limits.tools_per_server;
            listing.tools.truncate(most);
            listing.notes.push(format!(
                "only the first {most} tools are listed (limit `tools_per_server`)"
            ));
            return Ok(listing);
        }
        // An empty cursor is a cursor: only a missing one ends the list.
        let Some(next) = page.next_cursor else {
            return Ok(listing);
        };
        if next.len() > limits.cursor_bytes {
            listing.notes.push(format!(
                "the list is cut after {} tools: a cursor of {} bytes (limit `cursor_bytes`)",
                listing.tools.len(),
                next.len()
            ));
            return Ok(listing);
        }
        if !seen.insert(next.clone()) {
            listing.notes.push(format!(
                "the list is cut after {} tools: the server's pages go round in a circle",
                listing.tools.len()
            ));
            return Ok(listing);
        }
        cursor = Some(next);
    }
    listing.notes.push(format!(
        "the list is cut after {} pages (limit `list_pages`)",
        limits.list_pages
    ));
    Ok(listing)
}
