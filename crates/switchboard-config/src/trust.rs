//! Consent: which entries may be started, and the proof that one may.
//!
//! A [`LaunchSpec`] is what the engine accepts. Invariant: one is made by [`ServerEntry::admit`] after
//! somebody consented to the entry, or by the embedding program's own call, and in no other way.

use serde::Serialize;

use crate::diagnostic::Origin;
use crate::layer::Scope;
use crate::server::{ServerConfig, ServerName};
use crate::validate::EntryProblem;
use crate::written::WrittenEntry;

/// What to do about a project's entry that nobody approved.
const APPROVE: &str = "approve it for this run with --trust-project";

/// One configured server, valid or not, before anybody consented to it.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    name: ServerName,
    scope: Scope,
    origin: Origin,
    written: WrittenEntry,
    config: Result<ServerConfig, EntryProblem>,
    /// Where settings say that the server is not to be started.
    switched_off: Option<Origin>,
}

impl ServerEntry {
    pub(crate) fn new(
        name: ServerName,
        scope: Scope,
        origin: Origin,
        written: WrittenEntry,
        config: Result<ServerConfig, EntryProblem>,
    ) -> Self {
        Self {
            name,
            scope,
            origin,
            written,
            config,
            switched_off: None,
        }
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// Which layer the entry came from.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Where it was written.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The entry as written, with secrets masked.
    pub fn written(&self) -> &WrittenEntry {
        &self.written
    }

    /// What is wrong with it, if anything is.
    pub fn problem(&self) -> Option<&EntryProblem> {
        self.config.as_ref().err()
    }

    /// Whether the entry itself, or settings, say that the server is not to be started.
    pub fn is_disabled(&self) -> bool {
        self.switched_off.is_some() || self.config.as_ref().is_ok_and(|config| config.disabled)
    }

    /// Where settings say so, if they do.
    pub fn switched_off(&self) -> Option<&Origin> {
        self.switched_off.as_ref()
    }

    /// Takes note that settings say so.
    pub fn switch_off(&mut self, origin: Origin) {
        self.switched_off = Some(origin);
    }

    /// How the server is reached, as it is called on the wire; `None` when the entry is invalid.
    pub fn kind_name(&self) -> Option<&'static str> {
        let config = self.config.as_ref().ok()?;
        Some(config.transport.kind_name())
    }

    /// Decides whether the server may be started.
    pub fn admit(&self, trust: &Trust) -> Admission {
        let config = match &self.config {
            Ok(config) => config,
            Err(problem) => return Admission::Invalid(problem.clone()),
        };
        match trust.consent_for(self.scope) {
            Some(consent) => Admission::Launch(LaunchSpec {
                name: self.name.clone(),
                config: ServerConfig {
                    disabled: self.is_disabled(),
                    ..config.clone()
                },
                switched_off: self.switched_off.clone(),
                scope: self.scope,
                origin: self.origin.clone(),
                written: self.written.clone(),
                consent,
            }),
            None => Admission::AwaitingApproval {
                hint: APPROVE.to_owned(),
            },
        }
    }
}

/// Whether an entry may be started.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once per server and taken apart at once"
)]
pub enum Admission {
    /// It may, and this is what to start.
    Launch(LaunchSpec),
    /// Not before the user approved it.
    AwaitingApproval {
        /// What to do to approve it.
        hint: String,
    },
    /// It cannot be started as it is written.
    Invalid(EntryProblem),
}

/// What the user consented to.
#[derive(Clone, Debug)]
pub struct Trust {
    project: ProjectTrust,
}

#[derive(Clone, Copy, Debug)]
enum ProjectTrust {
    AfterApproval,
    ForThisRun,
}

impl Trust {
    /// Nothing beyond what the user wrote: a project's entries wait for approval.
    pub fn none() -> Self {
        Self {
            project: ProjectTrust::AfterApproval,
        }
    }

    /// The project's entries too, for this run, as `--trust-project` says.
    pub fn project_for_this_run() -> Self {
        Self {
            project: ProjectTrust::ForThisRun,
        }
    }

    fn consent_for(&self, scope: Scope) -> Option<Consent> {
        match (scope, self.project) {
            (Scope::CommandLine, _) => Some(Consent::CommandLine),
            (Scope::Managed, _) => Some(Consent::Administrator),
            (Scope::Local | Scope::User, _) => Some(Consent::UserFile),
            (Scope::Dynamic, _) => Some(Consent::Embedder),
            (Scope::Project, ProjectTrust::ForThisRun) => Some(Consent::TrustProjectFlag),
            // Nothing is read of the last scope yet, so nobody can have consented to it.
            (Scope::Project, ProjectTrust::AfterApproval) | (Scope::ClaudeAi, _) => None,
        }
    }
}

/// By what act somebody consented to start a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Consent {
    /// The administrator of the machine keeps the entry in the managed file.
    Administrator,
    /// The user named the source on the command line.
    CommandLine,
    /// The user keeps the entry in a file of their own.
    UserFile,
    /// The user said `--trust-project`, for this run.
    TrustProjectFlag,
    /// The embedding program asked for the server in code.
    Embedder,
}

/// A server that may be started: what was shown is what runs.
#[derive(Clone, Debug)]
pub struct LaunchSpec {
    name: ServerName,
    config: ServerConfig,
    scope: Scope,
    origin: Origin,
    written: WrittenEntry,
    consent: Consent,
    switched_off: Option<Origin>,
}

impl LaunchSpec {
    /// A server that the embedding program asks for; its call is the consent.
    ///
    /// ```
    /// use switchboard_config::{Consent, LaunchSpec, Scope, ServerConfig, ServerName};
    ///
    /// let name = ServerName::new("files")?;
    /// let spec = LaunchSpec::from_code(name, ServerConfig::stdio("files-server", ["--stdio"]));
    /// assert_eq!((spec.scope(), spec.consent()), (Scope::Dynamic, Consent::Embedder));
    /// # Ok::<(), switchboard_config::InvalidServerName>(())
    /// ```
    pub fn from_code(name: ServerName, config: ServerConfig) -> Self {
        Self {
            name,
            scope: Scope::Dynamic,
            origin: Origin::in_code(),
            written: WrittenEntry::from_config(&config),
            consent: Consent::Embedder,
            config,
            switched_off: None,
        }
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// What to start or connect to.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Which layer the entry came from.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Where the entry was written. For a project's entry, the folder of this file is the project root.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The entry as written, with secrets masked.
    pub fn written(&self) -> &WrittenEntry {
        &self.written
    }

    /// Where settings say that the server is not to be started, if they do.
    pub fn switched_off(&self) -> Option<&Origin> {
        self.switched_off.as_ref()
    }

    /// By what act somebody consented to it.
    pub fn consent(&self) -> Consent {
        self.consent
    }

    /// Whether both start the same server in the same way, wherever and however they are written.
    /// A server for which this holds need not be restarted on reload.
    pub fn same_launch(&self, other: &Self) -> bool {
        self.name == other.name && self.config == other.config
    }
}
