//! The watches of a host and their pending events.
//!
//! Each watch is in the queue at most once. Changes that are detected while a change of the same
//! watch is pending are merged into it. A watch that has ended counts toward `max_watches` until
//! its last event is taken.
//!
//! Invariants: the queue is never longer than `max_watches`, and no change of a watch is lost until
//! the watch is removed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use switchboard_wire::sync::lock;
use switchboard_wire::text::one_line;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::diff::ContentDiff;
use super::event::{WatchChange, WatchEvent};
use super::request::MAX_INTERVAL;
use super::snapshot::Snapshot;
use super::{Watch, WatchError, WatchKind, WatchRequest, WatchTarget};
use crate::call::{CallContext, CallOrigin};
use crate::content::{fit, sanitize};
use crate::event::{Event, EventSink};
use crate::id::{Principal, ServerName, WatchId};

/// Longer summaries of failures are cut to this many bytes in an event.
const MAX_SUMMARY_BYTES: usize = 500;
/// Longer reasons of a watch are cut to this many bytes.
const MAX_REASON_BYTES: usize = 2_000;

/// Selects watches by the principal that started them.
type PrincipalFilter<'a> = &'a dyn Fn(&Principal) -> bool;

/// All watches of a host, and the queue of watches with pending events.
pub(crate) struct WatchTable {
    max_watches: usize,
    state: Mutex<TableState>,
    /// Notified when a watch has a new event.
    queued: Notify,
    events: EventSink,
}

#[derive(Default)]
struct TableState {
    last_number: u64,
    watches: BTreeMap<u64, WatchState>,
    /// The numbers of the watches with pending events, oldest event first.
    queue: VecDeque<u64>,
}

/// The properties of a watch that never change.
#[derive(Debug)]
pub(super) struct WatchSpec {
    /// The key of the watch in the table.
    number: u64,
    pub(super) id: WatchId,
    kind: WatchKind,
    pub(super) server: ServerName,
    pub(super) target: WatchTarget,
    reason: Option<String>,
    pub(super) interval: Duration,
    pub(super) context: CallContext,
    /// Cancelled when the watch is removed or the host stops.
    pub(super) stop: CancellationToken,
}

impl WatchSpec {
    pub(super) fn is_subscription(&self) -> bool {
        self.kind == WatchKind::Subscription
    }
}

/// The current state of a watch, and the part of it that events have reported.
struct WatchState {
    spec: Arc<WatchSpec>,
    effective_kind: WatchKind,
    note: Option<Arc<str>>,
    is_queued: bool,
    /// The snapshot of the last event. Before the first event, the first snapshot.
    last_reported: Option<Arc<Snapshot>>,
    pending_change: Option<PendingChange>,
    health: WatchHealth,
    reported_health: WatchHealth,
    /// Set while `health` differs from `reported_health`.
    pending_health: Option<HealthNote>,
    /// The last event of a watch that has ended. `None` while the watch runs.
    end: Option<HealthNote>,
}

/// A change that no event has reported yet.
struct PendingChange {
    now: Arc<Snapshot>,
    /// Number of changes since the last event, at least 1.
    times: u64,
    at: SystemTime,
}

#[derive(Clone, Debug)]
struct HealthNote {
    summary: String,
    at: SystemTime,
}

/// Whether the watched resource can be read, or the watched tool can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchHealth {
    Ok,
    Failed,
    NotPermitted,
}

/// The content of the next event of a watch.
enum NextEvent {
    /// A change, and the last reported snapshot to compare it with.
    Change(PendingChange, Arc<Snapshot>),
    Health(WatchHealth, HealthNote),
    End(HealthNote),
}

impl WatchTable {
    pub(crate) fn new(max_watches: usize, events: EventSink) -> Self {
        Self {
            max_watches,
            state: Mutex::default(),
            queued: Notify::new(),
            events,
        }
    }

    /// Adds a watch. Fails if the table already has `max_watches` watches.
    pub(super) fn insert(
        &self,
        server: ServerName,
        request: WatchRequest,
        stop: &CancellationToken,
    ) -> Result<Arc<WatchSpec>, WatchError> {
        let mut state = lock(&self.state);
        if state.watches.len() >= self.max_watches {
            let limit = self.max_watches;
            return Err(WatchError::TooMany { limit });
        }
        state.last_number += 1;
        let number = state.last_number;
        let id = match request.kind {
            WatchKind::Subscription => format!("sub-{number}"),
            WatchKind::Poll => format!("poll-{number}"),
        };
        let reason = request.reason.map(|reason| {
            let reason = sanitize(&reason);
            fit(&reason, MAX_REASON_BYTES).to_owned()
        });
        let spec = Arc::new(WatchSpec {
            number,
            id: id.into(),
            kind: request.kind,
            server,
            target: request.target,
            reason: reason.filter(|reason| !reason.is_empty()),
            interval: request.interval.min(MAX_INTERVAL),
            context: request.context.origin(CallOrigin::Watch),
            stop: stop.child_token(),
        });
        let watch = WatchState::new(Arc::clone(&spec));
        state.watches.insert(number, watch);
        Ok(spec)
    }

