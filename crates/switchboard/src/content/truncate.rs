//! Truncates the texts of a result, a prompt or a resource, so that their total size is within a
//! limit.
//!
//! Pure, except that it stores the full text in a [`ResultStore`].
//!
//! Invariant: the remaining texts together are not larger than the limit, plus one truncation
//! marker.

use switchboard_wire::text::fit;

use super::{Block, ResultHandle, ResultStore};

/// One of the texts whose total size is limited.
#[derive(Clone, Copy)]
pub(super) struct LimitedText<'a> {
    pub(super) text: &'a str,
    /// `false` for [`Block::Described`]: a description that does not fit is left out as a whole.
    pub(super) can_be_cut: bool,
}

impl<'a> LimitedText<'a> {
    pub(super) fn new(block: &'a Block) -> Option<Self> {
        Some(Self {
            text: block.as_text()?,
            can_be_cut: matches!(block, Block::Text { .. }),
        })
    }
}

/// How to shorten a list of texts: keep the texts before `index`, replace the text at `index` by
/// `replacement`, and remove all texts after `index`.
pub(super) struct Truncation {
    pub(super) index: usize,
    /// The part of the text at `index` that fits, and the truncation marker.
    pub(super) replacement: String,
    /// The handle of the full text. `None` if there is no store or if storing failed.
    pub(super) stored: Option<ResultHandle>,
    /// The error if storing the full text failed.
    pub(super) note: Option<String>,
}

/// Computes how to shorten the texts, joined by line ends, to `max_bytes`, and stores the full
/// text. Returns `None` if the texts fit.
pub(super) fn truncate_texts(
    texts: &[LimitedText<'_>],
    max_bytes: usize,
    store: Option<&dyn ResultStore>,
) -> Option<Truncation> {
    let total_bytes = texts.iter().map(|text| text.text.len() + 1).sum::<usize>();
    let total_bytes = total_bytes.saturating_sub(1);
    if total_bytes <= max_bytes {
        return None;
    }
    let (stored, note) = store_full_text(texts, store);
    // Where the last text that fits ends, in bytes from the start of the joined texts.
    let mut fitting_end = None::<usize>;
    for (index, limited) in texts.iter().enumerate() {
        let start = fitting_end.map_or(0, |end| end + 1);
        let room = max_bytes.saturating_sub(start);
        if start <= max_bytes && limited.text.len() <= room {
            fitting_end = Some(start + limited.text.len());
            continue;
        }
        let part = if limited.can_be_cut {
            fit(limited.text, room)
        } else {
            ""
        };
        let shown_bytes = match part.len() {
            0 => fitting_end.unwrap_or_default(),
            bytes => start + bytes,
        };
        let line_end = if part.is_empty() || part.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let marker = truncation_marker(total_bytes, shown_bytes, stored.as_ref());
        return Some(Truncation {
            index,
            replacement: [part, line_end, &marker].concat(),
            stored,
            note,
        });
    }
    None
}

fn store_full_text(
    texts: &[LimitedText<'_>],
    store: Option<&dyn ResultStore>,
) -> (Option<ResultHandle>, Option<String>) {
    let Some(store) = store else {
        return (None, None);
    };
    let texts: Vec<&str> = texts.iter().map(|text| text.text).collect();
    match store.store(&texts.join("\n")) {
        Ok(handle) => (Some(handle), None),
        Err(error) => {
            let note = format!("the full result could not be stored: {error}");
            (None, Some(note))
        }
    }
}

impl Truncation {
    /// Truncates a list of items that have one block each: replaces the text at which the limit is
    /// reached and removes the items with later texts. Items without a text, such as images, are
    /// kept.
    pub(super) fn apply<T>(&mut self, items: &mut Vec<T>, block: fn(&mut T) -> &mut Block) {
        let mut next_text = 0;
        items.retain_mut(|item| {
            let block = block(item);
            if block.as_text().is_none() {
                return true;
            }
            let index = next_text;
            next_text += 1;
            if index == self.index {
                *block = Block::text(std::mem::take(&mut self.replacement));
            }
            index <= self.index
        });
    }
}

/// Formats the marker at the end of a truncated text. It names the size of the full text, the size
/// of the shown part, and the handle of the full text if it was stored.
pub fn truncation_marker(
    total_bytes: usize,
    shown_bytes: usize,
    stored: Option<&ResultHandle>,
) -> String {
    let rest = match stored {
        Some(handle) => format!("full text stored as {handle}"),
        None => "the rest was discarded".to_owned(),
    };
    format!("[truncated: {total_bytes} bytes total, first {shown_bytes} shown; {rest}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_names_size_and_handle() {
        assert_eq!(
            truncation_marker(1_234_567, 100_000, None),
            "[truncated: 1234567 bytes total, first 100000 shown; the rest was discarded]"
        );
        let handle: ResultHandle = "result-3f000000000000000000000000000001".parse().unwrap();
        assert_eq!(
            truncation_marker(9, 5, Some(&handle)),
            "[truncated: 9 bytes total, first 5 shown; full text stored as \
             result-3f000000000000000000000000000001]"
        );
    }
}
