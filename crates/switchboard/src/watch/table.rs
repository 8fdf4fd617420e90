//! The watches of a host, and what they have to tell.
//!
//! A watch stands in the queue at most once, and what happens meanwhile is added to what it has to tell
//! already; one that ended counts as a watch until its last event is taken. Invariant: so the queue is
//! never longer than there may be watches, and nothing is ever left out of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::diff::{self, Difference};
use super::event::{WatchChange, WatchEvent};
use super::snapshot::Content;
use super::{LONGEST_INTERVAL, Watch, WatchError, WatchKind, WatchRequest, WatchTarget};
use crate::call::{CallContext, CallOrigin};
use crate::content::{field, sanitize};
use crate::event::{Event, EventSink};
use crate::id::{Principal, ServerName, WatchId};
use crate::sync::lock;

/// How much is shown of why something failed, in bytes.
const WHY_BYTES: usize = 500;
/// How much of a reason is kept, in bytes.
const REASON_BYTES: usize = 2_000;

/// Whose watches are meant.
type IsFor<'a> = &'a dyn Fn(&Principal) -> bool;

pub(crate) struct Watches {
    most: usize,
    book: Mutex<Book>,
    /// Something is in the queue.
    queued: Notify,
    events: EventSink,
}

#[derive(Default)]
struct Book {
    last: u64,
    /// By ordinal.
    watches: BTreeMap<u64, Page>,
    /// Those that have something to tell, in the order in which they got it.
    queue: VecDeque<u64>,
}

/// A watch as its own task knows it.
#[derive(Debug)]
pub(super) struct Entry {
    ordinal: u64,
    pub(super) id: WatchId,
    kind: WatchKind,
    pub(super) server: ServerName,
    pub(super) target: WatchTarget,
    reason: Option<String>,
    pub(super) interval: Duration,
    pub(super) context: CallContext,
    pub(super) stop: CancellationToken,
}

impl Entry {
    pub(super) fn is_subscription(&self) -> bool {
        self.kind == WatchKind::Subscription
    }
}

/// What is known of a watch, and what of that was told.
struct Page {
    entry: Arc<Entry>,
    means: WatchKind,
    note: Option<Arc<str>>,
    is_queued: bool,
    /// What the last event told of, or what was there at the beginning.
    told: Option<Arc<Content>>,
    change: Option<Change>,
    condition: Condition,
    told_condition: Condition,
    /// The condition is another one than was told.
    news: Option<News>,
    end: Option<News>,
}

struct Change {
    now: Arc<Content>,
    times: u64,
    at: SystemTime,
}

#[derive(Clone, Debug)]
struct News {
    summary: String,
    at: SystemTime,
}

/// How a watch fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Fine,
    Failed,
    NotPermitted,
}

/// What is told next of a watch.
enum Telling {
    Change(Change, Arc<Content>),
    Condition(Condition, News),
    End(News),
}

impl Watches {
    pub(crate) fn new(most: usize, events: EventSink) -> Self {
        Self {
            most,
            book: Mutex::default(),
            queued: Notify::new(),
            events,
        }
    }

    /// Takes a watch in, if there may be another one.
    pub(super) fn admit(
        &self,
        server: ServerName,
        request: WatchRequest,
        stop: &CancellationToken,
    ) -> Result<Arc<Entry>, WatchError> {
        let mut book = lock(&self.book);
        if book.watches.len() >= self.most {
            return Err(WatchError::TooMany { limit: self.most });
        }
        book.last += 1;
        let ordinal = book.last;
        let id = match request.kind {
            WatchKind::Subscription => format!("sub-{ordinal}"),
            WatchKind::Poll => format!("poll-{ordinal}"),
        };
        let reason = request.reason.map(|reason| {
            let reason = sanitize(&reason);
            crate::content::limit::fit(&reason, REASON_BYTES).to_owned()
        });
        let entry = Arc::new(Entry {
            ordinal,
            id: id.into(),
            kind: request.kind,
            server,
            target: request.target,
            reason: reason.filter(|reason| !reason.is_empty()),
            interval: request.interval.min(LONGEST_INTERVAL),
            context: request.context.origin(CallOrigin::Watch),
            stop: stop.child_token(),
        });
        let page = Page::new(Arc::clone(&entry));
        book.watches.insert(ordinal, page);
        Ok(entry)
    }

