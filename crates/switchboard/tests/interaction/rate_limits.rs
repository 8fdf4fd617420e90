//! How often servers may ask.

use std::time::Duration;

use serde_json::json;
use switchboard::Event;
use switchboard::limits::Limits;
use switchboard::mcp::Era;
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::common::permissive;
use crate::scripted_interaction::{ERAS, Front, asking, forms, script, started};

fn questions(count: usize) -> impl Iterator<Item = Step> {
    (0..count).map(|n| {
        let id = json!(format!("q{n}"));
        let params = json!({"message": "?"});
        let asked =
            json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        Step::raw(&asked.to_string())
    })
}

#[tokio::test(start_paused = true)]
async fn e3_a_thousand_questions_in_a_row_are_limited() {
    let steps = questions(1_000).chain([Step::text("asked")]);
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let server = MemoryServer::new(script);
    let front = Front::new(forms());
    let host = started(permissive().interaction(front.clone()), &server).await;
    let mut events = host.events();
    host.call("mcp__s__ask", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(front.questions().len(), 10);
    let messages = server.received();
    let closed = |message: &&serde_json::Value| message["result"]["action"] == "cancel";
    let closed = messages.iter().filter(closed).count();
    let refused = messages
        .iter()
        .filter(|message| message.get("error").is_some());
    assert_eq!(closed + refused.count(), 990);
    host.shutdown().await;
    drop(host);
    let mut limited = 0;
    while let Some(event) = events.next().await {
        if let Event::RequestsLimited {
            method, per_minute, ..
        } = event
        {
            assert_eq!((method.as_str(), per_minute), ("elicitation/create", 10));
            limited += 1;
        }
    }
    assert_eq!(limited, 1);
}

#[tokio::test(start_paused = true)]
async fn e3_questions_in_the_middle_of_calls_are_limited_too() {
    for era in ERAS {
        let question = json!({"message": "?"});
        let steps = match era {
            Era::Legacy => vec![
                Step::request("elicitation/create", question),
                Step::text("done"),
            ],
            Era::Modern => {
                let requests = json!({"a": {"method": "elicitation/create", "params": question}});
                let asked = json!({"resultType": "input_required", "inputRequests": requests});
                // One question for two calls as they come: each is asked, and then told.
                let odd = (1..40).map(|n| {
                    Step::until(
                        2 * n - 1,
                        [Step::after(2 * n - 1, [Step::Reply(asked.clone())])],
                    )
                });
                let even =
                    (1..40).map(|n| Step::until(2 * n, [Step::after(2 * n, [Step::text("done")])]));
                odd.chain(even).collect()
            }
        };
        let server = MemoryServer::new(script(era).tool("ask").on("tools/call ask", steps));
        let front = Front::new(forms());
        let host = started(permissive().interaction(front.clone()), &server).await;
        for _ in 0..15 {
            host.call("mcp__s__ask", json!({})).await.unwrap();
        }
        assert_eq!(front.questions().len(), 10, "{era:?}");
        tokio::time::advance(Duration::from_secs(61)).await;
        host.call("mcp__s__ask", json!({})).await.unwrap();
        assert_eq!(front.questions().len(), 11, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_server_asks_one_thing_at_a_time() {
    let steps = questions(5).chain([Step::text("asked")]);
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let server = MemoryServer::new(script);
    let front = Front {
        thinks: Duration::from_secs(100),
        ..Front::new(forms())
    };
    let host = started(permissive().interaction(front.clone()), &server).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert_eq!(front.questions().len(), 5);
    assert_eq!(front.most_open(), 1);
}

#[tokio::test(start_paused = true)]
async fn completions_have_a_limit_of_their_own() {
    for era in ERAS {
        let params = json!({"messages": [], "maxTokens": 1});
        let server = asking(era, "sampling/createMessage", &params);
        let front = Front::new(forms().sampling());
        let mut limits = Limits::default();
        limits.samplings_per_minute = 0;
        let builder = permissive().interaction(front.clone()).limits(limits);
        let host = started(builder, &server).await;
        let told = crate::scripted_interaction::answer_in(era, &host, &server).await;
        let text = told["error"].to_string();
        assert!(text.contains("samplings_per_minute"), "{text}");
        assert_eq!(front.samplings(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_outlives_a_session() {
    let server = asking(Era::Legacy, "elicitation/create", &json!({"message": "?"}));
    let front = Front::new(forms());
    let mut limits = Limits::default();
    limits.questions_per_minute = 1;
    let builder = permissive().interaction(front.clone()).limits(limits);
    let host = started(builder, &server).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    host.reconnect("s").await.unwrap();
    host.call("mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(front.questions().len(), 1);
}
