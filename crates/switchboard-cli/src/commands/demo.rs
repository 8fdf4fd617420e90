//! `demo`: shows what a host does, with two built-in servers and no config.
//!
//! One server is a calculator in this process. The other one is a child process that runs this
//! binary as a stdio server. The demo lists tools, calls them, denies one call, kills the child and
//! waits for the reconnect.

mod report;
pub(crate) mod server;

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::event::Events;
use switchboard::in_process::InProcessTool;
use switchboard::permission::{Action, Rule};
use switchboard::status::{ConnectionStatus, TransportKind};
use switchboard::{Event, Host, HostBuilder, InProcessServer, Readiness};
use switchboard_config::{LaunchSpec, ServerConfig, ServerName};

use super::run_host::run_with_host;
use crate::args::DEMO_SERVER;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::{Console, format_count, format_duration, text};
use crate::signals::Signals;
use report::{DemoReport, StepMark};

const CHILD: &str = "greeter";

/// Maximum time to wait until the killed server is connected again. Much longer than the delay
/// before the first reconnect attempt.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn run(context: &Context, signals: &mut Signals) -> Result<Exit, Failure> {
    let console = &context.console;
    let host = build_host(context)?;
    let mut report = DemoReport::begin(console)?;
    let child_pids = run_with_host(host, signals, context, async |host| {
        run_steps(host, &mut report, console).await
    })
    .await?;
    report.step("shut down", "Shut down")?;
    let alive = child_pids.iter().filter(|pid| is_alive(**pid)).count();
    let (mark, outcome) = match alive {
        0 => (StepMark::Good, "nothing left running".to_owned()),
        _ => (
            StepMark::Bad,
            format!("{} left running", format_count(alive, "process")),
        ),
    };
    report.outcome(mark, &outcome)?;
    report.end()
}

fn build_host(context: &Context) -> Result<HostBuilder, Failure> {
    let program = std::env::current_exe()?;
    let child = ServerConfig::stdio(program.to_string_lossy(), [DEMO_SERVER]);
    // The demo server is not a config entry, so the managed profile has to be checked here.
    let profile = context.load_settings().policy.profile;
    profile.check(&child).map_err(|refusal| {
        Failure::new(Kind::Denied, format!("cannot run the demo: {refusal}")).hint(refusal.hint())
    })?;
    let name = ServerName::new(CHILD).map_err(|error| Failure::internal(error.to_string()))?;
    let mut host = context
        .host_without_config()
        .in_process_server("calculator", build_calculator())
        .launch(LaunchSpec::trusted(name, child));
    for (action, pattern) in [
        (Action::Allow, "mcp__calculator"),
        (Action::Allow, "mcp__greeter__*"),
        (Action::Deny, "mcp__*__delete_*"),
    ] {
        let rule = Rule::new(action, pattern);
        host = host.rule(rule.map_err(|error| Failure::internal(error.to_string()))?);
    }
    Ok(host)
}

/// Runs all steps before the shutdown. Returns the pids of all child processes.
async fn run_steps(
    host: &Host,
    report: &mut DemoReport<'_>,
    console: &Console,
) -> Result<Vec<Pid>, Failure> {
    start_servers(host, report).await?;
    discover_tools(host, report, console)?;
    report.step("call in process", "Call an in-process tool")?;
    call_tool(
        host,
        report,
        "mcp__calculator__add",
        json!({"a": 15, "b": 27}),
    )
    .await?;
    report.step("call the child", "Call a tool of the child process")?;
    call_tool(host, report, "mcp__greeter__greet", json!({"name": "Ada"})).await?;
    call_denied_tool(host, report).await?;
    kill_and_reconnect(host, report).await
}

async fn start_servers(host: &Host, report: &mut DemoReport<'_>) -> Result<(), Failure> {
    report.step("start", "Start two servers at once")?;
    host.wait_for(Readiness::All).await;
    for status in host.status() {
        let server = host.server_details(status.name.as_str());
        let server = server.map_err(|error| Failure::internal(error.to_string()))?;
        let kind = match server.transport {
            TransportKind::Stdio => "child process (stdio)",
            _ => "in-process",
        };
        let took = server.connect_time.map(format_duration).unwrap_or_default();
        let mark = match status.status {
            ConnectionStatus::Connected => StepMark::Good,
            _ => StepMark::Bad,
        };
        let reason = status.error.unwrap_or_else(|| format!("{kind}, {took}"));
        report.outcome(
            mark,
            &format!("{:<10} {}  {reason}", status.name, status.status),
        )?;
    }
    Ok(())
}

