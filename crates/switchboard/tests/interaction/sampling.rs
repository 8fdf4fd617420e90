//! Sampling: off unless the embedding program offers it, and with a limit on `maxTokens`.

use serde_json::{Value, json};
use switchboard::Readiness;
use switchboard::interaction::ClientCapabilities;
use switchboard::mcp::Era;
use switchboard::sampling::IncludeContext;

use crate::common::{InMemory, permissive};
use crate::scripted_interaction::{
    ERAS, SamplingRecord, ScriptedInteraction, response_to, server_asking,
};

const SAMPLE: &str = "sampling/createMessage";

fn sampling_interaction() -> ScriptedInteraction {
    ScriptedInteraction::new(ClientCapabilities::default().sampling())
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

fn expected_record() -> SamplingRecord {
    SamplingRecord {
        server: "s".to_owned(),
        max_tokens: 100,
        requested_max_tokens: Some(100),
        include_context: IncludeContext::None,
        has_tools: false,
        system_prompt: Some("Be brief.".to_owned()),
    }
}

#[tokio::test(start_paused = true)]
async fn sampling_request_is_parsed_and_answered() {
    for era in ERAS {
        let interaction = sampling_interaction();
        let response = response_to(era, SAMPLE, &request(&json!({})), &interaction).await;
        assert_eq!(response, json!({"result": {"model": "m"}}), "{era:?}");
        assert_eq!(interaction.samplings(), [expected_record()]);
    }
}

#[tokio::test(start_paused = true)]
async fn sampling_tools_and_context_need_capability() {
    let tools = json!([{"name": "shell", "inputSchema": {"type": "object"}}]);
    for era in ERAS {
        for extra in [
            json!({"tools": tools}),
            json!({"toolChoice": {"mode": "required"}}),
        ] {
            let interaction = sampling_interaction();
            let response = response_to(era, SAMPLE, &request(&extra), &interaction).await;
            assert!(
                response["error"].to_string().contains("-32602"),
                "{response}"
            );
            assert_eq!(interaction.samplings(), []);
        }
        for (value, include_context) in [
            ("allServers", IncludeContext::AllServers),
            ("thisServer", IncludeContext::ThisServer),
            ("none", IncludeContext::None),
        ] {
            let interaction = sampling_interaction();
            let extra = json!({"includeContext": value});
            response_to(era, SAMPLE, &request(&extra), &interaction).await;
            let expected = SamplingRecord {
                include_context,
                ..expected_record()
            };
            assert_eq!(interaction.samplings(), [expected]);
        }
        let interaction = ScriptedInteraction::new(ClientCapabilities::default().sampling_tools());
        response_to(
            era,
            SAMPLE,
            &request(&json!({"tools": tools})),
            &interaction,
        )
        .await;
        assert!(interaction.samplings()[0].has_tools);
    }
}

#[tokio::test(start_paused = true)]
async fn max_tokens_is_clamped_to_limit() {
    for era in ERAS {
        for (value, tokens) in [
            (json!(1_000_000), 1_000_000),
            (json!(1e6), 1_000_000),
            (json!(1e300), u64::MAX),
        ] {
            let interaction = sampling_interaction();
            response_to(
                era,
                SAMPLE,
                &request(&json!({"maxTokens": value})),
                &interaction,
            )
            .await;
            let expected = SamplingRecord {
                max_tokens: 8_192,
                requested_max_tokens: Some(tokens),
                ..expected_record()
            };
            assert_eq!(interaction.samplings(), [expected]);
        }
        for value in [json!(0), json!(-1), json!(1.5), json!("many")] {
            let interaction = sampling_interaction();
            let extra = json!({"maxTokens": value});
            let response = response_to(era, SAMPLE, &request(&extra), &interaction).await;
            assert!(response.get("error").is_some(), "{value}: {response}");
            assert_eq!(interaction.samplings(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn capabilities_may_differ_per_server() {
    for era in ERAS {
        let server = server_asking(era, SAMPLE, &request(&json!({})));
        let interaction = sampling_interaction();
        let host = permissive()
            .interaction(interaction.clone())
            .connector("excluded", InMemory(server.clone()))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let outcome = host.call("mcp__excluded__ask", json!({})).await;
        match era {
            Era::Legacy => assert!(outcome.unwrap().to_text().contains("-32601")),
            Era::Modern => assert!(
                outcome
                    .unwrap_err()
                    .to_string()
                    .contains("does not support")
            ),
        }
        assert_eq!(interaction.samplings(), []);
    }
}
