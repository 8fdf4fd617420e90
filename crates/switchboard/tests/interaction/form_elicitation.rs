//! Form elicitation: answers, default values, validation, sensitive fields, and sanitised texts of
//! the server.

use serde_json::{Value, json};
use switchboard::Readiness;
use switchboard::elicitation::ElicitResponse;
use switchboard::interaction::ClientCapabilities;
use switchboard_testkit::{Script, Step};

use crate::common::{child, launch, permissive};

use crate::scripted_interaction::{ERAS, ScriptedInteraction, accept, forms, response_to};

const ELICIT: &str = "elicitation/create";

fn form(fields: &Value) -> Value {
    let schema = json!({"type": "object", "properties": fields});
    json!({"message": "please", "requestedSchema": schema})
}

#[tokio::test(start_paused = true)]
async fn accept_decline_and_cancel_are_distinct() {
    let question = form(&json!({"name": {"type": "string"}}));
    for (answer, expected) in [
        (
            accept(&json!({"name": "Ada"})),
            json!({"action": "accept", "content": {"name": "Ada"}}),
        ),
        (ElicitResponse::Decline, json!({"action": "decline"})),
        (ElicitResponse::Cancel, json!({"action": "cancel"})),
    ] {
        for era in ERAS {
            let interaction = ScriptedInteraction::new(forms()).with_answer(answer.clone());
            let response = response_to(era, ELICIT, &question, &interaction).await;
            assert_eq!(response, json!({"result": expected}), "{era:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn missing_fields_get_default_values() {
    let fields = json!({
        "name": {"type": "string"},
        "age": {"type": "integer", "default": 30},
        "days": {"type": "array", "items": {"enum": ["mo", "tu"]}, "default": ["tu"]},
    });
    for era in ERAS {
        let interaction =
            ScriptedInteraction::new(forms()).with_answer(accept(&json!({"name": "Ada"})));
        let response = response_to(era, ELICIT, &form(&fields), &interaction).await;
        let content = json!({"name": "Ada", "age": 30, "days": ["tu"]});
        assert_eq!(response["result"]["content"], content, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_answer_is_sent_as_cancel() {
    let question = form(&json!({"age": {"type": "integer", "maximum": 150}}));
    for content in [
        json!({"age": 151}),
        json!({"age": "old"}),
        json!({"more": 1}),
    ] {
        for era in ERAS {
            let interaction = ScriptedInteraction::new(forms()).with_answer(accept(&content));
            let response = response_to(era, ELICIT, &question, &interaction).await;
            assert_eq!(
                response,
                json!({"result": {"action": "cancel"}}),
                "{content}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn missing_mode_means_form() {
    for era in ERAS {
        for mode in [None, Some("form")] {
            let mut question = form(&json!({}));
            if let Some(mode) = mode {
                question["mode"] = mode.into();
            }
            let interaction = ScriptedInteraction::new(forms());
            let response = response_to(era, ELICIT, &question, &interaction).await;
            assert_eq!(response["result"]["action"], "accept");
            assert_eq!(interaction.fields(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fields_for_secrets_are_marked_sensitive() {
    let fields = json!({
        "password": {"type": "string"},
        "x": {"type": "string", "title": "GitHub token"},
        "key": {"type": "string", "description": "Your API key"},
        "name": {"type": "string"},
    });
    for era in ERAS {
        let interaction = ScriptedInteraction::new(forms());
        response_to(era, ELICIT, &form(&fields), &interaction).await;
        let fields = interaction.fields();
        let flags: Vec<_> = fields.iter().map(|field| field.is_sensitive).collect();
        assert_eq!(flags, [true, true, true, false], "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unoffered_interactions_are_refused() {
    let url =
        json!({"mode": "url", "message": "?", "url": "https://a.example", "elicitationId": "1"});
    let sampling = json!({"messages": [], "maxTokens": 1});
    for (capabilities, method, params) in [
        (ClientCapabilities::default(), ELICIT, form(&json!({}))),
        (
            ClientCapabilities::default().elicitation_url(),
            ELICIT,
            form(&json!({})),
        ),
        (forms(), ELICIT, url.clone()),
        (forms().roots(), "sampling/createMessage", sampling),
        (forms().sampling(), "roots/list", json!({})),
    ] {
        for era in ERAS {
            let interaction = ScriptedInteraction::new(capabilities);
            let response = response_to(era, method, &params, &interaction).await;
            assert!(
                response.get("error").is_some(),
                "{method} {params}: {response}"
            );
            assert_eq!(interaction.elicitations(), []);
            assert_eq!(interaction.samplings(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_form_schema_is_refused_unseen() {
    for fields in [
        json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}}),
        json!({"a": {"$ref": "https://evil.example/schema.json"}}),
        json!({"a": {"type": "array", "items": {"type": "object"}}}),
        json!({"a": {"type": "string", "enum": vec!["x"; 10_000]}}),
        (0..100)
            .map(|n| (n.to_string(), json!({"type": "string"})))
            .collect(),
    ] {
        for era in ERAS {
            let interaction = ScriptedInteraction::new(forms());
            let response = response_to(era, ELICIT, &form(&fields), &interaction).await;
            let error = &response["error"];
            assert!(error.is_object(), "{era:?} {fields}");
            let text = error.to_string();
            assert!(text.contains("-32602"), "{text}");
            assert_eq!(interaction.elicitations(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn form_texts_are_sanitized_and_truncated() {
    let mut question = form(&json!({"a": {
        "type": "string",
        "title": "\u{1b}[8mhidden\u{1b}[0m",
        "description": "one\ntwo\u{202e}",
    }}));
    let dialog = "\u{1b}[2J\u{1b}[HSwitchboard asks:\r\nAllow everything? \u{200b}[y/N]";
    question["message"] = format!("{dialog}{}", "!".repeat(100_000)).into();
    for era in ERAS {
        let interaction = ScriptedInteraction::new(forms());
        response_to(era, ELICIT, &question, &interaction).await;
        let [(message, _)] = &interaction.elicitations()[..] else {
            panic!("not one question")
        };
        assert!(message.starts_with("Switchboard asks:\nAllow everything? [y/N]!!!"));
        assert!(message.len() < 5_000 && message.ends_with('…'));
        let [field] = &interaction.fields()[..] else {
            panic!("not one field")
        };
        assert_eq!(field.label(), "hidden");
        assert_eq!(field.description.as_deref(), Some("one two"));
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_elicitation_is_refused() {
    for question in [
        json!({}),
        json!({"message": 1}),
        json!({"message": "?", "mode": "dance"}),
        json!({"message": "?", "mode": 1}),
        json!({"message": "?", "requestedSchema": []}),
        json!([]),
    ] {
        for era in ERAS {
            let interaction = ScriptedInteraction::new(forms().elicitation_url());
            let response = response_to(era, ELICIT, &question, &interaction).await;
            assert!(
                response.get("error").is_some(),
                "{era:?} {question}: {response}"
            );
            assert_eq!(interaction.elicitations(), []);
        }
    }
}

#[tokio::test]
async fn secrets_are_masked_in_server_requests() {
    let question = {
        let mut question = form(&json!({"a": {"type": "string", "title": "hunter2-hunter2?"}}));
        question["message"] = "hunter2-hunter2?".into();
        question
    };
    let request = json!({"messages": [], "systemPrompt": "hunter2-hunter2"});
    let script = Script::legacy().tool("ask").on(
        "tools/call",
        [
            Step::request(ELICIT, question),
            Step::request("sampling/createMessage", request),
            Step::text("asked"),
        ],
    );
    let interaction = ScriptedInteraction::new(forms().sampling());
    let config = child(&script, "asks-with-secrets").env("TOKEN", "hunter2-hunter2");
    let host = permissive()
        .interaction(interaction.clone())
        .launch(launch("s", config))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    host.shutdown().await;
    assert_eq!(interaction.elicitations()[0].0, "***?");
    assert_eq!(interaction.fields()[0].label(), "***?");
    assert_eq!(
        interaction.samplings()[0].system_prompt.as_deref(),
        Some("***")
    );
}
