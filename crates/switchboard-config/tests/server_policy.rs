//! The administrator's server policy.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};
use switchboard_config::{
    ConfigSource, ConfigSources, LaunchDecision, LaunchRefusal, PolicyViolation, Profile,
    ServerMatch, ServerPolicy, Trust, load,
};
use tempfile::TempDir;

fn name(name: &str) -> ServerMatch {
    ServerMatch::Name(name.to_owned())
}

fn command(words: &[&str]) -> ServerMatch {
    ServerMatch::Command(words.iter().map(|word| (*word).to_owned()).collect())
}

fn url(pattern: &str) -> ServerMatch {
    ServerMatch::Url(pattern.to_owned())
}

fn allowing(list: Vec<ServerMatch>) -> ServerPolicy {
    ServerPolicy {
        allowed: Some(list),
        ..ServerPolicy::default()
    }
}

fn denying(list: Vec<ServerMatch>) -> ServerPolicy {
    ServerPolicy {
        denied: list,
        ..ServerPolicy::default()
    }
}

/// Checks the policy with an entry of the command line, which needs no approval.
fn check(policy: &ServerPolicy, server: &str, entry: &Value) -> Result<(), PolicyViolation> {
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(
            json!({ "mcpServers": { server: entry } }).to_string(),
        )],
        ..ConfigSources::default()
    };
    let environment = HashMap::from([("TOOL".to_owned(), "bad-tool".to_owned())]);
    let loaded = load(&sources, &environment);
    let entry = loaded.config.server(server).unwrap();
    match entry.decide_launch(&Trust::none().with_policy(policy.clone())) {
        LaunchDecision::Launch(_) => Ok(()),
        LaunchDecision::Refused(LaunchRefusal::ByPolicy(violation)) => Err(violation),
        other => panic!("{other:?}"),
    }
}

fn program(words: &[&str]) -> Value {
    json!({ "command": words.first(), "args": words.get(1..) })
}

#[test]
fn default_policy_allows_everything() {
    let policy = ServerPolicy::default();
    assert_eq!(check(&policy, "a", &program(&["x"])), Ok(()));
    assert_eq!(
        check(&policy, "a", &json!({ "url": "https://u@example.com/.." })),
        Ok(())
    );
}

#[test]
fn deny_wins_over_allow() {
    let policy = ServerPolicy {
        allowed: Some(vec![name("a"), command(&["x"])]),
        denied: vec![command(&["x"])],
        ..ServerPolicy::default()
    };
    assert_eq!(
        check(&policy, "a", &program(&["x"])),
        Err(PolicyViolation::Denied(command(&["x"])))
    );
}

#[test]
fn denied_names_ignore_case() {
    let policy = denying(vec![name("Bad"), command(&["bad-tool", "--x"])]);
    assert!(check(&policy, "bad", &program(&["x"])).is_err());
    assert!(check(&policy, "BAD", &json!({ "url": "https://a.example" })).is_err());
    assert!(check(&policy, "good", &program(&["${TOOL}", "--x"])).is_err());
    assert_eq!(check(&policy, "good", &program(&["bad-tool"])), Ok(()));
    assert_eq!(
        check(&policy, "good", &program(&["bad-tool", "--x", "--y"])),
        Ok(())
    );
}

#[test]
fn allow_list_excludes_other_servers() {
    assert_eq!(
        check(&allowing(vec![]), "a", &program(&["x"])),
        Err(PolicyViolation::NotAllowed)
    );
    let by_name = allowing(vec![name("a")]);
    assert_eq!(check(&by_name, "a", &program(&["x"])), Ok(()));
    assert_eq!(
        check(&by_name, "a", &json!({ "url": "https://any.example" })),
        Ok(())
    );
    assert_eq!(
        check(&by_name, "A", &program(&["x"])),
        Err(PolicyViolation::NotAllowed)
    );

    // If the list contains commands, a matching name is not sufficient.
    let by_command = allowing(vec![name("a"), command(&["npx", "-y", "good"])]);
    assert_eq!(
        check(&by_command, "b", &program(&["npx", "-y", "good"])),
        Ok(())
    );
    assert_eq!(
        check(&by_command, "a", &program(&["npx", "-y", "evil"])),
        Err(PolicyViolation::NotAllowed)
    );
    assert_eq!(
        check(
            &by_command,
            "b",
            &program(&["npx", "-y", "good", "-c", "evil"])
        ),
        Err(PolicyViolation::NotAllowed)
    );
    assert_eq!(
        check(&by_command, "b", &program(&["./npx", "-y", "good"])),
        Err(PolicyViolation::NotAllowed)
    );
    assert_eq!(
        check(&by_command, "a", &json!({ "url": "https://any.example" })),
        Ok(())
    );

    let by_url = allowing(vec![name("a"), url("https://*.example.com/*")]);
    assert_eq!(
        check(&by_url, "b", &json!({ "url": "https://x.example.com/mcp" })),
        Ok(())
    );
    assert_eq!(
        check(&by_url, "a", &json!({ "url": "https://evil.example/" })),
        Err(PolicyViolation::NotAllowed)
    );
    assert_eq!(check(&by_url, "a", &program(&["x"])), Ok(()));
}

