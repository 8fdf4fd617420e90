use std::fs;
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::in_process::InProcessServer;
use switchboard::interaction::NoInteraction;
use switchboard::permission::{Action, Rule};

use super::*;
use crate::{HookEvent, HookMatcher, HookOutput};

fn arguments(options: &Options) -> Vec<String> {
    let line = options.command_line().unwrap();
    let arguments = line.arguments.iter();
    arguments
        .map(|argument| argument.to_str().unwrap().to_owned())
        .collect()
}

/// Returns all values of a flag in the arguments of the CLI.
fn values(options: &Options, flag: &str) -> Vec<String> {
    let all = arguments(options);
    let pairs = all.iter().zip(all.iter().skip(1));
    let pairs = pairs.filter(|(before, _)| *before == flag);
    pairs.map(|(_, value)| value.clone()).collect()
}

fn calculator() -> InProcessServer {
    InProcessServer::new("calculator", "1.0")
}

#[test]
fn default_options_only_set_the_protocol() {
    assert_eq!(
        arguments(&Options::new()),
        [
            "--output-format",
            "stream-json",
            "--verbose",
            "--system-prompt",
            "",
            "--strict-mcp-config",
            "--input-format",
            "stream-json",
        ]
    );
    let initialize = Value::Object(Options::new().initialize_request(Map::new()));
    assert_eq!(initialize, json!({"subtype": "initialize", "hooks": null}));
}

#[test]
fn every_option_becomes_an_argument() {
    let options = Options::new()
        .append_system_prompt("be brief")
        .tools(["Read", "Bash"])
        .allowed_tools(["Read"])
        .allowed_tools(["mcp__calc__add"])
        .disallowed_tools(["Bash(rm:*)"])
        .max_turns(3)
        .max_budget_usd(0.5)
        .model("opus")
        .fallback_model("sonnet")
        .json_schema(json!({"type": "object"}))
        .include_partial_messages(true)
        .permission_mode(PermissionMode::AcceptEdits)
        .continue_conversation(true)
        .resume("r-1")
        .session_id("s-1")
        .fork_session(true)
        .settings("/etc/settings.json")
        .setting_sources([SettingSource::User, SettingSource::Local])
        .add_dir("/a")
        .add_dir("/b")
        .strict_mcp_config(false)
        .extra_arg("debug", None)
        .extra_arg("effort", Some("high"));
    assert_eq!(
        arguments(&options),
        [
            "--output-format",
            "stream-json",
            "--verbose",
            "--append-system-prompt",
            "be brief",
            "--tools",
            "Read,Bash",
            "--allowedTools",
            "Read,mcp__calc__add",
            "--disallowedTools",
            "Bash(rm:*)",
            "--max-turns",
            "3",
            "--max-budget-usd",
            "0.5",
            "--model",
            "opus",
            "--fallback-model",
            "sonnet",
            "--json-schema",
            r#"{"type":"object"}"#,
            "--include-partial-messages",
            "--permission-mode",
            "acceptEdits",
            "--continue",
            "--resume=r-1",
            "--session-id=s-1",
            "--fork-session",
            "--settings",
            "/etc/settings.json",
            "--setting-sources=user,local",
            "--add-dir",
            "/a",
            "--add-dir",
            "/b",
            "--debug",
            "--effort",
            "high",
            "--input-format",
            "stream-json",
        ]
    );
}

#[test]
fn values_are_never_parsed_as_flags() {
    let options = Options::new()
        .system_prompt("--dangerously-skip-permissions")
        .model("-x")
        .resume("--help")
        .add_dir("-folder")
        .setting_sources([]);
    let all = arguments(&options);
    for expected in [
        "--system-prompt=--dangerously-skip-permissions",
        "--model=-x",
        "--resume=--help",
        "--add-dir=-folder",
        "--setting-sources=",
    ] {
        assert!(
            all.iter().any(|argument| argument == expected),
            "{expected}: {all:?}"
        );
    }
}

#[test]
fn system_prompt_is_optional() {
    let default_prompt = Options::new().claude_code_system_prompt();
    assert!(
        !arguments(&default_prompt)
            .iter()
            .any(|argument| argument.contains("system-prompt"))
    );
    assert_eq!(
        values(&Options::new().system_prompt("x"), "--system-prompt"),
        ["x"]
    );
    assert_eq!(values(&Options::new().tools([""; 0]), "--tools"), [""]);
}

