//! Makes one call as its plan says: with a delay, a deadline, and possibly dropped early.

use std::future::IntoFuture as _;
use std::time::Duration;

use serde_json::json;
use switchboard::{CallContext, CallError, Host, Output};
use tokio::time::{Instant, sleep, timeout};

use crate::fault_plan::CallPlan;

/// The result of a call; `None` if the caller dropped it.
pub(crate) type CallResult = Option<Result<Output, CallError>>;

/// Makes a call after the planned delay. Returns the result and the duration of the call.
pub(crate) async fn make_call(
    host: &Host,
    server: String,
    call: &CallPlan,
) -> (CallResult, Duration) {
    sleep(call.delay).await;
    let start_time = Instant::now();
    let name = format!("mcp__{server}__{}", call.tool);
    let mut context = CallContext::default();
    context.deadline = call.deadline.map(|deadline| start_time + deadline);
    let arguments = json!({"load": "x".repeat(call.padding)});
    let pending = host.call(name, arguments).context(context);
    let outcome = match call.dropped_after {
        Some(after) => timeout(after, pending.into_future()).await.ok(),
        None => Some(pending.await),
    };
    (outcome, start_time.elapsed())
}
