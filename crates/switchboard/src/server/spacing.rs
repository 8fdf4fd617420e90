//! The times at which servers of one host are tried again, kept apart from each other.
//!
//! Servers that fail together (the network went, or the machine that they all run on) would come
//! back together: the random part of a delay is a fifth of it to either side, which puts a hundred
//! first retries, due after a second, into 400 ms. A wider spread would make the one server that
//! fails alone wait longer for nothing, and would still leave bursts to chance. So delays stay as
//! [`super::backoff`] makes them, and where too many fall on the same moment, the later ones move on
//! to the next that is free: nobody else is there, nobody waits.
//!
//! Invariant: within any 100 ms no more than nine attempts are due.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// Only one attempt is due in each stretch of this length.
const STRETCH: Duration = Duration::from_micros(12_500);

#[derive(Debug)]
pub(crate) struct Spacing {
    began: Instant,
    /// The stretches to come that are taken, by their number. Never more than there are within the
    /// longest delay.
    taken: Mutex<BTreeSet<u64>>,
}

impl Spacing {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            taken: Mutex::default(),
        }
    }

    /// When to make an attempt that is wanted for `wanted`: then, or as soon after as it is free.
    pub(crate) fn place(&self, wanted: Instant, now: Instant) -> Instant {
        let mut taken = lock(&self.taken);
        *taken = taken.split_off(&self.number(now));
        let first = self.number(wanted);
        let mut number = first;
        while !taken.insert(number) {
            number += 1;
        }
        if number == first {
            return wanted;
        }
        let later = u32::try_from(number - first).unwrap_or(u32::MAX);
        wanted + STRETCH * later
    }

    fn number(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.began).as_nanos();
        u64::try_from(passed / STRETCH.as_nanos()).unwrap_or(u64::MAX / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(100);

    /// The most that are due within any 100 ms.
    fn thickest(mut times: Vec<Instant>) -> usize {
        times.sort();
        let most = times.iter().map(|begin| {
            let within = |time: &&Instant| **time >= *begin && **time < *begin + WINDOW;
            times.iter().filter(within).count()
        });
        most.max().unwrap_or_default()
    }

    #[test]
    fn alone_nobody_waits() {
        let spacing = Spacing::new();
        let now = Instant::now();
        for tenths in 1..50 {
            let wanted = now + Duration::from_millis(37 * tenths);
            assert_eq!(spacing.place(wanted, now), wanted);
        }
    }

    #[test]
    fn however_many_want_the_same_moment_few_get_it() {
        let spacing = Spacing::new();
        let now = Instant::now();
        let mut places = Vec::new();
        for number in 0..300_u64 {
            let wanted = now + Duration::from_micros(800_000 + number * 1_333);
            let place = spacing.place(wanted, now);
            assert!(place >= wanted);
            assert!(place <= wanted + STRETCH * 300);
            places.push(place);
        }
        assert!(thickest(places) <= 9);
    }

    #[test]
    fn what_is_over_is_forgotten() {
        let spacing = Spacing::new();
        let mut now = Instant::now();
        for _ in 0..1_000 {
            spacing.place(now + Duration::from_secs(1), now);
            now += Duration::from_millis(20);
        }
        assert!(lock(&spacing.taken).len() <= 51);
    }
}
