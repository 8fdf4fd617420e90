//! What whoever wrote a project, or the folder around it, must not achieve with names and links.

use std::fs;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;
use serde_json::json;

use crate::support::Desk;

#[tokio::test]
async fn a_folder_with_escapes_in_its_name_does_not_act_on_the_terminal() {
    let desk = Desk::empty();
    let folder = desk
        .sandbox
        .project()
        .join("a\u{1b}[31mb\u{1b}]0;title\u{7}");
    fs::create_dir_all(folder.join(".git")).unwrap();
    let there = async |args: &[&str]| {
        let mut command = desk.untrusting(args);
        command.current_dir(&folder);
        desk.finish(command).await
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
        let ran = there(args).await;
        assert!(
            !ran.to_string().contains(['\u{1b}', '\u{7}']),
            "{args:?}: {ran:?}",
            ran = ran.to_string()
        );
    }
    fs::write(folder.join(".mcp.json"), "broken").unwrap();
    let ran = there(&["add", "x", "-s", "project", "--", "srv"]).await;
    assert_eq!(ran.code, 3);
    assert!(!ran.to_string().contains(['\u{1b}', '\u{7}']), "{ran}");
}

#[tokio::test]
async fn a_home_that_is_not_absolute_is_refused() {
    let desk = Desk::empty();
    let marker = desk.sandbox.project().join("ran");
    let entry = json!({"command": "touch", "args": [marker]});
    let config = json!({"mcpServers": {"theirs": entry}});
    desk.sandbox.write(".mcp.json", config.to_string());
    for home in [".", "project"] {
        let mut command = desk.untrusting(&["list"]);
        command.env("HOME", home);
        let ran = desk.finish(command).await;
        assert_eq!(ran.code, 3, "{home:?}: {ran}");
        assert!(ran.stderr.contains("is not absolute"), "{ran}");
        assert!(ran.stderr.contains("hint: set HOME"), "{ran}");
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn the_link_of_a_project_does_not_lead_an_edit_out_of_it() {
    let desk = Desk::empty();
    let own = desk
        .sandbox
        .write_home(".mcp.json", r#"{"mcpServers":{"mine":{"command":"mine"}}}"#);
    let before = fs::read_to_string(&own).unwrap();
    let link = desk.sandbox.project().join(".mcp.json");
    symlink("../home/.mcp.json", &link).unwrap();
    let added = desk
        .finish(desk.untrusting(&["add", "x", "-s", "project", "--", "srv"]))
        .await;
    assert_snapshot!(added, @r"
    exit 3
    --- stderr
    error: [sandbox]/project/.mcp.json was not changed: it is a link that leads out of the project, to [sandbox]/project/../home/.mcp.json
    hint: put a file in its place, or choose another scope
    ");
    let removed = desk
        .finish(desk.untrusting(&["remove", "mine", "-s", "project"]))
        .await;
    assert_eq!(removed.code, 3, "{removed}");
    assert_eq!(fs::read_to_string(&own).unwrap(), before);

    // Nor to a place that does not exist yet; and inside of the project it may lead anywhere.
    fs::remove_file(&link).unwrap();
    symlink("../new/.mcp.json", &link).unwrap();
    let ran = desk
        .finish(desk.untrusting(&["add", "x", "-s", "project", "--", "srv"]))
        .await;
    assert_eq!(ran.code, 3, "{ran}");
    assert!(!desk.sandbox.root().join("new").exists());
    fs::remove_file(&link).unwrap();
    fs::create_dir(desk.sandbox.project().join("etc")).unwrap();
    symlink("etc/mcp.json", &link).unwrap();
    let ran = desk
        .finish(desk.untrusting(&["add", "x", "-s", "project", "--", "srv"]))
        .await;
    assert_eq!(ran.code, 0, "{ran}");
    assert!(desk.sandbox.read("etc/mcp.json").contains("srv"));
}

#[tokio::test]
async fn neither_the_trace_nor_the_log_empties_the_target_of_a_link() {
    let desk = Desk::empty();
    let precious = desk.sandbox.write_home("precious", "all my work");
    symlink(&precious, desk.sandbox.project().join("out")).unwrap();
    for flag in ["--trace", "--log-file"] {
        let ran = desk.finish(desk.untrusting(&["list", flag, "out"])).await;
        assert_eq!(ran.code, 2, "{ran}");
        assert!(
            ran.stderr
                .contains("error: cannot write out: it is a symbolic link"),
            "{ran}"
        );
        assert!(
            ran.stderr.contains("hint: pass the real file path"),
            "{ran}"
        );
        assert_eq!(fs::read_to_string(&precious).unwrap(), "all my work");
        // A link of the system is no trap.
        let ran = desk
            .finish(desk.untrusting(&["list", flag, "/dev/stderr"]))
            .await;
        assert_eq!(ran.code, 0, "{ran}");
    }
}

#[tokio::test]
async fn the_demo_starts_nothing_where_nothing_may_be_executed() {
    let desk = Desk::empty();
    let settings = desk.sandbox.root().join("etc/managed-settings.json");
    desk.sandbox.write(settings, r#"{"profile": "server"}"#);
    let ran = desk.finish(desk.untrusting(&["demo"])).await;
    assert_snapshot!(ran, @r"
    exit 6
    --- stderr
    error: there is no demo here: with the profile `server` no program is executed, and its `command` is one
    hint: ask whoever administers this machine (managed-settings.json)
    ");
}
