//! Settings files: their content, their problems, and which problems block all calls.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

use switchboard_config::{
    BaseDirs, Profile, ProjectRules, RuleAction, RuleHint, RuleSetting, RuleValidator, Scope,
    ScopePaths, ServerMatch, ServerPolicy, Settings, load_settings,
};
use tempfile::TempDir;

/// A validator that rejects empty text and text with `!`.
const TEST_VALIDATOR: RuleValidator = RuleValidator {
    tool: check,
    pattern: check,
};

fn check(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('!') {
        return Err(format!("{text:?} is not valid"));
    }
    Ok(())
}

struct Home {
    /// Removed on drop.
    _folder: TempDir,
    dirs: BaseDirs,
    paths: ScopePaths,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("home/project");
        fs::create_dir_all(project.join(".git")).unwrap();
        let dirs = BaseDirs {
            home: root.join("home"),
            config: root.join("home/.config/switchboard"),
            state: root.join("home/.local/state/switchboard"),
            managed: root.join("etc"),
        };
        let paths = ScopePaths::find(&project, dirs.clone());
        Self {
            _folder: folder,
            dirs,
            paths,
        }
    }

    fn file(&self, scope: Scope) -> PathBuf {
        self.paths.settings_file(scope).unwrap()
    }

    fn write(&self, scope: Scope, text: &str) -> PathBuf {
        let path = self.file(scope);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn load(&self) -> Settings {
        load_settings(&self.paths, &TEST_VALIDATOR)
    }
}

/// Loads settings from one file.
fn load(scope: Scope, text: &str) -> Settings {
    let home = Home::new();
    home.write(scope, text);
    home.load()
}

fn messages(settings: &Settings) -> Vec<String> {
    let diagnostics = settings.diagnostics.iter();
    diagnostics
        .map(|it| format!("{}: {}", it.severity, it.message))
        .collect()
}

fn tools(settings: &Settings, project: ProjectRules) -> Vec<(&str, RuleAction, Scope)> {
    let rules = settings.rules(project);
    rules
        .map(|rule| (rule.tool.as_str(), rule.action, rule.scope))
        .collect()
}

#[test]
fn missing_settings_files_are_ignored() {
    let settings = Home::new().load();
    assert_eq!(settings.rules(ProjectRules::All).count(), 0);
    assert!(settings.blocking_errors.is_empty() && settings.diagnostics.is_empty());
    assert_eq!(settings.policy, ServerPolicy::default());
}

#[test]
fn rule_keeps_its_position() {
    let text = r#"{
  // comments and trailing commas are fine
  "$schema": "settings.schema.json",
  "permissions": [
    { "tool": "mcp__a", "pattern": "path=/srv/*", "action": "allow" },
    { "tool": "mcp__b", "pattern": ["x=1", "y=2"], "hint": "destructive", "action": "deny", },
  ],
}"#;
    let home = Home::new();
    let path = home.write(Scope::User, text);
    let settings = home.load();
    assert_eq!(messages(&settings), [""; 0]);
    let rules: Vec<&RuleSetting> = settings.rules(ProjectRules::All).collect();
    let [first, second] = rules.as_slice() else {
        unreachable!("two rules")
    };
    assert_eq!(
        (first.tool.as_str(), first.patterns.as_slice(), first.hint),
        ("mcp__a", ["path=/srv/*".to_owned()].as_slice(), None)
    );
    assert_eq!(first.origin.to_string(), format!("{}:5:5", path.display()));
    assert_eq!(second.patterns, ["x=1", "y=2"]);
    assert_eq!(second.hint, Some(RuleHint::Destructive));
    assert_eq!(
        (second.action, second.scope, second.origin.line),
        (RuleAction::Deny, Scope::User, 6)
    );
}

