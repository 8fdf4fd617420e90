//! Runs one seed: a host, its server, the faults between and in them, and its calls.

use std::future::IntoFuture as _;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::{CallContext, CallError, Host, Output, Readiness};
use switchboard_config::ServerConfig;
use switchboard_testkit::http::{FaultProxy, HttpServer, ReceivedRequest as Request};
use tokio::time::{Instant, sleep, timeout};

use crate::assertions::{Seen, Tally, judge};
use crate::common::{launch, permissive};
use crate::fault_plan::{CallPlan, Meddling, Plan};

/// Longer than anything in a seed may last, with slack for a busy machine.
const FOR_EVER: Duration = Duration::from_secs(120);
/// How soon a client comes back to a stream that broke off.
const RETRY: Duration = Duration::from_millis(5);

/// What came of a call; `None` when its caller gave it up.
type Outcome = Option<Result<Output, CallError>>;

/// Runs a seed.
pub(crate) async fn run(seed: u64) -> Result<Tally, String> {
    let plan = Plan::draw(seed);
    let outcome = timeout(FOR_EVER, play(&plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err("something hangs".to_owned()));
    outcome.map_err(|problem| format!("{problem}\n{plan:#?}"))
}

async fn play(plan: &Plan) -> Result<Tally, String> {
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
    let calls = join_all(plan.calls.iter().map(|call| make(&host, call)));
    let (outcomes, ()) = tokio::join!(calls, meddle(plan, &server));

    server.disarm();
    proxy.disarm();
    if let Some((_, Meddling::Stop)) = plan.meddling {
        server.restart().await;
    }
    recover(&host).await?;
    host.shutdown().await;
    proxy.settle().await;
    let is_quiet = |server: &HttpServer| server.open_connections() == 0;
    server.wait_until("nothing is under way", is_quiet).await;
    let tally = judge_all(plan, &server, outcomes);
    tally.map_err(|problem| format!("{problem}\n{:#?}", proxy.plans()))
}

/// Makes a call when its time has come.
async fn make(host: &Host, call: &CallPlan) -> Outcome {
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

async fn meddle(plan: &Plan, server: &HttpServer) {
    let Some((after, meddling)) = plan.meddling else {
        return;
    };
    sleep(after).await;
    match meddling {
        Meddling::DropConnections => server.drop_connections().await,
        Meddling::ExpireSessions => server.expire_sessions(),
        Meddling::Restart => server.restart().await,
        Meddling::Stop => server.stop().await,
    }
}

/// The faults are over: the server can be used again.
async fn recover(host: &Host) -> Result<(), String> {
    let back = host.reconnect("s").await;
    back.map_err(|error| format!("it does not come back: {error}"))?;
    let fresh = host.call("mcp__s__fresh", json!({})).await;
    let fresh = fresh.map_err(|error| format!("it is back, but not well: {error}"))?;
    match fresh.to_text().as_str() {
        "fresh" => Ok(()),
        other => Err(format!("it is back, but says {other}")),
    }
}

fn judge_all(plan: &Plan, server: &HttpServer, outcomes: Vec<Outcome>) -> Result<Tally, String> {
    let requests = server.requests_with("tools/call");
    let mut tally = Tally::new();
    for (call, outcome) in plan.calls.iter().zip(outcomes) {
        let is_taken = |request: &&Request| {
            let is_own = request.json()["params"]["name"] == call.tool.as_str();
            let is_refused = matches!(request.status, Some(400..500));
            is_own && request.is_complete && !is_refused
        };
        let seen = Seen {
            outcome,
            taken: requests.iter().filter(is_taken).count(),
            executed: server.count(&format!("tools/call {}", call.tool)),
        };
        let fate = judge(call, &seen);
        let fate = fate.map_err(|problem| format!("{problem}: {}: {seen:#?}", call.tool))?;
        *tally.entry(fate).or_default() += 1;
    }
    Ok(tally)
}
