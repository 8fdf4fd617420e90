//! Proof that a server may be started, with everything needed to start it.

use std::path::Path;

use super::Consent;
use super::pinned_program::PinnedProgram;
use crate::diagnostic::SourcePos;
use crate::masked_entry::MaskedEntry;
use crate::scope::Scope;
use crate::server::{ServerConfig, TransportConfig};
use crate::server_name::ServerName;

/// A server that may be started. Its config is the one that the consent refers to.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    pub(super) name: ServerName,
    pub(super) config: ServerConfig,
    pub(super) scope: Scope,
    pub(super) origin: SourcePos,
    pub(super) masked_entry: MaskedEntry,
    pub(super) consent: Consent,
    pub(super) disabled_by: Option<SourcePos>,
    pub(super) enable_hint: Option<String>,
    pub(super) pinned_program: Option<PinnedProgram>,
}

impl LaunchSpec {
    /// A server requested by the embedding program. The call is the consent. The scope is
    /// [`Scope::ClaudeAi`] for a server of the claude.ai account, otherwise [`Scope::Dynamic`].
    ///
    /// ```
    /// use switchboard_config::{LaunchSpec, Scope, ServerConfig, ServerName, trust::Consent};
    ///
    /// let name = ServerName::new("files")?;
    /// let spec = LaunchSpec::trusted(name, ServerConfig::stdio("files-server", ["--stdio"]));
    /// assert_eq!((spec.scope(), spec.consent()), (Scope::Dynamic, Consent::Embedder));
    /// # Ok::<(), switchboard_config::InvalidServerName>(())
    /// ```
    pub fn trusted(name: ServerName, config: ServerConfig) -> Self {
        let scope = match config.transport {
            TransportConfig::ClaudeAiProxy { .. } => Scope::ClaudeAi,
            _ => Scope::Dynamic,
        };
        Self {
            name,
            scope,
            origin: SourcePos::defined_in_code(),
            masked_entry: MaskedEntry::from_server_config(&config),
            consent: Consent::Embedder,
            pinned_program: None,
            config,
            disabled_by: None,
            enable_hint: None,
        }
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// How to start or reach the server.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The scope the entry was loaded from.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The position of the entry in its file.
    pub fn origin(&self) -> &SourcePos {
        &self.origin
    }

    /// The directory of the project's `.mcp.json`, for an entry of a project. Relative if the file
    /// was given by a relative path.
    pub fn project_dir(&self) -> Option<&Path> {
        match self.scope {
            Scope::Project => self.origin.file.as_deref()?.parent(),
            _ => None,
        }
    }

    /// The entry as written, with secrets masked.
    pub fn masked_entry(&self) -> &MaskedEntry {
        &self.masked_entry
    }

    /// The position in the settings that disables the server.
    pub fn disabled_by(&self) -> Option<&SourcePos> {
        self.disabled_by.as_ref()
    }

    /// How to enable the server, if the settings disable it.
    pub fn enable_hint(&self) -> Option<&str> {
        self.enable_hint.as_deref()
    }

    /// The consent to start the server.
    pub fn consent(&self) -> Consent {
        self.consent
    }

    /// The approved program, which must be verified again right before it is started. `None` if the
    /// consent does not depend on the content of a program.
    pub fn pinned_program(&self) -> Option<&PinnedProgram> {
        self.pinned_program.as_ref()
    }

    /// Returns true if both specs start a server of the same name with the same config, regardless
    /// of the file they come from. A reload keeps such a server running, unless its project
    /// directory changed.
    pub fn is_same_launch(&self, other: &Self) -> bool {
        self.name == other.name && self.config == other.config
    }
}
