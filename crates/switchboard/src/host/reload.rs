//! Applies a new config to a running host.
//!
//! Invariants: readers see either the servers of the old config or those of the new one, never a
//! mix; a server whose launch did not change keeps running; servers that the program added are not
//! affected.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use switchboard_config::{HostConfig, LaunchDecision, Trust};

use super::reconcile::{EntryAction, EntryChange, FileEntry, ReloadPlan, plan_reload};
use super::server_spec::{ServerSpec, describe_entry};
use super::servers::ConfiguredServers;
use super::{Host, HostInner, ServerError};
use crate::event::Event;
use crate::host_state::ServerHandles;
use crate::id::ServerName;
use crate::server::ServerHandle;

/// The changes that [`Host::apply_config`] made. Names are in the order of the config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReloadResult {
    /// New and changed servers. They are starting, unless they are also in `awaiting_approval`,
    /// `rejected` or `invalid`.
    pub added: Vec<String>,
    /// Removed and changed servers. Their processes have exited.
    pub removed: Vec<String>,
    /// Unchanged servers.
    pub kept: Vec<String>,
    /// Servers that the user has not approved, each with what to do about it.
    #[serde(rename = "waiting")]
    pub awaiting_approval: BTreeMap<String, String>,
    /// Servers that the user or the administrator rejected, each with the reason.
    #[serde(rename = "refused")]
    pub rejected: BTreeMap<String, String>,
    /// Invalid entries, each with the reason.
    pub invalid: BTreeMap<String, String>,
    /// Entries that were skipped, because a server that the program added has the name.
    pub errors: BTreeMap<String, String>,
}

impl ReloadResult {
    /// Whether any server was added or removed.
    pub fn has_changes(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty())
    }

    fn record(&mut self, change: &EntryChange) {
        let name = change.entry.name().to_string();
        match change.action {
            EntryAction::Add => self.added.push(name.clone()),
            EntryAction::Keep | EntryAction::UpdateReason => self.kept.push(name.clone()),
            EntryAction::Replace => {
                self.removed.push(name.clone());
                self.added.push(name.clone());
            }
            EntryAction::NameTaken => {
                let taken = ServerError::NameTaken(change.entry.name().clone());
                self.errors.insert(name, taken.to_string());
                return;
            }
        }
        match &change.decision {
            LaunchDecision::Launch(_) => {}
            LaunchDecision::AwaitingApproval { hint, .. } => {
                self.awaiting_approval.insert(name, hint.clone());
            }
            LaunchDecision::Refused(refusal) => {
                self.rejected.insert(name, refusal.to_string());
            }
            LaunchDecision::Invalid(problem) => {
                self.invalid.insert(name, problem.message.clone());
            }
        }
    }
}

impl Host {
    /// Replaces the servers of config files with those of `config`. Entries that `trust` does not
    /// cover are not started.
    ///
    /// A server that would be launched in the same way keeps its process, its session, its tools
    /// and its calls in flight. Every other server is stopped. A server that replaces another one
    /// of the same name starts when the old one has stopped, and calls wait for it. An entry that
    /// lost its approval is stopped, an entry that gained it is started. Servers that the program
    /// added are not affected.
    ///
    /// Returns when the old servers have stopped, without waiting for the new ones; see
    /// [`Host::wait_for`]. The change is atomic. Dropping the future while it waits for the old
    /// servers does not undo the change.
    ///
    /// With a [`ReloadThread`](switchboard_config::ReloadThread) the host follows changes of the
    /// files:
    ///
    /// ```no_run
    /// # use switchboard::Host;
    /// # use switchboard::config::{ConfigSnapshot, ConfigSources, PolledFiles, Trust, ReloadThread};
    /// # async fn follow(host: Host, sources: ConfigSources, trust: Trust) -> std::io::Result<()> {
    /// let (sender, mut latest) = tokio::sync::watch::channel(ConfigSnapshot::default());
    /// let environment = |name: &str| std::env::var(name).ok();
    /// let files = move || PolledFiles::from(sources.clone());
    /// let _thread = ReloadThread::spawn(files, environment, move |config| drop(sender.send(config)))?;
    /// while latest.changed().await.is_ok() {
    ///     let config = latest.borrow_and_update().loaded.config.clone();
    ///     host.apply_config(config, &trust).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply_config(&self, config: HostConfig, trust: &Trust) -> ReloadResult {
        let _changing = self.state().config_lock.lock().await;
        let (result, stopping) = self.inner.apply_config(config, trust);
        for server in stopping {
            server.wait_until_stopped().await;
        }
        result
    }
}

