//! Typed Rust functions as tools: called by a host in this process, or by the Claude CLI.
//!
//! ```sh
//! cargo run -p switchboard-claude --example calculator
//! cargo run -p switchboard-claude --example calculator -- claude "What is 15 + 27?"
//! ```

mod server;

use std::error::Error;
use std::process::ExitCode;

use serde_json::{Value, json};
use switchboard::permission::{Action, Rule};
use switchboard::{Host, Readiness};
use switchboard_claude::{ContentBlock, Message, Options, query};

use server::calculator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        None => call_on_host().await,
        Some("claude") => {
            let prompt = arguments.next();
            query_claude(prompt.as_deref().unwrap_or("What is 15 + 27?")).await
        }
        Some(other) => {
            Err(format!("unknown argument `{other}`; use no arguments, or `claude PROMPT`").into())
        }
    }
}

async fn call_on_host() -> Result<(), Box<dyn Error>> {
    let host = Host::builder()
        .in_process_server("calc", calculator())
        .rule(Rule::new(Action::Allow, "mcp__calc")?)
        .start()?;
    host.wait_for(Readiness::All).await;
    let calls = [
        ("add", json!({"a": 15, "b": 27})),
        ("subtract", json!({"a": 15, "b": 27})),
        ("multiply", json!({"a": 15, "b": 27})),
        ("divide", json!({"a": 15, "b": 0})),
        ("divide", json!({"a": 15})),
    ];
    for (tool, arguments) in calls {
        let outcome = match host.call(format!("mcp__calc__{tool}"), &arguments).await {
            Ok(output) if output.is_error => format!("tool error: {}", output.to_text()),
            Ok(output) => output.to_text(),
            Err(error) => format!("not called: {error}"),
        };
        println!("{tool} {arguments} → {outcome}");
    }
    host.shutdown().await;
    Ok(())
}

/// Formats a tool use as `[Tool use: add with arguments {a: 15, b: 27}]`.
fn describe_tool_use(name: &str, input: &Value) -> String {
    let tool = name.rsplit("__").next().unwrap_or(name);
    let arguments = input.as_object().into_iter().flatten();
    let arguments: Vec<_> = arguments
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let arguments = arguments.join(", ");
    format!("[Tool use: {tool} with arguments {{{arguments}}}]")
}

async fn query_claude(prompt: &str) -> Result<(), Box<dyn Error>> {
    let options = Options::new()
        .sdk_server("calc", calculator())
        .allowed_tools(["mcp__calc"])
        .max_turns(5);
    let mut messages = query(prompt, options);
    while let Some(message) = messages.next().await {
        match message? {
            Message::Assistant(assistant) => {
                for block in &assistant.content {
                    match block {
                        ContentBlock::Text(text) => println!("Claude: {}", text.text),
                        ContentBlock::ToolUse(tool_use) => {
                            println!("{}", describe_tool_use(&tool_use.name, &tool_use.input));
                        }
                        _ => {}
                    }
                }
            }
            Message::Result(result) => {
                println!("\nResult: {}", result.result.as_deref().unwrap_or("none"));
                println!("Cost: ${:.6}", result.total_cost_usd.unwrap_or(0.0));
                println!("Turns: {}", result.num_turns);
            }
            _ => {}
        }
    }
    Ok(())
}
