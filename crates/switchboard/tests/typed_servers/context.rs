//! `ToolContext`: cancellation, progress, `_meta` and shared state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use switchboard::in_process::{InProcessTool, LocalServer};
use switchboard::mcp::Progress;
use switchboard::{CallContext, CallError, ToolContext, ToolResult};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::{call, empty_server, host_of};

/// Sends the context of the call to the test and never returns.
async fn send_context_and_hang(
    context: ToolContext,
    to: &Mutex<Option<oneshot::Sender<ToolContext>>>,
) {
    let to = to.lock().unwrap().take().unwrap();
    to.send(context).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn dropped_call_cancels_its_context() {
    let (sender, receiver) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let server = empty_server().tool("wait", "", move |context: ToolContext| {
        let sender = Arc::clone(&sender);
        async move {
            send_context_and_hang(context, &sender).await;
            Ok(())
        }
    });
    let host = host_of(server).await;
    let call = host.call("mcp__s__wait", json!({}));
    let context = tokio::select! {
        _ = call => panic!("the call ended"),
        context = receiver => context.unwrap(),
    };
    context.cancelled().await;
    assert!(context.is_cancelled() && context.cancellation_token().is_cancelled());
    host.shutdown().await;
}

#[tokio::test]
async fn finished_call_is_not_cancelled() {
    let saved = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&saved);
    let server = empty_server().tool("save", "", move |context: ToolContext| {
        *slot.lock().unwrap() = Some(context);
        async { Ok(()) }
    });
    call(server, "save", json!({})).await;
    let context = saved.lock().unwrap().take().unwrap();
    assert!(!context.is_cancelled());
    assert_eq!(context.tool(), "save");
}

#[tokio::test]
async fn blocking_handler_sees_the_timeout() {
    let (sender, receiver) = mpsc::sync_channel(1);
    let server =
        empty_server().blocking_tool("work", "", move |context: ToolContext| -> ToolResult<()> {
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
async fn progress_arrives_in_order() {
    let server = empty_server().tool("steps", "", |context: ToolContext| async move {
        context.report_progress(1.0, 3.0, "first");
        context.report(Progress::new(2.0));
        context.report_progress(3.0, 3.0, "last");
        Ok("done")
    });
    let host = host_of(server).await;
    let mut notes = Vec::new();
    let call = host.call("mcp__s__steps", json!({}));
    let call = call.on_progress(|progress| notes.push(progress));
    assert_eq!(call.await.unwrap().to_text(), "done");
    assert_eq!(
        notes,
        [
            Progress::new(1.0).of(3.0).message("first"),
            Progress::new(2.0),
            Progress::new(3.0).of(3.0).message("last"),
        ]
    );
    host.shutdown().await;
}

#[tokio::test]
async fn context_exposes_meta() {
    let server = empty_server().tool("meta", "", |context: ToolContext| async move {
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
async fn handlers_share_state_by_type() {
    struct Visits(AtomicU64);
    struct Missing;
    let server = empty_server()
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
    for count in ["41", "42"] {
        let output = host.call("mcp__s__visit", json!({})).await.unwrap();
        assert_eq!(output.to_text(), count);
    }
    let rules = host.call("mcp__s__rules", json!({})).await.unwrap();
    assert_eq!(rules.to_text(), "house rules");
    let output = host.call("mcp__s__missing", json!({})).await.unwrap();
    assert!(output.is_error);
    let text = output.to_text();
    assert!(
        text.contains("Missing") && text.contains("InProcessServer::state"),
        "{text}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn tool_can_change_its_own_server() {
    let marker = Arc::new(());
    let captured = Arc::clone(&marker);
    let server = empty_server().tool("grow", "", move |context: ToolContext| {
        let _ = &captured;
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
        while Arc::strong_count(&marker) > 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), freed).await.unwrap();
}
