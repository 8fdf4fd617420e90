//! What was approved, what asks again, and where it is kept.

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
    Admission, ApprovalsError, ApprovalsFile, Consent, Refusal, ServerEntry, Sources, Standing,
    Trust, Verdict, Waiting, load,
};
use tempfile::TempDir;

/// A project, a user's environment, and the file of what they approved.
struct Desk {
    folder: TempDir,
    environment: HashMap<String, String>,
}

impl Desk {
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
        let desk = Self {
            folder,
            environment: environment.into(),
        };
        desk.program("bin/server", "one");
        desk
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn program(&self, path: &str, content: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn file(&self) -> ApprovalsFile {
        ApprovalsFile::at(self.folder.path().join("state/switchboard/trust.json"))
    }

    /// The entry `a` of a project whose file reads so.
    fn entry_of(&self, text: &str) -> ServerEntry {
        let file = self.project().join(".mcp.json");
        fs::write(&file, text).unwrap();
        let sources = Sources {
            project: Some(file),
            ..Sources::default()
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

    fn admit(&self, entry: &ServerEntry) -> Admission {
        entry.admit(&Trust::none().with_approvals(self.file().read().unwrap()))
    }

    fn runs(&self, entry: &ServerEntry) -> bool {
        matches!(self.admit(entry), Admission::Launch(spec) if spec.consent() == Consent::Approved)
    }
}

/// An entry of each kind, with everything that may stand in it.
fn whole_entries() -> [Value; 2] {
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

/// Every way to change a value a little: another text, another order, one more, one less, gone.
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
fn every_change_of_what_runs_asks_again() {
    let desk = Desk::new();
    let mut tried = 0;
    for whole in whole_entries() {
        let entry = desk.entry(&whole);
        desk.approve(&entry);
        assert!(desk.runs(&desk.entry(&whole)), "{whole}");
        for (key, value) in whole.as_object().unwrap() {
            let mut others = mutations(value);
            if key == "type" {
                // The name of a type is a word of its own; what counts is what it means.
                others = vec![json!("sse"), json!("sdk")];
            }
            others.push(Value::Null);
            for other in others {
                let mut changed = whole.clone();
                match &other {
                    Value::Null => drop(changed.as_object_mut().unwrap().remove(key)),
                    other => changed[key] = other.clone(),
                }
                let changed_entry = desk.entry(&changed);
                if key == "type" && other.is_null() && whole.get("command").is_some() {
                    assert!(desk.runs(&changed_entry), "`stdio` goes without saying");
                    continue;
                }
                let asks = match desk.admit(&changed_entry) {
                    Admission::AwaitingApproval { waiting, .. } => waiting == Waiting::Changed,
                    Admission::Invalid(_) => true,
                    Admission::Launch(_) | Admission::Refused(_) => false,
                };
                assert!(asks, "{key}: {changed}");
                tried += 1;
            }
            // Changed back it is what was approved.
            assert!(desk.runs(&desk.entry(&whole)));
        }
    }
    assert!(tried > 150, "{tried}");
}

#[test]
fn what_does_not_change_what_runs_never_asks() {
    let desk = Desk::new();
    for whole in whole_entries() {
        desk.approve(&desk.entry(&whole));
        for (key, value) in [
            ("timeout", json!(5)),
            ("startupTimeout", json!(5)),
            ("maxConcurrentCalls", json!(5)),
            ("reconnect", json!({ "maxAttempts": 1 })),
            ("lazy", json!(true)),
            ("disabled", json!(true)),
            ("alwaysLoad", json!(true)),
            ("somethingElse", json!("nobody reads it")),
        ] {
            let mut changed = whole.clone();
            changed[key] = value;
            assert!(desk.runs(&desk.entry(&changed)), "{key}");
        }
        for text in rewritings(&whole) {
            assert!(desk.runs(&desk.entry_of(&text)), "{text}");
        }
    }
}

/// The same entry, written in other ways.
fn rewritings(entry: &Value) -> Vec<String> {
    let members = entry.as_object().unwrap();
    let compact = json!({ "mcpServers": { "a": entry } }).to_string();
    let pretty = serde_json::to_string_pretty(&json!({ "mcpServers": { "a": entry } })).unwrap();
    let turned: Vec<_> = members.iter().rev().collect();
    let turned = turned
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
    let turned = format!("{{\"mcpServers\": {{\"a\": {{{},}},}},}}", turned.join(","));
    let escaped = compact.replace("server", "\\u0073erver");
    vec![
        format!("// of mine\n{pretty}\n/* the end */\n"),
        pretty.replace('\n', "\r\n\t"),
        pretty.replace(": ", " /* here */ : "),
        turned,
        escaped.replace("mcp\\u0073ervers", "mcpServers"),
        format!(
            "{{\"$schema\": \"x\", \"mcpServers\": {{\"other\": {{\"command\": \"y\"}}, \"a\": {entry}}}}}"
        ),
        compact,
    ]
}

#[test]
fn a_variable_counts_where_it_says_what_runs_and_a_token_does_not() {
    let mut desk = Desk::new();
    let entry =
        json!({ "command": "server", "args": ["${REGION}"], "env": { "TOKEN": "${TOKEN}" } });
    desk.approve(&desk.entry(&entry));
    desk.environment.insert("TOKEN".into(), "rotated".into());
    assert!(desk.runs(&desk.entry(&entry)));
    desk.environment.insert("REGION".into(), "south".into());
    assert!(!desk.runs(&desk.entry(&entry)));
    // What it stands for, written out, is the same.
    let written_out =
        json!({ "command": "server", "args": ["north"], "env": { "TOKEN": "${TOKEN}" } });
    assert!(desk.runs(&desk.entry(&written_out)));
}

#[test]
fn a_program_of_the_project_counts_with_its_content_and_others_do_not() {
    let desk = Desk::new();
    let elsewhere = desk.entry(&json!({ "command": "server" }));
    desk.approve(&elsewhere);
    desk.program("bin/server", "two");
    let again = || desk.entry(&json!({ "command": "server" }));
    assert!(desk.runs(&again()), "an update of the system does not ask");

    desk.program("project/tools/run", "one");
    for entry in [
        json!({ "command": "./tools/run" }),
        json!({ "command": "./run", "cwd": "tools" }),
        json!({ "command": "tools/../tools/run" }),
        json!({ "command": desk.project().join("tools/run") }),
        json!({ "command": "run", "env": { "PATH": "tools" } }),
    ] {
        desk.program("project/tools/run", "one");
        desk.approve(&desk.entry(&entry));
        assert!(desk.runs(&desk.entry(&entry)), "{entry}");
        desk.program("project/tools/run", "two");
        assert!(!desk.runs(&desk.entry(&entry)), "{entry}");
        fs::remove_file(desk.project().join("tools/run")).unwrap();
        assert!(!desk.runs(&desk.entry(&entry)), "{entry}");
    }
}

#[test]
fn a_program_that_moves_into_the_project_asks_again() {
    let desk = Desk::new();
    let entry = json!({ "command": "server", "env": { "PATH": format!("tools:{}", desk.folder.path().join("bin").display()) } });
    desk.approve(&desk.entry(&entry));
    assert!(desk.runs(&desk.entry(&entry)));
    desk.program("project/tools/server", "shadow");
    assert!(!desk.runs(&desk.entry(&entry)));

    // A link out of the project counts with where it leads.
    desk.program("bin/other", "other");
    let link = desk.project().join("link");
    symlink(desk.folder.path().join("bin/server"), &link).unwrap();
    let entry = json!({ "command": "./link" });
    desk.approve(&desk.entry(&entry));
    desk.program("bin/server", "updated");
    assert!(desk.runs(&desk.entry(&entry)));
    fs::remove_file(&link).unwrap();
    symlink(desk.folder.path().join("bin/other"), &link).unwrap();
    assert!(!desk.runs(&desk.entry(&entry)));
}

#[test]
fn an_approval_counts_for_one_project_and_one_name() {
    let desk = Desk::new();
    let entry = json!({ "command": "server" });
    desk.approve(&desk.entry(&entry));
    let text = json!({ "mcpServers": { "a": entry, "b": entry } }).to_string();
    let inner = desk.project().join("inner");
    fs::create_dir(&inner).unwrap();
    for (folder, runs) in [(desk.project(), [true, false]), (inner, [false, false])] {
        let file = folder.join(".mcp.json");
        fs::write(&file, &text).unwrap();
        let sources = Sources {
            project: Some(file),
            ..Sources::default()
        };
        let loaded = load(&sources, &desk.environment);
        let servers = &loaded.config.servers;
        assert_eq!([desk.runs(&servers[0]), desk.runs(&servers[1])], runs);
    }
    // By another way to the same folder it is the same project.
    let link = desk.folder.path().join("link");
    symlink(desk.project(), &link).unwrap();
    let sources = Sources {
        project: Some(link.join(".mcp.json")),
        ..Sources::default()
    };
    assert!(desk.runs(&load(&sources, &desk.environment).config.servers[0]));
}

#[test]
fn what_was_shown_is_approved_whatever_the_file_says_by_then() {
    let desk = Desk::new();
    let shown = desk.entry(&json!({ "command": "server", "args": ["shown"] }));
    let swapped = desk.entry(&json!({ "command": "server", "args": ["swapped"] }));
    desk.approve(&shown);
    assert!(desk.runs(&shown));
    let Admission::AwaitingApproval { waiting, hint } = desk.admit(&swapped) else {
        panic!("it was admitted");
    };
    assert_eq!(
        (waiting, hint.as_str()),
        (Waiting::Changed, "switchboard trust a")
    );
    let approvals = desk.file().read().unwrap();
    let Standing::Changed(before) = approvals.standing(&swapped) else {
        panic!();
    };
    let changes = swapped.shown().unwrap().changes_since(&before.shown);
    assert_eq!(
        serde_json::to_value(&changes).unwrap(),
        json!([{ "field": "args", "before": ["shown"], "after": ["swapped"] }])
    );
}

#[test]
fn a_rejected_entry_stays_rejected_until_it_changes() {
    let desk = Desk::new();
    let entry = desk.entry(&json!({ "command": "server" }));
    desk.file()
        .record(&[&entry], Verdict::Rejected, SystemTime::now())
        .unwrap();
    let trust = Trust::project_for_this_run().with_approvals(desk.file().read().unwrap());
    for admission in [desk.admit(&entry), entry.admit(&trust)] {
        let Admission::Refused(refusal @ Refusal::ByUser { .. }) = admission else {
            panic!("{admission:?}");
        };
        assert_eq!(
            (refusal.to_string(), refusal.hint()),
            (
                "rejected by you".to_owned(),
                "to be asked again: switchboard trust a".to_owned()
            )
        );
    }
    let changed = desk.entry(&json!({ "command": "server", "args": ["x"] }));
    assert!(matches!(
        desk.admit(&changed),
        Admission::AwaitingApproval { .. }
    ));
    // The newer word counts.
    desk.approve(&entry);
    assert!(desk.runs(&entry));
    assert_eq!(desk.file().read().unwrap().records().len(), 1);
}

#[test]
fn nothing_that_is_shown_or_kept_is_a_secret() {
    let desk = Desk::new();
    let entry = desk.entry(&json!({
        "command": "server",
        "args": ["--token=${TOKEN}", "${HOME}/x", "${UNSET:-default}", "-k=ghp_0123456789abcdefABCD"],
        "env": {
            "API_TOKEN": "sk-literal", "B": "Bearer ${TOKEN}", "MY_SECRET": "${TOKEN:-literal2}",
            "apiKey": "sk-3", "LD_PRELOAD": "./evil.so", "KEYBOARD": "us"
        },
        "auth": { "clientSecret": "literal4" }
    }));
    let shown = serde_json::to_value(entry.shown().unwrap()).unwrap();
    let program = desk.folder.path().join("bin/server");
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
    desk.approve(&entry);
    let kept = fs::read_to_string(desk.file().path()).unwrap();
    for secret in ["hush", "sk-", "literal", "ghp_"] {
        assert!(!kept.contains(secret), "{kept}");
    }
}

#[test]
fn no_command_passes_for_a_secret() {
    let desk = Desk::new();
    let commands = [
        "TOKEN=x touch marker",
        "Authorization: touch marker",
        ": -----BEGIN PRIVATE KEY\ntouch marker",
        "token=$(touch marker)",
    ];
    for command in commands {
        let entry = desk.entry(&json!({ "command": "sh", "args": ["--password", command] }));
        let shown = entry.shown().unwrap().as_object();
        assert_eq!(shown["args"], json!(["--password", command]));
    }
}

#[test]
fn the_file_is_private_and_a_broken_one_approves_nothing_and_is_kept() {
    let desk = Desk::new();
    let file = desk.file();
    let entry = desk.entry(&json!({ "command": "server" }));
    assert_eq!(file.read().unwrap().records(), []);
    let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    file.record(&[&entry], Verdict::Approved, at).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.path()), 0o600);
    assert_eq!(mode(file.path().parent().unwrap()), 0o700);
    let approvals = file.read().unwrap();
    let record = &approvals.records()[0];
    assert_eq!(
        (record.at, record.project.as_path()),
        (at, desk.project().canonicalize().unwrap().as_path())
    );
    let good = fs::read_to_string(file.path()).unwrap();

    for broken in [
        String::new(),
        "{".to_owned(),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("\"approved\"", "\"whatever\""),
        good[..good.len() / 2].to_owned(),
    ] {
        fs::write(file.path(), &broken).unwrap();
        let error = file.read().unwrap_err();
        assert!(matches!(error, ApprovalsError::Invalid(_)), "{error}");
        let told = error.diagnostic(&file).to_string();
        assert!(
            told.contains("treating all project servers as unapproved")
                && told.contains("trust.json")
        );
        assert!(file.record(&[&entry], Verdict::Approved, at).is_err());
        assert!(file.revoke(|_| true).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), broken);
    }

    fs::write(file.path(), &good).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o620)).unwrap();
    assert!(matches!(file.read(), Err(ApprovalsError::WritableByOthers)));
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(desk.runs(&entry));

    assert_eq!(file.revoke(|_| true).unwrap().len(), 1);
    assert!(!desk.runs(&entry));
    assert_eq!(file.revoke(|_| true).unwrap(), []);
}

