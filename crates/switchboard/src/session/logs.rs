//! What a server writes into its log, passed on at a bounded pace.
//!
//! Invariant: no more messages a second reach listeners than the limit, and what was left out is
//! counted and told.

use std::borrow::Cow;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::SessionContext;
use super::peer::Peer;
use crate::event::Event;
use crate::mcp::{Json, LogLevel};
use crate::sync::lock;
use crate::wire::decode;

const SECOND: Duration = Duration::from_secs(1);

/// Counts the messages of a session, second by second.
#[derive(Debug, Default)]
pub(super) struct LogPace(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    /// When the second began.
    since: Option<Instant>,
    passed: usize,
    skipped: u64,
}

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Passed,
    /// The first of its second that is left out: how many there were is told at the end of it.
    SkippedFirst {
        until: Instant,
    },
    Skipped,
}

impl LogPace {
    fn judge(&self, most: usize) -> Fate {
        let now = Instant::now();
        let mut counted = lock(&self.0);
        let since = match counted.since.filter(|since| now - *since < SECOND) {
            Some(since) => since,
            None => {
                counted.since = Some(now);
                counted.passed = 0;
                now
            }
        };
        if counted.passed < most {
            counted.passed += 1;
            return Fate::Passed;
        }
        counted.skipped += 1;
        if counted.skipped == 1 {
            let until = since + SECOND;
            return Fate::SkippedFirst { until };
        }
        Fate::Skipped
    }

    fn take_skipped(&self) -> u64 {
        std::mem::take(&mut lock(&self.0).skipped)
    }
}

/// Passes a log message of the server on, if there is anybody to hear it.
pub(super) fn take(peer: &Peer, params: &[u8]) {
    let context = &peer.context;
    if !context.events.has_listeners() && !tracing::enabled!(tracing::Level::ERROR) {
        return;
    }
    match peer.logs.judge(context.limits.log_messages_per_second) {
        Fate::Passed => pass(context, params),
        Fate::SkippedFirst { until } => tell_skipped(peer, until),
        Fate::Skipped => {}
    }
}

fn pass(context: &SessionContext, params: &[u8]) {
    let Some(mut message) = decode::log_message(params) else {
        return;
    };
    message.data = message
        .data
        .and_then(|data| context.redactor.redact_json(data))
        .map(|data| decode::shortened(data, decode::LOG_BYTES));
    trace(context, &message.level, message.data.as_ref());
    context.events.send(|| Event::ServerLogged {
        server: context.server.clone(),
        level: message.level,
        logger: message.logger,
        data: message.data,
    });
}

fn trace(context: &SessionContext, level: &str, data: Option<&Json>) {
    // The level of an event has to be known when the program is built.
    macro_rules! trace_at {
        ($level:ident) => {
            tracing::$level!(
                server = %context.server,
                level,
                data = data.map(|data| in_words(context, data)).as_deref().unwrap_or_default(),
                "server logs"
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

/// What a server says, without the quotes of JSON where it is a text.
fn in_words<'a>(context: &SessionContext, data: &'a Json) -> Cow<'a, str> {
    match serde_json::from_str::<String>(data.as_str()) {
        // Once more: a secret may have been spelled otherwise in JSON.
        Ok(text) => Cow::Owned(context.redactor.redact(&text)),
        Err(_) => Cow::Borrowed(data.as_str()),
    }
}

/// Tells at the end of a second how much of it was left out.
fn tell_skipped(peer: &Peer, until: Instant) {
    let (context, pace) = (peer.context.clone(), std::sync::Arc::clone(&peer.logs));
    let stop = peer.stop.clone();
    peer.inbound.spawn(async move {
        stop.run_until_cancelled(tokio::time::sleep_until(until))
            .await;
        let count = pace.take_skipped();
        let server = &context.server;
        tracing::warn!(%server, count, "the server logs too much: messages were left out");
        context.events.send(|| Event::LogSkipped {
            server: server.clone(),
            count,
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_has_room_for_so_many_and_the_rest_is_counted() {
        let pace = LogPace::default();
        let until = Instant::now() + SECOND;
        let fates: Vec<_> = (0..4).map(|_| pace.judge(2)).collect();
        assert_eq!(
            fates,
            [
                Fate::Passed,
                Fate::Passed,
                Fate::SkippedFirst { until },
                Fate::Skipped
            ]
        );
        tokio::time::advance(SECOND).await;
        assert_eq!(pace.judge(2), Fate::Passed);
        assert_eq!(pace.take_skipped(), 2);
        assert_eq!(pace.take_skipped(), 0);
    }
}
