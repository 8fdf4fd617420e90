//! Converts settings into the rules, limits and deadlines of a host.
//!
//! Invariant: if a settings file is invalid, a rule denies every MCP tool. The reason of the rule
//! names the problem.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use switchboard::limits::{Deadlines, Limits, default_start_concurrency};
use switchboard::mcp::Hint;
use switchboard::permission::{Action, InvalidPattern, Rule, RuleScope};
use switchboard_config::{
    BlockingError, ProjectRules, RuleAction, RuleHint, RuleSetting, RuleValidator, Scope,
    ServerName, Settings,
};

/// Checks the rules in settings files with the parsers of the `switchboard` library, which the
/// config crate does not depend on.
pub(crate) const RULE_VALIDATOR: RuleValidator = RuleValidator {
    tool: |text| match Rule::new(Action::Deny, text) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    },
    pattern: |text| match Rule::new(Action::Deny, "*").and_then(|rule| rule.argument_pattern(text))
    {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    },
};

/// Matches every MCP tool.
const ALL_MCP_TOOLS: &str = "mcp__*";

/// The rules of all settings files. Allow rules of the project apply only to `trusted_servers`, the
/// project servers that may run, and never to the user's own servers.
pub(crate) fn rules(settings: &Settings, trusted_servers: &[ServerName]) -> Vec<Rule> {
    let deny_all = settings.blocking_errors.iter().map(deny_all_rule);
    let written = settings.rules(ProjectRules::All).map(|setting| {
        let rule = written_rule(setting)?;
        let is_project_allow =
            setting.scope == Scope::Project && setting.action == RuleAction::Allow;
        Ok(if is_project_allow {
            rule.only_servers(trusted_servers.iter().cloned())
        } else {
            rule
        })
    });
    // If a rule is invalid although it passed `RULE_VALIDATOR`, all calls are denied.
    let rules = deny_all.chain(written).collect::<Result<_, _>>();
    rules.unwrap_or_else(|error| {
        let rule =
            Rule::new(Action::Deny, ALL_MCP_TOOLS).map(|rule| rule.reason(error.to_string()));
        rule.into_iter().collect()
    })
}

fn deny_all_rule(error: &BlockingError) -> Result<Rule, InvalidPattern> {
    let mut rule = Rule::new(Action::Deny, ALL_MCP_TOOLS)?
        .reason(settings_error(error))
        .scope(rule_scope(error.scope));
    if let Some(origin) = &error.problem.origin {
        rule = rule.origin(origin.clone());
    }
    Ok(rule)
}

/// Describes the error of a settings file, as the reason why all calls are blocked.
pub(crate) fn settings_error(error: &BlockingError) -> String {
    format!("invalid settings: {}", error.problem.message)
}

fn written_rule(setting: &RuleSetting) -> Result<Rule, InvalidPattern> {
    let action = match setting.action {
        RuleAction::Allow => Action::Allow,
        RuleAction::Ask => Action::Ask,
        RuleAction::Deny => Action::Deny,
    };
    let mut rule = Rule::new(action, &setting.tool)?
        .scope(rule_scope(setting.scope))
        .origin(setting.origin.clone());
    for pattern in &setting.patterns {
        rule = rule.argument_pattern(pattern)?;
    }
    Ok(match setting.hint {
        None => rule,
        Some(RuleHint::ReadOnly) => rule.hint(Hint::ReadOnly),
        Some(RuleHint::OpenWorld) => rule.hint(Hint::OpenWorld),
        // `RuleHint` is non-exhaustive; `Destructive` is the only other variant.
        Some(_) => rule.hint(Hint::Destructive),
    })
}

fn rule_scope(scope: Scope) -> RuleScope {
    match scope {
        Scope::Managed => RuleScope::Managed,
        Scope::CommandLine | Scope::Dynamic => RuleScope::CommandLine,
        Scope::Local => RuleScope::Local,
        Scope::User => RuleScope::User,
        _ => RuleScope::Project,
    }
}

/// How many stdio servers start at the same time.
pub(crate) fn start_concurrency(settings: &Settings) -> NonZeroUsize {
    let default = default_start_concurrency();
    let default_count = u64::try_from(default.get()).unwrap_or(u64::MAX);
    let count = settings.limit("startConcurrency", None, default_count);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    NonZeroUsize::new(count).unwrap_or(default)
}

/// Returns the limits from settings files, environment and defaults. `from_env` is the limit on
/// result text from the environment, in bytes.
pub(crate) fn limits(settings: &Settings, defaults: Limits, from_env: Option<usize>) -> Limits {
    let mut limits = defaults;
    for (key, field) in limit_fields(&mut limits) {
        let from_env = from_env.filter(|_| key == "resultTextBytes");
        let default = u64::try_from(*field).unwrap_or(u64::MAX);
        let value = settings.limit(
            key,
            from_env.and_then(|bytes| bytes.try_into().ok()),
            default,
        );
        *field = usize::try_from(value).unwrap_or(usize::MAX);
    }
    limits
}

/// The environment variable that sets the timeout of a call, in milliseconds.
pub(crate) const CALL_TIMEOUT_VAR: &str = "MCP_TOOL_TIMEOUT";