#[test]
fn untrusted_project_cannot_allow_calls() {
    use RuleAction::{Allow, Ask, Deny};
    let home = Home::new();
    for scope in [Scope::Project, Scope::User, Scope::Local, Scope::Managed] {
        let rules = r#"{"permissions": [{"tool": "d", "action": "deny"}, {"tool": "k", "action": "ask"}, {"tool": "a", "action": "allow"}]}"#;
        home.write(scope, rules);
    }
    let settings = home.load();
    let of = |scope| [("d", Deny, scope), ("k", Ask, scope), ("a", Allow, scope)];
    let scopes = [Scope::Managed, Scope::Local, Scope::User, Scope::Project];
    let mut expected: Vec<_> = scopes.into_iter().flat_map(of).collect();
    assert_eq!(tools(&settings, ProjectRules::All), expected);
    expected.pop();
    assert_eq!(tools(&settings, ProjectRules::RestrictionsOnly), expected);
}

#[test]
fn invalid_rule_blocks_all_calls() {
    let cases = [
        ("", "error: the file is empty"),
        ("[]", "error: expected an object"),
        (
            "{\"permissions\": ",
            "error: not valid JSON: expected value after colon in object property",
        ),
        (
            r#"{"permissions": "x"}"#,
            "error: `permissions` must be a list of rules, not a string",
        ),
        (
            r#"{"permissions": ["x"]}"#,
            "error: a rule must be an object, not a string",
        ),
        (
            r#"{"permissions": [{"tool": "*"}]}"#,
            "error: `action` is missing in this rule",
        ),
        (
            r#"{"permissions": [{"action": "deny"}]}"#,
            "error: `tool` is missing in this rule",
        ),
        (
            r#"{"permissions": [{"tool": 1, "action": "deny"}]}"#,
            "error: `tool` must be a string, not a number",
        ),
        (
            r#"{"permissions": [{"tool": "*", "action": "denny"}]}"#,
            "error: unknown `action`; did you mean `deny`?",
        ),
        (
            r#"{"permissions": [{"tool": "!", "action": "deny"}]}"#,
            "error: \"!\" is not valid",
        ),
        (
            r#"{"permissions": [{"tool": "*", "pattern": "!", "action": "deny"}]}"#,
            "error: \"!\" is not valid",
        ),
        (
            r#"{"permissions": [{"tool": "*", "pattern": [], "action": "deny"}]}"#,
            "error: `pattern` is empty",
        ),
        (
            r#"{"permissions": [{"tool": "*", "pattern": {}, "action": "deny"}]}"#,
            "error: `pattern` must be a string, not an object",
        ),
        (
            r#"{"permissions": [{"tool": "*", "hint": "readonly", "action": "deny"}]}"#,
            "error: unknown `hint`; did you mean `readOnly`?",
        ),
        (
            r#"{"permissions": [{"tool": "*", "patern": "a=b", "action": "allow"}]}"#,
            "error: unknown key `patern`; did you mean `pattern`?",
        ),
        (
            r#"{"permissions": [{"tool": "*", "action": "deny", "action": "allow"}]}"#,
            "error: duplicate key `action`; the last one is used",
        ),
        (
            r#"{"permissions": [], "permissions": []}"#,
            "error: duplicate key `permissions`; the last one is used",
        ),
        (
            r#"{"permision": []}"#,
            "error: unknown key `permision`; did you mean `permissions`?",
        ),
        (
            r#"{"disabledServers": "x"}"#,
            "error: `disabledServers` must be a list of names of servers, not a string",
        ),
    ];
    for scope in [Scope::User, Scope::Project, Scope::Managed] {
        for (text, problem) in cases {
            let settings = load(scope, text);
            assert_eq!(messages(&settings), [problem], "{text}");
            let closed: Vec<_> = settings.blocking_errors.iter().map(|it| it.scope).collect();
            assert_eq!(closed, [scope], "{text}");
            // If the managed settings are unusable, no server is allowed.
            let allows_none = settings.policy.allowed.as_deref() == Some(&[]);
            assert_eq!(allows_none, scope == Scope::Managed, "{text}");
        }
    }
}

