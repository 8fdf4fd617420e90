//! Decides which configured servers may be started.
//!
//! The engine starts a server only from a [`LaunchSpec`]. Invariant: a `LaunchSpec` is created in
//! two ways only: by [`ServerEntry::decide_launch`], after the administrator's policy allowed the
//! entry and consent was found, or by [`LaunchSpec::trusted`], where the call of the embedding
//! program is the consent.

mod approvals;
mod approvals_file;
mod approved_content;
mod checked_file;
mod content_hash;
mod entry;
mod launch_spec;
mod pinned_program;
mod program_digest;
mod review;

use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use crate::scope::Scope;
use crate::server::ServerConfig;
use crate::server_policy::{PolicyViolation, Profile, ServerPolicy};
use crate::text::quote_for_shell;
use crate::validate::EntryError;

pub use approvals::{ApprovalRecord, ApprovalState, Approvals, Verdict};
pub use approvals_file::{ApprovalsError, ApprovalsFile};
pub use content_hash::ContentHash;
pub use entry::ServerEntry;
pub use launch_spec::LaunchSpec;
pub use pinned_program::{PinnedProgram, ProgramChanged, VerifiedProgram};
pub use review::{ReviewChange, ReviewFields};

pub(crate) use approved_content::ApprovedContent;
pub(crate) use program_digest::DigestCache;

/// Whether an entry may be started.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "created once per server and matched immediately"
)]
pub enum LaunchDecision {
    /// The server may be started.
    Launch(LaunchSpec),
    /// The user has to approve the entry first.
    AwaitingApproval {
        /// Why approval is needed.
        reason: PendingReason,
        /// The command that approves the entry.
        hint: String,
    },
    /// The user or the administrator forbids the server.
    Refused(LaunchRefusal),
    /// The entry has errors.
    Invalid(EntryError),
}

/// Why an entry waits for approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// The user has not decided about this server yet.
    New,
    /// The entry or its program changed since the user decided.
    Changed,
}

/// Who forbids a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LaunchRefusal {
    /// The user rejected exactly this entry.
    #[error("you rejected it")]
    ByUser {
        /// How to review the entry again.
        hint: String,
    },
    /// The administrator's policy forbids it.
    #[error("not allowed by the administrator: {0}")]
    ByPolicy(PolicyViolation),
}

impl LaunchRefusal {
    /// A command or action to try.
    pub fn hint(&self) -> String {
        match self {
            Self::ByUser { hint } => hint.clone(),
            Self::ByPolicy(violation) => violation.hint().to_owned(),
        }
    }
}

/// The user's approvals and the administrator's policy, which together decide about launches.
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
enum NoConsent {
    Pending(PendingReason),
    Rejected,
}

impl Trust {
    /// Trusts all sources except the project, whose entries wait for approval.
    pub fn none() -> Self {
        Self {
            project: ProjectTrust::AfterApproval,
            approvals: Arc::default(),
            policy: Arc::default(),
        }
    }

    /// Also trusts the entries of the project, except rejected ones (`--trust-project`). Nothing is
    /// recorded.
    pub fn project_for_this_run() -> Self {
        Self {
            project: ProjectTrust::ForThisRun,
            ..Self::none()
        }
    }

    /// Adds the user's recorded approvals and rejections.
    pub fn with_approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = Arc::new(approvals);
        self
    }

    /// Adds the administrator's policy.
    pub fn with_policy(mut self, policy: ServerPolicy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// The user's recorded approvals and rejections.
    pub fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// The administrator's policy.
    pub fn policy(&self) -> &ServerPolicy {
        &self.policy
    }

    /// The profile set by the administrator's policy.
    pub fn profile(&self) -> Profile {
        self.policy.profile
    }

    fn find_consent(&self, entry: &ServerEntry) -> Result<Consent, NoConsent> {
        match entry.scope() {
            Scope::CommandLine => Ok(Consent::CommandLine),
            Scope::Managed => Ok(Consent::Administrator),
            Scope::Local | Scope::User => Ok(Consent::UserFile),
            Scope::Dynamic => Ok(Consent::Embedder),
            Scope::Project => self.find_project_consent(entry),
            // Loading this scope is not implemented, so no consent can exist.
            Scope::ClaudeAi => Err(NoConsent::Pending(PendingReason::New)),
        }
    }

    fn find_project_consent(&self, entry: &ServerEntry) -> Result<Consent, NoConsent> {
        match (self.approvals.state_of(entry), self.project) {
            (ApprovalState::Rejected(_), _) => Err(NoConsent::Rejected),
            (ApprovalState::Approved(_), _) => Ok(Consent::Approved),
            (_, ProjectTrust::ForThisRun) => Ok(Consent::TrustProjectFlag),
            (ApprovalState::Changed(_), _) => Err(NoConsent::Pending(PendingReason::Changed)),
            (ApprovalState::Unknown, _) => Err(NoConsent::Pending(PendingReason::New)),
        }
    }
}

impl ServerEntry {
    /// Decides whether the server may be started.
    pub fn decide_launch(&self, trust: &Trust) -> LaunchDecision {
        let config = match self.config() {
            Ok(config) => config,
            Err(error) => return LaunchDecision::Invalid(error.clone()),
        };
        // Check the policy before asking the user about a server that may not run anyway.
        if let Err(violation) = trust.policy.check(self.name(), self.scope(), config) {
            return LaunchDecision::Refused(LaunchRefusal::ByPolicy(violation));
        }
        match trust.find_consent(self) {
            Ok(consent) => LaunchDecision::Launch(self.launch_spec(config, consent)),
            Err(NoConsent::Pending(reason)) => LaunchDecision::AwaitingApproval {
                reason,
                hint: self.approve_command(),
            },
            Err(NoConsent::Rejected) => LaunchDecision::Refused(LaunchRefusal::ByUser {
                hint: format!("to review it again: {}", self.approve_command()),
            }),
        }
    }

    fn launch_spec(&self, config: &ServerConfig, consent: Consent) -> LaunchSpec {
        LaunchSpec {
            name: self.name().clone(),
            config: ServerConfig {
                disabled: self.is_disabled(),
                ..config.clone()
            },
            disabled_by: self.disabled_by().cloned(),
            enable_hint: self.enable_hint().map(str::to_owned),
            scope: self.scope(),
            origin: self.origin().clone(),
            masked_entry: self.masked_entry().clone(),
            // Only an approval refers to a certain program.
            pinned_program: match consent {
                Consent::Approved => self.pinned_program().cloned(),
                _ => None,
            },
            consent,
        }
    }

    fn approve_command(&self) -> String {
        format!("switchboard trust {}", shell_word(self.name().as_str()))
    }
}

/// Quotes a name as an argument of a command.
fn shell_word(name: &str) -> String {
    let word = quote_for_shell(name);
    // `--` keeps a name such as `-x` from being parsed as an option.
    if name.starts_with('-') {
        format!("-- {word}")
    } else {
        word
    }
}

/// The kind of consent to start a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Consent {
    /// The entry is in the administrator's managed file.
    Administrator,
    /// The user named the source on the command line.
    CommandLine,
    /// The entry is in a file of the user.
    UserFile,
    /// The user reviewed and approved exactly this entry.
    Approved,
    /// The user passed `--trust-project` for this run.
    TrustProjectFlag,
    /// The embedding program requested the server in code.
    Embedder,
}
