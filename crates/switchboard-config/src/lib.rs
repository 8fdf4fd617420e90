//! MCP server configuration: files → layers → one valid [`HostConfig`].
//!
//! The administrator's file, what `--mcp-config` names, this user's entries for this project, and
//! `.mcp.json` of the project and of the user are read into entries that
//! are either valid or say what is wrong with them, with file, line and a hint. The engine accepts only a
//! [`LaunchSpec`], which only consent makes. The crate prints nothing, reads neither the environment nor
//! the home folder by itself, and starts nothing.
//!
//! ```
//! use std::collections::HashMap;
//! use switchboard_config::{Admission, Source, Sources, Trust, load};
//!
//! let json = r#"{ "mcpServers": { "time": { "command": "time-server", "args": ["${ZONE}"] } } }"#;
//! let sources = Sources {
//!     command_line: vec![Source::from_argument(json)],
//!     ..Sources::default()
//! };
//! let environment = HashMap::from([("ZONE".to_owned(), "UTC".to_owned())]);
//!
//! let loaded = load(&sources, &environment);
//! assert!(loaded.diagnostics.is_empty());
//! for entry in &loaded.config.servers {
//!     match entry.admit(&Trust::none()) {
//!         Admission::Launch(spec) => assert_eq!(spec.name().as_str(), "time"),
//!         Admission::AwaitingApproval { hint, .. } => println!("{}: {hint}", entry.name()),
//!         Admission::Refused(refusal) => println!("{}: {refusal}", entry.name()),
//!         Admission::Invalid(problem) => println!("{}: {problem}", entry.name()),
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
    //! Moved to `switchboard-wire`.
    pub use switchboard_wire::Secret;
}
mod secret_detection;
mod server;
mod server_name {
    //! Moved to `switchboard-wire`.
    pub use switchboard_wire::id::{InvalidServerName, ServerName};
}
mod server_policy;
mod settings;
mod text {
    //! Moved to `switchboard-wire`.
    pub(crate) use switchboard_wire::text::{replace_control_chars, sanitize_name};
}
mod trust;
mod validate;

pub use diagnostic::{Diagnostic, Origin, Severity, Snippet};
pub use edit::{EditError, JsonEditor};
pub use expand::{Environment, ExpandError, expand};
pub use load::{HostConfig, Loaded, load, load_names, project_entry};
pub use locked_file::LockedFileError;
pub use masked_entry::WrittenEntry;
pub use nearest::nearest;
pub use paths::{Folders, Places, managed_folder};
pub use project_root::find_project_root;
pub use reload::{Reading, Targets, Watched, Watcher};
pub use scope::{Scope, Source, Sources};
pub use secret::Secret;
pub use secret_detection::{secrets_in_arguments, secrets_in_variable};
pub use server::{
    InheritEnv, ReconnectConfig, RemoteConfig, RemoteKind, ServerConfig, StdioConfig, TlsFiles,
    TransportConfig,
};
pub use server_name::{InvalidServerName, ServerName};
pub use server_policy::{Ban, Profile, ServerMatch, ServerPolicy};
pub use settings::{
    ClosedBy, DisabledServer, ProjectRules, RuleAction, RuleGrammar, RuleHint, RuleSetting,
    Settings, load_settings,
};
pub use trust::{
    Admission, Approval, Approvals, ApprovalsError, ApprovalsFile, Broken, Change, Consent,
    ContentHash, LaunchSpec, Refusal, Seal, ServerEntry, Shown, Standing, Trust, Verdict, Waiting,
};
pub use validate::{CheckedEntry, EntryProblem, check_server, parse_server};
