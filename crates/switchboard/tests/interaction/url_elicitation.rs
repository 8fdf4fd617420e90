//! URL elicitation: the URL is shown to the user in full, checked for a suspicious host name, and
//! never opened by the host.

use serde_json::{Value, json};
use switchboard::elicitation::{ElicitMode, ElicitResponse, UrlWarning};
use switchboard::interaction::ClientCapabilities;
use switchboard::mcp::Era;

use crate::common::permissive;
use crate::scripted_interaction::{
    ERAS, ScriptedInteraction, accept, call_ask, response_to, server_asking, start_host,
};

const ELICIT: &str = "elicitation/create";

fn url_elicitation(url: &str) -> Value {
    json!({"mode": "url", "message": "go", "url": url, "elicitationId": "e-1"})
}

fn url_interaction() -> ScriptedInteraction {
    ScriptedInteraction::new(
        ClientCapabilities::default()
            .elicitation()
            .elicitation_url(),
    )
}

#[tokio::test(start_paused = true)]
async fn url_answer_has_no_content() {
    for (answer, action) in [
        (accept(&json!({"left": "over"})), "accept"),
        (ElicitResponse::Decline, "decline"),
        (ElicitResponse::Cancel, "cancel"),
    ] {
        for era in ERAS {
            let interaction = url_interaction().with_answer(answer.clone());
            let response = response_to(
                era,
                ELICIT,
                &url_elicitation("https://a.example/x?y#z"),
                &interaction,
            )
            .await;
            assert_eq!(response, json!({"result": {"action": action}}), "{era:?}");
            let [(message, ElicitMode::Url(url_request))] = &interaction.elicitations()[..] else {
                panic!("not one URL request")
            };
            assert_eq!(message, "go");
            assert_eq!(url_request.url, "https://a.example/x?y#z");
            assert_eq!(url_request.host, "a.example");
            assert_eq!(url_request.elicitation_id.as_deref(), Some("e-1"));
            assert_eq!(url_request.warnings, []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn non_web_urls_are_refused() {
    for url in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vscode://install",
        "http://example.com/",
        "https://user@example.com/",
        "https://github.com:secret@evil.example/",
        "//example.com/",
        "example.com",
        "https://",
        "",
    ] {
        for era in ERAS {
            let interaction = url_interaction();
            let response = response_to(era, ELICIT, &url_elicitation(url), &interaction).await;
            assert!(
                response["error"].to_string().contains("-32602"),
                "{url}: {response}"
            );
            assert_eq!(interaction.elicitations(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn suspicious_urls_carry_warnings() {
    use UrlWarning::{InternationalizedHost, IpAddress, Long, Loopback, MixedScripts};
    let displayed_as = |name: &str| InternationalizedHost {
        displayed_as: name.to_owned(),
    };
    let long = format!("https://a.example/{}", "x".repeat(2_000));
    for (url, host, warnings) in [
        (
            // The first letter of the host name is Cyrillic.
            "https://\u{430}pple.example/",
            "xn--pple-43d.example",
            vec![MixedScripts, displayed_as("\u{430}pple.example")],
        ),
        (
            "https://xn--mller-kva.example/",
            "xn--mller-kva.example",
            vec![displayed_as("müller.example")],
        ),
        ("https://203.0.113.7/", "203.0.113.7", vec![IpAddress]),
        ("https://3405803783/", "203.0.113.7", vec![IpAddress]),
        ("https://[2001:db8::1]/", "[2001:db8::1]", vec![IpAddress]),
        ("http://localhost:8080/", "localhost", vec![Loopback]),
        ("http://127.0.0.1/", "127.0.0.1", vec![Loopback]),
        (long.as_str(), "a.example", vec![Long]),
    ] {
        for era in ERAS {
            let interaction = url_interaction();
            response_to(era, ELICIT, &url_elicitation(url), &interaction).await;
            let [(_, ElicitMode::Url(url_request))] = &interaction.elicitations()[..] else {
                panic!("not one URL request: {url}")
            };
            assert_eq!(
                (url_request.host.as_str(), &url_request.warnings),
                (host, &warnings)
            );
            assert!(url_request.url.is_ascii(), "{}", url_request.url);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn elicitation_capability_depends_on_era() {
    let only_url = ClientCapabilities::default().elicitation_url();
    for (capabilities, legacy, modern) in [
        (ClientCapabilities::default(), Value::Null, Value::Null),
        (
            ClientCapabilities::default().elicitation(),
            json!({}),
            json!({"form": {}}),
        ),
        (only_url, json!({"url": {}}), json!({"url": {}})),
        (
            only_url.elicitation(),
            json!({"form": {}, "url": {}}),
            json!({"form": {}, "url": {}}),
        ),
    ] {
        for (era, expected) in [(Era::Legacy, legacy), (Era::Modern, modern)] {
            let server = server_asking(era, "ping", &json!({}));
            let host = start_host(
                permissive().interaction(ScriptedInteraction::new(capabilities)),
                &server,
            )
            .await;
            let capabilities = match era {
                Era::Legacy => {
                    call_ask(era, &host, &server).await;
                    server.received_with("initialize")[0]["params"]["capabilities"].clone()
                }
                Era::Modern => {
                    let meta = &server.received_with("tools/list")[0]["params"]["_meta"];
                    meta["io.modelcontextprotocol/clientCapabilities"].clone()
                }
            };
            assert_eq!(capabilities["elicitation"], expected, "{era:?}");
        }
    }
}
