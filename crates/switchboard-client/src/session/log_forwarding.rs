//! Forwards a server's log messages to the client handler and to `tracing`.
//!
//! Invariant: at most `log_messages_per_second` messages are forwarded per second. Messages that
//! exceed this limit are dropped, and the handler is told how many.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::SessionContext;
use super::peer::Peer;
use crate::client_handler::LogMessage;
use switchboard_wire::decode;
use switchboard_wire::mcp::{Json, LogLevel};
use switchboard_wire::sync::lock;

const SECOND: Duration = Duration::from_secs(1);

/// Counts the log messages of a session per second and decides which to forward.
#[derive(Debug, Default)]
pub(super) struct LogRateLimit(Mutex<LogCount>);

#[derive(Debug, Default)]
struct LogCount {
    /// When the current second began: at the first message after the previous second.
    since: Option<Instant>,
    forwarded: usize,
    skipped: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum LogDecision {
    Forward,
    /// Skip the message, and report the number of skipped messages at `until`, the end of the
    /// second. Returned for the first message that exceeds the limit.
    SkipAndReport {
        until: Instant,
    },
    Skip,
}

impl LogRateLimit {
    fn decide(&self, max_per_second: usize) -> LogDecision {
        let now = Instant::now();
        let mut count = lock(&self.0);
        let since = match count.since.filter(|since| now - *since < SECOND) {
            Some(since) => since,
            None => {
                count.since = Some(now);
                count.forwarded = 0;
                now
            }
        };
        if count.forwarded < max_per_second {
            count.forwarded += 1;
            return LogDecision::Forward;
        }
        count.skipped += 1;
        if count.skipped == 1 {
            let until = since + SECOND;
            return LogDecision::SkipAndReport { until };
        }
        LogDecision::Skip
    }

    fn take_skipped(&self) -> u64 {
        std::mem::take(&mut lock(&self.0).skipped)
    }
}

/// Handles `notifications/message`.
pub(super) fn on_message(peer: &Peer, params: &[u8]) {
    let context = &peer.context;
    if !context.handler.wants_logs() && !tracing::enabled!(tracing::Level::ERROR) {
        return;
    }
    match peer
        .log_rate_limit
        .decide(context.limits.log_messages_per_second)
    {
        LogDecision::Forward => forward(context, params),
        LogDecision::SkipAndReport { until } => report_skipped_later(peer, until),
        LogDecision::Skip => {}
    }
}

fn forward(context: &SessionContext, params: &[u8]) {
    let Some(mut message) = decode::log_message(params) else {
        return;
    };
    message.data = message
        .data
        .and_then(|data| context.redactor.redact_json(data))
        .map(|data| decode::truncate_json(data, decode::MAX_LOG_DATA_BYTES));
    trace(context, &message.level, message.data.as_ref());
    context.handler.on_log(LogMessage {
        level: message.level,
        logger: message.logger,
        data: message.data,
    });
}

/// Emits a `tracing` event at the level that corresponds to the level of the log message.
fn trace(context: &SessionContext, level: &str, data: Option<&Json>) {
    // A macro, because `tracing` needs the level of an event at compile time.
    macro_rules! trace_at {
        ($level:ident) => {
            tracing::$level!(
                server = %context.server,
                level,
                data = data.map(|data| log_text(context, data)).as_deref().unwrap_or_default(),
                "server log"
            )
        };
    }
    match level.parse() {
        Ok(LogLevel::Debug) => trace_at!(debug),
        Ok(LogLevel::Info | LogLevel::Notice) | Err(_) => trace_at!(info),
        Ok(LogLevel::Warning) => trace_at!(warn),
        Ok(_) => trace_at!(error),
    }
}

/// The data of a log message as text. A JSON string is decoded; any other JSON value is kept as it
/// is.
fn log_text<'a>(context: &SessionContext, data: &'a Json) -> Cow<'a, str> {
    match serde_json::from_str::<String>(data.as_str()) {
        // Redact again: JSON escapes may have hidden a secret from the first redaction.
        Ok(text) => Cow::Owned(context.redactor.redact(&text)),
        Err(_) => Cow::Borrowed(data.as_str()),
    }
}

/// Spawns a task that reports the number of skipped messages at `until`, or when the session ends.
fn report_skipped_later(peer: &Peer, until: Instant) {
    let context = peer.context.clone();
    let limit = Arc::clone(&peer.log_rate_limit);
    let stop = peer.stop.clone();
    peer.server_requests.spawn(async move {
        stop.run_until_cancelled(tokio::time::sleep_until(until))
            .await;
        let count = limit.take_skipped();
        let server = &context.server;
        tracing::warn!(%server, count, "log messages dropped: the server exceeds the rate limit");
        context.handler.on_logs_dropped(count);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_over_the_limit_are_counted() {
        let limit = LogRateLimit::default();
        let until = Instant::now() + SECOND;
        let decisions: Vec<_> = (0..4).map(|_| limit.decide(2)).collect();
        assert_eq!(
            decisions,
            [
                LogDecision::Forward,
                LogDecision::Forward,
                LogDecision::SkipAndReport { until },
                LogDecision::Skip
            ]
        );
        tokio::time::advance(SECOND).await;
        assert_eq!(limit.decide(2), LogDecision::Forward);
        assert_eq!(limit.take_skipped(), 2);
        assert_eq!(limit.take_skipped(), 0);
    }
}