#[test]
fn ambiguous_url_is_refused() {
    for policy in [
        allowing(vec![url("https://good.example/*")]),
        denying(vec![url("https://evil.example/*")]),
    ] {
        for address in [
            "https://good.example@evil.example/",
            "https://good.example/..%2f",
            "https://good.example\\@evil.example/",
            "https://ev\u{456}l.example/",
        ] {
            let checked = check(&policy, "a", &json!({ "url": address }));
            assert_eq!(checked, Err(PolicyViolation::AmbiguousUrl), "{address}");
        }
    }
    assert_eq!(
        check(
            &denying(vec![url("evil")]),
            "a",
            &json!({ "url": "https://good.example" })
        ),
        Err(PolicyViolation::InvalidUrlRule("evil".to_owned()))
    );
}

#[test]
fn managed_only_allows_managed_file_only() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        let servers = json!({ "mcpServers": { name: { "command": "x" } } });
        fs::write(&path, servers.to_string()).unwrap();
        Some(path)
    };
    let sources = ConfigSources {
        command_line: vec![ConfigSource::File(file("named").unwrap())],
        managed: file("managed"),
        local: file("local"),
        project: file("project"),
        user: file("user"),
        strict: false,
    };
    let policy = ServerPolicy {
        managed_only: true,
        ..ServerPolicy::default()
    };
    let trust = Trust::project_for_this_run().with_policy(policy);
    let loaded = load(&sources, &HashMap::new());
    for entry in &loaded.config.servers {
        match (entry.name().as_str(), entry.decide_launch(&trust)) {
            ("managed", LaunchDecision::Launch(_)) => {}
            ("managed", other) => panic!("{other:?}"),
            (_, LaunchDecision::Refused(refusal)) => assert_eq!(
                refusal.to_string(),
                "not allowed by the administrator: only servers from the managed config are \
                 allowed"
            ),
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn server_profile_runs_no_program() {
    let policy = ServerPolicy {
        profile: Profile::Server,
        ..ServerPolicy::default()
    };
    let with_helper = json!({ "url": "https://a.example", "headersHelper": "x" });
    assert!(matches!(
        check(&policy, "a", &program(&["x"])),
        Err(PolicyViolation::RunsProgram(_))
    ));
    assert!(matches!(
        check(&policy, "a", &with_helper),
        Err(PolicyViolation::RunsProgram(_))
    ));
    assert_eq!(
        check(&policy, "a", &json!({ "url": "https://a.example" })),
        Ok(())
    );
}

#[test]
fn violation_messages_are_readable() {
    let deny = |one: ServerMatch, entry: &Value| {
        let violation = check(&denying(vec![one]), "a", entry).unwrap_err();
        LaunchRefusal::ByPolicy(violation).to_string()
    };
    assert_eq!(
        deny(name("a"), &program(&["x"])),
        "not allowed by the administrator: the name \"a\" is denied"
    );
    assert_eq!(
        deny(command(&["x", "y"]), &program(&["x", "y"])),
        "not allowed by the administrator: the command [\"x\", \"y\"] is denied"
    );
    assert_eq!(
        deny(
            url("https://a.example"),
            &json!({ "url": "https://a.example/x" })
        ),
        "not allowed by the administrator: the URL \"https://a.example\" is denied"
    );
}
