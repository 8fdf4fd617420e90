use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use switchboard::{BoxFuture, ElicitMode, Offers, PermissionAnswer, PermissionQuestion};

use super::*;

/// Fills in forms with the name Bob, visits addresses on this machine, and thinks for a second.
#[derive(Default)]
struct Bob {
    offers: Offers,
    /// How many questions are open, and how many were at most.
    open: AtomicUsize,
    most: AtomicUsize,
}

impl Interaction for Bob {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn permit<'a>(&'a self, _: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
        Box::pin(std::future::ready(PermissionAnswer::NobodyToAsk))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(open, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.open.fetch_sub(1, Ordering::Relaxed);
            match (question.message.as_str(), question.mode) {
                ("Panic?", _) => panic!("as asked"),
                ("Closed?", _) => ElicitAnswer::Cancel,
                (_, ElicitMode::Url(_)) => ElicitAnswer::Accept(Map::new()),
                (_, ElicitMode::Form(_)) => {
                    ElicitAnswer::Accept(Map::from_iter([("name".to_owned(), json!("Bob"))]))
                }
                _ => ElicitAnswer::Decline,
            }
        })
    }
}

fn with_bob() -> (Elicitations, Arc<Bob>) {
    let bob = Arc::new(Bob {
        offers: Offers::default().elicitation().elicitation_url(),
        ..Bob::default()
    });
    let interaction: Arc<dyn Interaction> = Arc::clone(&bob) as _;
    (Elicitations::new(Some(interaction)), bob)
}

fn form(message: &str) -> Value {
    json!({
        "subtype": "elicitation", "mcp_server_name": "raw", "message": message, "mode": "form",
        "requested_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
        "property_order": ["name"],
    })
}

#[tokio::test(start_paused = true)]
async fn a_form_is_filled_in() {
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
async fn an_address_is_consented_to() {
    let (elicitations, _) = with_bob();
    let request = json!({
        "mcp_server_name": "raw", "message": "Log in", "mode": "url",
        "url": "https://example.com/login", "elicitation_id": "e1",
    });
    let answer = elicitations.elicit(request).await;
    assert_eq!(answer, Ok(json!({"action": "accept"})));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_is_not_sent() {
    let (elicitations, _) = with_bob();
    let mut request = form("Number?");
    request["requested_schema"]["properties"]["name"]["type"] = json!("integer");
    let answer = elicitations.elicit(request).await;
    assert_eq!(answer, Ok(json!({"action": "cancel"})));
    let answer = elicitations.elicit(form("Panic?")).await;
    assert_eq!(answer, Ok(json!({"action": "cancel"})));
}

#[tokio::test]
async fn what_nobody_offers_to_answer_is_declined() {
    let nobody = Elicitations::new(None);
    assert_eq!(
        nobody.elicit(form("Name?")).await,
        Ok(json!({"action": "decline"}))
    );
    let silent = Elicitations::new(Some(Arc::new(Bob::default())));
    assert_eq!(
        silent.elicit(form("Name?")).await,
        Ok(json!({"action": "decline"}))
    );
}

#[tokio::test]
async fn a_question_against_the_rules_is_shown_to_nobody() {
    let (elicitations, bob) = with_bob();
    for odd in [
        json!({"message": "Name?", "mode": "form"}),
        json!({"mcp_server_name": "raw", "mode": "form"}),
        json!({"mcp_server_name": "raw", "message": "Name?", "mode": "smell"}),
        json!({"mcp_server_name": "raw", "message": "Go", "mode": "url", "url": "javascript:1"}),
        json!(null),
    ] {
        assert!(elicitations.elicit(odd).await.is_err());
    }
    assert_eq!(bob.most.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_question_open_at_a_time() {
    let (elicitations, bob) = with_bob();
    let questions = (0..5).map(|_| elicitations.elicit(form("Name?")));
    let answers = futures_util::future::join_all(questions).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(bob.most.load(Ordering::Relaxed), 1);
}