    pub(super) fn describe(&self, spec: &Arc<WatchSpec>) -> Watch {
        let state = lock(&self.state);
        match state.watches.get(&spec.number) {
            Some(watch) => watch.describe(),
            None => WatchState::new(Arc::clone(spec)).describe(),
        }
    }

    /// Describes all watches that have not ended.
    pub(crate) fn all(&self) -> Vec<Watch> {
        let state = lock(&self.state);
        let watches = state.watches.values();
        watches
            .filter(|watch| watch.end.is_none())
            .map(WatchState::describe)
            .collect()
    }

    /// Removes a watch and its pending events, and cancels its task. Returns `None` if there is no
    /// watch with this id.
    pub(crate) fn remove(&self, id: &str) -> Option<Watch> {
        let mut state = lock(&self.state);
        let mut watches = state.watches.iter();
        let (&number, _) = watches.find(|(_, watch)| watch.spec.id.as_str() == id)?;
        let watch = state.watches.remove(&number)?;
        state.queue.retain(|queued| *queued != number);
        watch.spec.stop.cancel();
        Some(watch.describe())
    }

    /// Sets whether the watch subscribes or polls from now on. `note` says why a subscription is
    /// polled.
    pub(super) fn set_effective_kind(
        &self,
        spec: &WatchSpec,
        kind: WatchKind,
        note: Option<Arc<str>>,
    ) {
        if let Some(watch) = lock(&self.state).watches.get_mut(&spec.number) {
            watch.effective_kind = kind;
            watch.note = note;
        }
    }

    /// Records the current content. The first snapshot is the baseline and causes no event.
    pub(super) fn record_snapshot(&self, spec: &WatchSpec, snapshot: Snapshot) {
        self.update(spec, |watch| watch.record_snapshot(snapshot));
    }

    /// Records whether the target can be read or called.
    pub(super) fn set_health(&self, spec: &WatchSpec, health: WatchHealth, summary: &str) {
        self.update(spec, |watch| watch.set_health(health, summary));
    }

    /// Ends the watch with a last event.
    pub(super) fn end(&self, spec: &WatchSpec, summary: &str) {
        self.update(spec, |watch| {
            watch.end = Some(HealthNote::new(summary));
            true
        });
    }

    /// Applies `change` to a watch. If `change` returns `true`, there is an event to report, and
    /// the watch is queued.
    fn update(&self, spec: &WatchSpec, change: impl FnOnce(&mut WatchState) -> bool) {
        let mut state = lock(&self.state);
        let Some(watch) = state.watches.get_mut(&spec.number) else {
            return;
        };
        if !change(watch) {
            return;
        }
        if !std::mem::replace(&mut watch.is_queued, true) {
            state.queue.push_back(spec.number);
        }
        drop(state);
        self.queued.notify_one();
        self.events.send(|| Event::WatchChanged {
            watch: spec.id.clone(),
            server: spec.server.clone(),
        });
    }

    /// Takes the next pending event of the watches that the filter selects. Returns `None` if there
    /// is none.
    pub(crate) fn pop(&self, filter: PrincipalFilter<'_>) -> Option<WatchEvent> {
        let (spec, next) = self.take_next(filter)?;
        let (change, diff, at) = match next {
            // The diff can take milliseconds, so the lock is not held.
            NextEvent::Change(change, reported) => {
                let times = change.times;
                let diff = change.describe(&reported);
                (WatchChange::Changed { times }, diff, change.at)
            }
            NextEvent::Health(health, note) => {
                let change = match health {
                    WatchHealth::Ok => WatchChange::Recovered,
                    WatchHealth::Failed => WatchChange::Failed,
                    WatchHealth::NotPermitted => WatchChange::NotPermitted,
                };
                (change, ContentDiff::summary_only(note.summary), note.at)
            }
            NextEvent::End(note) => {
                let diff = ContentDiff::summary_only(note.summary);
                (WatchChange::Ended, diff, note.at)
            }
        };
        Some(WatchEvent {
            watch: spec.id.clone(),
            server: spec.server.clone(),
            target: spec.target.clone(),
            reason: spec.reason.clone(),
            change,
            summary: diff.summary,
            diff: diff.diff,
            at,
            principal: spec.context.principal.clone(),
        })
    }