impl HostInner {
    /// Applies the config, and returns the changes and the servers that are stopping.
    fn apply_config(
        &self,
        config: HostConfig,
        trust: &Trust,
    ) -> (ReloadResult, Vec<Arc<ServerHandle>>) {
        let mut result = ReloadResult::default();
        let configured = &mut *self.lock_configured();
        if self.state.is_stopping() {
            let names = config.servers.iter().map(|entry| entry.name().to_string());
            let errors = names.map(|name| (name, ServerError::ShuttingDown.to_string()));
            result.errors.extend(errors);
            return (result, Vec::new());
        }
        let order = self.state.catalog.order();
        let plan = plan_reload(&configured.from_files, &order, config.servers, trust);
        result.removed = plan.remove.iter().map(ServerName::to_string).collect();
        for change in &plan.changes {
            result.record(change);
        }
        let stopping = self.replace_servers(configured, plan);
        if result.has_changes() {
            let (added, removed) = (result.added.clone(), result.removed.clone());
            tracing::info!(?added, ?removed, "config changed");
            let events = &self.state.events;
            events.send(|| Event::ConfigApplied { added, removed });
        }
        (result, stopping)
    }

    /// Executes a plan, and returns the servers that are stopping.
    fn replace_servers(
        &self,
        configured: &mut ConfiguredServers,
        plan: ReloadPlan,
    ) -> Vec<Arc<ServerHandle>> {
        let mut servers = ServerHandles::clone(&self.state.servers());
        let mut stopping = Vec::new();
        for name in &plan.remove {
            configured.from_files.remove(name);
            stopping.extend(servers.remove(name));
        }
        let removed: Vec<_> = stopping
            .iter()
            .map(|server| server.settings().key())
            .collect();
        let mut specs = Vec::new();
        for change in plan.changes {
            let name = change.entry.name().clone();
            let current = servers.get(&name);
            if let Some(spec) = self.spec_for_change(configured, &change, current) {
                stopping.extend(current.cloned());
                specs.push((name.clone(), spec));
            }
            if change.action != EntryAction::NameTaken {
                let entry = FileEntry::from(change.decision);
                configured.from_files.insert(name, entry);
            }
        }
        let added: Vec<_> = specs.iter().map(|(_, spec)| spec.key()).collect();
        self.state.catalog.stage(&removed, &added, plan.order);
        for (name, spec) in specs {
            let server = spec.spawn(self);
            self.publish_initial_status(&server);
            servers.insert(name, server);
        }
        self.state.set_servers(servers);
        self.state.catalog.publish_staged();
        for server in &stopping {
            server.stop();
        }
        stopping
    }

    fn publish_initial_status(&self, server: &ServerHandle) {
        self.state.events.send(|| {
            let state = server.state();
            Event::ServerChanged {
                server: server.settings().name.clone(),
                status: state.status(),
                detail: state.error().or_else(|| state.detail()),
            }
        });
    }

    /// The server to start for a change, if any.
    fn spec_for_change(
        &self,
        configured: &mut ConfiguredServers,
        change: &EntryChange,
        current: Option<&Arc<ServerHandle>>,
    ) -> Option<ServerSpec> {
        let EntryChange {
            entry,
            decision,
            action,
        } = change;
        let mut spec = || self.spec_for_entry(entry, decision, configured.next_sequence());
        match (action, current) {
            (EntryAction::NameTaken, _) => None,
            (EntryAction::Keep, Some(current)) => {
                current.set_description(describe_entry(entry));
                None
            }
            (EntryAction::UpdateReason, Some(current)) => {
                Some(spec()).filter(|spec| !spec.has_same_status(current))
            }
            (_, Some(current)) => Some(spec().replacing(current)),
            (_, None) => Some(spec()),
        }
    }
}
