//! Runs a to-do list as an in-process server: tools with shared state, progress and cancellation.
//!
//! ```text
//! cargo run -p switchboard --example stateful_server
//! ```

#![allow(clippy::unused_async, reason = "tool handlers are async functions")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use switchboard::{CallContext, Host, InProcessServer, Readiness, ToolContext, ToolResult};
use tokio::time::{Instant, sleep};

/// The to-do list, which all tools share. The lock is never held across an `.await`.
#[derive(Clone, Default)]
struct TodoList(Arc<Mutex<Vec<Item>>>);

/// An item of the list.
#[derive(Clone, Serialize, JsonSchema)]
struct Item {
    /// The number, starting at 1
    number: usize,
    text: String,
    is_done: bool,
}

#[derive(Serialize, JsonSchema)]
struct Items {
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
struct NewItem {
    /// The text of the item
    #[schemars(length(min = 1, max = 200))]
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct ItemNumber {
    /// The number of the item
    #[schemars(range(min = 1))]
    number: usize,
}

impl TodoList {
    fn with_items<T>(&self, run: impl FnOnce(&mut Vec<Item>) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn finish(&self, number: usize) -> ToolResult<Item> {
        self.with_items(|items| {
            let item = items.iter_mut().find(|item| item.number == number);
            let item = item.ok_or_else(|| format!("there is no item {number}"))?;
            item.is_done = true;
            Ok(item.clone())
        })
    }
}

async fn add(new: NewItem, context: ToolContext) -> ToolResult<Item> {
    let list = context.state::<TodoList>()?;
    Ok(list.with_items(|items| {
        let item = Item {
            number: items.len() + 1,
            text: new.text,
            is_done: false,
        };
        items.push(item.clone());
        item
    }))
}

async fn finish(item: ItemNumber, context: ToolContext) -> ToolResult<Item> {
    context.state::<TodoList>()?.finish(item.number)
}

async fn show(context: ToolContext) -> ToolResult<Items> {
    let items = context
        .state::<TodoList>()?
        .with_items(|items| items.clone());
    Ok(Items { items })
}

/// Finishes one item after another. If the call is cancelled, this future is dropped at its
/// `.await`, and items that are already finished stay finished.
async fn do_all(context: ToolContext) -> ToolResult<String> {
    let list = context.state::<TodoList>()?;
    let open = list.with_items(|items| -> Vec<Item> {
        let open = items.iter().filter(|item| !item.is_done);
        open.cloned().collect()
    });
    for (done, item) in open.iter().enumerate() {
        sleep(Duration::from_millis(50)).await;
        list.finish(item.number)?;
        let (done, all) = (to_f64(done + 1), to_f64(open.len()));
        context.report_progress(done, all, format!("done: {}", item.text));
    }
    Ok(format!("{} done", open.len()))
}

fn to_f64(items: usize) -> f64 {
    u32::try_from(items).map_or(f64::MAX, f64::from)
}

fn todo_list(list: TodoList) -> InProcessServer {
    let state = list.clone();
    let read_list = move || {
        let lines = list.with_items(|items| {
            let line = |item: &Item| format!("[{}] {}", checkbox(item), item.text);
            items.iter().map(line).collect::<Vec<_>>()
        });
        async move { Ok(lines.join("\n")) }
    };
    InProcessServer::new("todo", "1.0")
        .state(state)
        .instructions("A to-do list. Show it before you change it.")
        .tool("add", "Adds an item to the list", add)
        .tool("finish", "Marks an item as done", finish)
        .tool("show", "Shows the list", show)
        .tool("do_all", "Finishes all open items", do_all)
        .resource("todo://list", "list", read_list)
}

fn checkbox(item: &Item) -> char {
    if item.is_done { 'x' } else { ' ' }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder()
        .in_process_server("todo", todo_list(TodoList::default()))
        .allow("mcp__todo")
        .start()?;
    host.wait_for(Readiness::All).await;

    for text in ["water the plants", "buy bread", "call home", "sleep"] {
        let new = json!({"text": text});
        let added = host.call("mcp__todo__add", new).await?;
        println!("added    {}", added.to_text());
    }
    let finished = host.call("mcp__todo__finish", json!({"number": 1})).await?;
    println!("finished {}", finished.to_text());
    let missing = host.call("mcp__todo__finish", json!({"number": 9})).await?;
    println!("failed   {}", missing.to_text());

    // The deadline leaves time for one or two items. Then the host cancels the call of the tool.
    let deadline = Instant::now() + Duration::from_millis(120);
    let show_progress = |progress: switchboard::mcp::Progress| {
        println!("progress {}", progress.message.unwrap_or_default());
    };
    let call = host.call("mcp__todo__do_all", json!({}));
    let call = call.on_progress(show_progress);
    let outcome = call
        .context(CallContext::default().deadline(deadline))
        .await;
    if let Err(error) = outcome {
        println!("timeout  {error}");
    }
    let call = host
        .call("mcp__todo__do_all", json!({}))
        .on_progress(show_progress);
    println!("again    {}", call.await?.to_text());

    let shown = host.call("mcp__todo__show", json!({})).await?;
    println!("list     {}", shown.to_text());
    host.shutdown().await;
    Ok(())
}
