//! How long an answer may be kept (modern era): a hint, read leniently.

use std::time::Duration;

use super::{parse, text};

/// No server decides that it is never asked again.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an answer is good for, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Nothing, where the server does not say or what it says makes no sense.
    pub ttl: Duration,
    pub scope: CacheScope,
}

/// For whom an answer is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheScope {
    /// For whoever asked, under the authorization that was used.
    #[default]
    Private,
    Public,
}

impl Freshness {
    /// Of two parts of one whole: the whole is as good as the worse of them.
    pub fn and(self, other: Self) -> Self {
        Self {
            ttl: self.ttl.min(other.ttl),
            scope: self.scope.min(other.scope),
        }
    }
}

/// A time in milliseconds. What is negative or no number is none at all.
pub(super) fn ttl(written: &[u8]) -> Duration {
    let millis = parse::<f64>(written).filter(|millis| *millis > 0.0);
    let most = LONGEST.as_secs_f64();
    Duration::from_secs_f64((millis.unwrap_or(0.0) / 1_000.0).min(most))
}

pub(super) fn scope(written: &[u8]) -> CacheScope {
    match text(written).as_deref() {
        Some("public") => CacheScope::Public,
        _ => CacheScope::Private,
    }
}
