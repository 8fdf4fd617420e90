//! `policy add`, `policy list` and `policy remove`: the permission rules in settings files.
//!
//! Invariant: an edit changes one settings file of the user or of the project, and keeps its
//! comments and its other rules.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use switchboard::content::for_terminal;
use switchboard::permission::{Action, Rule};
use switchboard_config::{
    JsonEditor, ProjectRules, RuleAction, RuleHint, RuleSetting, Scope, SourcePos, nearest,
};

use crate::args::{PolicyAddArgs, PolicyRemoveArgs, RuleActionArg};
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::text::{path_on_one_line, quote_for_shell};
use crate::render::{Console, format_count, json};

/// The key of the rules in a settings file.
const RULES: &[&str] = &["permissions"];

/// The scopes whose settings can be edited.
const WRITABLE: [Scope; 3] = [Scope::Local, Scope::Project, Scope::User];

/// A rule in the output of `policy list --json`.
#[derive(Serialize)]
struct RuleJson<'a> {
    action: &'static str,
    tool: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    patterns: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
    scope: Scope,
    origin: &'a SourcePos,
}

impl<'a> From<&'a RuleSetting> for RuleJson<'a> {
    fn from(rule: &'a RuleSetting) -> Self {
        Self {
            action: action_name(rule.action),
            tool: &rule.tool,
            patterns: &rule.patterns,
            hint: rule.hint.map(hint_name),
            scope: rule.scope,
            origin: &rule.origin,
        }
    }
}

/// Output of `policy add --json` and `policy remove --json`.
#[derive(Serialize)]
struct EditedJson<'a> {
    tool: &'a str,
    scope: Scope,
    file: PathBuf,
    /// The number of rules that were added or removed.
    changed: usize,
}

pub(crate) fn add(args: &PolicyAddArgs, context: &Context) -> Result<Exit, Failure> {
    require_valid(args)?;
    let scope = Scope::from(args.scope);
    let mut file = open(scope, context)?;
    let mut rule = json!({"tool": args.pattern, "action": args.action.as_str()});
    if !args.conditions.is_empty()
        && let Some(members) = rule.as_object_mut()
    {
        members.insert("pattern".to_owned(), json!(args.conditions));
    }
    let is_new = !written_rules(&file).contains(&rule);
    if is_new {
        file.append(RULES, &rule)?;
    }
    let path = file.path().to_owned();
    file.save()?;
    let console = &context.console;
    if console.is_json() {
        let edited = EditedJson {
            tool: &args.pattern,
            scope,
            file: path,
            changed: usize::from(is_new),
        };
        console.print(&json::pretty(&edited))?;
        return Ok(Exit::Ok);
    }
    let verb = if is_new { "Added to" } else { "Already in" };
    let place = place(&path, scope);
    console.print(&format!("{verb} {place}: {}", describe_added(args)))?;
    if is_new {
        console.note(&format!(
            "to undo: {}",
            remove_command(&args.pattern, args.action.as_str(), scope)
        ));
    }
    Ok(Exit::Ok)
}

/// Rejects a rule that settings could not contain, and one that can match no MCP tool.
fn require_valid(args: &PolicyAddArgs) -> Result<(), Failure> {
    let pattern = args.pattern.as_str();
    if !pattern.starts_with("mcp__") && !pattern.contains(['*', '?', '[']) {
        let message = format!("{pattern}: pattern matches no MCP tool");
        let meant = quote_for_shell(&format!("mcp__{pattern}"));
        return Err(Failure::usage(message).hint(format!("did you mean {meant}?")));
    }
    let mut rule = Rule::new(Action::Deny, pattern)
        .map_err(|error| Failure::usage(format!("{pattern}: {error}")))?;
    for condition in &args.conditions {
        rule = rule
            .argument_pattern(condition)
            .map_err(|error| Failure::usage(format!("--where {condition}: {error}")))?;
    }
    Ok(())
}

pub(crate) fn list(context: &Context) -> Result<Exit, Failure> {
    let settings = context.load_settings();
    let console = &context.console;
    console.diagnose(&settings.diagnostics);
    let rules: Vec<&RuleSetting> = settings.rules(ProjectRules::All).collect();
    if console.is_json() {
        let rules: Vec<RuleJson<'_>> = rules.into_iter().map(RuleJson::from).collect();
        console.print(&json::pretty(&rules))?;
    } else if rules.is_empty() {
        console.print("No permission rules in settings. Calls ask for permission.")?;
    } else {
        console.print(&render(&rules, console))?;
    }
    Ok(if settings.blocking_errors.is_empty() {
        Exit::Ok
    } else {
        Exit::Config
    })
}

