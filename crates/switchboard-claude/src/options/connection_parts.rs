//! Derives the parts of a connection from the options: in-process servers, permission rules and
//! hooks.

use switchboard::in_process::ServerInstance;

use super::Options;
use crate::hooks::Hooks;
use crate::permission::Permissions;

impl Options {
    /// The in-process servers of the options, with their names.
    pub(crate) fn in_process_servers(&self) -> Vec<(String, ServerInstance)> {
        let servers = self.servers.iter();
        servers
            .filter_map(|(name, config)| Some((name.clone(), config.instance()?.clone())))
            .collect()
    }

    /// The names of the in-process servers that are configured with
    /// [`McpServerConfig::always_load`](crate::McpServerConfig::always_load).
    pub(crate) fn always_loaded_servers(&self) -> impl Iterator<Item = String> {
        let servers = self.servers.iter();
        let always_loaded =
            servers.filter(|(_, config)| config.instance().is_some() && config.is_always_loaded());
        always_loaded.map(|(name, _)| name.clone())
    }

    pub(crate) fn permissions(&self) -> Permissions {
        Permissions::new(
            self.rules.iter().cloned(),
            self.can_use_tool.clone(),
            self.interaction.clone(),
            self.servers.iter().map(|(name, _)| name.clone()).collect(),
        )
    }

    /// Whether the options contain anything that can answer `can_use_tool` requests of the CLI.
    pub(crate) fn answers_permissions(&self) -> bool {
        self.can_use_tool.is_some() || self.interaction.is_some() || !self.rules.is_empty()
    }

    /// Returns the hooks of the options. If the options contain permission rules, adds a hook that
    /// checks every tool use against the rules.
    pub(crate) fn hooks_with_rules(&self) -> Hooks {
        let hooks = self.hooks.clone();
        if self.rules.is_empty() {
            hooks
        } else {
            hooks.with_rules(self.permissions())
        }
    }
}