fn discover_tools(
    host: &Host,
    report: &mut DemoReport<'_>,
    console: &Console,
) -> Result<(), Failure> {
    let tools = host.tools();
    report.step("discover", "Discover their tools")?;
    for tool in &tools {
        let description = tool.definition.description.as_deref().unwrap_or_default();
        let line = format!(
            "{:<32} {}",
            tool.wire_name.as_str(),
            text::first_line(description)
        );
        let description_columns = console
            .columns
            .map_or(usize::MAX, |columns| columns.saturating_sub(5));
        report.detail(&text::truncate(&line, description_columns))?;
    }
    report.note(StepMark::Good, &format_count(tools.len(), "tool"));
    Ok(())
}

/// Calls a tool and prints the result as an outcome of the current step.
async fn call_tool(
    host: &Host,
    report: &mut DemoReport<'_>,
    tool: &str,
    arguments: Value,
) -> Result<String, Failure> {
    report.detail(&format!("{tool} {arguments}"))?;
    let began = Instant::now();
    match host.call(tool, arguments).await {
        Ok(output) => {
            let text = output.to_text();
            let took = report::short_time(began.elapsed());
            report.outcome(StepMark::Good, &format!("{text}   ({took})"))?;
            Ok(text)
        }
        Err(error) => {
            report.outcome(StepMark::Bad, &error.to_string())?;
            Err(Failure::from(error))
        }
    }
}

async fn call_denied_tool(host: &Host, report: &mut DemoReport<'_>) -> Result<(), Failure> {
    report.step("deny", "Call a tool that a rule denies")?;
    report.detail("mcp__greeter__delete_everything {}")?;
    match host
        .call("mcp__greeter__delete_everything", json!({}))
        .await
    {
        Err(error @ switchboard::CallError::Denied { .. }) => {
            report.outcome(StepMark::Good, &error.to_string())
        }
        Err(error) => Err(Failure::from(error)),
        Ok(_) => report.outcome(StepMark::Bad, "the call was not denied"),
    }
}

/// Kills the child process and waits for the reconnect.
async fn kill_and_reconnect(host: &Host, report: &mut DemoReport<'_>) -> Result<Vec<Pid>, Failure> {
    report.step(
        "kill and recover",
        "Kill the child process and wait for the reconnect",
    )?;
    let first = ask_pid(host).await?;
    let mut events = host.events();
    let began = Instant::now();
    rustix::process::kill_process(first, Signal::KILL).map_err(std::io::Error::from)?;
    report.detail(&format!("SIGKILL to process {}", first.as_raw_nonzero()))?;
    let reconnect = report_until_reconnected(&mut events, report);
    match tokio::time::timeout(RECONNECT_TIMEOUT, reconnect).await {
        Ok(outcome) => outcome?,
        Err(_) => report.outcome(
            StepMark::Bad,
            &format!("no reconnect within {}", format_duration(RECONNECT_TIMEOUT)),
        )?,
    }
    let second = ask_pid(host).await?;
    let outcome = format!(
        "reconnected after {} as process {}",
        format_duration(began.elapsed()),
        second.as_raw_nonzero()
    );
    let mark = if second == first {
        StepMark::Bad
    } else {
        StepMark::Good
    };
    report.outcome(mark, &outcome)?;
    call_tool(
        host,
        report,
        "mcp__greeter__greet",
        json!({"name": "Ada, again"}),
    )
    .await?;
    Ok(vec![first, second])
}

/// Prints the status changes until the killed server is connected again.
async fn report_until_reconnected(
    events: &mut Events,
    report: &DemoReport<'_>,
) -> Result<(), Failure> {
    let mut was_disconnected = false;
    let mut last_line = String::new();
    while let Some(event) = events.next().await {
        let Event::ServerChanged {
            server,
            status,
            detail,
        } = event
        else {
            continue;
        };
        let detail = detail.map(|detail| format!(": {}", text::first_line(&detail)));
        let line = format!("{server} is {status}{}", detail.unwrap_or_default());
        if line != last_line {
            report.detail(&line)?;
            last_line = line;
        }
        was_disconnected |= status != ConnectionStatus::Connected;
        if was_disconnected && status == ConnectionStatus::Connected {
            break;
        }
    }
    Ok(())
}

async fn ask_pid(host: &Host) -> Result<Pid, Failure> {
    let output = host.call("mcp__greeter__pid", json!({})).await?;
    let pid = output.to_text().trim().parse().ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| Failure::internal("the demo server returned no process id"))
}

fn is_alive(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_ok()
}

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: f64,
    b: f64,
}

fn build_calculator() -> InProcessServer {
    let add = |Pair { a, b }: Pair| async move { Ok((a + b).to_string()) };
    let multiply = |Pair { a, b }: Pair| async move { Ok((a * b).to_string()) };
    InProcessServer::new("calculator", env!("CARGO_PKG_VERSION"))
        .with_tool(InProcessTool::new("add", "Adds two numbers", add).read_only())
        .with_tool(InProcessTool::new("multiply", "Multiplies two numbers", multiply).read_only())
}
