//! Programs in the sandbox are isolated from the environment of the test.

use std::collections::BTreeMap;

use switchboard_testkit::Sandbox;

#[test]
fn command_sees_only_the_sandbox() {
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
#[should_panic(expected = "is outside of the sandbox")]
fn write_outside_sandbox_panics() {
    Sandbox::new().write("/nowhere/file", "x");
}
