//! Approvals: what they cover, when a new one is needed, and how they are stored.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_config::{
    ApprovalState, ApprovalsError, ApprovalsFile, ConfigSources, Consent, LaunchDecision,
    LaunchRefusal, PendingReason, ServerEntry, Trust, Verdict, load,
};
use tempfile::TempDir;

/// A project, a user's environment and an approvals file.
struct ApprovalFixture {
    folder: TempDir,
    environment: HashMap<String, String>,
}

impl ApprovalFixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let path = folder.path().join("bin");
        let set = [
            ("PATH", path.to_str().unwrap()),
            ("HOME", "/home/ada"),
            ("TOKEN", "hush"),
            ("REGION", "north"),
        ];
        let environment = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let fixture = Self {
            folder,
            environment: environment.into(),
        };
        fixture.write_program("bin/server", "one");
        fixture
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn write_program(&self, path: &str, content: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn file(&self) -> ApprovalsFile {
        ApprovalsFile::at(self.folder.path().join("state/switchboard/trust.json"))
    }

    /// The entry `a` of a project with this `.mcp.json`.
    fn entry_of(&self, text: &str) -> ServerEntry {
        let file = self.project().join(".mcp.json");
        fs::write(&file, text).unwrap();
        let sources = ConfigSources {
            project: Some(file),
            ..ConfigSources::default()
        };
        let loaded = load(&sources, &self.environment);
        let entry = loaded.config.server("a");
        entry.unwrap_or_else(|| panic!("{text}")).clone()
    }

    fn entry(&self, entry: &Value) -> ServerEntry {
        self.entry_of(&json!({ "mcpServers": { "a": entry } }).to_string())
    }

    fn approve(&self, entry: &ServerEntry) {
        self.file()
            .record(&[entry], Verdict::Approved, SystemTime::now())
            .unwrap();
    }

    fn decide_launch(&self, entry: &ServerEntry) -> LaunchDecision {
        entry.decide_launch(&Trust::none().with_approvals(self.file().read().unwrap()))
    }

    fn is_approved(&self, entry: &ServerEntry) -> bool {
        matches!(self.decide_launch(entry), LaunchDecision::Launch(spec) if spec.consent() == Consent::Approved)
    }
}

/// A stdio and a remote entry. Each contains every key whose change needs a new approval, except
/// the keys that are invalid for its transport.
fn full_entries() -> [Value; 2] {
    [
        json!({
            "type": "stdio", "command": "server", "args": ["--region", "${REGION}", "x"],
            "env": { "A": "1", "B": "${TOKEN}" }, "cwd": "sub", "inheritEnv": ["C"],
            "keepDaemons": false, "trustAnnotations": false, "tools": { "t": "ask" },
            "auth": { "kind": "none" }, "oauth": { "clientId": "x" }, "id": "1", "name": "n",
            "headers": { "H": "1" }, "headersHelper": "none",
            "tls": { "ca": "ca.pem" },
        }),
        json!({
            "type": "http", "url": "https://example.com/${REGION}",
            "headers": { "A": "1", "B": "Bearer ${TOKEN}" }, "headersHelper": "helper --x",
            "tls": { "ca": "ca.pem", "cert": "${REGION}.pem", "key": "key.pem" },
            "trustAnnotations": false, "tools": { "t": "ask" }, "auth": { "kind": "none" },
            "oauth": { "clientId": "x" }, "id": "1", "name": "n", "env": { "A": "1" },
            "inheritEnv": ["C"], "keepDaemons": false,
        }),
    ]
}

