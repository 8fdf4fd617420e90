//! What was settled about the use of servers: rules, servers that are switched off, limits, and the word
//! of the organisation.
//!
//! One `settings.json` for each of the scopes managed, local, user and project. Here it is read and put
//! together; what a rule means is the engine's affair, which lends its grammar. A missing file is silent.
//! Of the local settings of enclosing projects, what takes something away counts as well.
//!
//! Invariant: a file that is there and cannot be used, or that holds a rule which is not valid, closes
//! MCP (see [`Settings::closed`]). It never counts as one that says nothing.

mod parse;

use std::path::Path;

use crate::diagnostic::{Diagnostic, Origin};
use crate::paths::Places;
use crate::raw::RawDocument;
use crate::scope::Scope;
use crate::server_policy::ServerPolicy;

/// What may stand in a file, for hints.
const EXAMPLE: &str = r#"{ "permissions": [{ "tool": "mcp__server__tool", "action": "allow" }] }"#;

/// The scopes that have settings, in reading order.
const SCOPES: [Scope; 4] = [Scope::Managed, Scope::Local, Scope::User, Scope::Project];

/// The settings of all scopes.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    rules: Vec<RuleSetting>,
    /// Servers that are switched off, by any scope.
    pub disabled: Vec<DisabledServer>,
    bounds: Vec<Bound>,
    /// The word of the organisation. Where its file cannot be used, no server may be.
    pub policy: ServerPolicy,
    /// Why every call has to be denied, if it has: one reason for each file that cannot be used.
    pub closed: Vec<ClosedBy>,
    /// What was found wrong, in the order of the scopes.
    pub diagnostics: Vec<Diagnostic>,
}

/// A file that closes MCP.
#[derive(Clone, Debug)]
pub struct ClosedBy {
    /// Whose file it is.
    pub scope: Scope,
    /// What is wrong with it.
    pub problem: Diagnostic,
}

/// One rule as written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleSetting {
    /// Which tools it is about.
    pub tool: String,
    /// What has to hold of the arguments: all of them.
    pub patterns: Vec<String>,
    /// The hint that a tool has to declare.
    pub hint: Option<RuleHint>,
    /// What it says.
    pub action: RuleAction,
    /// In which scope it stands.
    pub scope: Scope,
    /// Where.
    pub origin: Origin,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    /// Call it.
    Allow,
    /// Ask a person first.
    Ask,
    /// Do not call it.
    Deny,
}

/// A claim of a server about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuleHint {
    /// `readOnly`
    ReadOnly,
    /// `destructive`
    Destructive,
    /// `openWorld`
    OpenWorld,
}

/// A server that a file switches off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledServer {
    /// The server's name.
    pub name: String,
    /// Whose file says so.
    pub scope: Scope,
    /// Where.
    pub origin: Origin,
}

/// What makes a rule valid. The engine knows; each says what is wrong with a text, if anything is.
#[derive(Clone, Copy, Debug)]
pub struct RuleGrammar {
    /// For `tool`.
    pub tool: fn(&str) -> Result<(), String>,
    /// For `pattern`.
    pub pattern: fn(&str) -> Result<(), String>,
}

/// Which rules of a project count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectRules {
    /// All: the user trusts the project.
    All,
    /// Those that take something away. A project does not grant itself anything.
    Narrowing,
}

/// A number that a file says, for a limit or a deadline.
#[derive(Clone, Debug)]
struct Bound {
    key: &'static str,
    value: u64,
    scope: Scope,
}

/// Reads the settings of all scopes.
pub fn load_settings(places: &Places, grammar: &RuleGrammar) -> Settings {
    let mut settings = Settings::default();
    for scope in SCOPES {
        if let Some(path) = places.settings_file(scope) {
            settings.add_file(scope, &path, grammar);
        }
        if scope == Scope::Local {
            for path in places.enclosing_settings_files() {
                settings.add_narrowing(&path, grammar);
            }
        }
    }
    settings
}

impl Settings {
    /// The rules that count, in reading order: managed, local, user, project.
    pub fn rules(&self, project: ProjectRules) -> impl Iterator<Item = &RuleSetting> {
        self.rules.iter().filter(move |rule| {
            let grants = rule.scope == Scope::Project && rule.action == RuleAction::Allow;
            !grants || project == ProjectRules::All
        })
    }

    /// The limit or deadline of this name: what the administrator says, else what was `typed` for this
    /// run, else what the user says, for this project or at all, else the `default`. A project may only
    /// lower it.
    pub fn bound(&self, key: &str, typed: Option<u64>, default: u64) -> u64 {
        let said = |scope| {
            let mut bounds = self.bounds.iter();
            let bound = bounds.find(|bound| bound.scope == scope && bound.key == key);
            bound.map(|bound| bound.value)
        };
        let value = said(Scope::Managed)
            .or(typed)
            .or_else(|| said(Scope::Local))
            .or_else(|| said(Scope::User))
            .unwrap_or(default);
        said(Scope::Project).map_or(value, |most| value.min(most))
    }

    fn add_file(&mut self, scope: Scope, path: &Path, grammar: &RuleGrammar) {
        if let Some((document, root)) = RawDocument::read_object(path, EXAMPLE) {
            self.add(scope, document, root.as_ref(), grammar);
        }
    }

    /// Takes in what the user's file for an enclosing project takes away: denies, asks, servers that are
    /// off. What it grants, and its limits, are for that project alone.
    fn add_narrowing(&mut self, path: &Path, grammar: &RuleGrammar) {
        let mut enclosing = Self::default();
        enclosing.add_file(Scope::Local, path, grammar);
        let rules = enclosing.rules.into_iter();
        self.rules
            .extend(rules.filter(|rule| rule.action != RuleAction::Allow));
        self.disabled.append(&mut enclosing.disabled);
        self.closed.append(&mut enclosing.closed);
        self.diagnostics.append(&mut enclosing.diagnostics);
    }

    /// Takes in what one file says.
    fn add(
        &mut self,
        scope: Scope,
        mut document: RawDocument,
        root: Option<&crate::raw::RawValue>,
        grammar: &RuleGrammar,
    ) {
        if let Some(root) = root {
            let mut reader = parse::Reader::new(scope, *grammar, &document.text);
            reader.read(root);
            self.rules.append(&mut reader.rules);
            self.disabled.append(&mut reader.disabled);
            self.bounds.append(&mut reader.bounds);
            if scope == Scope::Managed {
                self.policy = std::mem::take(&mut reader.policy);
            }
            let mut findings = reader.findings;
            document.findings.append(&mut findings);
        }
        // By all that was found, not by what is shown of it.
        if let Some(problem) = document.first_error() {
            self.closed.push(ClosedBy { scope, problem });
            if scope == Scope::Managed {
                self.policy.allowed = Some(Vec::new());
            }
        }
        self.diagnostics.extend(document.diagnostics());
    }
}
