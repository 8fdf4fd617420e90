//! Roots: the directories that the host offers to servers.

use serde_json::{Value, json};
use switchboard::interaction::{ClientCapabilities, Root};
use switchboard::mcp::Era;

use crate::common::permissive;
use crate::scripted_interaction::{
    ERAS, ScriptedInteraction, call_ask, response_to, server_asking, start_host,
};

const CHANGED: &str = "notifications/roots/list_changed";

fn interaction_with_roots() -> ScriptedInteraction {
    ScriptedInteraction {
        roots: vec![
            Root::new("file:///project"),
            Root::new("https://example.com/"),
            Root::new("file://elsewhere/share"),
            Root::new("/plain"),
        ],
        ..ScriptedInteraction::new(ClientCapabilities::default().roots())
    }
}

#[tokio::test(start_paused = true)]
async fn only_local_file_roots_are_sent() {
    for era in ERAS {
        let response = response_to(era, "roots/list", &json!({}), &interaction_with_roots()).await;
        assert_eq!(
            response,
            json!({"result": {"roots": [{"uri": "file:///project"}]}}),
            "{era:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn configured_roots_need_no_interaction() {
    for era in ERAS {
        let server = server_asking(era, "roots/list", &json!({}));
        let builder = permissive().roots(["/project/a b", "relative"]);
        let host = start_host(builder, &server).await;
        let response = call_ask(era, &host, &server).await;
        let expected = json!({"roots": [{"uri": "file:///project/a%20b", "name": "a b"}]});
        assert_eq!(response["result"], expected, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn roots_change_is_sent_if_declared() {
    for (era, interaction, expected) in [
        (Era::Legacy, interaction_with_roots(), 1),
        (Era::Modern, interaction_with_roots(), 0),
        (
            Era::Legacy,
            ScriptedInteraction::new(ClientCapabilities::default()),
            0,
        ),
    ] {
        let server = server_asking(era, "ping", &json!({}));
        let host = start_host(permissive().interaction(interaction), &server).await;
        host.notify_roots_changed();
        let _ = host.call("mcp__s__ask", json!({})).await;
        assert_eq!(server.received_with(CHANGED).len(), expected, "{era:?}");
        if let Some(initialize) = server.received_with("initialize").first() {
            let roots = &initialize["params"]["capabilities"]["roots"];
            let declared = if expected == 1 {
                json!({"listChanged": true})
            } else {
                Value::Null
            };
            assert_eq!(*roots, declared);
        }
    }
}
