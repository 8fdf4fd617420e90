//! Makes the calls of one agent turn, some of them concurrently.

use std::future::IntoFuture;

use futures_util::future::join_all;
use switchboard_wire::mcp::Hint;

use super::{Call, CallError};
use crate::content::Output;

/// Makes the calls in order. Adjacent calls of tools with the annotation `readOnlyHint` run
/// concurrently. The results are in the order of the calls.
///
/// `readOnlyHint` comes from the server and may be wrong. The worst effect of a wrong hint is that
/// calls overlap that should run one after the other.
pub(crate) async fn call_batch(calls: Vec<Call<'_>>) -> Vec<Result<Output, CallError>> {
    let mut results = Vec::with_capacity(calls.len());
    let mut read_only_group = Vec::new();
    for call in calls {
        if is_read_only(&call) {
            read_only_group.push(call);
        } else {
            results.extend(join_all(read_only_group.drain(..).map(Call::into_future)).await);
            results.push(call.await);
        }
    }
    results.extend(join_all(read_only_group.into_iter().map(Call::into_future)).await);
    results
}

fn is_read_only(call: &Call<'_>) -> bool {
    let catalog = call.host.catalog();
    let tool = catalog.get(&call.wire_name);
    tool.is_some_and(|tool| tool.definition.annotations.declares(Hint::ReadOnly))
}