#[test]
fn long_prompt_goes_into_a_file() {
    let prompt = "word ".repeat(100_000);
    let line = Options::new()
        .system_prompt(&prompt)
        .command_line()
        .unwrap();
    let index = line
        .arguments
        .iter()
        .position(|argument| argument == "--system-prompt-file");
    let file = &line.arguments[index.unwrap() + 1];
    assert_eq!(fs::read_to_string(file).unwrap(), prompt);
}

#[test]
fn wildcard_expands_to_each_server() {
    let options = Options::new()
        .sdk_server("my calc.v1", calculator())
        .mcp_server("files", McpServerConfig::stdio("files", [""; 0]))
        .allowed_tools(["Read", "mcp__*"])
        .disallowed_tools(["mcp__*"]);
    assert_eq!(
        values(&options, "--allowedTools"),
        ["Read,mcp__my_calc_v1,mcp__files"]
    );
    assert_eq!(
        values(&options, "--disallowedTools"),
        ["mcp__my_calc_v1,mcp__files,mcp__*"]
    );
    let none = Options::new().allowed_tools(["mcp__*"]);
    assert!(values(&none, "--allowedTools").is_empty());
}

#[cfg(unix)]
#[test]
fn secrets_go_into_private_files() {
    use std::os::unix::fs::PermissionsExt;

    let server = McpServerConfig::http("https://example.com/mcp").header("X-Key", "hidden-key");
    let options = Options::new()
        .mcp_server("web", server)
        .sdk_server("calc", calculator())
        .settings(r#"{"env": {"TOKEN": "hidden-token"}}"#)
        .env("ANTHROPIC_API_KEY", "hidden-variable");
    let line = options.command_line().unwrap();
    assert!(!format!("{line:?}{options:?}").contains("hidden"));

    let after = |flag: &str| {
        let index = line.arguments.iter().position(|argument| argument == flag);
        PathBuf::from(&line.arguments[index.unwrap() + 1])
    };
    let (servers, settings) = (after("--mcp-config"), after("--settings"));
    for file in [&servers, &settings] {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let entries: Value = serde_json::from_slice(&fs::read(&servers).unwrap()).unwrap();
    assert_eq!(
        entries,
        json!({"mcpServers": {"web":
            {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "hidden-key"}}}})
    );
    drop(line);
    assert!(!servers.exists() && !settings.exists());
}

#[test]
fn in_process_servers_declare_timeout_and_manifest() {
    let slow = McpServerConfig::sdk(calculator()).timeout(Duration::from_secs(90));
    let options = Options::new()
        .call_timeout(Duration::from_secs(20))
        .sdk_server("calc", calculator())
        .mcp_server("slow", slow)
        .mcp_server("files", McpServerConfig::stdio("files", [""; 0]));
    let manifests = Map::from_iter([("calc".to_owned(), json!({"initializeResult": {}}))]);
    let request = Value::Object(options.initialize_request(manifests));
    assert_eq!(
        request,
        json!({
            "subtype": "initialize",
            "hooks": null,
            "sdkMcpServers": ["calc", "slow"],
            "sdkMcpServerConfigs": {"calc": {"timeout": 25000}, "slow": {"timeout": 90000}},
            "sdkMcpServerManifests": {"calc": {"initializeResult": {}}},
        })
    );
    let names: Vec<_> = options
        .in_process_servers()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["calc", "slow"]);
}

#[test]
fn hooks_and_agents_are_in_initialize() {
    let hooks = Hooks::new().on(HookEvent::Stop, HookMatcher::all(), |_| async {
        HookOutput::none()
    });
    let options = Options::new()
        .hooks(hooks)
        .agent("tester", json!({"description": "tests"}));
    assert_eq!(
        Value::Object(options.initialize_request(Map::new())),
        json!({
            "subtype": "initialize",
            "hooks": {"Stop": [{"matcher": null, "hookCallbackIds": ["hook_0"]}]},
            "agents": {"tester": {"description": "tests"}},
        })
    );
}