/// Small changes of a value: other text, an inverted flag, another order, an added, changed or
/// renamed member, or no members at all.
fn mutations(value: &Value) -> Vec<Value> {
    match value {
        Value::String(text) => vec![
            json!(format!("{text}x")),
            json!(format!("{text}\u{200b}")),
            json!(format!(" {text}")),
            json!(text.to_uppercase() + "y"),
        ],
        Value::Bool(flag) => vec![json!(!flag)],
        Value::Array(items) => {
            let mut all = vec![
                json!([]),
                json!([items.clone(), vec![json!("more")]].concat()),
            ];
            if items.len() > 1 {
                all.push(items.iter().rev().cloned().collect());
            }
            for (index, item) in items.iter().enumerate() {
                for other in mutations(item) {
                    let mut items = items.clone();
                    items[index] = other;
                    all.push(json!(items));
                }
            }
            all
        }
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("LD_PRELOAD".to_owned(), json!("./evil.so"));
            let mut all = vec![json!({}), json!(more)];
            for (name, value) in members {
                let mut renamed = members.clone();
                let moved = renamed.remove(name).unwrap();
                renamed.insert(format!("{name}2"), moved);
                all.push(json!(renamed));
                for other in mutations(value) {
                    let mut members = members.clone();
                    members.insert(name.clone(), other);
                    all.push(json!(members));
                }
            }
            all
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_relevant_change_needs_new_approval() {
    let fixture = ApprovalFixture::new();
    let mut changes = 0;
    for full in full_entries() {
        let entry = fixture.entry(&full);
        fixture.approve(&entry);
        assert!(fixture.is_approved(&fixture.entry(&full)), "{full}");
        for (key, value) in full.as_object().unwrap() {
            let mut others = mutations(value);
            if key == "type" {
                // `type` has a fixed set of values, so mutate it separately.
                others = vec![json!("sse"), json!("sdk")];
            }
            others.push(Value::Null);
            for other in others {
                let mut changed = full.clone();
                match &other {
                    Value::Null => drop(changed.as_object_mut().unwrap().remove(key)),
                    other => changed[key] = other.clone(),
                }
                let changed_entry = fixture.entry(&changed);
                if key == "type" && other.is_null() && full.get("command").is_some() {
                    assert!(
                        fixture.is_approved(&changed_entry),
                        "`stdio` is the default"
                    );
                    continue;
                }
                let needs_approval = match fixture.decide_launch(&changed_entry) {
                    LaunchDecision::AwaitingApproval { reason, .. } => {
                        reason == PendingReason::Changed
                    }
                    LaunchDecision::Invalid(_) => true,
                    LaunchDecision::Launch(_) | LaunchDecision::Refused(_) => false,
                };
                assert!(needs_approval, "{key}: {changed}");
                changes += 1;
            }
            // Reverting the change restores the approval.
            assert!(fixture.is_approved(&fixture.entry(&full)));
        }
    }
    assert!(changes > 150, "{changes}");
}

#[test]
fn cosmetic_changes_keep_approval() {
    let fixture = ApprovalFixture::new();
    for full in full_entries() {
        fixture.approve(&fixture.entry(&full));
        for (key, value) in [
            ("timeout", json!(5)),
            ("startupTimeout", json!(5)),
            ("maxConcurrentCalls", json!(5)),
            ("reconnect", json!({ "maxAttempts": 1 })),
            ("lazy", json!(true)),
            ("disabled", json!(true)),
            ("alwaysLoad", json!(true)),
            ("unknownKey", json!("ignored")),
        ] {
            let mut changed = full.clone();
            changed[key] = value;
            assert!(fixture.is_approved(&fixture.entry(&changed)), "{key}");
        }
        for text in reformat(&full) {
            assert!(fixture.is_approved(&fixture.entry_of(&text)), "{text}");
        }
    }
}

/// The same entry in other formatting.
fn reformat(entry: &Value) -> Vec<String> {
    let members = entry.as_object().unwrap();
    let compact = json!({ "mcpServers": { "a": entry } }).to_string();
    let pretty = serde_json::to_string_pretty(&json!({ "mcpServers": { "a": entry } })).unwrap();
    let reversed: Vec<_> = members.iter().rev().collect();
    let reversed = reversed
        .iter()
        .map(|(key, value)| match value.as_object() {
            Some(inner) => {
                let inner: Vec<_> = inner.iter().rev().collect();
                let inner: Vec<_> = inner.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
                format!("\"{key}\": {{{},}}", inner.join(","))
            }
            None => format!("\"{key}\": {value}"),
        })
        .collect::<Vec<_>>();
    let reversed = format!(
        "{{\"mcpServers\": {{\"a\": {{{},}},}},}}",
        reversed.join(",")
    );
    let escaped = compact.replace("server", "\\u0073erver");
    vec![
        format!("// comment\n{pretty}\n/* the end */\n"),
        pretty.replace('\n', "\r\n\t"),
        pretty.replace(": ", " /* here */ : "),
        reversed,
        escaped.replace("mcp\\u0073ervers", "mcpServers"),
        format!(
            "{{\"$schema\": \"x\", \"mcpServers\": {{\"other\": {{\"command\": \"y\"}}, \"a\": {entry}}}}}"
        ),
        compact,
    ]
}

#[test]
fn changed_variable_needs_approval_but_changed_token_does_not() {
    let mut fixture = ApprovalFixture::new();
    let entry =
        json!({ "command": "server", "args": ["${REGION}"], "env": { "TOKEN": "${TOKEN}" } });
    fixture.approve(&fixture.entry(&entry));
    fixture.environment.insert("TOKEN".into(), "rotated".into());
    assert!(fixture.is_approved(&fixture.entry(&entry)));
    fixture.environment.insert("REGION".into(), "south".into());
    assert!(!fixture.is_approved(&fixture.entry(&entry)));
    // A literal with the same value is the same content.
    let written_out =
        json!({ "command": "server", "args": ["north"], "env": { "TOKEN": "${TOKEN}" } });
    assert!(fixture.is_approved(&fixture.entry(&written_out)));
}

#[test]
fn only_project_program_content_is_hashed() {
    let fixture = ApprovalFixture::new();
    let elsewhere = fixture.entry(&json!({ "command": "server" }));
    fixture.approve(&elsewhere);
    fixture.write_program("bin/server", "two");
    let reload = || fixture.entry(&json!({ "command": "server" }));
    assert!(
        fixture.is_approved(&reload()),
        "updates outside of the project need no approval"
    );

    fixture.write_program("project/tools/run", "one");
    for entry in [
        json!({ "command": "./tools/run" }),
        json!({ "command": "./run", "cwd": "tools" }),
        json!({ "command": "tools/../tools/run" }),
        json!({ "command": fixture.project().join("tools/run") }),
        json!({ "command": "run", "env": { "PATH": "tools" } }),
    ] {
        fixture.write_program("project/tools/run", "one");
        fixture.approve(&fixture.entry(&entry));
        assert!(fixture.is_approved(&fixture.entry(&entry)), "{entry}");
        fixture.write_program("project/tools/run", "two");
        assert!(!fixture.is_approved(&fixture.entry(&entry)), "{entry}");
        fs::remove_file(fixture.project().join("tools/run")).unwrap();
        assert!(!fixture.is_approved(&fixture.entry(&entry)), "{entry}");
    }
}

#[test]
fn program_moved_into_project_needs_approval() {
    let fixture = ApprovalFixture::new();
    let entry = json!({ "command": "server", "env": { "PATH": format!("tools:{}", fixture.folder.path().join("bin").display()) } });
    fixture.approve(&fixture.entry(&entry));
    assert!(fixture.is_approved(&fixture.entry(&entry)));
    fixture.write_program("project/tools/server", "shadow");
    assert!(!fixture.is_approved(&fixture.entry(&entry)));

    // The target of a link out of the project is part of the hash.
    fixture.write_program("bin/other", "other");
    let link = fixture.project().join("link");
    symlink(fixture.folder.path().join("bin/server"), &link).unwrap();
    let entry = json!({ "command": "./link" });
    fixture.approve(&fixture.entry(&entry));
    fixture.write_program("bin/server", "updated");
    assert!(fixture.is_approved(&fixture.entry(&entry)));
    fs::remove_file(&link).unwrap();
    symlink(fixture.folder.path().join("bin/other"), &link).unwrap();
    assert!(!fixture.is_approved(&fixture.entry(&entry)));
}

#[test]
fn approval_is_for_one_project_and_name() {
    let fixture = ApprovalFixture::new();
    let entry = json!({ "command": "server" });
    fixture.approve(&fixture.entry(&entry));
    let text = json!({ "mcpServers": { "a": entry, "b": entry } }).to_string();
    let inner = fixture.project().join("inner");
    fs::create_dir(&inner).unwrap();
    for (folder, is_approved) in [(fixture.project(), [true, false]), (inner, [false, false])] {
        let file = folder.join(".mcp.json");
        fs::write(&file, &text).unwrap();
        let sources = ConfigSources {
            project: Some(file),
            ..ConfigSources::default()
        };
        let loaded = load(&sources, &fixture.environment);
        let servers = &loaded.config.servers;
        assert_eq!(
            [
                fixture.is_approved(&servers[0]),
                fixture.is_approved(&servers[1])
            ],
            is_approved
        );
    }
    // Another path to the same directory is the same project.
    let link = fixture.folder.path().join("link");
    symlink(fixture.project(), &link).unwrap();
    let sources = ConfigSources {
        project: Some(link.join(".mcp.json")),
        ..ConfigSources::default()
    };
    assert!(fixture.is_approved(&load(&sources, &fixture.environment).config.servers[0]));
}

#[test]
fn approval_covers_reviewed_content_only() {
    let fixture = ApprovalFixture::new();
    let shown = fixture.entry(&json!({ "command": "server", "args": ["shown"] }));
    let swapped = fixture.entry(&json!({ "command": "server", "args": ["swapped"] }));
    fixture.approve(&shown);
    assert!(fixture.is_approved(&shown));
    let LaunchDecision::AwaitingApproval { reason, hint } = fixture.decide_launch(&swapped) else {
        panic!("changed entry does not wait for approval");
    };
    assert_eq!(
        (reason, hint.as_str()),
        (PendingReason::Changed, "switchboard trust a")
    );
    let approvals = fixture.file().read().unwrap();
    let ApprovalState::Changed(before) = approvals.state_of(&swapped) else {
        panic!();
    };
    let changes = swapped.review().unwrap().changes_since(&before.review);
    assert_eq!(
        serde_json::to_value(&changes).unwrap(),
        json!([{ "field": "args", "before": ["shown"], "after": ["swapped"] }])
    );
}

#[test]
fn rejection_lasts_until_entry_changes() {
    let fixture = ApprovalFixture::new();
    let entry = fixture.entry(&json!({ "command": "server" }));
    fixture
        .file()
        .record(&[&entry], Verdict::Rejected, SystemTime::now())
        .unwrap();
    let trust = Trust::project_for_this_run().with_approvals(fixture.file().read().unwrap());
    for decision in [fixture.decide_launch(&entry), entry.decide_launch(&trust)] {
        let LaunchDecision::Refused(refusal @ LaunchRefusal::ByUser { .. }) = decision else {
            panic!("{decision:?}");
        };
        assert_eq!(
            (refusal.to_string(), refusal.hint()),
            (
                "you rejected it".to_owned(),
                "to review it again: switchboard trust a".to_owned()
            )
        );
    }
    let changed = fixture.entry(&json!({ "command": "server", "args": ["x"] }));
    assert!(matches!(
        fixture.decide_launch(&changed),
        LaunchDecision::AwaitingApproval { .. }
    ));
    // The later decision replaces the earlier one.
    fixture.approve(&entry);
    assert!(fixture.is_approved(&entry));
    assert_eq!(fixture.file().read().unwrap().records().len(), 1);
}

#[test]
fn review_and_record_contain_no_secret() {
    let fixture = ApprovalFixture::new();
    let entry = fixture.entry(&json!({
        "command": "server",
        "args": ["--token=${TOKEN}", "${HOME}/x", "${UNSET:-default}", "-k=ghp_0123456789abcdefABCD"],
        "env": {
            "API_TOKEN": "sk-literal", "B": "Bearer ${TOKEN}", "MY_SECRET": "${TOKEN:-literal2}",
            "apiKey": "sk-3", "LD_PRELOAD": "./evil.so", "KEYBOARD": "us"
        },
        "auth": { "clientSecret": "literal4" }
    }));
    let shown = serde_json::to_value(entry.review().unwrap()).unwrap();
    let program = fixture.folder.path().join("bin/server");
    assert_eq!(
        shown,
        json!({
            "type": "stdio",
            "command": "server",
            "program": program,
            "args": ["--token=${TOKEN}", "/home/ada/x", "default", "-k=***"],
            "env": {
                "API_TOKEN": "***", "B": "Bearer ${TOKEN}", "MY_SECRET": "${TOKEN:-***}",
                "apiKey": "***", "LD_PRELOAD": "./evil.so", "KEYBOARD": "us"
            },
            "auth": { "clientSecret": "***" },
            "variables": ["HOME", "TOKEN", "UNSET"]
        })
    );
    fixture.approve(&entry);
    let stored = fs::read_to_string(fixture.file().path()).unwrap();
    for secret in ["hush", "sk-", "literal", "ghp_"] {
        assert!(!stored.contains(secret), "{stored}");
    }
}

#[test]
fn commands_are_never_masked_in_review() {
    let fixture = ApprovalFixture::new();
    let commands = [
        "TOKEN=x touch marker",
        "Authorization: touch marker",
        ": -----BEGIN PRIVATE KEY\ntouch marker",
        "token=$(touch marker)",
    ];
    for command in commands {
        let entry = fixture.entry(&json!({ "command": "sh", "args": ["--password", command] }));
        let shown = entry.review().unwrap().as_object();
        assert_eq!(shown["args"], json!(["--password", command]));
    }
}

#[test]
fn approvals_file_is_private_and_kept_when_invalid() {
    let fixture = ApprovalFixture::new();
    let file = fixture.file();
    let entry = fixture.entry(&json!({ "command": "server" }));
    assert_eq!(file.read().unwrap().records(), []);
    let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    file.record(&[&entry], Verdict::Approved, at).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.path()), 0o600);
    assert_eq!(mode(file.path().parent().unwrap()), 0o700);
    let approvals = file.read().unwrap();
    let record = &approvals.records()[0];
    assert_eq!(
        (record.decided_at, record.project.as_path()),
        (at, fixture.project().canonicalize().unwrap().as_path())
    );
    let good = fs::read_to_string(file.path()).unwrap();

    for broken in [
        String::new(),
        "{".to_owned(),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("\"approved\"", "\"unknown\""),
        good[..good.len() / 2].to_owned(),
    ] {
        fs::write(file.path(), &broken).unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(error, ApprovalsError::Invalid(_)), "{error}");
        let diagnostic = error.diagnostic(&file).to_string();
        assert!(
            diagnostic.contains("treating all project servers as unapproved")
                && diagnostic.contains("trust.json")
        );
        assert!(file.record(&[&entry], Verdict::Approved, at).is_err());
        assert!(file.revoke(|_| true).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), broken);
    }

    fs::write(file.path(), &good).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o620)).unwrap();
    assert!(matches!(file.read(), Err(ApprovalsError::WritableByOthers)));
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(fixture.is_approved(&entry));

    assert_eq!(file.revoke(|_| true).unwrap().len(), 1);
    assert!(!fixture.is_approved(&entry));
    assert_eq!(file.revoke(|_| true).unwrap(), []);
}