#[test]
fn a_project_that_holds_the_file_approves_nothing_for_itself() {
    let desk = Desk::new();
    let entry = desk.entry(&json!({ "command": "server" }));
    let inside = ApprovalsFile::at(desk.project().join(".state/trust.json"));
    inside
        .record(&[&entry], Verdict::Approved, SystemTime::now())
        .unwrap();
    let trust = Trust::none().with_approvals(inside.read().unwrap());
    assert!(matches!(
        entry.admit(&trust),
        Admission::AwaitingApproval { .. }
    ));
}

#[test]
fn nobody_loses_what_another_says_at_the_same_time() {
    let desk = Desk::new();
    let names: Vec<_> = (0..24).map(|number| format!("s{number}")).collect();
    let servers: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), json!({ "command": "server" })))
        .collect();
    let path = desk.project().join(".mcp.json");
    fs::write(&path, json!({ "mcpServers": servers }).to_string()).unwrap();
    let sources = Sources {
        project: Some(path),
        ..Sources::default()
    };
    let loaded = load(&sources, &desk.environment);
    std::thread::scope(|scope| {
        for entry in &loaded.config.servers {
            scope.spawn(|| desk.approve(entry));
        }
    });
    assert_eq!(desk.file().read().unwrap().records().len(), names.len());
    assert!(loaded.config.servers.iter().all(|entry| desk.runs(entry)));
}

#[test]
fn a_program_whose_content_cannot_be_told_is_never_approved_for_good() {
    let desk = Desk::new();
    desk.program("project/run", "");
    let program = fs::File::options()
        .write(true)
        .open(desk.project().join("run"));
    // Nothing but a hole, and longer than anybody would read.
    program.unwrap().set_len(1 << 40).unwrap();
    let entry = desk.entry(&json!({ "command": "./run" }));
    let outcome = desk
        .file()
        .record(&[&entry], Verdict::Approved, SystemTime::now());
    assert!(matches!(outcome, Err(ApprovalsError::Unverifiable(_))));
    assert!(!desk.runs(&entry));
}
