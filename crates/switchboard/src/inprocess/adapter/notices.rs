//! What a server says by itself: said again as notifications, each kind once however often it happened
//! meanwhile.
//!
//! Invariant: what is owed is bounded by what was subscribed to, and is paid when there is room.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::{broadcast, mpsc};

use super::message;
use crate::mcp::{ErrorObject, Json};
use crate::sync::lock;
use crate::transport::memory::ServerNotification;

/// How many resources may be subscribed to at a time.
const SUBSCRIPTIONS: usize = 1024;

pub(super) const TOOLS: &str = "notifications/tools/list_changed";
pub(super) const RESOURCES: &str = "notifications/resources/list_changed";
pub(super) const PROMPTS: &str = "notifications/prompts/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// Resources whose changes somebody wants to hear of.
#[derive(Default)]
pub(super) struct Subscriptions(Mutex<HashSet<Box<str>>>);

impl Subscriptions {
    pub(super) fn add(&self, uri: &str) -> Result<(), ErrorObject> {
        let mut all = lock(&self.0);
        if all.len() >= SUBSCRIPTIONS && !all.contains(uri) {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_REQUEST,
                format!(
                    "there are {SUBSCRIPTIONS} subscriptions, and there can be no more: unsubscribe from one"
                ),
            ));
        }
        all.insert(uri.into());
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        lock(&self.0).remove(uri);
    }

    pub(super) fn clear(&self) {
        lock(&self.0).clear();
    }

    fn contains(&self, uri: &str) -> bool {
        lock(&self.0).contains(uri)
    }

    fn all(&self) -> Vec<Arc<str>> {
        lock(&self.0).iter().map(|uri| (**uri).into()).collect()
    }
}

/// What is still to be said. Saying it once says it for all the times that it happened.
#[derive(Default)]
pub(super) struct Owed {
    changed: BTreeSet<&'static str>,
    updated: BTreeSet<Arc<str>>,
}

impl Owed {
    /// Something changed of which only the kind is said. False if this is not such a message.
    pub(super) fn note_change(&mut self, method: &str) -> bool {
        let known = [TOOLS, RESOURCES, PROMPTS].into_iter();
        let found = known.into_iter().find(|known| *known == method);
        self.changed.extend(found);
        found.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.updated.is_empty()
    }

    pub(super) fn pay(&mut self) -> Option<Json> {
        if let Some(method) = self.changed.pop_first() {
            return Some(message::notification(method, None));
        }
        let uri = self.updated.pop_first()?;
        Some(message::notification(UPDATED, Some(json!({"uri": *uri}))))
    }

    fn note(&mut self, notice: ServerNotification, wanted: &Subscriptions) {
        match notice {
            ServerNotification::ToolsChanged => {
                self.changed.insert(TOOLS);
            }
            ServerNotification::ResourcesChanged => {
                self.changed.insert(RESOURCES);
            }
            ServerNotification::PromptsChanged => {
                self.changed.insert(PROMPTS);
            }
            ServerNotification::ResourceUpdated(uri) if wanted.contains(&uri) => {
                self.updated.insert(uri);
            }
            ServerNotification::ResourceUpdated(_) => {}
        }
    }

    /// So much happened that some of it was missed: anything may have changed.
    fn note_everything(&mut self, wanted: &Subscriptions) {
        self.changed.extend([TOOLS, RESOURCES, PROMPTS]);
        self.updated.extend(wanted.all());
    }
}

/// Passes on what a server says by itself, until either side is gone.
pub(super) async fn pass_on(
    mut heard: broadcast::Receiver<ServerNotification>,
    wanted: Arc<Subscriptions>,
    to: mpsc::Sender<Json>,
) {
    let mut owed = Owed::default();
    loop {
        tokio::select! {
            biased;
            notice = heard.recv() => match notice {
                Ok(notice) => owed.note(notice, &wanted),
                Err(broadcast::error::RecvError::Lagged(_)) => owed.note_everything(&wanted),
                Err(broadcast::error::RecvError::Closed) => break,
            },
            permit = to.reserve(), if !owed.is_empty() => {
                let Ok(permit) = permit else { return };
                if let Some(message) = owed.pay() {
                    permit.send(message);
                }
            }
            () = to.closed() => return,
        }
    }
    while let Some(message) = owed.pay() {
        if to.send(message).await.is_err() {
            return;
        }
    }
}