    fn take_next(&self, filter: PrincipalFilter<'_>) -> Option<(Arc<WatchSpec>, NextEvent)> {
        let mut state = lock(&self.state);
        loop {
            let watches = &state.watches;
            let is_selected = |number: &u64| {
                let watch = watches.get(number);
                watch.is_none_or(|watch| filter(&watch.spec.context.principal))
            };
            let position = state.queue.iter().position(is_selected)?;
            let number = state.queue.remove(position)?;
            let Some(watch) = state.watches.get_mut(&number) else {
                continue;
            };
            let Some(next) = watch.take_next() else {
                watch.is_queued = false;
                continue;
            };
            let spec = Arc::clone(&watch.spec);
            if matches!(next, NextEvent::End(_)) {
                state.watches.remove(&number);
            } else if watch.has_pending() {
                state.queue.push_front(number);
            } else {
                watch.is_queued = false;
            }
            return Some((spec, next));
        }
    }

    /// Waits for the next event of any watch and takes it.
    pub(crate) async fn next(&self) -> WatchEvent {
        loop {
            let queued = self.queued.notified();
            if let Some(event) = self.pop(&|_| true) {
                // `notify_one` wakes one task only. If other tasks wait and the queue holds more
                // events, the next task must wake, too.
                self.queued.notify_one();
                return event;
            }
            queued.await;
        }
    }
}

impl WatchState {
    fn new(spec: Arc<WatchSpec>) -> Self {
        Self {
            effective_kind: spec.kind,
            spec,
            note: None,
            is_queued: false,
            last_reported: None,
            pending_change: None,
            health: WatchHealth::Ok,
            reported_health: WatchHealth::Ok,
            pending_health: None,
            end: None,
        }
    }

    fn describe(&self) -> Watch {
        let spec = &self.spec;
        Watch {
            id: spec.id.clone(),
            kind: spec.kind,
            effective_kind: self.effective_kind,
            note: self.note.as_deref().map(str::to_owned),
            has_baseline: self.last_reported.is_some(),
            server: spec.server.clone(),
            target: spec.target.clone(),
            interval: spec.interval,
            reason: spec.reason.clone(),
            principal: spec.context.principal.clone(),
        }
    }

    /// Returns whether the snapshot differs from the last one. Then there is an event to report.
    /// The first snapshot is stored as the baseline.
    fn record_snapshot(&mut self, snapshot: Snapshot) -> bool {
        let last = self.pending_change.as_ref().map(|change| &change.now);
        match last.or(self.last_reported.as_ref()) {
            None => {
                self.last_reported = Some(Arc::new(snapshot));
                false
            }
            Some(last) if **last == snapshot => false,
            Some(_) => {
                let times = self
                    .pending_change
                    .as_ref()
                    .map_or(0, |change| change.times);
                self.pending_change = Some(PendingChange {
                    now: Arc::new(snapshot),
                    times: times + 1,
                    at: SystemTime::now(),
                });
                true
            }
        }
    }

    /// Returns whether there is an event to report. A failure that ends before it is reported
    /// causes no event.
    fn set_health(&mut self, health: WatchHealth, summary: &str) -> bool {
        if self.health == health {
            return false;
        }
        self.health = health;
        let is_unreported = health != self.reported_health;
        self.pending_health = is_unreported.then(|| HealthNote::new(summary));
        is_unreported
    }

    fn has_pending(&self) -> bool {
        self.pending_change.is_some() || self.pending_health.is_some() || self.end.is_some()
    }

    /// Takes the oldest pending event. The end of the watch comes after all others.
    fn take_next(&mut self) -> Option<NextEvent> {
        let changed_at = self.pending_change.as_ref().map(|change| change.at);
        let note = self
            .pending_health
            .take_if(|note| changed_at.is_none_or(|at| note.at <= at));
        if let Some(note) = note {
            self.reported_health = self.health;
            return Some(NextEvent::Health(self.health, note));
        }
        if let Some(change) = self.pending_change.take() {
            let reported = self.last_reported.replace(Arc::clone(&change.now))?;
            return Some(NextEvent::Change(change, reported));
        }
        self.end.take().map(NextEvent::End)
    }
}

impl PendingChange {
    fn describe(&self, reported: &Snapshot) -> ContentDiff {
        let times = match self.times {
            1 => "changed".to_owned(),
            times => format!("changed {times} times"),
        };
        if *reported == *self.now {
            return ContentDiff::summary_only(format!(
                "{times}, now equal to the last reported content"
            ));
        }
        let ContentDiff { summary, diff } = ContentDiff::new(reported, &self.now);
        ContentDiff {
            summary: format!("{times}: {summary}"),
            diff,
        }
    }
}

impl HealthNote {
    fn new(summary: &str) -> Self {
        Self {
            summary: one_line(summary, MAX_SUMMARY_BYTES).into_owned(),
            at: SystemTime::now(),
        }
    }
}
