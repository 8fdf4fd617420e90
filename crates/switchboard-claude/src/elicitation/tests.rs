use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use switchboard::elicitation::ElicitMode;
use switchboard::interaction::{BoxFuture, ClientCapabilities};
use switchboard::permission::{PermissionRequest, PermissionResponse};

use super::*;

/// Answers each elicitation after one second. Accepts URLs, and fills in the name Bob in forms.
/// Panics if the message is `Panic?`, and cancels if it is `Closed?`.
#[derive(Default)]
struct Bob {
    capabilities: ClientCapabilities,
    /// Number of elicitations that are being answered now.
    open: AtomicUsize,
    /// Highest value that `open` has had.
    max_open: AtomicUsize,
}

impl Interaction for Bob {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::NoInteraction))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        Box::pin(async move {
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.max_open.fetch_max(open, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.open.fetch_sub(1, Ordering::Relaxed);
            match (question.message.as_str(), question.mode) {
                ("Panic?", _) => panic!("as asked"),
                ("Closed?", _) => ElicitResponse::Cancel,
                (_, ElicitMode::Url(_)) => ElicitResponse::Accept(Map::new()),
                (_, ElicitMode::Form(_)) => {
                    ElicitResponse::Accept(Map::from_iter([("name".to_owned(), json!("Bob"))]))
                }
                _ => ElicitResponse::Decline,
            }
        })
    }
}

fn with_bob() -> (ElicitationQueues, Arc<Bob>) {
    let bob = Arc::new(Bob {
        capabilities: ClientCapabilities::default()
            .elicitation()
            .elicitation_url(),
        ..Bob::default()
    });
    let interaction: Arc<dyn Interaction> = Arc::clone(&bob) as _;
    (ElicitationQueues::new(Some(interaction)), bob)
}

fn form(message: &str) -> Value {
    json!({
        "subtype": "elicitation", "mcp_server_name": "raw", "message": message, "mode": "form",
        "requested_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
        "property_order": ["name"],
    })
}

#[tokio::test(start_paused = true)]
async fn form_is_answered() {
    let (elicitations, _) = with_bob();
    let answer = elicitations.elicit(form("Name?")).await;
    assert_eq!(
        answer,
        Ok(json!({"action": "accept", "content": {"name": "Bob"}}))
    );
    let answer = elicitations.elicit(form("Closed?")).await;
    assert_eq!(answer, Ok(json!({"action": "cancel"})));
}

#[tokio::test(start_paused = true)]
async fn url_is_accepted() {
    let (elicitations, _) = with_bob();
    let request = json!({
        "mcp_server_name": "raw", "message": "Log in", "mode": "url",
        "url": "https://example.com/login", "elicitation_id": "e1",
    });
    let answer = elicitations.elicit(request).await;
    assert_eq!(answer, Ok(json!({"action": "accept"})));
}

#[tokio::test(start_paused = true)]
async fn invalid_answer_is_cancelled() {
    let (elicitations, _) = with_bob();
    let mut request = form("Number?");
    request["requested_schema"]["properties"]["name"]["type"] = json!("integer");
    let answer = elicitations.elicit(request).await;
    assert_eq!(answer, Ok(json!({"action": "cancel"})));
    let answer = elicitations.elicit(form("Panic?")).await;
    assert_eq!(answer, Ok(json!({"action": "cancel"})));
}

#[tokio::test]
async fn unsupported_elicitation_is_declined() {
    let without_handler = ElicitationQueues::new(None);
    assert_eq!(
        without_handler.elicit(form("Name?")).await,
        Ok(json!({"action": "decline"}))
    );
    let unsupported = ElicitationQueues::new(Some(Arc::new(Bob::default())));
    assert_eq!(
        unsupported.elicit(form("Name?")).await,
        Ok(json!({"action": "decline"}))
    );
}

#[tokio::test]
async fn invalid_elicitation_is_not_shown() {
    let (elicitations, bob) = with_bob();
    for invalid in [
        json!({"message": "Name?", "mode": "form"}),
        json!({"mcp_server_name": "raw", "mode": "form"}),
        json!({"mcp_server_name": "raw", "message": "Name?", "mode": "smell"}),
        json!({"mcp_server_name": "raw", "message": "Go", "mode": "url", "url": "javascript:1"}),
        json!(null),
    ] {
        assert!(elicitations.elicit(invalid).await.is_err());
    }
    assert_eq!(bob.max_open.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn elicitations_of_a_server_run_sequentially() {
    let (elicitations, bob) = with_bob();
    let questions = (0..5).map(|_| elicitations.elicit(form("Name?")));
    let answers = futures_util::future::join_all(questions).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(bob.max_open.load(Ordering::Relaxed), 1);
}
