//! Merged settings: permission rules, disabled servers, limits, and the administrator's server
//! policy.
//!
//! The scopes managed, local, user and project have one settings file each. This module reads and
//! merges them. The engine decides what a rule means and provides a [`RuleValidator`]. A missing
//! file is ignored. Restrictions in the local settings of enclosing projects apply too.
//!
//! Invariant: a settings file that cannot be read, or contains an error such as an invalid rule,
//! blocks all calls (see [`Settings::blocking_errors`]). It is never treated as empty.

mod claude_permissions;
mod parse;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::diagnostic::{Diagnostic, SourcePos};
use crate::paths::ScopePaths;
use crate::raw::ParsedSource;
use crate::scope::Scope;
use crate::server_policy::ServerPolicy;

/// An example of a settings file, shown in hints.
const EXAMPLE: &str = r#"{ "permissions": [{ "tool": "mcp__server__tool", "action": "allow" }] }"#;

/// The scopes that have settings, in reading order.
const SCOPES: [Scope; 4] = [Scope::Managed, Scope::Local, Scope::User, Scope::Project];

/// The settings of all scopes.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    rules: Vec<RuleSetting>,
    /// Servers disabled by any scope.
    pub disabled: Vec<DisabledServer>,
    limits: Vec<LimitValue>,
    variables: Vec<VariableSetting>,
    /// The administrator's server policy. If the managed settings cannot be read or contain an
    /// error, it allows no server.
    pub policy: ServerPolicy,
    /// One error per settings file that cannot be read or contains an error. If there is any, every
    /// call must be denied.
    pub blocking_errors: Vec<BlockingError>,
    /// All problems, ordered by scope.
    pub diagnostics: Vec<Diagnostic>,
}

/// A settings file that blocks all calls.
#[derive(Clone, Debug)]
pub struct BlockingError {
    /// The scope of the file.
    pub scope: Scope,
    /// The first error in the file.
    pub problem: Diagnostic,
}

/// A permission rule as written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleSetting {
    /// Glob pattern for the names of tools.
    pub tool: String,
    /// Patterns for the arguments; all must match.
    pub patterns: Vec<String>,
    /// The annotation that the tool must declare.
    pub hint: Option<RuleHint>,
    /// What happens to a matching call.
    pub action: RuleAction,
    /// The scope of the settings file.
    pub scope: Scope,
    /// The file and line of the rule.
    pub origin: SourcePos,
}

/// What happens to a call that matches a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    /// The call is allowed.
    Allow,
    /// The user is asked first.
    Ask,
    /// The call is denied.
    Deny,
}

/// A tool annotation, declared by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuleHint {
    /// The hint `readOnly`.
    ReadOnly,
    /// The hint `destructive`.
    Destructive,
    /// The hint `openWorld`.
    OpenWorld,
}

/// A server disabled by a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledServer {
    /// The server's name.
    pub name: String,
    /// The scope of the settings file.
    pub scope: Scope,
    /// The position of the name in the file.
    pub origin: SourcePos,
}

/// Checks the syntax of rules. The crate `switchboard` provides these functions. Each function
/// returns an error message if the text is invalid.
#[derive(Clone, Copy, Debug)]
pub struct RuleValidator {
    /// Checks the key `tool` of a rule.
    pub tool: fn(&str) -> Result<(), String>,
    /// Checks one item of the key `pattern` of a rule.
    pub pattern: fn(&str) -> Result<(), String>,
}

/// Which rules of a project apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRules {
    /// All rules: the user trusts the project.
    All,
    /// Only `ask` and `deny` rules: an untrusted project cannot allow calls.
    RestrictionsOnly,
}

/// The value of a limit or deadline in one scope.
#[derive(Clone, Debug)]
struct LimitValue {
    key: &'static str,
    value: u64,
    scope: Scope,
}

/// The first characters of the name of every MCP tool.
const MCP_TOOL_PREFIX: &str = "mcp__";

/// Returns true if the pattern of a rule can match the name of an MCP tool, of any server.
pub fn can_match_mcp_tool(pattern: &str) -> bool {
    match pattern.split_once(['*', '?', '[']) {
        None => pattern.starts_with(MCP_TOOL_PREFIX),
        Some((literal, _)) => {
            literal.starts_with(MCP_TOOL_PREFIX) || MCP_TOOL_PREFIX.starts_with(literal)
        }
    }
}

