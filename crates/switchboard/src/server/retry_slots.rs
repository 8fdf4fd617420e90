//! Spreads the reconnect attempts of all servers of one host over time.
//!
//! Servers that fail together (a network outage, a crashed gateway) would retry together. Jitter
//! changes a delay by at most a fifth in either direction. So the first retries of a hundred
//! servers, due after one second, would all happen within 400 ms. More jitter would delay a single
//! failing server without need and would still allow bursts. Therefore this module moves an attempt
//! to the next free time slot if its own slot is taken. A server that fails alone is never delayed
//! beyond the delay that [`super::backoff`] computed.
//!
//! Invariant: at most nine attempts are due within any 100 ms. This period has the length of eight
//! slots, so it overlaps at most nine slots.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use switchboard_wire::sync::lock;

/// The length of a slot. One attempt is due per slot.
const SLOT: Duration = Duration::from_micros(12_500);

#[derive(Debug)]
pub(crate) struct RetrySlots {
    /// The start of slot 0.
    epoch: Instant,
    /// The numbers of the reserved slots. Slots in the past are dropped, so the size of the set is
    /// bounded by the longest delay.
    reserved: Mutex<BTreeSet<u64>>,
}

impl RetrySlots {
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            reserved: Mutex::default(),
        }
    }

    /// Reserves the first free slot at or after `wanted`. Returns `wanted` itself if its slot is
    /// free.
    pub(crate) fn reserve(&self, wanted: Instant, now: Instant) -> Instant {
        let mut reserved = lock(&self.reserved);
        *reserved = reserved.split_off(&self.slot_at(now));
        let first = self.slot_at(wanted);
        let mut slot = first;
        while !reserved.insert(slot) {
            slot += 1;
        }
        if slot == first {
            return wanted;
        }
        let shift = u32::try_from(slot - first).unwrap_or(u32::MAX);
        wanted + SLOT * shift
    }

    fn slot_at(&self, time: Instant) -> u64 {
        let elapsed = time.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(elapsed / SLOT.as_nanos()).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(100);

    /// The largest number of times within any [`WINDOW`].
    fn max_per_window(mut times: Vec<Instant>) -> usize {
        times.sort();
        let counts = times.iter().map(|start| {
            let within = |time: &&Instant| **time >= *start && **time < *start + WINDOW;
            times.iter().filter(within).count()
        });
        counts.max().unwrap_or_default()
    }

    #[test]
    fn single_server_is_not_delayed() {
        let slots = RetrySlots::new();
        let now = Instant::now();
        for tenths in 1..50 {
            let wanted = now + Duration::from_millis(37 * tenths);
            assert_eq!(slots.reserve(wanted, now), wanted);
        }
    }

    #[test]
    fn simultaneous_retries_are_spread() {
        let slots = RetrySlots::new();
        let now = Instant::now();
        let mut attempts = Vec::new();
        for number in 0..300_u64 {
            let wanted = now + Duration::from_micros(800_000 + number * 1_333);
            let attempt = slots.reserve(wanted, now);
            assert!(attempt >= wanted);
            assert!(attempt <= wanted + SLOT * 300);
            attempts.push(attempt);
        }
        assert!(max_per_window(attempts) <= 9);
    }

    #[test]
    fn past_slots_are_dropped() {
        let slots = RetrySlots::new();
        let mut now = Instant::now();
        for _ in 0..1_000 {
            slots.reserve(now + Duration::from_secs(1), now);
            now += Duration::from_millis(20);
        }
        assert!(lock(&slots.reserved).len() <= 51);
    }
}
