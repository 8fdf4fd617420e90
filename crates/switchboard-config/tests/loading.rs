//! Loading: which sources are read, which entry wins, and how unusable sources are reported.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use switchboard_config::{
    ConfigSource, ConfigSources, LaunchDecision, LoadedConfig, Scope, ServerConfig, Severity,
    Trust, load,
};
use tempfile::TempDir;

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn servers(entries: &[(&str, &str)]) -> String {
    let entries: Vec<String> = entries
        .iter()
        .map(|(name, command)| format!(r#""{name}": {{ "command": "{command}" }}"#))
        .collect();
    format!(r#"{{ "mcpServers": {{ {} }} }}"#, entries.join(", "))
}

fn load_here(sources: &ConfigSources) -> LoadedConfig {
    load(sources, &HashMap::new())
}

fn load_project(path: &Path) -> LoadedConfig {
    load_here(&ConfigSources {
        project: Some(path.to_path_buf()),
        ..ConfigSources::default()
    })
}

fn load_named(path: &Path) -> LoadedConfig {
    load_here(&ConfigSources {
        command_line: vec![ConfigSource::File(path.to_path_buf())],
        ..ConfigSources::default()
    })
}

/// Name, scope and command of each entry, with the project trusted. If an entry may not start, the
/// reason is returned instead of the command.
fn summary(loaded: &LoadedConfig) -> Vec<(String, Scope, String)> {
    let command = |decision| match decision {
        LaunchDecision::Launch(spec) => spec.masked_entry().as_object()["command"]
            .as_str()
            .unwrap()
            .to_owned(),
        LaunchDecision::AwaitingApproval { .. } => "awaiting approval".to_owned(),
        LaunchDecision::Refused(refusal) => refusal.to_string(),
        LaunchDecision::Invalid(problem) => problem.to_string(),
    };
    loaded
        .config
        .servers
        .iter()
        .map(|entry| {
            let decision = entry.decide_launch(&Trust::project_for_this_run());
            (entry.name().to_string(), entry.scope(), command(decision))
        })
        .collect()
}

/// Severity, message and position of each diagnostic.
fn diagnostics(loaded: &LoadedConfig) -> Vec<(Severity, String, (u32, u32))> {
    loaded
        .diagnostics
        .iter()
        .map(|diagnostic| {
            let origin = diagnostic.origin.as_ref().unwrap();
            (
                diagnostic.severity,
                diagnostic.message.clone(),
                (origin.line, origin.column),
            )
        })
        .collect()
}

fn entry(name: &str, scope: Scope, command: &str) -> (String, Scope, String) {
    (name.to_owned(), scope, command.to_owned())
}

fn all_scopes(folder: &TempDir) -> ConfigSources {
    ConfigSources {
        command_line: vec![
            ConfigSource::File(write(
                folder,
                "first.json",
                servers(&[("a", "first"), ("b", "first")]),
            )),
            ConfigSource::Inline(servers(&[("b", "second")])),
        ],
        managed: Some(write(folder, "managed.json", servers(&[("m", "managed")]))),
        local: Some(write(
            folder,
            "local.json",
            servers(&[("m", "local"), ("l", "local")]),
        )),
        project: Some(write(
            folder,
            "project.json",
            servers(&[
                ("d", "project"),
                ("c", "project"),
                ("a", "project"),
                ("l", "project"),
            ]),
        )),
        user: Some(write(
            folder,
            "user.json",
            servers(&[("e", "user"), ("d", "user"), ("b", "user")]),
        )),
        strict: false,
    }
}

#[test]
fn higher_scope_wins() {
    let folder = TempDir::new().unwrap();
    let loaded = load_here(&all_scopes(&folder));
    assert_eq!(diagnostics(&loaded), []);
    assert_eq!(
        summary(&loaded),
        [
            entry("m", Scope::Managed, "managed"),
            entry("b", Scope::CommandLine, "second"),
            entry("a", Scope::CommandLine, "first"),
            entry("l", Scope::Local, "local"),
            entry("d", Scope::Project, "project"),
            entry("c", Scope::Project, "project"),
            entry("e", Scope::User, "user"),
        ]
    );
}

#[test]
fn strict_loads_only_managed_and_command_line() {
    let folder = TempDir::new().unwrap();
    let loaded = load_here(&ConfigSources {
        strict: true,
        ..all_scopes(&folder)
    });
    assert_eq!(
        summary(&loaded),
        [
            entry("m", Scope::Managed, "managed"),
            entry("b", Scope::CommandLine, "second"),
            entry("a", Scope::CommandLine, "first"),
        ]
    );
}

#[test]
fn invalid_entry_still_overrides_lower_scope() {
    let folder = TempDir::new().unwrap();
    let project = r#"{ "mcpServers": { "bad": { "command": 1 }, "good": { "command": "x" } } }"#;
    let loaded = load_here(&ConfigSources {
        project: Some(write(&folder, "project.json", project)),
        user: Some(write(&folder, "user.json", servers(&[("bad", "fine")]))),
        ..ConfigSources::default()
    });
    let message = "`command` must be a string, not a number";
    assert_eq!(
        summary(&loaded),
        [
            entry("bad", Scope::Project, message),
            entry("good", Scope::Project, "x"),
        ]
    );
    assert_eq!(
        diagnostics(&loaded),
        [(Severity::Warning, message.to_owned(), (1, 39))]
    );
}

#[test]
fn overridden_entry_has_no_diagnostics() {
    let folder = TempDir::new().unwrap();
    let loaded = load_here(&ConfigSources {
        project: Some(write(&folder, "project.json", servers(&[("a", "fine")]))),
        user: Some(write(&folder, "user.json", servers(&[("a", "${UNSET}")]))),
        ..ConfigSources::default()
    });
    assert_eq!(diagnostics(&loaded), []);
    assert_eq!(summary(&loaded), [entry("a", Scope::Project, "fine")]);
}

#[test]
fn missing_file_is_ignored_unless_named() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing.json");
    assert_eq!(diagnostics(&load_project(&missing)), []);
    let expected = "file not found".to_owned();
    assert_eq!(
        diagnostics(&load_named(&missing)),
        [(Severity::Error, expected, (0, 0))]
    );
    assert_eq!(
        load_named(&missing).diagnostics[0].to_string(),
        format!(
            "error: file not found\n --> {}\n  = hint: pass the path of a file",
            missing.display()
        )
    );
}

#[test]
fn broken_file_is_error_only_if_named() {
    let folder = TempDir::new().unwrap();
    let broken = write(&folder, "broken.json", "{\n  \"mcpServers\": [}\n}");
    let expected = "not valid JSON: unexpected close brace".to_owned();
    assert_eq!(
        diagnostics(&load_project(&broken)),
        [(Severity::Warning, expected.clone(), (2, 18))]
    );
    assert_eq!(
        diagnostics(&load_named(&broken)),
        [(Severity::Error, expected, (2, 18))]
    );

    let loaded = load_here(&ConfigSources {
        project: Some(broken),
        user: Some(write(&folder, "user.json", servers(&[("a", "x")]))),
        ..ConfigSources::default()
    });
    assert_eq!(summary(&loaded), [entry("a", Scope::User, "x")]);
}

#[test]
fn unexpected_structure_is_reported() {
    let warning = Severity::Warning;
    let missing = "no servers loaded: `mcpServers` is missing";
    let deep = format!(
        r#"{{"mcpServers":{{"a":{{"tools":{}{}}}}}}}"#,
        "[".repeat(70),
        "]".repeat(70)
    );
    for (text, expected) in [
        ("{}", None),
        ("{ \"mcpServers\": {} }", None),
        ("{ \"permissions\": { \"allow\": [] } }", None),
        ("", Some((warning, "the file is empty", (0, 0)))),
        (
            " // nothing\n",
            Some((warning, "the file is empty", (0, 0))),
        ),
        (
            "[]",
            Some((warning, "expected an object with `mcpServers`", (1, 1))),
        ),
        (
            "{ \"mcpServers\": [] }",
            Some((warning, "`mcpServers` must be an object", (1, 17))),
        ),
        ("{ \"servers\": {} }", Some((warning, missing, (1, 3)))),
        ("{ \"mcp_servers\": {} }", Some((warning, missing, (1, 3)))),
        (
            "{ \"x\": 1, \"a\": { \"command\": \"x\" } }",
            Some((warning, missing, (1, 11))),
        ),
        (
            "{ \"mcpServers\": {}, \"mcpServers\": {} }",
            Some((
                warning,
                "duplicate key `mcpServers`; the last one is used",
                (1, 21),
            )),
        ),
        (
            "{ \"mcpServers\": { \"\": { \"command\": \"x\" } } }",
            Some((warning, "server name must not be empty", (1, 19))),
        ),
        (
            deep.as_str(),
            Some((warning, "nested more than 64 levels deep", (1, 92))),
        ),
    ] {
        let folder = TempDir::new().unwrap();
        let loaded = load_project(&write(&folder, ".mcp.json", text));
        let expected: Vec<_> = expected
            .map(|(severity, message, at)| (severity, message.to_owned(), at))
            .into_iter()
            .collect();
        assert_eq!(diagnostics(&loaded), expected, "{text}");
        assert_eq!(summary(&loaded), [], "{text}");
    }
}

#[test]
fn named_source_without_servers_is_reported() {
    let inline = |text: &str| {
        load_here(&ConfigSources {
            command_line: vec![ConfigSource::Inline(text.to_owned())],
            ..ConfigSources::default()
        })
    };
    let missing = "no servers loaded: `mcpServers` is missing";
    for text in ["{}", "{ \"permissions\": [] }"] {
        let loaded = inline(text);
        let expected = (Severity::Warning, missing.to_owned(), (1, 1));
        assert_eq!(diagnostics(&loaded), [expected]);
        let hint = r#"write { "mcpServers": { "name": { "command": "…" } } }"#;
        assert_eq!(loaded.diagnostics[0].hint.as_deref(), Some(hint));
    }
    assert_eq!(diagnostics(&inline("{ \"mcpServers\": {} }")), []);
}

#[test]
fn comments_trailing_commas_and_bom_are_accepted() {
    let folder = TempDir::new().unwrap();
    let text = "\u{feff}// all servers\n{ \"mcpServers\": { /* one */ \"a\": { \"command\": \"x\", }, }, }";
    let loaded = load_project(&write(&folder, ".mcp.json", text));
    assert_eq!(diagnostics(&loaded), []);
    assert_eq!(summary(&loaded), [entry("a", Scope::Project, "x")]);
}

#[test]
fn non_utf8_text_is_reported() {
    let folder = TempDir::new().unwrap();
    let utf16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked: Vec<u8> = [0xff, 0xfe].into_iter().chain(utf16.clone()).collect();
    for bytes in [utf16, marked] {
        let loaded = load_project(&write(&folder, ".mcp.json", bytes));
        let expected = "file is UTF-16".to_owned();
        assert_eq!(
            diagnostics(&loaded),
            [(Severity::Warning, expected, (0, 0))]
        );
    }
    let loaded = load_project(&write(&folder, ".mcp.json", b"{\n \"a\xff\": 1 }"));
    let expected = "file is not valid UTF-8".to_owned();
    assert_eq!(
        diagnostics(&loaded),
        [(Severity::Warning, expected, (2, 4))]
    );
}

#[test]
fn too_large_file_is_rejected() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, ".mcp.json", vec![b' '; 1024 * 1024 + 1]);
    let expected = "the file is larger than 1024 KiB".to_owned();
    assert_eq!(
        diagnostics(&load_project(&path)),
        [(Severity::Warning, expected, (0, 0))]
    );
}

