//! Forms: typed, checked, clean.

use serde_json::{Value, json};
use switchboard::Readiness;
use switchboard::elicit::ElicitAnswer;
use switchboard::interaction::Offers;
use switchboard_testkit::{Script, Step};

use crate::common::{child, launch, permissive};

use crate::scripted_interaction::{ERAS, Front, accept, forms, told};

const ELICIT: &str = "elicitation/create";

fn form(fields: &Value) -> Value {
    let schema = json!({"type": "object", "properties": fields});
    json!({"message": "please", "requestedSchema": schema})
}

#[tokio::test(start_paused = true)]
async fn yes_no_and_neither_are_told_apart() {
    let question = form(&json!({"name": {"type": "string"}}));
    for (answer, expected) in [
        (
            accept(&json!({"name": "Ada"})),
            json!({"action": "accept", "content": {"name": "Ada"}}),
        ),
        (ElicitAnswer::Decline, json!({"action": "decline"})),
        (ElicitAnswer::Cancel, json!({"action": "cancel"})),
    ] {
        for era in ERAS {
            let front = Front::new(forms()).answering(answer.clone());
            let told = told(era, ELICIT, &question, &front).await;
            assert_eq!(told, json!({"result": expected}), "{era:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_left_out_is_filled_in_with_what_the_server_proposed() {
    let fields = json!({
        "name": {"type": "string"},
        "age": {"type": "integer", "default": 30},
        "days": {"type": "array", "items": {"enum": ["mo", "tu"]}, "default": ["tu"]},
    });
    for era in ERAS {
        let front = Front::new(forms()).answering(accept(&json!({"name": "Ada"})));
        let told = told(era, ELICIT, &form(&fields), &front).await;
        let content = json!({"name": "Ada", "age": 30, "days": ["tu"]});
        assert_eq!(told["result"]["content"], content, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_is_not_sent() {
    let question = form(&json!({"age": {"type": "integer", "maximum": 150}}));
    for given in [
        json!({"age": 151}),
        json!({"age": "old"}),
        json!({"more": 1}),
    ] {
        for era in ERAS {
            let front = Front::new(forms()).answering(accept(&given));
            let told = told(era, ELICIT, &question, &front).await;
            assert_eq!(told, json!({"result": {"action": "cancel"}}), "{given}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_mode_it_is_a_form() {
    for era in ERAS {
        for mode in [None, Some("form")] {
            let mut question = form(&json!({}));
            if let Some(mode) = mode {
                question["mode"] = mode.into();
            }
            let front = Front::new(forms());
            let told = told(era, ELICIT, &question, &front).await;
            assert_eq!(told["result"]["action"], "accept");
            assert_eq!(front.fields(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e1_a_form_that_asks_for_secrets_says_so() {
    let fields = json!({
        "password": {"type": "string"},
        "x": {"type": "string", "title": "GitHub token"},
        "key": {"type": "string", "description": "Your API key"},
        "name": {"type": "string"},
    });
    for era in ERAS {
        let front = Front::new(forms());
        told(era, ELICIT, &form(&fields), &front).await;
        let fields = front.fields();
        let flags: Vec<_> = fields.iter().map(|field| field.is_sensitive).collect();
        assert_eq!(flags, [true, true, true, false], "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn e4_what_was_not_offered_is_refused() {
    let url =
        json!({"mode": "url", "message": "?", "url": "https://a.example", "elicitationId": "1"});
    let sampling = json!({"messages": [], "maxTokens": 1});
    for (offers, method, params) in [
        (Offers::default(), ELICIT, form(&json!({}))),
        (
            Offers::default().elicitation_url(),
            ELICIT,
            form(&json!({})),
        ),
        (forms(), ELICIT, url.clone()),
        (forms().roots(), "sampling/createMessage", sampling),
        (forms().sampling(), "roots/list", json!({})),
    ] {
        for era in ERAS {
            let front = Front::new(offers);
            let told = told(era, method, &params, &front).await;
            assert!(told.get("error").is_some(), "{method} {params}: {told}");
            assert_eq!(front.questions(), []);
            assert_eq!(front.samplings(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e7_a_form_that_is_not_flat_is_refused_and_nobody_sees_it() {
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
            let front = Front::new(forms());
            let told = told(era, ELICIT, &form(&fields), &front).await;
            let error = &told["error"];
            assert!(error.is_object(), "{era:?} {fields}");
            let text = error.to_string();
            assert!(text.contains("-32602"), "{text}");
            assert_eq!(front.questions(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e8_words_are_clean_and_not_endless() {
    let mut question = form(&json!({"a": {
        "type": "string",
        "title": "\u{1b}[8mhidden\u{1b}[0m",
        "description": "one\ntwo\u{202e}",
    }}));
    let dialog = "\u{1b}[2J\u{1b}[HSwitchboard asks:\r\nAllow everything? \u{200b}[y/N]";
    question["message"] = format!("{dialog}{}", "!".repeat(100_000)).into();
    for era in ERAS {
        let front = Front::new(forms());
        told(era, ELICIT, &question, &front).await;
        let [(message, _)] = &front.questions()[..] else {
            panic!("not one question")
        };
        assert!(message.starts_with("Switchboard asks:\nAllow everything? [y/N]!!!"));
        assert!(message.len() < 5_000 && message.ends_with('…'));
        let [field] = &front.fields()[..] else {
            panic!("not one field")
        };
        assert_eq!(field.label(), "hidden");
        assert_eq!(field.description.as_deref(), Some("one two"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_words_or_of_unknown_kind_is_refused() {
    for question in [
        json!({}),
        json!({"message": 1}),
        json!({"message": "?", "mode": "dance"}),
        json!({"message": "?", "mode": 1}),
        json!({"message": "?", "requestedSchema": []}),
        json!([]),
    ] {
        for era in ERAS {
            let front = Front::new(forms().elicitation_url());
            let told = told(era, ELICIT, &question, &front).await;
            assert!(told.get("error").is_some(), "{era:?} {question}: {told}");
            assert_eq!(front.questions(), []);
        }
    }
}

#[tokio::test]
async fn a_secret_of_the_entry_is_masked_in_what_the_server_asks() {
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
    let front = Front::new(forms().sampling());
    let config = child(&script, "asks-with-secrets").env("TOKEN", "hunter2-hunter2");
    let host = permissive()
        .interaction(front.clone())
        .launch(launch("s", config))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    host.shutdown().await;
    assert_eq!(front.questions()[0].0, "***?");
    assert_eq!(front.fields()[0].label(), "***?");
    assert_eq!(front.samplings()[0].system_prompt.as_deref(), Some("***"));
}
