//! The stack of open brackets in constant memory.

use super::MAX_JSON_DEPTH;

/// The open brackets, one bit each. Deeper than [`MAX_JSON_DEPTH`] only their number is known.
#[derive(Default)]
pub(super) struct Nesting {
    depth: usize,
    /// One bit per open bracket, innermost lowest; 1 is an object, 0 an array.
    is_object: u128,
}

/// A closing bracket does not match the innermost open bracket.
pub(super) struct MismatchedBracket;

impl Nesting {
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn push(&mut self, bracket: u8) {
        if self.depth < MAX_JSON_DEPTH {
            self.is_object = self.is_object << 1 | u128::from(bracket == b'{');
        }
        self.depth += 1;
    }

    /// Whether the innermost bracket opened an object. `None` outside of all brackets, and at
    /// depths greater than [`MAX_JSON_DEPTH`].
    pub(super) fn in_object(&self) -> Option<bool> {
        (1..=MAX_JSON_DEPTH)
            .contains(&self.depth)
            .then_some(self.is_object & 1 == 1)
    }

    pub(super) fn pop(&mut self, bracket: u8) -> Result<(), MismatchedBracket> {
        self.depth = self.depth.checked_sub(1).ok_or(MismatchedBracket)?;
        if self.depth < MAX_JSON_DEPTH {
            let was_object = self.is_object & 1 == 1;
            self.is_object >>= 1;
            if was_object != (bracket == b'}') {
                return Err(MismatchedBracket);
            }
        }
        Ok(())
    }
}
