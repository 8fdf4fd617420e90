//! Decodes how long a result may be cached (modern era). Malformed hints count as missing.

use std::time::Duration;

use super::parse;
use crate::scan;

/// Longer times are lowered to this, so that every cached result is requested again eventually.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a result may be cached, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    /// How long the result may be cached. Zero if the server sends no valid time.
    pub ttl: Duration,
    /// Who may use the cached result.
    pub scope: CacheScope,
}

/// Who may use a cached result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheScope {
    /// Only requests with the same authorization.
    #[default]
    Private,
    /// All requests.
    Public,
}

impl CacheHint {
    /// Combines the hints of two pages of one listing: the shorter time and the narrower scope.
    pub fn combine(self, other: Self) -> Self {
        Self {
            ttl: self.ttl.min(other.ttl),
            scope: self.scope.min(other.scope),
        }
    }
}

/// Decodes `ttlMs`.
pub(super) fn ttl(value: &[u8]) -> Duration {
    let millis = parse::<f64>(value).filter(|millis| *millis > 0.0);
    let seconds = millis.unwrap_or(0.0) / 1_000.0;
    Duration::from_secs_f64(seconds.min(MAX_TTL.as_secs_f64()))
}

/// Decodes `cacheScope`.
pub(super) fn scope(value: &[u8]) -> CacheScope {
    match scan::string_value(value).as_deref() {
        Some("public") => CacheScope::Public,
        _ => CacheScope::Private,
    }
}
