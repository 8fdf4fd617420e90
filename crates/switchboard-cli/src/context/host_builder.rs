//! Builds hosts from environment, flags and settings.
//!
//! Invariant: every host is attached to the process guard, so that its servers do not outlive this
//! process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard::content::DirectoryResultStore;
use switchboard::interaction::Root;
use switchboard::limits::{Deadlines, Limits};
use switchboard::{Host, HostBuilder};
use switchboard_config::{HostConfig, ServerEntry, Settings};

use super::{Context, LoadedServers};
use crate::browser::{self, Browser};
use crate::elicit::ElicitPrompt;
use crate::engine_settings;
use crate::interaction::CliInteraction;
use crate::logging;
use crate::network;
use crate::permission_prompt::PermissionPrompt;

/// Default capacity of the event channel, in events. Readers that lag behind reread the state. The
/// buffer is allocated when the host starts, so a larger capacity slows every command down.
const EVENT_BACKLOG: usize = 128;

/// Estimated number of bytes of text per model token.
const BYTES_PER_TOKEN: usize = 4;

/// Results in the result store that are older than this are removed.
const RESULT_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// If the stored results take more bytes than this in total, the oldest ones are removed.
const RESULTS_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Cached tool listings that were not confirmed for this long are removed.
const LISTING_MAX_AGE: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// If the cached tool listings take more bytes than this in total, the oldest ones are removed.
const LISTINGS_MAX_BYTES: u64 = 128 * 1024 * 1024;
/// The idle timeout that never expires in practice: one year, in milliseconds.
const NO_IDLE_TIMEOUT_MS: u64 = 366 * 24 * 60 * 60 * 1000;

impl Context {
    /// Builds a host for one operation. The host does not reconnect servers.
    pub(crate) fn one_shot_host(
        &self,
        servers: &LoadedServers,
        entries: Vec<ServerEntry>,
    ) -> HostBuilder {
        self.long_running_host(servers, entries).no_reconnect()
    }

    /// Builds a host that reconnects servers, for a command that keeps running.
    pub(crate) fn long_running_host(
        &self,
        servers: &LoadedServers,
        entries: Vec<ServerEntry>,
    ) -> HostBuilder {
        let config = HostConfig { servers: entries };
        let profile = servers.trust.profile();
        let mut host = self.configured_host(servers);
        if config.servers.iter().any(is_remote) {
            let (network, warnings) = network::from_variables(&self.variables);
            for warning in warnings {
                self.console.warn(&warning, None);
            }
            host = host.network(network);
        }
        host.interaction(self.interaction(&config.servers, None))
            .config(config, &servers.trust)
            .profile(profile)
    }

    /// Builds a host with settings, rules and caches, but without servers.
    fn configured_host(&self, servers: &LoadedServers) -> HostBuilder {
        self.cleanup_started.call_once(|| self.remove_old_files());
        self.host_without_config()
            .start_concurrency(engine_settings::start_concurrency(&servers.settings))
            .deadlines(self.deadlines(&servers.settings))
            .limits(self.limits(&servers.settings))
            .server_cache(self.server_cache())
            .result_store(self.result_store())
            .rules(self.rules(servers))
    }

    /// Builds a host without settings, rules or servers.
    pub(crate) fn host_without_config(&self) -> HostBuilder {
        let host = Host::builder()
            .environment(self.variables.clone())
            .working_directory(&self.directory);
        let host =
            match logging::server_log_level(self.flags.verbose, self.flags.log_file.as_deref()) {
                Some(level) => host.server_log_level(level),
                None => host,
            };
        let host = self.process_guard.attach(host);
        match &self.trace {
            Some(trace) => host.wire_tap(Arc::clone(trace) as _),
            None => host,
        }
    }

    /// Builds a host for one operation that asks for permission with this prompt.
    pub(crate) fn one_shot_host_with_prompt(
        &self,
        servers: &LoadedServers,
        entries: Vec<ServerEntry>,
        permission: PermissionPrompt,
    ) -> HostBuilder {
        let interaction = self.interaction(&entries, Some(permission));
        self.one_shot_host(servers, entries)
            .interaction(interaction)
    }