#[test]
fn permission_prompts_need_a_handler() {
    let rule = Rule::new(Action::Deny, "Bash").unwrap();
    for (options, asks) in [
        (Options::new(), false),
        (Options::new().rules([rule]), true),
        (Options::new().interaction(NoInteraction), true),
        (
            Options::new().can_use_tool(|_| async { PermissionResult::allow() }),
            true,
        ),
    ] {
        let prompt_tool = values(&options, "--permission-prompt-tool");
        assert_eq!(prompt_tool, if asks { vec!["stdio"] } else { vec![] });
    }
}

#[test]
fn user_variables_override_defaults() {
    let options = Options::new()
        .cwd("/work")
        .env("CLAUDE_CODE_ENTRYPOINT", "mine")
        .env("TOKEN", "t");
    let environment = options.environment();
    let environment: Vec<_> = environment
        .iter()
        .map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap()))
        .collect();
    assert_eq!(
        environment,
        [
            ("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1"),
            ("PWD", "/work"),
            ("CLAUDE_CODE_ENTRYPOINT", "mine"),
            ("TOKEN", "t"),
        ]
    );
}

#[test]
fn later_server_replaces_same_name() {
    let options = Options::new()
        .mcp_server("x", McpServerConfig::stdio("one", [""; 0]))
        .sdk_server("x", calculator());
    assert_eq!(options.servers.len(), 1);
    assert_eq!(options.in_process_servers().len(), 1);
    assert!(values(&options, "--mcp-config").is_empty());
}

#[test]
fn mode_names_round_trip() {
    for text in [
        "default",
        "acceptEdits",
        "plan",
        "bypassPermissions",
        "dontAsk",
        "auto",
        "new",
    ] {
        let mode = PermissionMode::from(text);
        assert_eq!(mode.to_string(), text);
        assert_eq!(
            mode == PermissionMode::Other(text.to_owned()),
            text == "new"
        );
    }
}

#[tokio::test]
async fn rules_apply_to_every_tool_use() {
    let options = Options::new()
        .hooks(
            Hooks::new().on(HookEvent::Stop, HookMatcher::all(), |_| async {
                HookOutput::none()
            }),
        )
        .rules([
            Rule::new(Action::Deny, "mcp__files__delete").unwrap(),
            Rule::new(Action::Ask, "Read").unwrap(),
            Rule::new(Action::Allow, "Bash").unwrap(),
        ]);
    let request = Value::Object(options.initialize_request(Map::new()));
    assert_eq!(
        request["hooks"]["PreToolUse"],
        json!([{"matcher": null, "hookCallbackIds": ["hook_1"], "onFailure": "block"}])
    );
    let hooks = options.hooks_with_rules();
    let decide = async |tool: &str| {
        let input = json!({"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": {}});
        let call = json!({"callback_id": "hook_1", "input": input});
        let output = hooks.callback(call).await.unwrap();
        output["hookSpecificOutput"]["permissionDecision"].clone()
    };
    assert_eq!(decide("mcp__files__delete").await, "deny");
    assert_eq!(decide("Read").await, "ask");
    assert_eq!(decide("Bash").await, Value::Null);
    assert_eq!(decide("Write").await, Value::Null);
}

#[test]
fn invalid_options_are_rejected() {
    let hook = |pattern: &str| {
        let hooks = Hooks::new().on(HookEvent::PreToolUse, pattern, |_| async {
            HookOutput::default()
        });
        Options::new().hooks(hooks)
    };
    let cases = [
        (
            Options::new().env("A=B", "c"),
            "invalid variable name \"A=B\" in `Options::env`: it must not be empty or contain `=` or NUL",
        ),
        (
            Options::new().env("A", "b\0"),
            "the value of the variable \"A\" in `Options::env` contains NUL",
        ),
        (
            Options::new().max_turns(0),
            "`Options::max_turns` must be at least 1",
        ),
        (
            Options::new().max_budget_usd(f64::NAN),
            "`Options::max_budget_usd` must be a positive number, not NaN",
        ),
        (
            hook("mcp__(calc"),
            "the hook matcher \"mcp__(calc\" is not a regular expression: `(` without `)`",
        ),
    ];
    for (options, problem) in cases {
        assert_eq!(options.validate(), Err(problem.to_owned()));
    }
    let valid = hook("mcp__.*").env("A", "b=c").max_turns(1);
    assert_eq!(valid.validate(), Ok(()));
}
