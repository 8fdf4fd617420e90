//! Derives the parts of a connection from the options: in-process servers, permissions and hooks.

use switchboard::in_process::ServerInstance;

use super::Options;
use crate::hooks::Hooks;
use crate::permission::Permissions;

impl Options {
    /// The in-process servers with their names.
    pub(crate) fn in_process_servers(&self) -> Vec<(String, ServerInstance)> {
        let servers = self.servers.iter();
        servers
            .filter_map(|(name, config)| Some((name.clone(), config.instance()?.clone())))
            .collect()
    }

    /// The names of the in-process servers whose tools are always loaded.
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

    /// Whether the CLI should send `can_use_tool` requests.
    pub(crate) fn answers_permissions(&self) -> bool {
        self.can_use_tool.is_some() || self.interaction.is_some() || !self.rules.is_empty()
    }

    /// The hooks of the user. If there are rules, adds a hook that applies them to every tool use.
    pub(crate) fn hooks_with_rules(&self) -> Hooks {
        let hooks = self.hooks.clone();
        if self.rules.is_empty() {
            hooks
        } else {
            hooks.with_rules(self.permissions())
        }
    }
}
