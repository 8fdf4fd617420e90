//! `demo`, from start to shutdown.

use switchboard_testkit::processes_with_tag;

use crate::support::TestCli;

#[tokio::test]
async fn demo_runs_all_steps_and_leaves_no_process() {
    let cli = TestCli::empty();
    // The demo ignores the config.
    cli.sandbox.write(".mcp.json", "broken");
    let output = cli.run(&["demo"]).await;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    for expected in [
        "mcp__calculator__add {\"a\":15,\"b\":27}\n   ✓ 42 ",
        "✓ Hello, Ada!",
        "was not called: denied by rule `mcp__*__delete_*`",
        "SIGKILL to process",
        "✓ reconnected after",
        "✓ nothing left running",
    ] {
        assert!(
            output.stdout.contains(expected),
            "no {expected:?} in:\n{output}"
        );
    }
    assert!(processes_with_tag(cli.sandbox.tag()).is_empty());
}

#[tokio::test]
async fn json_lists_all_steps() {
    let output = TestCli::empty().run(&["demo", "--json"]).await;
    let data = output.json();
    assert_eq!((output.code, &data["ok"]), (0, &true.into()), "{output}");
    let steps = data["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["step"].as_str().unwrap());
    let expected = [
        "start",
        "discover",
        "call in process",
        "call the child",
        "deny",
        "kill and recover",
        "shut down",
    ];
    assert_eq!(steps.collect::<Vec<_>>(), expected);
}
