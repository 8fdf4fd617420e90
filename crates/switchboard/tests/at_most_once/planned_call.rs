//! One call of a plan, made.

use std::future::IntoFuture as _;
use std::time::Duration;

use serde_json::json;
use switchboard::{CallContext, CallError, Host, Output};
use tokio::time::{Instant, sleep, timeout};

use crate::fault_plan::CallPlan;

/// What came of a call; `None` when its caller gave it up.
pub(crate) type Outcome = Option<Result<Output, CallError>>;

/// Makes a call when its time has come, and says what came of it and how long that took.
pub(crate) async fn make(host: &Host, server: String, call: &CallPlan) -> (Outcome, Duration) {
    sleep(call.after).await;
    let began = Instant::now();
    let name = format!("mcp__{server}__{}", call.tool);
    let mut context = CallContext::default();
    context.deadline = call.deadline.map(|deadline| began + deadline);
    let arguments = json!({"load": "x".repeat(call.padding)});
    let pending = host.call(name, arguments).context(context);
    let outcome = match call.dropped_after {
        Some(after) => timeout(after, pending.into_future()).await.ok(),
        None => Some(pending.await),
    };
    (outcome, began.elapsed())
}