    /// Builds the [`CliInteraction`] that answers the requests of these servers. It answers
    /// permission questions only if a prompt is given.
    pub(crate) fn interaction(
        &self,
        entries: &[ServerEntry],
        permission: Option<PermissionPrompt>,
    ) -> CliInteraction {
        let browser = self.program(browser::URL_OPENER, None);
        let browser = browser.map(|program| Browser {
            program,
            subreaper: self.process_guard.subreaper(),
        });
        let paths = self.scope_paths();
        CliInteraction {
            permission,
            elicit: ElicitPrompt::new(&self.console, browser),
            roots: paths
                .project()
                .and_then(Root::from_path)
                .into_iter()
                .collect(),
            local_servers: entries
                .iter()
                .filter(|entry| !is_remote(entry))
                .map(|entry| entry.name().clone())
                .collect(),
        }
    }

    pub(super) fn result_store(&self) -> DirectoryResultStore {
        DirectoryResultStore::new(self.results_dir())
    }

    /// Removes old stored results and old cached listings in the background. The process does not
    /// wait for the removal before it exits; the next run removes the rest.
    fn remove_old_files(&self) {
        let (results, listings) = (self.results_dir(), self.server_cache());
        drop(tokio::task::spawn_blocking(move || {
            let results =
                DirectoryResultStore::new(results).prune(RESULT_MAX_AGE, RESULTS_MAX_BYTES);
            log_removed("stored results", &results);
            let listings = listings.prune(LISTING_MAX_AGE, LISTINGS_MAX_BYTES);
            log_removed("cached listings", &listings);
        }));
    }

    fn results_dir(&self) -> PathBuf {
        self.cache.join("results")
    }

    fn deadlines(&self, settings: &Settings) -> Deadlines {
        let startup = self.read_positive_integer("MCP_TIMEOUT");
        let call = self.read_positive_integer(engine_settings::CALL_TIMEOUT_VAR);
        engine_settings::deadlines(settings, |key| match key {
            "startup" => startup,
            "call" => call,
            // A call timeout from the environment turns the idle timeout off: a call without
            // progress may take the whole call timeout.
            "idle" => call.and(Some(NO_IDLE_TIMEOUT_MS)),
            _ => None,
        })
    }

    fn limits(&self, settings: &Settings) -> Limits {
        let mut defaults = Limits::default();
        defaults.event_backlog = EVENT_BACKLOG;
        // Raise the default limit on result text to the maximum message size, so that every result
        // is printed in full. A smaller limit only saves tokens of a model.
        let max_bytes = u64::try_from(defaults.message_bytes).unwrap_or(u64::MAX);
        let max_bytes = settings.limit("messageBytes", None, max_bytes);
        defaults.result_text_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let tokens = self.read_positive_integer("MAX_MCP_OUTPUT_TOKENS");
        let tokens = tokens.and_then(|tokens| usize::try_from(tokens).ok());
        let from_env = tokens.map(|tokens| tokens.saturating_mul(BYTES_PER_TOKEN));
        engine_settings::limits(settings, defaults, from_env)
    }

    /// Reads a positive integer from an environment variable. Warns about any other nonempty value.
    fn read_positive_integer(&self, name: &str) -> Option<u64> {
        let text = self.variables.get(name).filter(|text| !text.is_empty())?;
        let number = text.trim().parse().ok().filter(|number| *number > 0);
        if number.is_none() {
            self.console.note(&format!(
                "warning: ignoring {name}={text:?}: expected a positive integer"
            ));
        }
        number
    }
}

fn log_removed(what: &str, removed: &std::io::Result<usize>) {
    match removed {
        Ok(0) => {}
        Ok(files) => tracing::debug!(files, "removed old {what}"),
        Err(error) => tracing::debug!(%error, "cannot remove old {what}"),
    }
}

/// Whether the server is reached over the network. The server of an invalid entry counts as local.
fn is_remote(entry: &ServerEntry) -> bool {
    let kind = entry.kind_name();
    kind.is_some_and(|kind| !matches!(kind, "stdio" | "sdk"))
}
