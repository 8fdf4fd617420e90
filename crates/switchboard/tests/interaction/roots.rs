//! Folders that servers may work in.

use serde_json::{Value, json};
use switchboard::interaction::{Offers, Root};
use switchboard::mcp::Era;

use crate::common::permissive;
use crate::scripted_interaction::{ERAS, Front, answer_in, asking, started, told};

const CHANGED: &str = "notifications/roots/list_changed";

fn with_roots() -> Front {
    Front {
        roots: vec![
            Root::new("file:///project"),
            Root::new("https://example.com/"),
            Root::new("file://elsewhere/share"),
            Root::new("/plain"),
        ],
        ..Front::new(Offers::default().roots())
    }
}

#[tokio::test(start_paused = true)]
async fn only_folders_of_this_machine_are_told() {
    for era in ERAS {
        let told = told(era, "roots/list", &json!({}), &with_roots()).await;
        assert_eq!(
            told,
            json!({"result": {"roots": [{"uri": "file:///project"}]}}),
            "{era:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fixed_set_of_folders_needs_no_front() {
    for era in ERAS {
        let server = asking(era, "roots/list", &json!({}));
        let builder = permissive().roots(["/project/a b", "relative"]);
        let host = started(builder, &server).await;
        let told = answer_in(era, &host, &server).await;
        let expected = json!({"roots": [{"uri": "file:///project/a%20b", "name": "a b"}]});
        assert_eq!(told["result"], expected, "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_announced_to_those_who_were_told_so() {
    for (era, front, expected) in [
        (Era::Legacy, with_roots(), 1),
        (Era::Modern, with_roots(), 0),
        (Era::Legacy, Front::new(Offers::default()), 0),
    ] {
        let server = asking(era, "ping", &json!({}));
        let host = started(permissive().interaction(front), &server).await;
        host.notify_roots_changed();
        let _ = host.call("mcp__s__ask", json!({})).await;
        assert_eq!(server.received_with(CHANGED).len(), expected, "{era:?}");
        if let Some(hello) = server.received_with("initialize").first() {
            let roots = &hello["params"]["capabilities"]["roots"];
            let declared = if expected == 1 {
                json!({"listChanged": true})
            } else {
                Value::Null
            };
            assert_eq!(*roots, declared);
        }
    }
}
