//! Consent: which entries may be started, and the proof that one may.
//!
//! A [`LaunchSpec`] is what the engine accepts. Invariant: one is made by [`ServerEntry::admit`] after
//! somebody consented to the entry and the administrator does not forbid it, or by the embedding
//! program's own call, and in no other way.

mod approvals;
mod approvals_file;
mod approved_content;
mod content_hash;
mod pinned_program;
mod program_digest;
mod review;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use crate::diagnostic::Origin;
use crate::masked_entry::WrittenEntry;
use crate::scope::Scope;
use crate::server::ServerConfig;
use crate::server_name::ServerName;
use crate::server_policy::{Ban, Profile, ServerPolicy};
use crate::validate::EntryProblem;

pub use approvals::{Approval, Approvals, Standing, Verdict};
pub use approvals_file::{ApprovalsError, ApprovalsFile};
pub use content_hash::ContentHash;
pub use pinned_program::{Broken, Seal};
pub use review::{Change, Shown};

pub(crate) use approved_content::Content;
pub(crate) use program_digest::Digests;

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
    /// What consent to it would be about; of valid entries of a project.
    content: Option<Content>,
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
            content: None,
        }
    }

    pub(crate) fn with_content(mut self, content: Option<Content>) -> Self {
        self.content = content;
        self
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
        self.switched_off.is_some() || self.is_off_by_entry()
    }

    /// Whether the entry itself says so.
    pub fn is_off_by_entry(&self) -> bool {
        self.config.as_ref().is_ok_and(|config| config.disabled)
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

    /// What a person is to be shown before they consent; of valid entries of a project.
    pub fn shown(&self) -> Option<&Shown> {
        Some(&self.content.as_ref()?.shown)
    }

    /// The same with nothing masked that stands in the project's file: what looks like a secret may be
    /// what runs. The values of the user's variables are no part of it. For eyes, not for keeping.
    pub fn shown_in_full(&self) -> Option<&Shown> {
        Some(&self.content.as_ref()?.in_full)
    }

    /// The hash of what consent to the entry would be about. `None`: it needs no consent, or its
    /// content cannot be told.
    pub fn content_hash(&self) -> Option<&ContentHash> {
        self.content.as_ref()?.hash.as_ref()
    }

    /// The root of the project that the entry comes with, without links.
    pub fn project(&self) -> Option<PathBuf> {
        let file = self.origin.file.as_ref();
        let root = file.filter(|_| self.scope == Scope::Project)?.parent()?;
        let root = if root.as_os_str().is_empty() {
            Path::new(".")
        } else {
            root
        };
        fs::canonicalize(root).ok()
    }

    /// Decides whether the server may be started.
    pub fn admit(&self, trust: &Trust) -> Admission {
        let config = match &self.config {
            Ok(config) => config,
            Err(problem) => return Admission::Invalid(problem.clone()),
        };
        // The administrator's word comes first: what they forbid nobody needs to be asked about.
        if let Err(ban) = trust.policy.check(&self.name, self.scope, config) {
            return Admission::Refused(Refusal::ByPolicy(ban));
        }
        match trust.consent_to(self) {
            Ok(consent) => Admission::Launch(LaunchSpec {
                name: self.name.clone(),
                config: ServerConfig {
                    disabled: self.is_disabled(),
                    ..config.clone()
                },
                switched_off: self.switched_off.clone(),
                scope: self.scope,
                origin: self.origin.clone(),
                written: self.written.clone(),
                seal: match (&self.content, consent) {
                    (Some(content), Consent::Approved) => content.seal.clone(),
                    _ => None,
                },
                consent,
            }),
            Err(Withheld::Waiting(waiting)) => Admission::AwaitingApproval {
                waiting,
                hint: self.how_to_approve(),
            },
            Err(Withheld::Rejected) => Admission::Refused(Refusal::ByUser {
                hint: format!("to be asked again: {}", self.how_to_approve()),
            }),
        }
    }

    /// The command to type.
    fn how_to_approve(&self) -> String {
        format!("switchboard trust {}", shell_word(self.name.as_str()))
    }
}

