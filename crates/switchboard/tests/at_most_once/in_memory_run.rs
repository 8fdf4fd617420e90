//! Runs one seed with in-memory servers on a paused clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::{CallContext, CallError, Host, Readiness};
use switchboard_testkit::{MemoryServer, Script};
use tokio::time::{Instant, sleep, timeout};

use crate::assertions::{CallRecord, EndingCounts, check_call};
use crate::common::{InMemory, permissive};
use crate::fault_plan::{CallPlan, SeedPlan};
use crate::faulty_connection::{FaultSwitch, FaultyConnector};
use crate::planned_call::{CallResult, make_call};

/// Maximum simulated time for all calls of a run, and for the shutdown of the host. A run that
/// takes longer is reported as hanging.
const HANG_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);
/// How long a run waits after its last call, so that queued messages reach the server.
const SETTLE_TIME: Duration = Duration::from_secs(10 * 60);
/// Maximum simulated time in which the host must reconnect a server, including the delays between
/// attempts.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// Runs a seed with its own paused clock and random generator.
pub(crate) fn run(seed: u64) -> Result<EndingCounts, String> {
    // The host takes its backoff jitter from the thread's random generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let plan = SeedPlan::generate(seed);
    runtime
        .block_on(async { Run::new(&plan)?.execute().await })
        .map_err(|problem| format!("{problem}\n{plan:#?}"))
}

struct Run<'p> {
    plan: &'p SeedPlan,
    host: Host,
    servers: Vec<MemoryServer>,
    faults: Arc<FaultSwitch>,
}

impl<'p> Run<'p> {
    fn new(plan: &'p SeedPlan) -> Result<Self, String> {
        let faults = Arc::new(FaultSwitch::default());
        let healthy = MemoryServer::new(Script::legacy().tool("echo"));
        let mut builder = permissive().connector("healthy", InMemory(healthy));
        let mut servers = Vec::new();
        for (number, planned) in plan.servers.iter().enumerate() {
            let server = MemoryServer::new(planned.script(plan.calls_of(number)));
            let connector =
                FaultyConnector::new(server.clone(), planned.connections.clone(), &faults);
            builder = builder.connector(server_name(number), connector);
            servers.push(server);
        }
        let host = builder.start().map_err(|error| error.to_string())?;
        Ok(Self {
            plan,
            host,
            servers,
            faults,
        })
    }

    async fn execute(self) -> Result<EndingCounts, String> {
        self.host.wait_for(Readiness::All).await;
        self.faults.is_armed.store(true, Ordering::Relaxed);
        let calls = join_all(self.plan.calls.iter().map(|call| {
            let server = server_name(call.server);
            make_call(&self.host, server, call)
        }));
        let all = async {
            tokio::join!(
                calls,
                self.call_healthy_server(),
                self.reconnect_if_planned()
            )
        };
        let outcomes = timeout(HANG_TIMEOUT, all).await;
        let (outcomes, healthy, ()) = outcomes.map_err(|_| "the run hangs".to_owned())?;
        healthy.map_err(|error| format!("a call to the healthy server failed: {error}"))?;

        self.faults.is_disabled.store(true, Ordering::Relaxed);
        for number in 0..self.servers.len() {
            self.recover(number).await?;
        }
        sleep(SETTLE_TIME).await;
        let counts = self.check_calls(outcomes)?;
        let end = timeout(HANG_TIMEOUT, self.host.shutdown()).await;
        end.map_err(|_| "shutdown hangs".to_owned())?;
        Ok(counts)
    }

    async fn call_healthy_server(&self) -> Result<(), CallError> {
        for _ in 0..3 {
            let echo = self
                .host
                .call("mcp__healthy__echo", json!({"message": "hi"}));
            echo.await?;
            sleep(Duration::from_millis(30)).await;
        }
        Ok(())
    }

    async fn reconnect_if_planned(&self) {
        if let Some((after, server)) = self.plan.reconnect {
            sleep(after).await;
            // The attempt may fail while the connection is faulty.
            let _ = self.host.reconnect(&server_name(server)).await;
        }
    }

    /// Checks that the server responds again after the faults have ended. If a call times out and a
    /// connection of the server may be stalled, calls `reconnect`, because the host cannot detect a
    /// stall.
    async fn recover(&self, number: usize) -> Result<(), String> {
        let name = server_name(number);
        let tool = format!("mcp__{name}__probe");
        let start_time = Instant::now();
        while start_time.elapsed() < RECOVERY_TIMEOUT {
            let deadline = Instant::now() + Duration::from_secs(20);
            let context = CallContext::default().deadline(deadline);
            match self
                .host
                .call(tool.as_str(), json!({}))
                .context(context)
                .await
            {
                Ok(_) => return Ok(()),
                Err(CallError::TimedOut { .. }) if self.plan.may_stall(number) => {
                    let reconnected = self.host.reconnect(&name).await;
                    reconnected.map_err(|error| format!("{name} does not reconnect: {error}"))?;
                }
                Err(CallError::TimedOut { .. }) => {
                    return Err(format!("{name} stopped responding"));
                }
                Err(_) => sleep(Duration::from_secs(1)).await,
            }
        }
        let status = self.host.server_status(&name);
        Err(format!("{name} did not recover: {status:?}"))
    }

    fn check_calls(&self, outcomes: Vec<(CallResult, Duration)>) -> Result<EndingCounts, String> {
        let mut counts = EndingCounts::new();
        for (call, (outcome, duration)) in self.plan.calls.iter().zip(outcomes) {
            let (received, executed) = self.deliveries_of(call);
            let record = CallRecord {
                outcome,
                duration,
                received,
                executed,
            };
            let ending = check_call(call, &record);
            let ending =
                ending.map_err(|problem| format!("{problem}: {}: {record:#?}", call.tool))?;
            *counts.entry(ending).or_default() += 1;
        }
        Ok(counts)
    }

    /// Returns how often the server read the complete request of the call, and how often it
    /// executed the call.
    fn deliveries_of(&self, call: &CallPlan) -> (usize, usize) {
        let Some(server) = self.servers.get(call.server) else {
            return (0, 0);
        };
        let received = server.received_with("tools/call");
        let of_this_call = received
            .iter()
            .filter(|request| request["params"]["name"] == call.tool.as_str());
        (of_this_call.count(), server.count(&call.tool))
    }
}

fn server_name(number: usize) -> String {
    format!("s{number}")
}
