//! The limits that a program can set: time limits ([`Deadlines`]), and limits on size and count
//! ([`Limits`]).

pub use switchboard_client::Deadlines;
pub use switchboard_wire::Limits;
pub(crate) use switchboard_wire::limits::{LARGE_MESSAGE_BYTES, MAX_COUNT};

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn largest_count_fits_a_semaphore() {
        const { assert!(MAX_COUNT <= Semaphore::MAX_PERMITS) };
    }
}
