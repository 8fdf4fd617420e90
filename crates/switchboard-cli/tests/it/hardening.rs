//! Attacks by the authors of a project: file names with escapes, symbolic links, a relative home.

use std::fs;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;
use serde_json::json;

use crate::support::TestCli;

#[tokio::test]
async fn escapes_in_directory_name_are_not_printed() {
    let cli = TestCli::empty();
    let folder = cli
        .sandbox
        .project()
        .join("a\u{1b}[31mb\u{1b}]0;title\u{7}");
    fs::create_dir_all(folder.join(".git")).unwrap();
    let run = async |args: &[&str]| {
        let mut command = cli.command_without_trust(args);
        command.current_dir(&folder);
        cli.run_command(command).await
    };
    let runs: [&[&str]; 7] = [
        &["add", "x", "-s", "project", "--", "srv"],
        &["add", "x", "-s", "project", "--", "srv"],
        &["disable", "x"],
        &["add", "x", "--", "srv"],
        &["remove", "x"],
        &["remove", "x", "-s", "local"],
        &["remove", "x", "-s", "project"],
    ];
    for args in runs {
        let output = run(args).await;
        assert!(
            !output.to_string().contains(['\u{1b}', '\u{7}']),
            "{args:?}: {output:?}",
            output = output.to_string()
        );
    }
    fs::write(folder.join(".mcp.json"), "broken").unwrap();
    let output = run(&["add", "x", "-s", "project", "--", "srv"]).await;
    assert_eq!(output.code, 3);
    assert!(
        !output.to_string().contains(['\u{1b}', '\u{7}']),
        "{output}"
    );
}

#[tokio::test]
async fn relative_home_is_rejected() {
    let cli = TestCli::empty();
    let marker = cli.sandbox.project().join("output");
    let entry = json!({"command": "touch", "args": [marker]});
    let config = json!({"mcpServers": {"theirs": entry}});
    cli.sandbox.write(".mcp.json", config.to_string());
    for home in [".", "project"] {
        let mut command = cli.command_without_trust(&["list"]);
        command.env("HOME", home);
        let output = cli.run_command(command).await;
        assert_eq!(output.code, 3, "{home:?}: {output}");
        assert!(
            output.stderr.contains("HOME is not an absolute path"),
            "{output}"
        );
        assert!(output.stderr.contains("hint: set HOME"), "{output}");
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn edit_does_not_follow_link_out_of_project() {
    let cli = TestCli::empty();
    let own = cli
        .sandbox
        .write_home(".mcp.json", r#"{"mcpServers":{"mine":{"command":"mine"}}}"#);
    let before = fs::read_to_string(&own).unwrap();
    let link = cli.sandbox.project().join(".mcp.json");
    symlink("../home/.mcp.json", &link).unwrap();
    let added = cli
        .run_command(cli.command_without_trust(&["add", "x", "-s", "project", "--", "srv"]))
        .await;
    assert_snapshot!(added, @r"
    exit 3
    --- stderr
    error: [sandbox]/project/.mcp.json not changed: symbolic link points outside the project ([sandbox]/project/../home/.mcp.json)
    hint: replace the link with a file, or use another scope
    ");
    let removed = cli
        .run_command(cli.command_without_trust(&["remove", "mine", "-s", "project"]))
        .await;
    assert_eq!(removed.code, 3, "{removed}");
    assert_eq!(fs::read_to_string(&own).unwrap(), before);

    // `add` must not create the target of a link outside of the project. A link to a file in the
    // project is allowed.
    fs::remove_file(&link).unwrap();
    symlink("../new/.mcp.json", &link).unwrap();
    let output = cli
        .run_command(cli.command_without_trust(&["add", "x", "-s", "project", "--", "srv"]))
        .await;
    assert_eq!(output.code, 3, "{output}");
    assert!(!cli.sandbox.root().join("new").exists());
    fs::remove_file(&link).unwrap();
    fs::create_dir(cli.sandbox.project().join("etc")).unwrap();
    symlink("etc/mcp.json", &link).unwrap();
    let output = cli
        .run_command(cli.command_without_trust(&["add", "x", "-s", "project", "--", "srv"]))
        .await;
    assert_eq!(output.code, 0, "{output}");
    assert!(cli.sandbox.read("etc/mcp.json").contains("srv"));
}

#[tokio::test]
async fn trace_and_log_do_not_truncate_link_target() {
    let cli = TestCli::empty();
    let precious = cli.sandbox.write_home("precious", "all my work");
    symlink(&precious, cli.sandbox.project().join("out")).unwrap();
    for flag in ["--trace", "--log-file"] {
        let output = cli
            .run_command(cli.command_without_trust(&["list", flag, "out"]))
            .await;
        assert_eq!(output.code, 2, "{output}");
        assert!(
            output
                .stderr
                .contains("error: cannot write out: it is a symbolic link"),
            "{output}"
        );
        assert!(
            output.stderr.contains("hint: pass the real file path"),
            "{output}"
        );
        assert_eq!(fs::read_to_string(&precious).unwrap(), "all my work");
        // Links in `/dev` are allowed: they come from the system.
        let output = cli
            .run_command(cli.command_without_trust(&["list", flag, "/dev/stderr"]))
            .await;
        assert_eq!(output.code, 0, "{output}");
    }
}

#[tokio::test]
async fn demo_obeys_managed_profile() {
    let cli = TestCli::empty();
    let settings = cli.sandbox.root().join("etc/managed-settings.json");
    cli.sandbox.write(settings, r#"{"profile": "server"}"#);
    let output = cli.run_command(cli.command_without_trust(&["demo"])).await;
    assert_snapshot!(output, @r"
    exit 6
    --- stderr
    error: cannot run the demo: profile `server` forbids running programs (its `command`)
    hint: ask your administrator (managed-settings.json)
    ");
}