#[test]
fn unreadable_settings_block_all_calls() {
    let unreadable: [fn(&Path); 3] = [
        |path| fs::create_dir(path).unwrap(),
        |path| std::os::unix::fs::symlink("nowhere", path).unwrap(),
        |path| fs::write(path, vec![b' '; 2 * 1024 * 1024]).unwrap(),
    ];
    for make in unreadable {
        let home = Home::new();
        let path = home.file(Scope::User);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        make(&path);
        let settings = home.load();
        assert_eq!(settings.blocking_errors.len(), 1);
        let problem = &settings.blocking_errors.first().unwrap().problem;
        let origin = problem.origin.as_ref().unwrap();
        assert_eq!(origin.file.as_deref(), Some(path.as_path()));
        assert_eq!(problem.hint.as_deref(), Some("fix or remove the file"));
    }
}

#[test]
fn invalid_limits_are_only_warnings() {
    let cases = [
        (r#"{"colour": 1}"#, "warning: unknown key `colour`"),
        (
            r#"{"limit": {}}"#,
            "warning: unknown key `limit`; did you mean `limits`?",
        ),
        (
            r#"{"limits": 1}"#,
            "warning: `limits` must be an object, not a number",
        ),
        (
            r#"{"limits": {"messageByte": 1}}"#,
            "warning: unknown key `messageByte`; did you mean `messageBytes`?",
        ),
        (
            r#"{"limits": {"messageBytes": 0}}"#,
            "warning: `messageBytes` must be a whole number from 1 to 1099511627776; using the default",
        ),
        (
            r#"{"deadlines": {"call": "1s"}}"#,
            "warning: `call` must be a whole number from 1 to 86400000; using the default",
        ),
        (
            r#"{"profile": "server"}"#,
            "warning: `profile` is only allowed in managed settings; ignored",
        ),
    ];
    for (text, problem) in cases {
        let settings = load(Scope::User, text);
        assert_eq!(messages(&settings), [problem]);
        assert!(settings.blocking_errors.is_empty(), "{text}");
        assert_eq!(settings.policy, ServerPolicy::default());
    }
}

const RENAMED_LIMITS: [(&str, &str, &str); 6] = [
    ("limits", "treeNodes", "jsonTreeNodes"),
    ("limits", "outboxBytes", "writeQueueBytes"),
    ("limits", "inputRounds", "inputRequests"),
    ("deadlines", "silence", "pingAfterIdle"),
    ("deadlines", "signOfLife", "pingTimeout"),
    ("deadlines", "visit", "urlElicitation"),
];

#[test]
fn old_limit_names_are_accepted() {
    for (group, old, new) in RENAMED_LIMITS {
        let settings = load(Scope::User, &format!(r#"{{"{group}": {{"{old}": 7}}}}"#));
        assert_eq!(messages(&settings), [""; 0], "{old}");
        assert_eq!(settings.limit(new, None, 50), 7, "{old}");
    }
    let settings = load(Scope::User, r#"{"deadlines": {"silence": 0}}"#);
    assert_eq!(
        messages(&settings),
        ["warning: `silence` must be a whole number from 1 to 86400000; using the default"]
    );
    // Old names belong to one group, like new ones.
    let settings = load(Scope::User, r#"{"limits": {"silence": 7}}"#);
    assert_eq!(messages(&settings), ["warning: unknown key `silence`"]);
}

#[test]
fn project_can_only_lower_start_concurrency() {
    let home = Home::new();
    let loaded = |default| home.load().limit("startConcurrency", None, default);
    assert_eq!(loaded(4), 4);
    home.write(Scope::Project, r#"{"startConcurrency": 3}"#);
    assert_eq!((loaded(4), loaded(2)), (3, 2));
    home.write(Scope::User, r#"{"startConcurrency": 8}"#);
    assert_eq!(loaded(4), 3);
    home.write(Scope::Project, r#"{"startConcurrency": 0}"#);
    assert_eq!(loaded(4), 8);
    assert_eq!(messages(&home.load()).len(), 1);
}

#[test]
fn new_limit_name_wins_over_old_one() {
    for (group, old, new) in RENAMED_LIMITS {
        let both = [
            format!(r#"{{"{group}": {{"{old}": 7, "{new}": 8}}}}"#),
            format!(r#"{{"{group}": {{"{new}": 8, "{old}": 7}}}}"#),
        ];
        for text in both {
            let settings = load(Scope::User, &text);
            assert_eq!(settings.limit(new, None, 50), 8, "{text}");
            let expected = format!(
                "warning: `{old}` is ignored: it is the old name of `{new}`, which is also set"
            );
            assert_eq!(messages(&settings), [expected]);
        }
    }
}

/// The limit that each settings file sets, the limit from the command line or the environment, and
/// the limit that applies.
type Case<'a> = (&'a [(Scope, u64)], Option<u64>, u64);

#[test]
fn project_can_only_lower_limits() {
    let with = |bounds: &[(Scope, u64)]| {
        let home = Home::new();
        for (scope, value) in bounds {
            home.write(
                *scope,
                &format!(r#"{{"limits": {{"jsonNodes": {value}}}}}"#),
            );
        }
        home.load()
    };
    let cases: [Case<'_>; 8] = [
        (&[], None, 50),
        (&[], Some(60), 60),
        (&[(Scope::User, 10)], None, 10),
        (&[(Scope::User, 10)], Some(60), 60),
        (&[(Scope::User, 10), (Scope::Local, 20)], None, 20),
        (&[(Scope::Managed, 5), (Scope::Local, 20)], Some(60), 5),
        (&[(Scope::Project, 100)], None, 50),
        (&[(Scope::Project, 3), (Scope::Managed, 5)], Some(60), 3),
    ];
    for (bounds, from_run, expected) in cases {
        assert_eq!(
            with(bounds).limit("jsonNodes", from_run, 50),
            expected,
            "{bounds:?}"
        );
    }
}

#[test]
fn managed_policy_is_parsed() {
    let text = r#"{
        "allowedServers": [{"name": "a"}, {"command": ["npx", "-y", "b"]}],
        "deniedServers": [{"url": "https://*.example.com/*"}],
        "managedServersOnly": true,
        "profile": "server"
    }"#;
    let settings = load(Scope::Managed, text);
    assert_eq!(messages(&settings), [""; 0]);
    let command = ["npx", "-y", "b"].map(str::to_owned).to_vec();
    assert_eq!(
        settings.policy,
        ServerPolicy {
            allowed: Some(vec![
                ServerMatch::Name("a".to_owned()),
                ServerMatch::Command(command),
            ]),
            denied: vec![ServerMatch::Url("https://*.example.com/*".to_owned())],
            managed_only: true,
            profile: Profile::Server,
        }
    );
    for wrong in [
        r#"{"deniedServers": ["a"]}"#,
        r#"{"deniedServers": [{"name": "a", "url": "b"}]}"#,
        r#"{"deniedServers": [{"command": []}]}"#,
        r#"{"allowedServers": {"name": "a"}}"#,
        r#"{"managedServersOnly": "yes"}"#,
        r#"{"profile": "srv"}"#,
        r#"{"deniedServer": []}"#,
    ] {
        let settings = load(Scope::Managed, wrong);
        assert_eq!(settings.blocking_errors.len(), 1, "{wrong}");
        assert_eq!(settings.policy.allowed.as_deref(), Some(&[][..]), "{wrong}");
    }
}

#[test]
fn disabled_servers_keep_their_position() {
    let home = Home::new();
    home.write(Scope::Local, "{\n  \"disabledServers\": [\"a\", \"b\"]\n}");
    home.write(Scope::Project, r#"{"disabledServers": ["c"]}"#);
    let settings = home.load();
    let disabled: Vec<_> = settings
        .disabled
        .iter()
        .map(|server| (server.name.as_str(), server.scope, server.origin.line))
        .collect();
    assert_eq!(
        disabled,
        [
            ("a", Scope::Local, 2),
            ("b", Scope::Local, 2),
            ("c", Scope::Project, 1)
        ]
    );
}

#[test]
fn problem_is_shown_with_caret_and_hint() {
    let home = Home::new();
    let path = home.write(
        Scope::Project,
        "{\n  \"permissions\": [\n    { \"tool\": \"*\", \"patern\": \"a=b\", \"action\": \"allow\" }\n  ]\n}\n",
    );
    let settings = home.load();
    let shown: Vec<_> = settings
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = format!(
        r#"error: unknown key `patern`; did you mean `pattern`?
 --> {}:3:20
  |
3 |     {{ "tool": "*", "patern": "a=b", "action": "allow" }}
  |                    ^^^^^^^^
  = hint: known keys: tool, pattern, hint, action"#,
        path.display()
    );
    assert_eq!(shown, [expected]);
}

#[test]
fn error_is_shown_before_many_warnings() {
    let warnings: Vec<_> = (0..150).map(|n| format!("\"zzzz{n}\": 1, ")).collect();
    let warnings = warnings.concat();
    let text = format!(r#"{{{warnings} "permissions": [{{"tool": "!", "action": "deny"}}]}}"#);
    for scope in [Scope::Managed, Scope::Local, Scope::User, Scope::Project] {
        let settings = load(scope, &text);
        assert_eq!(settings.blocking_errors.len(), 1, "{scope}");
        assert!(messages(&settings)[0].starts_with("error: "), "{scope}");
        assert_eq!(settings.diagnostics.len(), 101);
        if scope == Scope::Managed {
            assert_eq!(settings.policy.allowed, Some(Vec::new()));
        }
    }
}

#[test]
fn nested_project_keeps_outer_restrictions() {
    let mut home = Home::new();
    home.write(
        Scope::Local,
        r#"{"permissions": [{"tool": "d", "action": "deny"}, {"tool": "k", "action": "ask"},
            {"tool": "a", "action": "allow"}], "disabledServers": ["off"], "limits": {"listPages": 3}}"#,
    );
    let outer = home.file(Scope::Local);
    let inner = home.paths.project().unwrap().join("vendor/inner");
    fs::create_dir_all(&inner).unwrap();
    std::os::unix::fs::symlink("nowhere", inner.join(".mcp.json")).unwrap();
    home.paths = ScopePaths::find(&inner, home.dirs.clone());
    assert_ne!(home.file(Scope::Local), outer);
    home.write(
        Scope::Local,
        r#"{"permissions": [{"tool": "own", "action": "allow"}]}"#,
    );
    let settings = home.load();
    let expected = [
        ("own", RuleAction::Allow, Scope::Local),
        ("d", RuleAction::Deny, Scope::Local),
        ("k", RuleAction::Ask, Scope::Local),
    ];
    assert_eq!(tools(&settings, ProjectRules::All), expected);
    assert_eq!(settings.disabled[0].name, "off");
    assert_eq!(settings.limit("listPages", None, 9), 9);
    // If the settings file of the outer project cannot be parsed, all calls are blocked.
    fs::write(outer, "{").unwrap();
    assert_eq!(home.load().blocking_errors.len(), 1);
}

#[test]
fn rule_that_matches_no_tool_is_warned_about() {
    let text = r#"{"permissions": [
        {"tool": "ant__delete*", "action": "deny"},
        {"tool": "mcp__ant__delete*", "action": "deny"},
        {"tool": "*__delete", "action": "deny"},
        {"tool": "mcp_[_]*", "action": "deny"},
        {"tool": "Bash", "action": "ask"}
    ]}"#;
    let settings = load(Scope::User, text);
    assert_eq!(
        messages(&settings),
        [
            "warning: this rule has no effect: `ant__delete*` matches no MCP tool",
            "warning: this rule has no effect: `Bash` matches no MCP tool",
        ]
    );
    assert_eq!(
        settings.diagnostics[0].hint.as_deref(),
        Some("did you mean `mcp__ant__delete*`?")
    );
    assert_eq!(settings.rules(ProjectRules::All).count(), 5);
    assert!(settings.blocking_errors.is_empty());
}

#[test]
fn permissions_of_claude_code_become_rules() {
    let text = r#"{"permissions": {
        "allow": ["Bash(npm run *)", "mcp__ant__echo", "*", "Read"],
        "deny": ["mcp__bee", "WebFetch", "*"],
        "ask": ["mcp__ant__*"],
        "defaultMode": "acceptEdits"
    }}"#;
    let settings = load(Scope::User, text);
    let rules: Vec<_> = settings
        .rules(ProjectRules::All)
        .map(|rule| (rule.tool.as_str(), rule.action, rule.origin.line))
        .collect();
    assert_eq!(
        rules,
        [
            ("mcp__bee", RuleAction::Deny, 3),
            ("*", RuleAction::Deny, 3),
            ("mcp__ant__*", RuleAction::Ask, 4),
            ("mcp__ant__echo", RuleAction::Allow, 2),
        ]
    );
    assert_eq!(
        messages(&settings),
        [
            "warning: ignored entries of `permissions` that name no MCP tool: `defaultMode`, `WebFetch`, `Bash(npm run *)`, `*`, `Read`"
        ]
    );
    assert!(settings.blocking_errors.is_empty());
}

#[test]
fn invalid_permissions_of_claude_code_block_all_calls() {
    for text in [
        r#"{"permissions": {"denny": ["mcp__ant"]}}"#,
        r#"{"permissions": {"deny": "mcp__ant"}}"#,
        r#"{"permissions": {"deny": [1]}}"#,
        r#"{"permissions": {"deny": ["mcp__!"]}}"#,
    ] {
        assert_eq!(load(Scope::User, text).blocking_errors.len(), 1, "{text}");
    }
}

#[test]
fn variables_of_higher_scopes_win() {
    let home = Home::new();
    home.write(
        Scope::User,
        r#"{"env": {"A": "user", "B": "user", "C": "user", "N": 1, "F": true}}"#,
    );
    home.write(Scope::Local, r#"{"env": {"A": "local", "B": "local"}}"#);
    home.write(Scope::Managed, r#"{"env": {"A": "managed"}}"#);
    let settings = home.load();
    assert_eq!(messages(&settings), [""; 0]);
    let variables = settings.variables();
    let pairs: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("A", "managed"),
            ("B", "local"),
            ("C", "user"),
            ("F", "true"),
            ("N", "1"),
        ]
    );
}

#[test]
fn variables_of_a_project_are_ignored() {
    let settings = load(Scope::Project, r#"{"env": {"LD_PRELOAD": "./evil.so"}}"#);
    assert!(settings.variables().is_empty());
    assert_eq!(
        messages(&settings),
        ["warning: `env` is ignored in the settings of a project"]
    );
    assert!(settings.blocking_errors.is_empty());
}

#[test]
fn invalid_variables_are_ignored_and_values_never_shown() {
    let text = r#"{"env": {"": "hush1", "A=B": "hush2", "SWITCHBOARD_CHILD": "hush3", "L": ["hush4"], "OK": "hush5"}, "limitz": 1}"#;
    let settings = load(Scope::User, text);
    assert_eq!(settings.variables().into_keys().collect::<Vec<_>>(), ["OK"]);
    assert_eq!(
        messages(&settings),
        [
            "warning: `` in `env` is not the name of a variable; ignored",
            "warning: `A=B` in `env` is not the name of a variable; ignored",
            "warning: `SWITCHBOARD_CHILD` in `env` is reserved; ignored",
            "warning: `L` in `env` must be a string; ignored",
            "warning: unknown key `limitz`; did you mean `limits`?",
        ]
    );
    for diagnostic in &settings.diagnostics {
        assert!(!diagnostic.to_string().contains("hush"), "{diagnostic}");
    }
    assert!(!format!("{settings:?}").contains("hush"));
}
