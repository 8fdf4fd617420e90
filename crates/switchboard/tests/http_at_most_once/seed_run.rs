//! Runs one seed: a host, a server, a proxy with faults, and the planned calls.

use std::future::IntoFuture as _;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::{CallContext, CallError, Host, Output, Readiness};
use switchboard_config::ServerConfig;
use switchboard_testkit::http::{FaultProxy, HttpServer, ReceivedRequest as Request};
use tokio::time::{Instant, sleep, timeout};

use crate::assertions::{CallRecord, EndingCounts, check_call};
use crate::common::{launch, permissive};
use crate::fault_plan::{CallPlan, Disruption, SeedPlan};

/// A run that takes longer than this is reported as hanging. No run takes that long, even on a busy
/// machine.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);
/// Delay before the client reopens an interrupted stream.
const RETRY: Duration = Duration::from_millis(5);

/// The result of a call; `None` if the caller dropped it.
type CallResult = Option<Result<Output, CallError>>;

pub(crate) async fn run(seed: u64) -> Result<EndingCounts, String> {
    let plan = SeedPlan::generate(seed);
    let outcome = timeout(HANG_TIMEOUT, run_plan(&plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err("the run hangs".to_owned()));
    outcome.map_err(|problem| format!("{problem}\n{plan:#?}"))
}

async fn run_plan(plan: &SeedPlan) -> Result<EndingCounts, String> {
    let server = HttpServer::start(plan.script(), plan.transport.mode()).await;
    server.set_retry(RETRY);
    let (seed, reach) = plan.network.unwrap_or_default();
    let proxy = FaultProxy::seeded(server.address(), seed, reach).await;
    let config = ServerConfig::remote(proxy.url(&server.url()), plan.transport.kind());
    let host = permissive().launch(launch("s", config)).start();
    let host = host.map_err(|error| error.to_string())?;
    host.wait_for(Readiness::All).await;

    plan.faults
        .iter()
        .for_each(|fault| server.arm(fault.clone()));
    if plan.network.is_some() {
        proxy.arm();
    }
    let calls = join_all(plan.calls.iter().map(|call| make_call(&host, call)));
    let (outcomes, ()) = tokio::join!(calls, disrupt(plan, &server));

    server.disarm();
    proxy.disarm();
    if let Some((_, Disruption::Stop)) = plan.disruption {
        server.restart().await;
    }
    recover(&host).await?;
    host.shutdown().await;
    proxy.settle().await;
    let is_idle = |server: &HttpServer| server.open_connections() == 0;
    server
        .wait_until("all connections are closed", is_idle)
        .await;
    let counts = check_calls(plan, &server, outcomes);
    counts.map_err(|problem| format!("{problem}\n{:#?}", proxy.plans()))
}

/// Makes a call after its planned delay.
async fn make_call(host: &Host, call: &CallPlan) -> CallResult {
    sleep(call.after).await;
    let deadline = Instant::now() + call.deadline;
    let arguments = json!({"load": "x".repeat(call.padding)});
    let pending = host
        .call(format!("mcp__s__{}", call.tool), arguments)
        .context(CallContext::default().deadline(deadline));
    match call.dropped_after {
        Some(after) => timeout(after, pending.into_future()).await.ok(),
        None => Some(pending.await),
    }
}

async fn disrupt(plan: &SeedPlan, server: &HttpServer) {
    let Some((after, disruption)) = plan.disruption else {
        return;
    };
    sleep(after).await;
    match disruption {
        Disruption::DropConnections => server.drop_connections().await,
        Disruption::ExpireSessions => server.expire_sessions(),
        Disruption::Restart => server.restart().await,
        Disruption::Stop => server.stop().await,
    }
}

/// Checks that the server can be called again after the faults have ended.
async fn recover(host: &Host) -> Result<(), String> {
    let reconnected = host.reconnect("s").await;
    reconnected.map_err(|error| format!("the server does not reconnect: {error}"))?;
    let probe = host.call("mcp__s__probe", json!({})).await;
    let probe = probe.map_err(|error| format!("the call after the reconnect failed: {error}"))?;
    match probe.to_text().as_str() {
        "probe" => Ok(()),
        other => Err(format!("the call after the reconnect returned {other}")),
    }
}

fn check_calls(
    plan: &SeedPlan,
    server: &HttpServer,
    outcomes: Vec<CallResult>,
) -> Result<EndingCounts, String> {
    let requests = server.requests_with("tools/call");
    let mut counts = EndingCounts::new();
    for (call, outcome) in plan.calls.iter().zip(outcomes) {
        let is_accepted = |request: &&Request| {
            let is_own = request.json()["params"]["name"] == call.tool.as_str();
            let is_refused = matches!(request.status, Some(400..500));
            is_own && request.is_complete && !is_refused
        };
        let record = CallRecord {
            outcome,
            accepted: requests.iter().filter(is_accepted).count(),
            executed: server.count(&format!("tools/call {}", call.tool)),
        };
        let ending = check_call(call, &record);
        let ending = ending.map_err(|problem| format!("{problem}: {}: {record:#?}", call.tool))?;
        *counts.entry(ending).or_default() += 1;
    }
    Ok(counts)
}