#[test]
fn approvals_file_inside_project_is_ignored() {
    let fixture = ApprovalFixture::new();
    let entry = fixture.entry(&json!({ "command": "server" }));
    let inside = ApprovalsFile::at(fixture.project().join(".state/trust.json"));
    inside
        .record(&[&entry], Verdict::Approved, SystemTime::now())
        .unwrap();
    let trust = Trust::none().with_approvals(inside.read().unwrap());
    assert!(matches!(
        entry.decide_launch(&trust),
        LaunchDecision::AwaitingApproval { .. }
    ));
}

#[test]
fn concurrent_records_are_all_kept() {
    let fixture = ApprovalFixture::new();
    let names: Vec<_> = (0..24).map(|number| format!("s{number}")).collect();
    let servers: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), json!({ "command": "server" })))
        .collect();
    let path = fixture.project().join(".mcp.json");
    fs::write(&path, json!({ "mcpServers": servers }).to_string()).unwrap();
    let sources = ConfigSources {
        project: Some(path),
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &fixture.environment);
    std::thread::scope(|scope| {
        for entry in &loaded.config.servers {
            scope.spawn(|| fixture.approve(entry));
        }
    });
    assert_eq!(fixture.file().read().unwrap().records().len(), names.len());
    assert!(
        loaded
            .config
            .servers
            .iter()
            .all(|entry| fixture.is_approved(entry))
    );
}

#[test]
fn unreadable_program_cannot_be_approved() {
    let fixture = ApprovalFixture::new();
    fixture.write_program("project/run", "");
    let program = fs::File::options()
        .write(true)
        .open(fixture.project().join("run"));
    // A sparse file that is larger than the read limit.
    program.unwrap().set_len(1 << 40).unwrap();
    let entry = fixture.entry(&json!({ "command": "./run" }));
    let outcome = fixture
        .file()
        .record(&[&entry], Verdict::Approved, SystemTime::now());
    assert!(matches!(outcome, Err(ApprovalsError::Unverifiable(_))));
    assert!(!fixture.is_approved(&entry));
}
