//! Addresses to visit: shown in full, judged by their looks, never opened.

use serde_json::{Value, json};
use switchboard::elicit::{AddressWarning, ElicitAnswer, ElicitMode};
use switchboard::interaction::Offers;
use switchboard::mcp::Era;

use crate::common::permissive;
use crate::scripted_interaction::{ERAS, Front, accept, answer_in, asking, started, told};

const ELICIT: &str = "elicitation/create";

fn visit(url: &str) -> Value {
    json!({"mode": "url", "message": "go", "url": url, "elicitationId": "e-1"})
}

fn visitor() -> Front {
    Front::new(Offers::default().elicitation().elicitation_url())
}

#[tokio::test(start_paused = true)]
async fn consent_is_told_and_no_content_goes_with_it() {
    for (answer, action) in [
        (accept(&json!({"left": "over"})), "accept"),
        (ElicitAnswer::Decline, "decline"),
        (ElicitAnswer::Cancel, "cancel"),
    ] {
        for era in ERAS {
            let front = visitor().answering(answer.clone());
            let told = told(era, ELICIT, &visit("https://a.example/x?y#z"), &front).await;
            assert_eq!(told, json!({"result": {"action": action}}), "{era:?}");
            let [(message, ElicitMode::Url(address))] = &front.questions()[..] else {
                panic!("not one address")
            };
            assert_eq!(message, "go");
            assert_eq!(address.url, "https://a.example/x?y#z");
            assert_eq!(address.host, "a.example");
            assert_eq!(address.elicitation_id.as_deref(), Some("e-1"));
            assert_eq!(address.warnings, []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e2_what_is_no_address_of_the_web_is_refused() {
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
            let front = visitor();
            let told = told(era, ELICIT, &visit(url), &front).await;
            assert!(
                told["error"].to_string().contains("-32602"),
                "{url}: {told}"
            );
            assert_eq!(front.questions(), []);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e2_suspicious_addresses_are_shown_with_a_warning() {
    use AddressWarning::{International, Long, MixedLetters, Numeric, ThisMachine};
    let looks_like = |name: &str| International {
        looks_like: name.to_owned(),
    };
    let long = format!("https://a.example/{}", "x".repeat(2_000));
    for (url, host, warnings) in [
        (
            // The first letter is Cyrillic.
            "https://\u{430}pple.example/",
            "xn--pple-43d.example",
            vec![MixedLetters, looks_like("\u{430}pple.example")],
        ),
        (
            "https://xn--mller-kva.example/",
            "xn--mller-kva.example",
            vec![looks_like("müller.example")],
        ),
        ("https://203.0.113.7/", "203.0.113.7", vec![Numeric]),
        ("https://3405803783/", "203.0.113.7", vec![Numeric]),
        ("https://[2001:db8::1]/", "[2001:db8::1]", vec![Numeric]),
        ("http://localhost:8080/", "localhost", vec![ThisMachine]),
        ("http://127.0.0.1/", "127.0.0.1", vec![ThisMachine]),
        (long.as_str(), "a.example", vec![Long]),
    ] {
        for era in ERAS {
            let front = visitor();
            told(era, ELICIT, &visit(url), &front).await;
            let [(_, ElicitMode::Url(address))] = &front.questions()[..] else {
                panic!("not one address: {url}")
            };
            assert_eq!(
                (address.host.as_str(), &address.warnings),
                (host, &warnings)
            );
            assert!(address.url.is_ascii(), "{}", address.url);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_offered_is_declared_in_the_way_of_the_era() {
    let only_url = Offers::default().elicitation_url();
    for (offers, legacy, modern) in [
        (Offers::default(), Value::Null, Value::Null),
        (
            Offers::default().elicitation(),
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
            let server = asking(era, "ping", &json!({}));
            let host = started(permissive().interaction(Front::new(offers)), &server).await;
            let told = match era {
                Era::Legacy => {
                    answer_in(era, &host, &server).await;
                    server.received_with("initialize")[0]["params"]["capabilities"].clone()
                }
                Era::Modern => {
                    let asked = &server.received_with("tools/list")[0]["params"]["_meta"];
                    asked["io.modelcontextprotocol/clientCapabilities"].clone()
                }
            };
            assert_eq!(told["elicitation"], expected, "{era:?}");
        }
    }
}
