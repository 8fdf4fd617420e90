//! Requests all pages of a listing and joins them.
//!
//! Invariant: a listing ends within the limits on pages, items and bytes, even if the server
//! repeats or invents cursors.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::session::list_kind::ListItem;
use crate::session::{Deadline, RequestError, Session};
use switchboard_wire::Limits;
use switchboard_wire::decode::{CacheHint, Page};
use switchboard_wire::text::one_line;

/// Maximum length of a note, in bytes.
const MAX_NOTE_BYTES: usize = 300;
/// Maximum number of notes about skipped items.
const MAX_NOTES: usize = 50;

/// The items of all pages of a listing, with notes about what is missing.
#[derive(Debug)]
pub struct Listing<T> {
    pub items: Vec<T>,
    /// Messages for the user: which items were skipped and why, and why the listing was cut.
    pub notes: Vec<String>,
    /// Size of all pages so far, in bytes.
    bytes: usize,
    /// How long the listing may be cached, combined from the hints of all pages. `None` before the
    /// first page.
    freshness: Option<CacheHint>,
}

/// How long a listing may take.
#[derive(Clone, Copy, Debug)]
pub struct ListingTime {
    /// Maximum duration of the request for one page.
    pub page: Duration,
    /// When the whole listing fails.
    pub until: Instant,
    /// The time limit that ends at `until`, for the error message.
    pub limit: Duration,
}

/// Requests all pages of a listing. A listing that exceeds a limit is cut, and a note says so. If
/// the request for one page fails, or the time is past [`ListingTime::until`], the whole listing fails. The
/// listing is empty if the server does not have the capability for it.
pub async fn list<T: ListItem>(
    session: &Session,
    limits: &Limits,
    time: ListingTime,
) -> Result<Listing<T>, RequestError> {
    let mut listing = Listing::new();
    if session.handshake().is_some() && !T::is_offered(&session.capabilities()) {
        return Ok(listing);
    }
    let mut cursor = None;
    let mut seen_cursors = HashSet::new();
    for _ in 0..limits.list_pages {
        let remaining = time.until.saturating_duration_since(Instant::now());
        let deadline = Deadline::after(time.page.min(remaining));
        let max_items = T::max_items(limits);
        let page = session.list(cursor.as_deref(), deadline, max_items).await;
        let page = page.map_err(|error| match error {
            // The time that was left for the page is no setting.
            RequestError::TimedOut { .. } if remaining < time.page => error.with_limit(time.limit),
            error => error,
        })?;
        cursor = match listing.add_page(page, limits, &mut seen_cursors) {
            Some(next) => Some(next),
            None => return Ok(listing),
        };
    }
    listing.note_cut(&format!("{} pages (limit `listPages`)", limits.list_pages));
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

    /// How long the listing may be cached. Zero if the server sent no cache hint.
    pub fn ttl(&self) -> Duration {
        self.freshness.unwrap_or_default().ttl
    }

    /// Adds the items of a page. Returns the cursor of the next page, or `None` if this page is the
    /// last one or a limit is exceeded.
    fn add_page(
        &mut self,
        page: Page<T>,
        limits: &Limits,
        seen_cursors: &mut HashSet<String>,
    ) -> Option<String> {
        for skipped in page.skipped {
            self.note(&format!("{} {}: {}", T::NOUN, skipped.name, skipped.reason));
        }
        self.bytes += page.bytes;
        let freshness = self.freshness.unwrap_or(page.cache_hint);
        self.freshness = Some(freshness.combine(page.cache_hint));
        self.items.extend(page.items);
        let max_items = T::max_items(limits);
        if page.is_truncated || self.items.len() > max_items {
            self.items.truncate(max_items);
            self.note_cut(&format!(
                "more than {max_items} {}s (limit `{}`)",
                T::NOUN,
                setting_name(T::LIMIT)
            ));
            return None;
        }
        // An empty cursor is valid. Only a page without a cursor is the last page.
        let next = page.next_cursor?;
        let reason = if next.len() > limits.cursor_bytes {
            format!("a cursor of {} bytes (limit `cursorBytes`)", next.len())
        } else if self.bytes > limits.listing_bytes {
            format!("{} bytes (limit `listingBytes`)", self.bytes)
        } else if !seen_cursors.insert(next.clone()) {
            "a cursor that the server already returned".to_owned()
        } else {
            return Some(next);
        };
        self.note_cut(&reason);
        None
    }

    /// Adds the note that the listing was cut. [`MAX_NOTES`] does not apply to this note.
    fn note_cut(&mut self, reason: &str) {
        let count = self.items.len();
        self.notes.push(format!(
            "the list is cut after {count} {}s, because of {reason}",
            T::NOUN
        ));
    }

    /// Adds a note about a skipped item. After [`MAX_NOTES`] notes, adds one more note, which says
    /// that further notes were dropped.
    fn note(&mut self, text: &str) {
        match self.notes.len() {
            0..MAX_NOTES => self.notes.push(one_line(text, MAX_NOTE_BYTES).into_owned()),
            MAX_NOTES => self.notes.push("further notes were dropped".to_owned()),
            _ => {}
        }
    }
}
/// The name of a limit in settings: `toolsPerServer` for the field `tools_per_server`.
fn setting_name(field: &str) -> String {
    let mut words = field.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(rest);
    }
    name
}
