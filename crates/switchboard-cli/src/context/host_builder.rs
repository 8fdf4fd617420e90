//! The hosts of a run: with all that they may know of its surroundings.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard::content::DirectorySpill;
use switchboard::{Deadlines, Host, HostBuilder, Limits, Root};
use switchboard_config::{HostConfig, ServerEntry, Settings};

use super::{Context, LoadedServers};
use crate::browser::{self, Browser};
use crate::elicit::ElicitPrompt;
use crate::engine_settings;
use crate::interaction::CliInteraction;
use crate::logging;
use crate::network;
use crate::permission_prompt::PermissionPrompt;

/// One listener, which looks at the state of things whenever it missed something. Room for events is
/// made at the start, and more of it takes longer.
const EVENT_BACKLOG: usize = 128;

/// Roughly what a model's token is in text.
const BYTES_PER_TOKEN: usize = 4;

/// Results that were kept are forgotten after this time,
const RESULT_MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// and beyond this many bytes of them the oldest.
const RESULTS_MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Longer than any call, in milliseconds.
const NO_IDLE_TIMEOUT_MS: u64 = 366 * 24 * 60 * 60 * 1000;

impl Context {
    /// A host of these entries that does one thing and leaves.
    pub(crate) fn one_shot_host(
        &self,
        servers: &LoadedServers,
        entries: Vec<ServerEntry>,
    ) -> HostBuilder {
        self.long_running_host(servers, entries).one_shot()
    }

    /// A host of these entries that stays, and in which servers come back.
    pub(crate) fn long_running_host(
        &self,
        servers: &LoadedServers,
        entries: Vec<ServerEntry>,
    ) -> HostBuilder {
        let config = HostConfig { servers: entries };
        let profile = servers.trust.profile();
        let mut host = self.host(servers);
        if config.servers.iter().any(is_remote) {
            let (network, told) = network::from_variables(&self.variables);
            for what in told {
                self.console.warn(&what, None);
            }
            host = host.network(network);
        }
        host.interaction(self.interaction(&config.servers, None))
            .config(config, &servers.trust)
            .profile(profile)
    }

    /// A host with all that it may know of its surroundings and was told by flags, without servers.
    fn host(&self, servers: &LoadedServers) -> HostBuilder {
        self.cleanup_started.call_once(|| self.remove_old_results());
        self.host_without_config()
            .deadlines(self.deadlines(&servers.settings))
            .limits(self.limits(&servers.settings))
            .memory(self.server_cache())
            .spill(self.result_store())
            .rules(self.rules(servers))
    }

    /// A host that nobody told anything.
    pub(crate) fn host_without_config(&self) -> HostBuilder {
        let host = Host::builder()
            .environment(self.variables.clone())
            .directory(&self.directory);
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

    /// As [`Self::one_shot_host`], with somebody to ask whether calls may be made.
    pub(crate) fn one_shot_host_with_prompt(
        &self,
        servers: &LoadedServers,
        entries: Vec<ServerEntry>,
        ask: PermissionPrompt,
    ) -> HostBuilder {
        let interaction = self.interaction(&entries, Some(ask));
        self.one_shot_host(servers, entries)
            .interaction(interaction)
    }

    /// Who answers the questions of these servers.
    pub(crate) fn interaction(
        &self,
        entries: &[ServerEntry],
        ask: Option<PermissionPrompt>,
    ) -> CliInteraction {
        let browser = self.program(browser::PROGRAM, None);
        let browser = browser.map(|program| Browser {
            program,
            subreaper: self.process_guard.subreaper(),
        });
        let places = self.places();
        CliInteraction {
            ask,
            elicit: ElicitPrompt::new(&self.console, browser),
            roots: places
                .project()
                .and_then(Root::folder)
                .into_iter()
                .collect(),
            local_servers: entries
                .iter()
                .filter(|entry| !is_remote(entry))
                .map(|entry| entry.name().clone())
                .collect(),
        }
    }

    pub(super) fn result_store(&self) -> DirectorySpill {
        DirectorySpill::new(self.results())
    }

    /// Begins to remove results that were kept for long enough. Nothing waits for it: what it does not
    /// come to, the next run does.
    fn remove_old_results(&self) {
        let folder = self.results();
        if !folder.is_dir() {
            return;
        }
        drop(tokio::task::spawn_blocking(
            move || match DirectorySpill::new(folder).tidy(RESULT_MAX_AGE, RESULTS_MAX_BYTES) {
                Ok(0) => {}
                Ok(files) => tracing::debug!(files, "removed results that were kept"),
                Err(error) => tracing::debug!(%error, "cannot remove results that were kept"),
            },
        ));
    }

    fn results(&self) -> PathBuf {
        self.cache.join("results")
    }

    fn deadlines(&self, settings: &Settings) -> Deadlines {
        let startup = self.number("MCP_TIMEOUT");
        let call = self.number(engine_settings::CALL_TIMEOUT_VAR);
        engine_settings::deadlines(settings, |key| match key {
            "startup" => startup,
            "call" => call,
            // Whoever names a limit means it: silence alone is not held against the server then.
            "idle" => call.and(Some(NO_IDLE_TIMEOUT_MS)),
            _ => None,
        })
    }

    fn limits(&self, settings: &Settings) -> Limits {
        let mut defaults = Limits::default();
        defaults.event_backlog = EVENT_BACKLOG;
        // A person reads what they asked for, and pages through it themselves.
        let longest = u64::try_from(defaults.message_bytes).unwrap_or(u64::MAX);
        let longest = settings.bound("messageBytes", None, longest);
        defaults.result_text_bytes = usize::try_from(longest).unwrap_or(usize::MAX);
        let tokens = self.number("MAX_MCP_OUTPUT_TOKENS");
        let tokens = tokens.and_then(|tokens| usize::try_from(tokens).ok());
        let typed = tokens.map(|tokens| tokens.saturating_mul(BYTES_PER_TOKEN));
        engine_settings::limits(settings, defaults, typed)
    }

    /// A whole number above 0 from the environment; anything else is warned about.
    fn number(&self, name: &str) -> Option<u64> {
        let text = self.variables.get(name).filter(|text| !text.is_empty())?;
        let number = text.trim().parse().ok().filter(|number| *number > 0);
        if number.is_none() {
            self.console.note(&format!(
                "warning: {name}={text:?} is ignored: it is not a whole number above 0"
            ));
        }
        number
    }
}

/// Whether a server is somewhere else, as far as its entry can be read.
fn is_remote(entry: &ServerEntry) -> bool {
    let kind = entry.kind_name();
    kind.is_some_and(|kind| !matches!(kind, "stdio" | "sdk"))
}