#[test]
fn number_of_servers_and_problems_is_limited() {
    let names: Vec<String> = (0..1500).map(|number| format!("s{number}")).collect();
    let entries: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let loaded = load_here(&ConfigSources {
        command_line: vec![ConfigSource::Inline(servers(&entries))],
        ..ConfigSources::default()
    });
    assert_eq!(loaded.config.servers.len(), 1000);
    assert_eq!(loaded.diagnostics.len(), 101);
    assert_eq!(
        loaded.diagnostics[0].message,
        "too many servers; only the first 1000 are loaded"
    );
    assert_eq!(
        loaded.diagnostics[100].message,
        "901 more problems not shown"
    );
}

#[cfg(unix)]
mod irregular {
    use super::*;

    fn read_errors(path: &Path) -> Vec<String> {
        let diagnostics = diagnostics(&load_project(path)).into_iter();
        diagnostics.map(|(_, message, _)| message).collect()
    }

    #[test]
    fn irregular_files_are_rejected() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(
            read_errors(folder.path()),
            ["not a regular file: a directory"]
        );
        assert_eq!(
            read_errors(Path::new("/dev/zero")),
            ["not a regular file: a device"]
        );
        assert_eq!(read_errors(&socket), ["not a regular file: a socket"]);
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the standard library cannot make a pipe with a name"
    )]
    fn pipe_is_rejected_without_blocking() {
        let folder = TempDir::new().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap();
        assert!(made.success());
        assert_eq!(read_errors(&pipe), ["not a regular file: a pipe"]);
    }
}

#[test]
fn project_cwd_is_relative_to_project() {
    let folder = TempDir::new().unwrap();
    let text =
        r#"{ "mcpServers": { "a": { "command": "x", "cwd": "sub" }, "b": { "command": "x" } } }"#;
    let path = write(&folder, ".mcp.json", text);
    let configs = |loaded: &LoadedConfig| -> Vec<ServerConfig> {
        let launch_config = |entry: &switchboard_config::ServerEntry| match entry
            .decide_launch(&Trust::project_for_this_run())
        {
            LaunchDecision::Launch(spec) => Some(spec.config().clone()),
            _ => None,
        };
        loaded
            .config
            .servers
            .iter()
            .filter_map(launch_config)
            .collect()
    };
    let plain = ServerConfig::stdio("x", [""; 0]);
    assert_eq!(
        configs(&load_project(&path)),
        [plain.clone().cwd(folder.path().join("sub")), plain.clone()]
    );
    assert_eq!(
        configs(&load_named(&path)),
        [plain.clone().cwd("sub"), plain]
    );
}
