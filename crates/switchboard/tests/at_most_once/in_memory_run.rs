//! Runs one seed: a host, its faulty servers and its calls, in memory and on a paused clock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::{CallContext, CallError, Host, Readiness};
use switchboard_testkit::{MemoryServer, Script};
use tokio::time::{Instant, sleep, timeout};

use crate::assertions::{Seen, Tally, judge};
use crate::common::{InMemory, permissive};
use crate::fault_plan::{CallPlan, Plan};
use crate::faulty_link::{FaultyDial, Weather};
use crate::planned_call::{Outcome, make};

/// Longer than anything in a host may last.
const FOR_EVER: Duration = Duration::from_secs(2 * 60 * 60);
/// What is still under way somewhere arrives within this time.
const SETTLING: Duration = Duration::from_secs(10 * 60);
/// How long a host may take to bring a server back, delays between attempts included.
const RECOVERY: Duration = Duration::from_secs(20 * 60);

/// Runs a seed on a clock and a chance of its own.
pub(crate) fn run(seed: u64) -> Result<Tally, String> {
    // The host spreads its delays by the thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let plan = Plan::draw(seed);
    runtime
        .block_on(async { Stage::set(&plan)?.play().await })
        .map_err(|problem| format!("{problem}\n{plan:#?}"))
}

struct Stage<'p> {
    plan: &'p Plan,
    host: Host,
    servers: Vec<MemoryServer>,
    weather: Arc<Weather>,
}

impl<'p> Stage<'p> {
    fn set(plan: &'p Plan) -> Result<Self, String> {
        let weather = Arc::new(Weather::default());
        let calm = MemoryServer::new(Script::legacy().tool("echo"));
        let mut builder = permissive().connector("calm", InMemory(calm));
        let mut servers = Vec::new();
        for (number, planned) in plan.servers.iter().enumerate() {
            let server = MemoryServer::new(planned.script(plan.calls_of(number)));
            let dial = FaultyDial::new(server.clone(), planned.links.clone(), &weather);
            builder = builder.connector(server_name(number), dial);
            servers.push(server);
        }
        let host = builder.start().map_err(|error| error.to_string())?;
        Ok(Self {
            plan,
            host,
            servers,
            weather,
        })
    }

    async fn play(self) -> Result<Tally, String> {
        self.host.wait_for(Readiness::All).await;
        self.weather.is_armed.store(true, Ordering::Relaxed);
        let calls = join_all(self.plan.calls.iter().map(|call| {
            let server = server_name(call.server);
            make(&self.host, server, call)
        }));
        let all = async { tokio::join!(calls, self.call_the_calm_one(), self.meddle()) };
        let outcomes = timeout(FOR_EVER, all).await;
        let (outcomes, calm, ()) = outcomes.map_err(|_| "something hangs".to_owned())?;
        calm.map_err(|error| format!("the calm server was disturbed: {error}"))?;

        self.weather.is_calm.store(true, Ordering::Relaxed);
        for number in 0..self.servers.len() {
            self.recover(number).await?;
        }
        sleep(SETTLING).await;
        let tally = self.judge_all(outcomes)?;
        let end = timeout(FOR_EVER, self.host.shutdown()).await;
        end.map_err(|_| "shutting down hangs".to_owned())?;
        Ok(tally)
    }

    async fn call_the_calm_one(&self) -> Result<(), CallError> {
        for _ in 0..3 {
            let echo = self.host.call("mcp__calm__echo", json!({"message": "hi"}));
            echo.await?;
            sleep(Duration::from_millis(30)).await;
        }
        Ok(())
    }

    async fn meddle(&self) {
        if let Some((after, server)) = self.plan.reconnect {
            sleep(after).await;
            // That it fails while the faults last is no news.
            let _ = self.host.reconnect(&server_name(server)).await;
        }
    }

    /// The faults are over: the server comes back, by itself unless nobody can know that it is gone.
    async fn recover(&self, number: usize) -> Result<(), String> {
        let name = server_name(number);
        let tool = format!("mcp__{name}__fresh");
        let began = Instant::now();
        while began.elapsed() < RECOVERY {
            let deadline = Instant::now() + Duration::from_secs(20);
            let context = CallContext::default().deadline(deadline);
            match self
                .host
                .call(tool.as_str(), json!({}))
                .context(context)
                .await
            {
                Ok(_) => return Ok(()),
                Err(CallError::TimedOut { .. }) if self.plan.may_fall_silent(number) => {
                    let back = self.host.reconnect(&name).await;
                    back.map_err(|error| format!("{name} does not come back: {error}"))?;
                }
                Err(CallError::TimedOut { .. }) => return Err(format!("{name} fell silent")),
                Err(_) => sleep(Duration::from_secs(1)).await,
            }
        }
        let status = self.host.server_status(&name);
        Err(format!("{name} did not come back: {status:?}"))
    }

    fn judge_all(&self, outcomes: Vec<(Outcome, Duration)>) -> Result<Tally, String> {
        let mut tally = Tally::new();
        for (call, (outcome, took)) in self.plan.calls.iter().zip(outcomes) {
            let (received, executed) = self.deliveries_of(call);
            let seen = Seen {
                outcome,
                took,
                received,
                executed,
            };
            let fate = judge(call, &seen);
            let fate = fate.map_err(|problem| format!("{problem}: {}: {seen:#?}", call.tool))?;
            *tally.entry(fate).or_default() += 1;
        }
        Ok(tally)
    }

    /// How often a call was read whole by its server, and how often carried out.
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
