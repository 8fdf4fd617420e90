//! Configuration of MCP servers: reads config files, validates entries and decides which servers
//! may be started.
//!
//! [`load`] reads the sources of all scopes (managed, command line, local, project, user) into one
//! [`HostConfig`]. Each entry is valid or has an error, which is reported with file and line.
//! [`ServerEntry::decide_launch`] checks the administrator's policy and the user's approvals. If
//! both allow the server, it returns a [`LaunchSpec`]. The engine starts servers from nothing else.
//!
//! The crate prints nothing, starts no process, and does not read the environment or the home
//! directory: callers pass an [`Environment`] and paths.
//!
//! | module | content |
//! |---|---|
//! | root | loading, server configs, settings, policy, editing and polling of config files |
//! | [`trust`] | approvals, content hashes, consent |
//! | [`import`] | import from other MCP clients |
//! | [`key_table`] | all keys with types and descriptions, JSON Schemas, reference tables |
//!
//! ```
//! use std::collections::HashMap;
//! use switchboard_config::{ConfigSource, ConfigSources, LaunchDecision, Trust, load};
//!
//! let json = r#"{ "mcpServers": { "time": { "command": "time-server", "args": ["${ZONE}"] } } }"#;
//! let sources = ConfigSources {
//!     command_line: vec![ConfigSource::from_argument(json)],
//!     ..ConfigSources::default()
//! };
//! let environment = HashMap::from([("ZONE".to_owned(), "UTC".to_owned())]);
//!
//! let loaded = load(&sources, &environment);
//! assert!(loaded.diagnostics.is_empty());
//! for entry in &loaded.config.servers {
//!     match entry.decide_launch(&Trust::none()) {
//!         LaunchDecision::Launch(spec) => assert_eq!(spec.name().as_str(), "time"),
//!         LaunchDecision::AwaitingApproval { hint, .. } => println!("{}: {hint}", entry.name()),
//!         LaunchDecision::Refused(refusal) => println!("{}: {refusal}", entry.name()),
//!         LaunchDecision::Invalid(error) => println!("{}: {error}", entry.name()),
//!     }
//! }
//! ```

mod diagnostic;
mod edit;
mod expand;
pub mod import;
pub mod key_table;
mod load;
mod locked_file;
mod masked_entry;
mod nearest;
mod paths;
mod project_root;
mod raw;
mod reload;
mod scope;
mod secret {
    //! Re-export from `switchboard-wire`.
    pub use switchboard_wire::Secret;
}
mod secret_detection;
mod server;
mod server_name {
    //! Re-export from `switchboard-wire`.
    pub use switchboard_wire::id::{InvalidServerName, ServerName};
}
mod server_policy;
mod settings;
mod text {
    //! Re-export from `switchboard-wire`.
    pub(crate) use switchboard_wire::text::{
        quote_for_shell, replace_control_chars, sanitize_name,
    };
}
pub mod trust;
mod validate;

pub use diagnostic::{Diagnostic, Severity, Snippet, SourcePos};
pub use edit::{EditError, JsonEditor};
pub use expand::{Environment, ExpandError, expand};
pub use load::{HostConfig, LoadedConfig, entry_for_project_file, load, load_names_only};
pub use locked_file::LockedFileError;
pub use masked_entry::MaskedEntry;
pub use nearest::nearest;
pub use paths::{BaseDirs, ScopePaths, managed_dir};
pub use project_root::find_project_root;
pub use reload::{ConfigPoller, ConfigSnapshot, PolledFiles, ReloadThread};
pub use scope::{ConfigSource, ConfigSources, Scope};
pub use secret::Secret;
pub use secret_detection::{secrets_in_arguments, secrets_in_variable};
pub use server::{
    InheritEnv, ReconnectConfig, RemoteConfig, RemoteKind, ServerConfig, StdioConfig, TlsFiles,
    TransportConfig,
};
pub use server_name::{InvalidServerName, ServerName};
pub use server_policy::{PolicyViolation, Profile, ServerMatch, ServerPolicy};
pub use settings::{
    BlockingError, DisabledServer, ProjectRules, RuleAction, RuleHint, RuleSetting, RuleValidator,
    Settings, can_match_mcp_tool, load_settings,
};
pub use trust::{
    ApprovalRecord, ApprovalState, Approvals, ApprovalsError, ApprovalsFile, Consent, ContentHash,
    LaunchDecision, LaunchRefusal, LaunchSpec, PendingReason, PinnedProgram, ProgramChanged,
    ReviewChange, ReviewFields, ServerEntry, Trust, Verdict, VerifiedProgram,
};
pub use validate::{CheckedEntry, EntryError, check_server, parse_server};
