//! What a handler knows of its call: cancellation, progress, shared state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use switchboard::inprocess::{InProcessTool, LocalServer};
use switchboard::mcp::Progress;
use switchboard::{CallContext, CallError, ToolContext, ToolResult};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::{call, empty, host_of};

/// Hands out the context of the call and never ends.
async fn endless(context: ToolContext, to: &Mutex<Option<oneshot::Sender<ToolContext>>>) {
    let to = to.lock().unwrap().take().unwrap();
    to.send(context).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let (sender, receiver) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let server = empty().tool("wait", "", move |context: ToolContext| {
        let sender = Arc::clone(&sender);
        async move {
            endless(context, &sender).await;
            Ok(())
        }
    });
    let host = host_of(server).await;
    let call = host.call("mcp__s__wait", json!({}));
    let context = tokio::select! {
        _ = call => panic!("it ended"),
        context = receiver => context.unwrap(),
    };
    context.cancelled().await;
    assert!(context.is_cancelled() && context.cancellation().is_cancelled());
    host.shutdown().await;
}

#[tokio::test]
async fn a_call_that_ended_is_not_cancelled() {
    let kept = Arc::new(Mutex::new(None));
    let keeper = Arc::clone(&kept);
    let server = empty().tool("keep", "", move |context: ToolContext| {
        *keeper.lock().unwrap() = Some(context);
        async { Ok(()) }
    });
    call(server, "keep", json!({})).await;
    let context = kept.lock().unwrap().take().unwrap();
    assert!(!context.is_cancelled());
    assert_eq!(context.tool(), "keep");
}

#[tokio::test]
async fn a_blocking_handler_sees_that_its_time_is_up() {
    let (sender, receiver) = mpsc::sync_channel(1);
    let server = empty().blocking_tool("work", "", move |context: ToolContext| -> ToolResult<()> {
        while !context.is_cancelled() {
            std::thread::yield_now();
        }
        sender.send(context.tool().to_owned())?;
        Ok(())
    });
    let host = host_of(server).await;
    let soon = Instant::now() + Duration::from_millis(20);
    let call = host.call("mcp__s__work", json!({}));
    let context = CallContext::default().deadline(soon);
    let error = call.context(context).await.unwrap_err();
    assert!(matches!(error, CallError::TimedOut { .. }));
    let seen = tokio::task::spawn_blocking(move || receiver.recv().unwrap());
    let seen = timeout(Duration::from_secs(30), seen).await.unwrap();
    assert_eq!(seen.unwrap(), "work");
    host.shutdown().await;
}

#[tokio::test]
async fn progress_is_heard_in_order() {
    let server = empty().tool("steps", "", |context: ToolContext| async move {
        context.report(1.0, 3.0, "first");
        context.progress(Progress::new(2.0));
        context.report(3.0, 3.0, "last");
        Ok("done")
    });
    let host = host_of(server).await;
    let mut heard = Vec::new();
    let call = host.call("mcp__s__steps", json!({}));
    let call = call.on_progress(|progress| heard.push(progress));
    assert_eq!(call.await.unwrap().to_text(), "done");
    assert_eq!(
        heard,
        [
            Progress::new(1.0).of(3.0).message("first"),
            Progress::new(2.0),
            Progress::new(3.0).of(3.0).message("last"),
        ]
    );
    host.shutdown().await;
}

#[tokio::test]
async fn what_came_with_the_call_is_known() {
    let server = empty().tool("meta", "", |context: ToolContext| async move {
        Ok(serde_json::Value::Object(context.meta().clone()).to_string())
    });
    let host = host_of(server).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = host.call("mcp__s__meta", json!({}));
    let output = call
        .context(CallContext::default().traceparent(trace))
        .await;
    let expected = json!({"traceparent": trace}).to_string();
    assert_eq!(output.unwrap().to_text(), expected);
    host.shutdown().await;
}

#[tokio::test]
async fn handlers_share_state_by_its_type() {
    struct Visits(AtomicU64);
    struct Missing;
    let server = empty()
        .state(Visits(AtomicU64::new(40)))
        .state("house rules")
        .tool("visit", "", |context: ToolContext| async move {
            let visits = context.state::<Visits>()?;
            Ok(visits.0.fetch_add(1, Ordering::Relaxed) + 1)
        })
        .blocking_tool("rules", "", |context: ToolContext| {
            Ok(context.state::<&str>()?.to_string())
        })
        .tool("missing", "", |context: ToolContext| async move {
            context.state::<Missing>()?;
            Ok(())
        });
    let host = host_of(server).await;
    for said in ["41", "42"] {
        let output = host.call("mcp__s__visit", json!({})).await.unwrap();
        assert_eq!(output.to_text(), said);
    }
    let rules = host.call("mcp__s__rules", json!({})).await.unwrap();
    assert_eq!(rules.to_text(), "house rules");
    let output = host.call("mcp__s__missing", json!({})).await.unwrap();
    assert!(output.is_error);
    let said = output.to_text();
    assert!(
        said.contains("Missing") && said.contains("InProcessServer::state"),
        "{said}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn a_tool_changes_its_own_server_and_holds_it_no_longer_than_its_call() {
    let held = Arc::new(());
    let kept = Arc::clone(&held);
    let server = empty().tool("grow", "", move |context: ToolContext| {
        let _ = &kept;
        async move {
            let late = InProcessTool::new("late", "", || async { Ok("at last") });
            context.server().add_tool(late);
            Ok(())
        }
    });
    call(server.clone(), "grow", json!({})).await;
    assert_eq!(server.tools().len(), 2);
    drop(server);
    let freed = async {
        while Arc::strong_count(&held) > 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), freed).await.unwrap();
}
