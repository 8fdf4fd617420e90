//! Where the members of an object are, so that a decoder does not scan the object again.

use std::borrow::Cow;
use std::ops::Range;

use super::{NotJson, members, range_of};

/// The position of each member of one object, and whether the object is valid JSON.
///
/// The index does not hold the text. [`ObjectIndex::members`] takes the same text again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectIndex {
    /// The object is valid JSON, provided that it is valid UTF-8.
    pub is_valid_json: bool,
    /// Number of recorded members, or `INCOMPLETE`.
    count: u8,
    /// Lengths of the keys, in bytes. Stored apart from the positions to keep the struct small: it
    /// is moved several times per response.
    key_lengths: [u8; Self::MAX_MEMBERS],
    positions: [MemberPosition; Self::MAX_MEMBERS],
}

/// Byte offsets of a member, relative to its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemberPosition {
    /// Start of the key, after its quote.
    key: u32,
    /// Start and end of the value.
    value: (u32, u32),
}

impl ObjectIndex {
    /// The results of calls and listings have at most this many members. Larger objects are scanned
    /// again.
    const MAX_MEMBERS: usize = 6;
    /// A member could not be recorded, so the object has to be scanned again.
    const INCOMPLETE: u8 = u8::MAX;

    /// The index of an object whose members were not recorded.
    pub fn without_members(is_valid_json: bool) -> Self {
        Self {
            is_valid_json,
            ..Self::default()
        }
    }

    /// Records a member. `key` and `value` are subslices of `object`, except that a key with
    /// escapes is not.
    pub(super) fn record(&mut self, object: &[u8], key: &[u8], value: &[u8]) {
        let next = usize::from(self.count);
        let slots = self.key_lengths.get_mut(next);
        let slots = slots.zip(self.positions.get_mut(next));
        let spans = span(object, key).zip(span(object, value));
        let member = u8::try_from(key.len()).ok().zip(spans);
        match (slots, member) {
            (Some((length_slot, position_slot)), Some((key_length, ((key, _), value)))) => {
                *length_slot = key_length;
                *position_slot = MemberPosition { key, value };
                self.count += 1;
            }
            _ => self.count = Self::INCOMPLETE,
        }
    }

    /// Visits the members of the object that this index was made from.
    #[inline]
    pub fn members<'a>(
        &self,
        object: &'a [u8],
        mut visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
    ) -> Result<(), NotJson> {
        let recorded = self.positions.get(..self.count.into());
        let Some(recorded) = recorded.filter(|recorded| !recorded.is_empty()) else {
            return members(object, visit);
        };
        let slice = |start: u32, end: u32| object.get(start as usize..end as usize);
        for (member, key_length) in recorded.iter().zip(self.key_lengths) {
            let key = slice(member.key, member.key + u32::from(key_length));
            if let (Some(key), Some(value)) = (key, slice(member.value.0, member.value.1)) {
                visit(Cow::Borrowed(key), value);
            }
        }
        Ok(())
    }
}

/// Returns start and end of `part` in `whole`, or `None` if `part` is not a subslice of it.
fn span(whole: &[u8], part: &[u8]) -> Option<(u32, u32)> {
    let Range { start, end } = range_of(whole, part);
    let span = (start.try_into().ok()?, end.try_into().ok()?);
    (start <= end && end <= whole.len()).then_some(span)
}
