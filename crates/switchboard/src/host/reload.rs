//! A new config for a host that is running.
//!
//! Invariants: whoever looks sees the servers of the old config or those of the new one; a server whose
//! launch did not change does not notice; what was set in code is not touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use switchboard_config::{HostConfig, LaunchDecision, Trust};

use super::reconcile::{self, Change, Filed, Reload, Step};
use super::site::{self, Plot};
use super::{Handles, Host, ServerError, Servers, Shared};
use crate::event::Event;
use crate::id::ServerName;
use crate::server::ServerHandle;
use crate::sync::lock;

/// What [`Host::apply_config`] changed. Names stand in the order of the config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReloadResult {
    /// Servers that are new or changed. They are starting, unless they are in `awaiting_approval`, `rejected` or
    /// `invalid`.
    pub added: Vec<String>,
    /// Servers that are gone or changed. Nothing of them runs any more.
    pub removed: Vec<String>,
    /// Servers that are as they were.
    pub kept: Vec<String>,
    /// Servers without consent, and what to do about it.
    #[serde(rename = "waiting")]
    pub awaiting_approval: BTreeMap<String, String>,
    /// Servers that the user or the administrator does not want, and why.
    #[serde(rename = "refused")]
    pub rejected: BTreeMap<String, String>,
    /// Entries that cannot be used, and why.
    pub invalid: BTreeMap<String, String>,
    /// Entries that were left out, and why: their names belong to servers that were set in code.
    pub errors: BTreeMap<String, String>,
}

impl ReloadResult {
    /// Whether any server came or went.
    pub fn has_changes(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty())
    }

    fn take_note(
        &mut self,
        Change {
            entry,
            admission,
            step,
        }: &Change,
    ) {
        let name = entry.name().to_string();
        match step {
            Step::Add => self.added.push(name.clone()),
            Step::Keep | Step::Renew => self.kept.push(name.clone()),
            Step::Replace => {
                self.removed.push(name.clone());
                self.added.push(name.clone());
            }
            Step::Refuse => {
                let taken = ServerError::NameTaken(entry.name().clone());
                self.errors.insert(name, taken.to_string());
                return;
            }
        }
        match admission {
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
    /// Makes the servers that come from files be those of `config`, as far as `trust` covers them.
    ///
    /// A server that would be started in the same way as before keeps its process, its session and
    /// its tools, and calls to it go on. Every other is ended; its successor of the same name starts
    /// when it is gone, and calls wait for that. Consent that was lost ends a server, consent that was
    /// gained starts it. Servers that were set in code are not touched.
    ///
    /// Comes back when nothing of the old servers runs any more, without waiting for the new ones; see
    /// [`Host::wait_for`]. The change itself is made in one step, whatever becomes of this future.
    ///
    /// With a [`ReloadThread`](switchboard_config::ReloadThread) the files may change while the host runs:
    ///
    /// ```no_run
    /// # use switchboard::Host;
    /// # use switchboard_config::{ConfigSnapshot, ConfigSources, PolledFiles, Trust, ReloadThread};
    /// # async fn follow(host: Host, sources: Sources, trust: Trust) -> std::io::Result<()> {
    /// let (tell, mut latest) = tokio::sync::watch::channel(ConfigSnapshot::default());
    /// let environment = |name: &str| std::env::var(name).ok();
    /// let targets = move || PolledFiles::from(sources.clone());
    /// let _watcher = ReloadThread::spawn(targets, environment, move |reading| drop(tell.send(reading)))?;
    /// while latest.changed().await.is_ok() {
    ///     let config = latest.borrow_and_update().loaded.config.clone();
    ///     host.apply_config(config, &trust).await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn apply_config(&self, config: HostConfig, trust: &Trust) -> ReloadResult {
        let _changing = self.shared.changing.lock().await;
        let (applied, leaving) = self.shared.change_over(config, trust);
        for server in leaving {
            server.stopped().await;
        }
        applied
    }
}

impl Shared {
    /// Changes over to a config, and says what was changed and which servers are on their way out.
    fn change_over(
        &self,
        config: HostConfig,
        trust: &Trust,
    ) -> (ReloadResult, Vec<Arc<ServerHandle>>) {
        let mut applied = ReloadResult::default();
        let servers = &mut *lock(&self.servers);
        if self.is_stopping() {
            let names = config.servers.iter().map(|entry| entry.name().to_string());
            let refused = names.map(|name| (name, ServerError::ShuttingDown.to_string()));
            applied.errors.extend(refused);
            return (applied, Vec::new());
        }
        let order = self.catalog.order();
        let reload = reconcile::reload(&servers.filed, &order, config.servers, trust);
        applied.removed = reload.remove.iter().map(ServerName::to_string).collect();
        for change in &reload.changes {
            applied.take_note(change);
        }
        let leaving = self.carry_out(servers, reload);
        if applied.has_changes() {
            let (added, removed) = (applied.added.clone(), applied.removed.clone());
            tracing::info!(?added, ?removed, "another config");
            self.events.send(|| Event::ConfigApplied { added, removed });
        }
        (applied, leaving)
    }

    fn carry_out(&self, servers: &mut Servers, reload: Reload) -> Vec<Arc<ServerHandle>> {
        let mut handles = Handles::clone(&self.handles.load());
        let mut leaving = Vec::new();
        for name in &reload.remove {
            servers.filed.remove(name);
            leaving.extend(handles.remove(name));
        }
        let gone: Vec<_> = leaving
            .iter()
            .map(|server| server.profile().stand())
            .collect();
        let mut plots = Vec::new();
        for change in reload.changes {
            let name = change.entry.name().clone();
            let current = handles.get(&name);
            if let Some(plot) = self.plot_of(servers, &change, current) {
                leaving.extend(current.cloned());
                plots.push((name.clone(), plot));
            }
            if change.step != Step::Refuse {
                servers.filed.insert(name, Filed::from(change.admission));
            }
        }
        let new: Vec<_> = plots.iter().map(|(_, plot)| plot.stand()).collect();
        self.catalog.prepare(&gone, &new, reload.order);
        for (name, plot) in plots {
            let server = plot.spawn(self);
            self.tell(&server);
            handles.insert(name, server);
        }
        self.handles.store(Arc::new(handles));
        self.catalog.publish_prepared();
        for server in &leaving {
            server.stop();
        }
        leaving
    }

    /// Tells how a server begins.
    fn tell(&self, server: &ServerHandle) {
        self.events.send(|| {
            let state = server.state();
            Event::ServerChanged {
                server: server.profile().name.clone(),
                status: state.status(),
                detail: state.error().or_else(|| state.detail()),
            }
        });
    }

    /// The server that has to be started for a change, if one has to be.
    fn plot_of(
        &self,
        servers: &mut Servers,
        change: &Change,
        current: Option<&Arc<ServerHandle>>,
    ) -> Option<Plot> {
        let Change {
            entry,
            admission,
            step,
        } = change;
        let mut plot = || self.sites.entry(entry, admission, servers.next_place());
        match (step, current) {
            (Step::Refuse, _) => None,
            (Step::Keep, Some(current)) => {
                current.describe(site::described(entry));
                None
            }
            (Step::Renew, Some(current)) => {
                Some(plot()).filter(|plot| !plot.shows_the_same(current))
            }
            (_, Some(current)) => Some(plot().after(current)),
            (_, None) => Some(plot()),
        }
    }
}