    pub(super) fn describe(&self, entry: &Arc<Entry>) -> Watch {
        let book = lock(&self.book);
        match book.watches.get(&entry.ordinal) {
            Some(page) => page.describe(),
            None => Page::new(Arc::clone(entry)).describe(),
        }
    }

    /// All that have not ended.
    pub(super) fn all(&self) -> Vec<Watch> {
        let book = lock(&self.book);
        let pages = book.watches.values();
        pages
            .filter(|page| page.end.is_none())
            .map(Page::describe)
            .collect()
    }

    pub(super) fn remove(&self, id: &str) -> Option<Watch> {
        let mut book = lock(&self.book);
        let mut named = book.watches.iter();
        let (&ordinal, _) = named.find(|(_, page)| page.entry.id.as_str() == id)?;
        let page = book.watches.remove(&ordinal)?;
        book.queue.retain(|queued| *queued != ordinal);
        page.entry.stop.cancel();
        Some(page.describe())
    }

    /// How the watch is kept up to date from now on.
    pub(super) fn set_means(&self, entry: &Entry, means: WatchKind, note: Option<Arc<str>>) {
        if let Some(page) = lock(&self.book).watches.get_mut(&entry.ordinal) {
            page.means = means;
            page.note = note;
        }
    }

    /// This is what is there now. The first is what others are compared with.
    pub(super) fn saw(&self, entry: &Entry, content: Content) {
        self.change(entry, |page| page.saw(content));
    }

    /// This is how the watch fares now.
    pub(super) fn fares(&self, entry: &Entry, condition: Condition, summary: &str) {
        self.change(entry, |page| page.fares(condition, summary));
    }

    /// The watch is over, with a last word.
    pub(super) fn end(&self, entry: &Entry, summary: &str) {
        self.change(entry, |page| {
            page.end = Some(News::new(summary));
            true
        });
    }

    /// Changes what a watch has to tell. `change` says whether there is something new.
    fn change(&self, entry: &Entry, change: impl FnOnce(&mut Page) -> bool) {
        let mut book = lock(&self.book);
        let Some(page) = book.watches.get_mut(&entry.ordinal) else {
            return;
        };
        if !change(page) {
            return;
        }
        if !std::mem::replace(&mut page.is_queued, true) {
            book.queue.push_back(entry.ordinal);
        }
        drop(book);
        self.queued.notify_one();
        self.events.send(|| Event::WatchChanged {
            watch: entry.id.clone(),
            server: entry.server.clone(),
        });
    }

    /// The next thing to tell that is for whom it is to be, if there is one.
    pub(super) fn pop(&self, is_for: IsFor<'_>) -> Option<WatchEvent> {
        let (entry, telling) = self.take(is_for)?;
        let (change, difference, at) = match telling {
            // Compared where nobody waits for the lock.
            Telling::Change(change, told) => {
                let difference = change.describe(&told);
                let times = change.times;
                (WatchChange::Changed { times }, difference, change.at)
            }
            Telling::Condition(condition, news) => {
                let change = match condition {
                    Condition::Fine => WatchChange::Recovered,
                    Condition::Failed => WatchChange::Failed,
                    Condition::NotPermitted => WatchChange::NotPermitted,
                };
                (change, Difference::none(news.summary), news.at)
            }
            Telling::End(news) => (WatchChange::Ended, Difference::none(news.summary), news.at),
        };
        Some(WatchEvent {
            watch: entry.id.clone(),
            server: entry.server.clone(),
            target: entry.target.clone(),
            reason: entry.reason.clone(),
            change,
            summary: difference.summary,
            diff: difference.diff,
            at,
            principal: entry.context.principal.clone(),
        })
    }

