//! `-v`: what servers log, and where it is shown.

use serde_json::json;
use switchboard_testkit::{Script, ServerRequest, Step};

use crate::support::Desk;

fn log(level: &str, data: &serde_json::Value) -> Step {
    Step::Notify {
        method: "notifications/message".to_owned(),
        params: Some(json!({"level": level, "data": data})),
    }
}

#[tokio::test]
async fn logs_wait_until_the_question_is_over() {
    let schema = json!({"type": "object", "properties": {}});
    let steps = [
        Step::Request(ServerRequest {
            id: Some(json!("first")),
            method: "elicitation/create".to_owned(),
            params: Some(json!({"message": "Agreed?", "requestedSchema": schema})),
            wait: false,
        }),
        Step::DelayMs(300),
        log("error", &json!("loud")),
        Step::Notify {
            method: "notifications/cancelled".to_owned(),
            params: Some(json!({"requestId": "first"})),
        },
        Step::text("done"),
    ];
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let desk = Desk::with([("ant", script.into())]);
    let terminal = desk.at_terminal(&["-v", "call", "mcp__ant__ask", "--yes"]);
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    let (open, after) = screen.split_once("[y/N] ").unwrap();
    assert!(!open.contains("loud"), "{screen}");
    let told = "\nant no longer waits for an answer\n";
    let after = after
        .strip_prefix(told)
        .unwrap_or_else(|| panic!("{screen}"));
    assert!(after.contains("loud"), "{screen}");
}
