//! The hermetic environment.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use switchboard_testkit::Sandbox;

#[test]
fn a_command_sees_the_sandbox_and_nothing_else() {
    let sandbox = Sandbox::new();
    let output = sandbox.command("env").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut seen: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    assert!(seen.remove("PATH").is_some());
    let root = sandbox.root().to_str().unwrap();
    let below = |name: &str| format!("{root}/{name}");
    let expected = BTreeMap::from([
        ("HOME", below("home")),
        ("LANG", "C.UTF-8".to_owned()),
        ("SWITCHBOARD_TEST_MANAGED", below("etc")),
        ("SWITCHBOARD_TEST_TAG", sandbox.tag().to_owned()),
        ("TMPDIR", below("tmp")),
        ("TZ", "UTC".to_owned()),
        ("XDG_CACHE_HOME", below("home/.cache")),
        ("XDG_CONFIG_HOME", below("home/.config")),
        ("XDG_DATA_HOME", below("home/.local/share")),
        ("XDG_RUNTIME_DIR", below("run")),
        ("XDG_STATE_HOME", below("home/.local/state")),
    ]);
    let seen: BTreeMap<_, _> = seen
        .into_iter()
        .map(|(name, value)| (name, value.to_owned()))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_command_runs_in_the_project() {
    let sandbox = Sandbox::new();
    sandbox.write("nested/file.txt", "inside");
    let output = sandbox
        .command("cat")
        .arg("nested/file.txt")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"inside");
    assert_eq!(sandbox.read("nested/file.txt"), "inside");
}

#[test]
fn files_land_where_they_were_asked_for() {
    let sandbox = Sandbox::new();
    let home = sandbox.write_home(".netrc", "a");
    assert_eq!(home, sandbox.home().join(".netrc"));
    let config = sandbox.write_config("switchboard/config.toml", "b");
    assert_eq!(
        config,
        sandbox.config_home().join("switchboard/config.toml")
    );
    let program = sandbox.write_executable("bin/program", "#!/bin/sh\n");
    let mode = std::fs::metadata(program).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
#[should_panic(expected = "is outside of the sandbox")]
fn nothing_is_written_outside() {
    Sandbox::new().write("/nowhere/file", "x");
}

#[test]
fn a_sandbox_is_gone_when_it_is_dropped() {
    let root = Sandbox::new().root().to_owned();
    assert!(!root.exists());
}