    fn take(&self, is_for: IsFor<'_>) -> Option<(Arc<Entry>, Telling)> {
        let mut book = lock(&self.book);
        loop {
            let watches = &book.watches;
            let is_theirs = |ordinal: &u64| {
                let page = watches.get(ordinal);
                page.is_none_or(|page| is_for(&page.entry.context.principal))
            };
            let place = book.queue.iter().position(is_theirs)?;
            let ordinal = book.queue.remove(place)?;
            let Some(page) = book.watches.get_mut(&ordinal) else {
                continue;
            };
            let Some(telling) = page.tell() else {
                page.is_queued = false;
                continue;
            };
            let entry = Arc::clone(&page.entry);
            if matches!(telling, Telling::End(_)) {
                book.watches.remove(&ordinal);
            } else if page.has_more() {
                book.queue.push_front(ordinal);
            } else {
                page.is_queued = false;
            }
            return Some((entry, telling));
        }
    }

    /// Waits for something to tell.
    pub(super) async fn next(&self) -> WatchEvent {
        loop {
            let queued = self.queued.notified();
            if let Some(event) = self.pop(&|_| true) {
                // Whoever else waits may have something to take, too.
                self.queued.notify_one();
                return event;
            }
            queued.await;
        }
    }
}

impl Page {
    fn new(entry: Arc<Entry>) -> Self {
        Self {
            means: entry.kind,
            entry,
            note: None,
            is_queued: false,
            told: None,
            change: None,
            condition: Condition::Fine,
            told_condition: Condition::Fine,
            news: None,
            end: None,
        }
    }

    fn describe(&self) -> Watch {
        let entry = &self.entry;
        Watch {
            id: entry.id.clone(),
            kind: entry.kind,
            effective_kind: self.means,
            note: self.note.as_deref().map(str::to_owned),
            has_baseline: self.told.is_some(),
            server: entry.server.clone(),
            target: entry.target.clone(),
            interval: entry.interval,
            reason: entry.reason.clone(),
            principal: entry.context.principal.clone(),
        }
    }

    fn saw(&mut self, content: Content) -> bool {
        let last = self.change.as_ref().map(|change| &change.now);
        match last.or(self.told.as_ref()) {
            None => {
                self.told = Some(Arc::new(content));
                false
            }
            Some(last) if **last == content => false,
            Some(_) => {
                let times = self.change.as_ref().map_or(0, |change| change.times);
                self.change = Some(Change {
                    now: Arc::new(content),
                    times: times + 1,
                    at: SystemTime::now(),
                });
                true
            }
        }
    }

    fn fares(&mut self, condition: Condition, summary: &str) -> bool {
        if self.condition == condition {
            return false;
        }
        self.condition = condition;
        // What nobody heard of and is over is not worth telling.
        let is_news = condition != self.told_condition;
        self.news = is_news.then(|| News::new(summary));
        is_news
    }

    fn has_more(&self) -> bool {
        self.change.is_some() || self.news.is_some() || self.end.is_some()
    }

    /// Takes what happened first.
    fn tell(&mut self) -> Option<Telling> {
        let changed_at = self.change.as_ref().map(|change| change.at);
        let news = self
            .news
            .take_if(|news| changed_at.is_none_or(|at| news.at <= at));
        if let Some(news) = news {
            self.told_condition = self.condition;
            return Some(Telling::Condition(self.condition, news));
        }
        if let Some(change) = self.change.take() {
            let told = self.told.replace(Arc::clone(&change.now))?;
            return Some(Telling::Change(change, told));
        }
        self.end.take().map(Telling::End)
    }
}

impl Change {
    fn describe(&self, told: &Content) -> Difference {
        let times = match self.times {
            1 => "changed".to_owned(),
            times => format!("changed {times} times"),
        };
        if *told == *self.now {
            return Difference::none(format!("{times}, and is as it was before"));
        }
        let Difference { summary, diff } = diff::between(told, &self.now);
        Difference {
            summary: format!("{times}: {summary}"),
            diff,
        }
    }
}

impl Difference {
    fn none(summary: String) -> Self {
        Self {
            summary,
            diff: None,
        }
    }
}

impl News {
    fn new(summary: &str) -> Self {
        Self {
            summary: field(summary, WHY_BYTES).into_owned(),
            at: SystemTime::now(),
        }
    }
}
