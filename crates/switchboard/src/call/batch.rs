//! The calls of one agent turn, made together without losing their order.

use futures_util::future::join_all;

use std::future::IntoFuture;

use super::{Call, CallError};
use crate::content::Output;
use crate::mcp::Hint;

/// Makes the calls in order; neighbours that declare themselves read-only run at the same time.
///
/// The hint is the server's word. All that a false one can do here is to let its own calls overlap.
pub(crate) async fn run(calls: Vec<Call<'_>>) -> Vec<Result<Output, CallError>> {
    let mut outcomes = Vec::with_capacity(calls.len());
    let mut together = Vec::new();
    for call in calls {
        if is_read_only(&call) {
            together.push(call);
        } else {
            outcomes.extend(join_all(together.drain(..).map(Call::into_future)).await);
            outcomes.push(call.await);
        }
    }
    outcomes.extend(join_all(together.into_iter().map(Call::into_future)).await);
    outcomes
}

fn is_read_only(call: &Call<'_>) -> bool {
    let catalog = call.host.catalog();
    let tool = catalog.get(&call.name);
    tool.is_some_and(|tool| tool.definition.annotations.declares(Hint::ReadOnly))
}