pub(crate) fn remove(args: &PolicyRemoveArgs, context: &Context) -> Result<Exit, Failure> {
    let action = args.action.map(RuleActionArg::as_str);
    let scope = match args.scope {
        Some(scope) => Scope::from(scope),
        None => only_scope(args, context)?,
    };
    let mut file = open(scope, context)?;
    let is_selected = |rule: &Value| {
        rule.get("tool").and_then(Value::as_str) == Some(&args.pattern)
            && action
                .is_none_or(|action| rule.get("action").and_then(Value::as_str) == Some(action))
    };
    let rules = written_rules(&file);
    let selected = rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| is_selected(rule));
    let selected: Vec<usize> = selected.map(|(index, _)| index).collect();
    if selected.is_empty() {
        return Err(unknown_rule(&args.pattern, context));
    }
    // From the last one on, so that the other indexes stay valid.
    for index in selected.iter().rev() {
        file.remove_item(RULES, *index)?;
    }
    let path = file.path().to_owned();
    file.save()?;
    let console = &context.console;
    if console.is_json() {
        let edited = EditedJson {
            tool: &args.pattern,
            scope,
            file: path,
            changed: selected.len(),
        };
        console.print(&json::pretty(&edited))?;
        return Ok(Exit::Ok);
    }
    console.print(&format!(
        "Removed {} from {}",
        format_count(selected.len(), "rule"),
        place(&path, scope)
    ))?;
    Ok(Exit::Ok)
}

/// Finds the scope whose settings have a matching rule.
fn only_scope(args: &PolicyRemoveArgs, context: &Context) -> Result<Scope, Failure> {
    let settings = context.load_settings();
    let paths = context.scope_paths();
    let has_rule = |scope: &Scope| {
        let file = paths.settings_file(*scope);
        settings.rules(ProjectRules::All).any(|rule| {
            rule.tool == args.pattern
                && rule.origin.file == file
                && args
                    .action
                    .is_none_or(|action| action.as_str() == action_name(rule.action))
        })
    };
    let found: Vec<Scope> = WRITABLE.into_iter().filter(has_rule).collect();
    match found.as_slice() {
        [] => Err(unknown_rule(&args.pattern, context)),
        [scope] => Ok(*scope),
        several @ [first, ..] => {
            let names: Vec<_> = several.iter().map(|scope| scope.as_str()).collect();
            let pattern = quote_for_shell(&args.pattern);
            let message = format!("several scopes have this rule: {}", names.join(", "));
            Err(Failure::usage(message)
                .hint(format!("switchboard policy remove {pattern} -s {first}")))
        }
    }
}

fn unknown_rule(pattern: &str, context: &Context) -> Failure {
    let settings = context.load_settings();
    let rules: Vec<&str> = (settings.rules(ProjectRules::All))
        .map(|rule| rule.tool.as_str())
        .collect();
    let failure = Failure::new(Kind::Usage, format!("no rule for {pattern:?}"));
    failure.hint(match nearest(pattern, &rules) {
        Some(nearest) => format!("did you mean {}?", quote_for_shell(nearest)),
        None => "run `switchboard policy list` to see all rules".to_owned(),
    })
}

fn written_rules(file: &JsonEditor) -> Vec<Value> {
    match file.value(RULES) {
        Some(Value::Array(rules)) => rules,
        _ => Vec::new(),
    }
}

fn open(scope: Scope, context: &Context) -> Result<JsonEditor, Failure> {
    let paths = context.scope_paths();
    let file = paths.settings_file(scope).ok_or_else(|| {
        Failure::usage("this directory is not in a project").hint("pass -s local or -s user")
    })?;
    Ok(match (scope, paths.project()) {
        (Scope::Project, Some(root)) => {
            JsonEditor::open_in_project(&file, root)?.readable_by_others()
        }
        _ => JsonEditor::open(&file)?,
    })
}

fn describe_added(args: &PolicyAddArgs) -> String {
    let mut text = format!("{} {}", args.action.as_str(), args.pattern);
    for condition in &args.conditions {
        text.extend([" where ", condition]);
    }
    for_terminal(&text).into_owned()
}

fn remove_command(pattern: &str, action: &str, scope: Scope) -> String {
    let pattern = quote_for_shell(pattern);
    format!("switchboard policy remove {pattern} --action {action} -s {scope}")
}

fn place(path: &Path, scope: Scope) -> String {
    format!("{} ({scope} scope)", path_on_one_line(path))
}

fn render(rules: &[&RuleSetting], console: &Console) -> String {
    let mut table = Table::new(3, Overflow::Truncate).droppable(&[3]);
    let heading = ["ACTION", "RULE", "SCOPE", "ORIGIN"];
    table.row(heading.map(|name| Cell::new(name).paint(Paint::Dim)).into());
    for rule in rules {
        let paint = match rule.action {
            RuleAction::Allow => Paint::Green,
            RuleAction::Ask => Paint::Yellow,
            RuleAction::Deny => Paint::Red,
        };
        let mut condition = rule.tool.clone();
        for pattern in &rule.patterns {
            condition.extend([" where ", pattern]);
        }
        if let Some(hint) = rule.hint {
            condition.extend([" with hint ", hint_name(hint)]);
        }
        table.row(vec![
            Cell::new(action_name(rule.action)).paint(paint),
            Cell::new(for_terminal(&condition)).paint(Paint::Bold),
            Cell::new(rule.scope.as_str()),
            Cell::new(for_terminal(&rule.origin.to_string())).paint(Paint::Dim),
        ]);
    }
    table.render(console.columns, console.style)
}

fn action_name(action: RuleAction) -> &'static str {
    match action {
        RuleAction::Allow => "allow",
        RuleAction::Ask => "ask",
        RuleAction::Deny => "deny",
    }
}

fn hint_name(hint: RuleHint) -> &'static str {
    match hint {
        RuleHint::ReadOnly => "readOnly",
        RuleHint::OpenWorld => "openWorld",
        // `RuleHint` is non-exhaustive; `Destructive` is the only other variant.
        _ => "destructive",
    }
}
