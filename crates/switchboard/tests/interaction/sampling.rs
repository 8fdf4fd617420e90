//! Completions by a model: off unless offered, and bounded.

use serde_json::{Value, json};
use switchboard::Readiness;
use switchboard::interaction::Offers;
use switchboard::mcp::Era;
use switchboard::sampling::ContextWish;

use crate::common::{InMemory, permissive};
use crate::scripted_interaction::{ERAS, Front, Wanted, asking, told};

const SAMPLE: &str = "sampling/createMessage";

fn model() -> Front {
    Front::new(Offers::default().sampling())
}

fn request(extra: &Value) -> Value {
    let mut request = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}],
        "maxTokens": 100,
        "systemPrompt": "Be \u{1b}[1mbrief\u{200b}.",
    });
    for (key, value) in extra.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

fn wanted() -> Wanted {
    Wanted {
        server: "s".to_owned(),
        max_tokens: 100,
        tokens_asked: Some(100),
        context_wish: ContextWish::None,
        has_tools: false,
        system_prompt: Some("Be brief.".to_owned()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_read_and_answered() {
    for era in ERAS {
        let front = model();
        let told = told(era, SAMPLE, &request(&json!({})), &front).await;
        assert_eq!(told, json!({"result": {"model": "m"}}), "{era:?}");
        assert_eq!(front.samplings(), [wanted()]);
    }
}

#[tokio::test(start_paused = true)]
async fn e5_tools_and_the_context_of_others_are_not_to_be_had() {
    let tools = json!([{"name": "shell", "inputSchema": {"type": "object"}}]);
    for era in ERAS {
        for extra in [
            json!({"tools": tools}),
            json!({"toolChoice": {"mode": "required"}}),
        ] {
            let front = model();
            let told = told(era, SAMPLE, &request(&extra), &front).await;
            assert!(told["error"].to_string().contains("-32602"), "{told}");
            assert_eq!(front.samplings(), []);
        }
        for (written, context_wish) in [
            ("allServers", ContextWish::AllServers),
            ("thisServer", ContextWish::ThisServer),
            ("none", ContextWish::None),
        ] {
            let front = model();
            let extra = json!({"includeContext": written});
            told(era, SAMPLE, &request(&extra), &front).await;
            let expected = Wanted {
                context_wish,
                ..wanted()
            };
            assert_eq!(front.samplings(), [expected]);
        }
        let front = Front::new(Offers::default().sampling_tools());
        told(era, SAMPLE, &request(&json!({"tools": tools})), &front).await;
        assert!(front.samplings()[0].has_tools);
    }
}

#[tokio::test(start_paused = true)]
async fn e6_a_million_tokens_are_lowered_to_the_limit() {
    for era in ERAS {
        for (written, tokens) in [
            (json!(1_000_000), 1_000_000),
            (json!(1e6), 1_000_000),
            (json!(1e300), u64::MAX),
        ] {
            let front = model();
            told(
                era,
                SAMPLE,
                &request(&json!({"maxTokens": written})),
                &front,
            )
            .await;
            let expected = Wanted {
                max_tokens: 8_192,
                tokens_asked: Some(tokens),
                ..wanted()
            };
            assert_eq!(front.samplings(), [expected]);
        }
        for written in [json!(0), json!(-1), json!(1.5), json!("many")] {
            let front = model();
            let extra = json!({"maxTokens": written});
            let told = told(era, SAMPLE, &request(&extra), &front).await;
            assert!(told.get("error").is_some(), "{written}: {told}");
            assert_eq!(front.samplings(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_offered_can_differ_from_server_to_server() {
    for era in ERAS {
        let server = asking(era, SAMPLE, &request(&json!({})));
        let front = model();
        let host = permissive()
            .interaction(front.clone())
            .connector("shunned", InMemory(server.clone()))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let outcome = host.call("mcp__shunned__ask", json!({})).await;
        match era {
            Era::Legacy => assert!(outcome.unwrap().to_text().contains("-32601")),
            Era::Modern => assert!(
                outcome
                    .unwrap_err()
                    .to_string()
                    .contains("does not support")
            ),
        }
        assert_eq!(front.samplings(), []);
    }
}
