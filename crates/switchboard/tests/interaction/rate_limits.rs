//! Rate limits of elicitation and sampling.

use std::time::Duration;

use serde_json::json;
use switchboard::Event;
use switchboard::limits::Limits;
use switchboard::mcp::Era;
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::common::permissive;
use crate::scripted_interaction::{
    ERAS, ScriptedInteraction, forms, script, server_asking, start_host,
};

fn elicitations(count: usize) -> impl Iterator<Item = Step> {
    (0..count).map(|n| {
        let id = json!(format!("q{n}"));
        let params = json!({"message": "?"});
        let request =
            json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params});
        Step::raw(&request.to_string())
    })
}

#[tokio::test(start_paused = true)]
async fn elicitation_flood_is_rate_limited() {
    let steps = elicitations(1_000).chain([Step::text("asked")]);
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let server = MemoryServer::new(script);
    let interaction = ScriptedInteraction::new(forms());
    let host = start_host(permissive().interaction(interaction.clone()), &server).await;
    let mut events = host.events();
    host.call("mcp__s__ask", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(interaction.elicitations().len(), 10);
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
async fn elicitations_during_calls_are_rate_limited() {
    for era in ERAS {
        let question = json!({"message": "?"});
        let steps = match era {
            Era::Legacy => vec![
                Step::request("elicitation/create", question),
                Step::text("done"),
            ],
            Era::Modern => {
                let requests = json!({"a": {"method": "elicitation/create", "params": question}});
                let request = json!({"resultType": "input_required", "inputRequests": requests});
                // The host repeats a call after the user has answered. So the calls with odd
                // numbers get the elicitation, and the calls with even numbers get the result.
                let odd = (1..40).map(|n| {
                    Step::until(
                        2 * n - 1,
                        [Step::after(2 * n - 1, [Step::Reply(request.clone())])],
                    )
                });
                let even =
                    (1..40).map(|n| Step::until(2 * n, [Step::after(2 * n, [Step::text("done")])]));
                odd.chain(even).collect()
            }
        };
        let server = MemoryServer::new(script(era).tool("ask").on("tools/call ask", steps));
        let interaction = ScriptedInteraction::new(forms());
        let host = start_host(permissive().interaction(interaction.clone()), &server).await;
        for _ in 0..15 {
            host.call("mcp__s__ask", json!({})).await.unwrap();
        }
        assert_eq!(interaction.elicitations().len(), 10, "{era:?}");
        tokio::time::advance(Duration::from_secs(61)).await;
        host.call("mcp__s__ask", json!({})).await.unwrap();
        assert_eq!(interaction.elicitations().len(), 11, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn elicitations_of_one_server_are_serialized() {
    let steps = elicitations(5).chain([Step::text("asked")]);
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let server = MemoryServer::new(script);
    let interaction = ScriptedInteraction {
        delay: Duration::from_secs(100),
        ..ScriptedInteraction::new(forms())
    };
    let host = start_host(permissive().interaction(interaction.clone()), &server).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert_eq!(interaction.elicitations().len(), 5);
    assert_eq!(interaction.max_open(), 1);
}

#[tokio::test(start_paused = true)]
async fn sampling_has_its_own_limit() {
    for era in ERAS {
        let params = json!({"messages": [], "maxTokens": 1});
        let server = server_asking(era, "sampling/createMessage", &params);
        let interaction = ScriptedInteraction::new(forms().sampling());
        let mut limits = Limits::default();
        limits.samplings_per_minute = 0;
        let builder = permissive().interaction(interaction.clone()).limits(limits);
        let host = start_host(builder, &server).await;
        let response = crate::scripted_interaction::call_ask(era, &host, &server).await;
        let text = response["error"].to_string();
        assert!(text.contains("samplingsPerMinute"), "{text}");
        assert_eq!(interaction.samplings(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limit_survives_reconnect() {
    let server = server_asking(Era::Legacy, "elicitation/create", &json!({"message": "?"}));
    let interaction = ScriptedInteraction::new(forms());
    let mut limits = Limits::default();
    limits.questions_per_minute = 1;
    let builder = permissive().interaction(interaction.clone()).limits(limits);
    let host = start_host(builder, &server).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    host.reconnect("s").await.unwrap();
    host.call("mcp__s__ask", json!({})).await.unwrap();
    assert_eq!(interaction.elicitations().len(), 1);
}
