//! The demo, from start to end.

use switchboard_testkit::processes_with_tag;

use crate::support::Desk;

#[tokio::test]
async fn it_shows_the_whole_job_and_leaves_nothing() {
    let desk = Desk::empty();
    // Whatever is configured is none of its business.
    desk.sandbox.write(".mcp.json", "broken");
    let ran = desk.run(&["demo"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
    for expected in [
        "mcp__calculator__add {\"a\":15,\"b\":27}\n   ✓ 42 ",
        "✓ Hello, Ada!",
        "was not called: denied by rule `mcp__*__delete_*`",
        "SIGKILL to process",
        "✓ back after",
        "✓ nothing left running",
    ] {
        assert!(ran.stdout.contains(expected), "no {expected:?} in:\n{ran}");
    }
    assert!(processes_with_tag(desk.sandbox.tag()).is_empty());
}

#[tokio::test]
async fn the_same_as_data() {
    let ran = Desk::empty().run(&["demo", "--json"]).await;
    let data = ran.json();
    assert_eq!((ran.code, &data["ok"]), (0, &true.into()), "{ran}");
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
