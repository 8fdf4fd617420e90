//! All pages of a server's listing.
//!
//! Invariant: it ends, whatever cursors the server makes up.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::session::list_kind::ListItem;
use crate::session::{Deadline, RequestError, Session};
use switchboard_wire::Limits;
use switchboard_wire::decode::{CacheHint, Page};
use switchboard_wire::text::one_line;

/// What a server listed, and what there was to note about it.
#[derive(Debug)]
pub struct Listing<T> {
    pub items: Vec<T>,
    pub notes: Vec<String>,
    bytes: usize,
    /// The worst of all pages; `None` before the first one.
    freshness: Option<CacheHint>,
}

/// How much one note may say, in bytes, and how many are kept.
const NOTE_BYTES: usize = 300;
const NOTES: usize = 50;

/// Asks for one page after the other, all of them until `end`. A listing that does not come to an
/// end is cut, with a note; one that fails on its way fails as a whole.
pub async fn list<T: ListItem>(
    session: &Session,
    limits: &Limits,
    page_limit: Duration,
    end: Instant,
) -> Result<Listing<T>, RequestError> {
    let mut listing = Listing::new();
    if session.handshake().is_some() && !T::is_offered(&session.capabilities()) {
        return Ok(listing);
    }
    let mut cursor = None;
    let mut seen = HashSet::new();
    for _ in 0..limits.list_pages {
        let left = end.saturating_duration_since(Instant::now());
        let deadline = Deadline::after(page_limit.min(left));
        let most = T::max_items(limits);
        let page = session.list(cursor.as_deref(), deadline, most).await?;
        cursor = match listing.take(page, limits, &mut seen) {
            Some(next) => Some(next),
            None => return Ok(listing),
        };
    }
    listing.cut(&format!("{} pages (limit `list_pages`)", limits.list_pages));
    Ok(listing)
}

impl<T: ListItem> Listing<T> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            notes: Vec::new(),
            bytes: 0,
            freshness: None,
        }
    }

    /// How long it is good for; no time at all where the server does not say.
    pub fn ttl(&self) -> Duration {
        self.freshness.unwrap_or_default().ttl
    }

    /// Takes a page in, and says where the next one is if it is wanted.
    fn take(
        &mut self,
        page: Page<T>,
        limits: &Limits,
        seen: &mut HashSet<String>,
    ) -> Option<String> {
        for left in page.skipped {
            self.note(&format!("{} {}: {}", T::NOUN, left.name, left.reason));
        }
        self.bytes += page.bytes;
        let so_far = self.freshness.unwrap_or(page.cache_hint);
        self.freshness = Some(so_far.combine(page.cache_hint));
        self.items.extend(page.items);
        let most = T::max_items(limits);
        if page.is_truncated || self.items.len() > most {
            self.items.truncate(most);
            self.cut(&format!(
                "more than {most} {}s (limit `{}`)",
                T::NOUN,
                T::LIMIT
            ));
            return None;
        }
        // An empty cursor is a cursor: only a missing one ends the list.
        let next = page.next_cursor?;
        let why = if next.len() > limits.cursor_bytes {
            format!("a cursor of {} bytes (limit `cursor_bytes`)", next.len())
        } else if self.bytes > limits.listing_bytes {
            format!("{} bytes (limit `listing_bytes`)", self.bytes)
        } else if !seen.insert(next.clone()) {
            "pages that go round in a circle".to_owned()
        } else {
            return Some(next);
        };
        self.cut(&why);
        None
    }

    fn cut(&mut self, why: &str) {
        let count = self.items.len();
        // Said however much else there was to say.
        self.notes.push(format!(
            "the list is cut after {count} {}s, because of {why}",
            T::NOUN
        ));
    }

    fn note(&mut self, text: &str) {
        match self.notes.len() {
            0..NOTES => self.notes.push(one_line(text, NOTE_BYTES).into_owned()),
            NOTES => self.notes.push("and more of the kind".to_owned()),
            _ => {}
        }
    }
}