/// A name as one would type it into a shell.
fn shell_word(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    let word = if name.bytes().all(is_plain) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    };
    // A name that looks like a flag is not to be taken for one.
    if name.starts_with('-') {
        format!("-- {word}")
    } else {
        word
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
        /// What there is to be decided.
        waiting: Waiting,
        /// The command to type to approve it.
        hint: String,
    },
    /// Somebody said that it may not.
    Refused(Refusal),
    /// It cannot be started as it is written.
    Invalid(EntryProblem),
}

/// Why an entry waits for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nobody was asked yet.
    New,
    /// Something else of the same name was approved or rejected.
    Changed,
}

/// Who said that a server may not be started.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The user did, to exactly this entry.
    #[error("rejected by you")]
    ByUser {
        /// What to do about it.
        hint: String,
    },
    /// The administrator did.
    #[error("not allowed by the administrator: {0}")]
    ByPolicy(Ban),
}

impl Refusal {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::ByUser { hint } => hint.clone(),
            Self::ByPolicy(ban) => ban.hint().to_owned(),
        }
    }
}

/// What the user consented to, within what the administrator allows.
#[derive(Clone, Debug)]
pub struct Trust {
    project: ProjectTrust,
    approvals: Arc<Approvals>,
    policy: Arc<ServerPolicy>,
}

#[derive(Clone, Copy, Debug)]
enum ProjectTrust {
    AfterApproval,
    ForThisRun,
}

/// Why there is no consent.
enum Withheld {
    Waiting(Waiting),
    Rejected,
}

impl Trust {
    /// Nothing beyond what the user wrote: a project's entries wait for approval.
    pub fn none() -> Self {
        Self {
            project: ProjectTrust::AfterApproval,
            approvals: Arc::default(),
            policy: Arc::default(),
        }
    }

    /// The project's entries too, for this run, as `--trust-project` says. What the user rejected
    /// stays rejected.
    pub fn project_for_this_run() -> Self {
        Self {
            project: ProjectTrust::ForThisRun,
            ..Self::none()
        }
    }

    /// With what the user said about entries before.
    pub fn with_approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = Arc::new(approvals);
        self
    }

    /// Within what the administrator allows.
    pub fn with_policy(mut self, policy: ServerPolicy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// What the user said about entries before.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// What the administrator allows.
    pub fn policy(&self) -> &ServerPolicy {
        &self.policy
    }

    /// For whom the administrator lets hosts run.
    pub fn profile(&self) -> Profile {
        self.policy.profile
    }

    fn consent_to(&self, entry: &ServerEntry) -> Result<Consent, Withheld> {
        match entry.scope {
            Scope::CommandLine => Ok(Consent::CommandLine),
            Scope::Managed => Ok(Consent::Administrator),
            Scope::Local | Scope::User => Ok(Consent::UserFile),
            Scope::Dynamic => Ok(Consent::Embedder),
            Scope::Project => self.consent_to_project(entry),
            // Nothing is read of this scope yet, so nobody can have consented to it.
            Scope::ClaudeAi => Err(Withheld::Waiting(Waiting::New)),
        }
    }

    fn consent_to_project(&self, entry: &ServerEntry) -> Result<Consent, Withheld> {
        match (self.approvals.standing(entry), self.project) {
            (Standing::Rejected(_), _) => Err(Withheld::Rejected),
            (Standing::Approved(_), _) => Ok(Consent::Approved),
            (_, ProjectTrust::ForThisRun) => Ok(Consent::TrustProjectFlag),
            (Standing::Changed(_), _) => Err(Withheld::Waiting(Waiting::Changed)),
            (Standing::Unknown, _) => Err(Withheld::Waiting(Waiting::New)),
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
    /// The user was shown exactly this entry and approved it.
    Approved,
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
    seal: Option<Seal>,
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
            seal: None,
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

    /// What must still hold when the program is started, where the user approved a certain one.
    pub fn seal(&self) -> Option<&Seal> {
        self.seal.as_ref()
    }

    /// Whether both start the same server in the same way, wherever and however they are written.
    /// A server for which this holds need not be restarted on reload.
    pub fn same_launch(&self, other: &Self) -> bool {
        self.name == other.name && self.config == other.config
    }
}