/// A variable of the key `env`.
#[derive(Clone)]
struct VariableSetting {
    name: String,
    value: String,
    scope: Scope,
}

impl fmt::Debug for VariableSetting {
    /// Omits the value, which may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VariableSetting")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// Reads the settings of all scopes.
pub fn load_settings(paths: &ScopePaths, validator: &RuleValidator) -> Settings {
    let mut settings = Settings::default();
    for scope in SCOPES {
        if let Some(path) = paths.settings_file(scope) {
            settings.add_file(scope, &path, validator);
        }
        if scope == Scope::Local {
            for path in paths.enclosing_settings_files() {
                settings.add_restrictions(&path, validator);
            }
        }
    }
    settings
}

impl Settings {
    /// The rules that apply, in the order managed, local, user, project.
    pub fn rules(&self, project: ProjectRules) -> impl Iterator<Item = &RuleSetting> {
        self.rules.iter().filter(move |rule| {
            let is_project_allow = rule.scope == Scope::Project && rule.action == RuleAction::Allow;
            !is_project_allow || project == ProjectRules::All
        })
    }

    /// The value of a limit or deadline. Precedence: managed settings, `from_run` (environment or
    /// command line), local settings, user settings, `default`. The project's settings can only
    /// lower the result.
    pub fn limit(&self, key: &str, from_run: Option<u64>, default: u64) -> u64 {
        let in_scope = |scope| {
            let mut limits = self.limits.iter();
            let limit = limits.find(|limit| limit.scope == scope && limit.key == key);
            limit.map(|limit| limit.value)
        };
        let value = in_scope(Scope::Managed)
            .or(from_run)
            .or_else(|| in_scope(Scope::Local))
            .or_else(|| in_scope(Scope::User))
            .unwrap_or(default);
        in_scope(Scope::Project).map_or(value, |maximum| value.min(maximum))
    }

    /// The variables of `env`. Precedence: managed, local, user. They win over the variables of the
    /// process. The project's settings cannot set variables.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let by_precedence = [Scope::User, Scope::Local, Scope::Managed];
        let of_scope = |scope| self.variables.iter().filter(move |it| it.scope == scope);
        let variables = by_precedence.into_iter().flat_map(of_scope);
        variables
            .map(|variable| (variable.name.clone(), variable.value.clone()))
            .collect()
    }

    fn add_file(&mut self, scope: Scope, path: &Path, validator: &RuleValidator) {
        if let Some((document, root)) = ParsedSource::read_object(path, EXAMPLE) {
            self.add(scope, document, root.as_ref(), validator);
        }
    }

    /// Adds the restrictions of the user's local settings for an enclosing project: deny rules, ask
    /// rules and disabled servers. Omits the allow rules, the limits and the variables, which apply
    /// only in the enclosing project.
    fn add_restrictions(&mut self, path: &Path, validator: &RuleValidator) {
        let mut enclosing = Self::default();
        enclosing.add_file(Scope::Local, path, validator);
        let rules = enclosing.rules.into_iter();
        self.rules
            .extend(rules.filter(|rule| rule.action != RuleAction::Allow));
        self.disabled.append(&mut enclosing.disabled);
        self.blocking_errors.append(&mut enclosing.blocking_errors);
        self.diagnostics.append(&mut enclosing.diagnostics);
    }

    /// Adds the settings of one file.
    fn add(
        &mut self,
        scope: Scope,
        mut document: ParsedSource,
        root: Option<&crate::raw::RawValue>,
        validator: &RuleValidator,
    ) {
        if let Some(root) = root {
            let mut parser = parse::SettingsParser::new(scope, *validator, &document.text);
            parser.read(root);
            self.rules.append(&mut parser.rules);
            self.disabled.append(&mut parser.disabled);
            self.limits.append(&mut parser.limits);
            self.variables.append(&mut parser.variables);
            let secret_spans = std::mem::take(&mut parser.secret_spans);
            if scope == Scope::Managed {
                self.policy = std::mem::take(&mut parser.policy);
            }
            document.problems.append(&mut parser.problems);
            document.text.redact(secret_spans);
        }
        // `first_error` also sees errors beyond the maximum number of shown problems.
        if let Some(problem) = document.first_error() {
            self.blocking_errors.push(BlockingError { scope, problem });
            if scope == Scope::Managed {
                self.policy.allowed = Some(Vec::new());
            }
        }
        self.diagnostics.extend(document.diagnostics());
    }
}
