//! `demo`: the main job, shown on built-in servers.
//!
//! A host with a calculator in this process and a real child (this binary once more): tools are
//! discovered, calls take the whole way, one is denied, the child is killed and comes back by itself.

mod calculator;
mod story;

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use switchboard::permission::{Action, Rule};
use switchboard::{ConnectionStatus, Event, Host, HostBuilder, Readiness};
use switchboard_config::{LaunchSpec, ServerConfig, ServerName};

use super::on_host;
use crate::args::DEMO_SERVER;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::{Console, count, format_duration, text};
use crate::signals::Signals;
use calculator::calculator;
use story::{Mark, Story};

const CHILD: &str = "greeter";

/// Far longer than the first delay of a reconnect.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn run(context: &Context, signals: &mut Signals) -> Result<Exit, Failure> {
    let console = &context.console;
    let host = describe_host(context)?;
    let mut story = Story::begin(console)?;
    let seen = on_host(host, signals, context, async |host| {
        play(host, &mut story, console).await
    })
    .await?;
    story.step("shut down", "Shut down")?;
    let alive = seen.iter().filter(|pid| is_alive(**pid)).count();
    let (mark, outcome) = match alive {
        0 => (Mark::Good, "nothing left running".to_owned()),
        _ => (
            Mark::Bad,
            format!("{} left running", count(alive, "process")),
        ),
    };
    story.outcome(mark, &outcome)?;
    story.end()
}

fn describe_host(context: &Context) -> Result<HostBuilder, Failure> {
    let program = std::env::current_exe()?;
    let child = ServerConfig::stdio(program.to_string_lossy(), [DEMO_SERVER]);
    // Nobody configured it, and yet it is a program that is started.
    let profile = context.load_settings().policy.profile;
    profile.check(&child).map_err(|ban| {
        Failure::new(Kind::Denied, format!("there is no demo here: {ban}")).hint(ban.hint())
    })?;
    let name = ServerName::new(CHILD).map_err(|error| Failure::internal(error.to_string()))?;
    let mut host = context
        .host_without_config()
        .local_server("calculator", calculator())
        .server(LaunchSpec::from_code(name, child));
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

/// The steps between start and shutdown. Returns the processes that were seen.
async fn play(host: &Host, story: &mut Story<'_>, console: &Console) -> Result<Vec<Pid>, Failure> {
    start(host, story).await?;
    discover(host, story, console)?;
    story.step("call in process", "Call a tool in this process")?;
    call(
        host,
        story,
        "mcp__calculator__add",
        json!({"a": 15, "b": 27}),
    )
    .await?;
    story.step("call the child", "Call a tool of the child")?;
    call(host, story, "mcp__greeter__greet", json!({"name": "Ada"})).await?;
    denied(host, story).await?;
    kill_and_wait(host, story).await
}

async fn start(host: &Host, story: &mut Story<'_>) -> Result<(), Failure> {
    story.step("start", "Start two servers at once")?;
    host.wait_for(Readiness::All).await;
    for status in host.status() {
        let server = host.inspect(status.name.as_str());
        let server = server.map_err(|error| Failure::internal(error.to_string()))?;
        let kind = match server.transport {
            "stdio" => "a child process, over stdio",
            _ => "in this process",
        };
        let took = server.connect_time.map(format_duration).unwrap_or_default();
        let mark = match status.status {
            ConnectionStatus::Connected => Mark::Good,
            _ => Mark::Bad,
        };
        let reason = status.error.unwrap_or_else(|| format!("{kind}, {took}"));
        story.outcome(
            mark,
            &format!("{:<10} {}  {reason}", status.name, status.status),
        )?;
    }
    Ok(())
}

fn discover(host: &Host, story: &mut Story<'_>, console: &Console) -> Result<(), Failure> {
    let tools = host.tools();
    story.step("discover", "Discover their tools")?;
    for tool in &tools {
        let description = tool.definition.description.as_deref().unwrap_or_default();
        let line = format!(
            "{:<32} {}",
            tool.wire_name.as_str(),
            text::first_line(description)
        );
        let room = console
            .columns
            .map_or(usize::MAX, |columns| columns.saturating_sub(5));
        story.detail(&text::truncate(&line, room))?;
    }
    story.note(Mark::Good, &count(tools.len(), "tool"));
    Ok(())
}

/// Makes a call and tells what came of it.
async fn call(
    host: &Host,
    story: &mut Story<'_>,
    tool: &str,
    arguments: Value,
) -> Result<String, Failure> {
    story.detail(&format!("{tool} {arguments}"))?;
    let began = Instant::now();
    match host.call(tool, arguments).await {
        Ok(output) => {
            let text = output.to_text();
            let took = story::short_time(began.elapsed());
            story.outcome(Mark::Good, &format!("{text}   ({took})"))?;
            Ok(text)
        }
        Err(error) => {
            story.outcome(Mark::Bad, &error.to_string())?;
            Err(Failure::from(error))
        }
    }
}

async fn denied(host: &Host, story: &mut Story<'_>) -> Result<(), Failure> {
    story.step("deny", "Try a tool that a rule denies")?;
    story.detail("mcp__greeter__delete_everything {}")?;
    match host
        .call("mcp__greeter__delete_everything", json!({}))
        .await
    {
        Err(error @ switchboard::CallError::Denied { .. }) => {
            story.outcome(Mark::Good, &error.to_string())
        }
        Err(error) => Err(Failure::from(error)),
        Ok(_) => story.outcome(Mark::Bad, "it was called all the same"),
    }
}

/// Kills the child and waits until it is back.
async fn kill_and_wait(host: &Host, story: &mut Story<'_>) -> Result<Vec<Pid>, Failure> {
    story.step(
        "kill and recover",
        "Kill the child, and watch it come back by itself",
    )?;
    let first = ask_pid(host).await?;
    let mut events = host.events();
    let began = Instant::now();
    rustix::process::kill_process(first, Signal::KILL).map_err(std::io::Error::from)?;
    story.detail(&format!("SIGKILL to process {}", first.as_raw_nonzero()))?;
    let back = async {
        let mut was_away = false;
        let mut told = String::new();
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
            if line != told {
                story.detail(&line)?;
                told = line;
            }
            was_away |= status != ConnectionStatus::Connected;
            if was_away && status == ConnectionStatus::Connected {
                break;
            }
        }
        Ok::<_, Failure>(())
    };
    match tokio::time::timeout(PATIENCE, back).await {
        Ok(told) => told?,
        Err(_) => story.outcome(
            Mark::Bad,
            &format!("not back after {}", format_duration(PATIENCE)),
        )?,
    }
    let second = ask_pid(host).await?;
    let back = format!(
        "back after {} as process {}",
        format_duration(began.elapsed()),
        second.as_raw_nonzero()
    );
    story.outcome(
        if second == first {
            Mark::Bad
        } else {
            Mark::Good
        },
        &back,
    )?;
    call(
        host,
        story,
        "mcp__greeter__greet",
        json!({"name": "Ada, again"}),
    )
    .await?;
    Ok(vec![first, second])
}

async fn ask_pid(host: &Host) -> Result<Pid, Failure> {
    let output = host.call("mcp__greeter__pid", json!({})).await?;
    let pid = output.to_text().trim().parse().ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| Failure::internal("the child does not know its own process"))
}

fn is_alive(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_ok()
}
