//! Applies a new config to a running host.
//!
//! Invariants: readers see either the servers of the old config or those of the new config, never a
//! mix. A server that the new config would launch in the same way keeps running. Servers that the
//! program added are not affected.

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

/// The changes that [`Host::apply_config`] made. The names in each list are in the order of the
/// config. In `removed`, the servers that are no longer in the config come first, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReloadResult {
    /// The names of new and changed servers. Each of these servers is starting, unless its entry is
    /// lazy, disabled or unusable, or its name is also in `awaiting_approval`, `rejected` or
    /// `invalid`.
    pub added: Vec<String>,
    /// The names of removed and changed servers. The processes of these servers have exited. If a
    /// server was still connecting, its process has been killed, but may not have exited yet.
    pub removed: Vec<String>,
    /// The names of servers that keep running, and of entries that were not launched before and are
    /// not launched now.
    pub kept: Vec<String>,
    /// Servers that wait for the user's approval, each with a hint how to approve it.
    #[serde(rename = "waiting")]
    pub awaiting_approval: BTreeMap<String, String>,
    /// Servers that the user or the administrator does not allow, each with the reason.
    #[serde(rename = "refused")]
    pub rejected: BTreeMap<String, String>,
    /// Entries that are not valid, each with the reason.
    pub invalid: BTreeMap<String, String>,
    /// Entries that were skipped, each with the reason: another server has the same name, or the
    /// host is shutting down.
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
    /// Replaces the servers of config files with the servers of `config`. An entry that `trust`
    /// does not approve is not started.
    ///
    /// A server that would be launched in the same way keeps its process, its session, its tools
    /// and its calls in flight. Every other server from a config file is stopped. If `config` has
    /// an entry of the same name, the new server starts when the old one has stopped, and calls
    /// wait for the new server. If an entry was approved before and no longer is, its server is
    /// stopped. If it is approved only now, its server is started. Servers that the program added
    /// are not affected.
    ///
    /// Returns when the old servers have stopped, without waiting until the new servers are
    /// connected; see [`Host::wait_for`]. All servers change at once. Dropping the future while it
    /// waits for the old servers does not undo the change.
    ///
    /// A [`ReloadThread`](switchboard_config::ReloadThread) polls the config files, so that the
    /// host can apply each change:
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
    /// Applies the config without waiting. Returns the changes, and the servers that are stopping.
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

    /// Starts, replaces and stops servers as `plan` says. Returns the servers that are stopping.
    fn replace_servers(
        &self,
        configured: &mut ConfiguredServers,
        plan: ReloadPlan,
    ) -> Vec<Arc<ServerHandle>> {
        let mut servers = ServerHandles::clone(&self.state.servers());
        let mut stopping = Vec::new();
        for name in &plan.remove {
            configured.from_files.remove(name);
            stopping.extend(servers.get(name).cloned());
            servers.remove_mut(name);
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
            servers.insert_mut(name, server);
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

    /// Returns the server that has to be added for `change`, or `None` if `current` stays or the
    /// name is taken. For [`EntryAction::Keep`], updates the description of `current`.
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