/// Returns the deadlines from settings files, environment and defaults. `from_env` returns the
/// deadline that the environment sets for a key, in milliseconds.
pub(crate) fn deadlines(settings: &Settings, from_env: impl Fn(&str) -> Option<u64>) -> Deadlines {
    let mut deadlines = Deadlines::default();
    for (key, field) in deadline_fields(&mut deadlines) {
        let default = u64::try_from(field.as_millis()).unwrap_or(u64::MAX);
        *field = Duration::from_millis(settings.limit(key, from_env(key), default));
    }
    deadlines
}

/// Builds a hint that names the setting which raises a limit or deadline. `bound` is a field name
/// of `Limits` or `Deadlines`. `None` if no setting can raise it.
pub(crate) fn raise_hint(bound: &str, file: &Path) -> Option<String> {
    if bound == "json_depth" {
        // The default of `json_depth` is also the maximum.
        return None;
    }
    let (mut limits, mut deadlines) = (Limits::default(), Deadlines::default());
    let limits = limit_fields(&mut limits).map(|(key, _)| key);
    let deadlines = deadline_fields(&mut deadlines).map(|(key, _)| key);
    let is_bound = |key: &&&str| bound.split('_').collect::<String>() == key.to_ascii_lowercase();
    let groups = [("limits", limits.as_slice()), ("deadlines", &deadlines)];
    groups.iter().find_map(|(group, keys)| {
        let key = keys.iter().find(is_bound)?;
        let unit = if *group == "deadlines" {
            " (milliseconds)"
        } else {
            ""
        };
        let file = file.display();
        Some(format!(
            r#"raise "{group}": {{ "{key}": … }}{unit} in {file}"#
        ))
    })
}

fn limit_fields(limits: &mut Limits) -> [(&'static str, &mut usize); 31] {
    [
        ("messageBytes", &mut limits.message_bytes),
        ("memoryBytes", &mut limits.memory_bytes),
        ("jsonNodes", &mut limits.json_nodes),
        ("jsonDepth", &mut limits.json_depth),
        ("jsonTreeNodes", &mut limits.json_tree_nodes),
        ("writeQueueBytes", &mut limits.write_queue_bytes),
        ("listPages", &mut limits.list_pages),
        ("toolsPerServer", &mut limits.tools_per_server),
        ("resourcesPerServer", &mut limits.resources_per_server),
        ("promptsPerServer", &mut limits.prompts_per_server),
        ("listingBytes", &mut limits.listing_bytes),
        ("nameBytes", &mut limits.name_bytes),
        ("descriptionBytes", &mut limits.description_bytes),
        ("schemaBytes", &mut limits.schema_bytes),
        ("cursorBytes", &mut limits.cursor_bytes),
        ("stderrTailBytes", &mut limits.stderr_tail_bytes),
        ("inboundRequests", &mut limits.inbound_requests),
        ("inputRequests", &mut limits.input_requests),
        ("questionsPerMinute", &mut limits.questions_per_minute),
        ("samplingsPerMinute", &mut limits.samplings_per_minute),
        ("samplingTokens", &mut limits.sampling_tokens),
        ("logMessagesPerSecond", &mut limits.log_messages_per_second),
        ("progressBacklog", &mut limits.progress_backlog),
        ("eventBacklog", &mut limits.event_backlog),
        ("contentBlocks", &mut limits.content_blocks),
        ("resultTextBytes", &mut limits.result_text_bytes),
        ("resultMediaBytes", &mut limits.result_media_bytes),
        ("callsPerServer", &mut limits.calls_per_server),
        ("callsInFlight", &mut limits.calls_in_flight),
        ("watches", &mut limits.watches),
        ("watchTextBytes", &mut limits.watch_text_bytes),
    ]
}

fn deadline_fields(deadlines: &mut Deadlines) -> [(&'static str, &mut Duration); 11] {
    [
        ("startup", &mut deadlines.startup),
        ("call", &mut deadlines.call),
        ("idle", &mut deadlines.idle),
        ("list", &mut deadlines.list),
        ("probe", &mut deadlines.probe),
        ("connect", &mut deadlines.connect),
        ("pingAfterIdle", &mut deadlines.ping_after_idle),
        ("pingTimeout", &mut deadlines.ping_timeout),
        ("urlElicitation", &mut deadlines.url_elicitation),
        ("exitAfterEof", &mut deadlines.exit_after_eof),
        ("exitAfterTerm", &mut deadlines.exit_after_term),
    ]
}

#[cfg(test)]
mod tests {
    use switchboard_config::key_table::{DEADLINE_KEYS, LIMIT_KEYS};

    use super::*;

    #[test]
    fn every_settings_key_has_an_engine_field() {
        let mut limits = Limits::default();
        assert_eq!(limit_fields(&mut limits).map(|(key, _)| key), LIMIT_KEYS);
        let mut deadlines = Deadlines::default();
        let keys = deadline_fields(&mut deadlines).map(|(key, _)| key);
        assert_eq!(keys, DEADLINE_KEYS);
        // The field names in the Debug output, which are snake case, must match the keys too.
        let debug = format!("{:?} {:?}", Limits::default(), Deadlines::default());
        for key in LIMIT_KEYS.iter().chain(&DEADLINE_KEYS) {
            let snake: String = key
                .chars()
                .flat_map(|letter| {
                    let gap = letter.is_ascii_uppercase().then_some('_');
                    gap.into_iter().chain([letter.to_ascii_lowercase()])
                })
                .collect();
            assert!(debug.contains(&format!(" {snake}: ")), "{key}");
        }
        assert_eq!(
            debug.matches(": ").count(),
            LIMIT_KEYS.len() + DEADLINE_KEYS.len()
        );
    }
}
