//! The limits that a program can set: time limits ([`Deadlines`]), and limits on size and count
//! ([`Limits`]).

use std::num::NonZeroUsize;
use std::thread::available_parallelism;

pub use switchboard_client::Deadlines;
pub use switchboard_wire::Limits;
pub(crate) use switchboard_wire::limits::{LARGE_MESSAGE_BYTES, MAX_COUNT};

/// How many child processes start at the same time per core, by default.
const STARTS_PER_CORE: usize = 2;

/// How many child processes start at the same time by default: twice the number of cores. See
/// [`HostBuilder::start_concurrency`](crate::HostBuilder::start_concurrency).
pub fn default_start_concurrency() -> NonZeroUsize {
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    cores.saturating_mul(NonZeroUsize::MIN.saturating_add(STARTS_PER_CORE - 1))
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn largest_count_fits_a_semaphore() {
        const { assert!(MAX_COUNT <= Semaphore::MAX_PERMITS) };
    }
}
