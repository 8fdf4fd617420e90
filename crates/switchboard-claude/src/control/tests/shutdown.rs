use tokio::time::Instant;

use super::*;

async fn next_error(control: &Control) -> Error {
    control.next_message().await.unwrap().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn messages_keep_order_without_host_only_ones() {
    let (control, mut cli) = connect(settings());
    cli.send(json!({"type": "keep_alive"})).await;
    cli.send(state("running")).await;
    cli.send(json!({"type": "surprise", "n": 1})).await;
    cli.send(json!({"n": 2})).await;
    cli.write("{\"type\":\"odd\",\"text\":\"\\ud800\"}\n").await;
    cli.send(result(false)).await;
    for text in [r#"{"type":"surprise","n":1}"#, r#"{"n":2}"#] {
        let message = control.next_message().await.unwrap().unwrap();
        assert!(matches!(message, Message::Unknown(_)), "{message:?}");
        assert_eq!(message.raw().as_str(), text);
    }
    let unknown = control.next_message().await.unwrap().unwrap();
    assert!(unknown.raw().as_str().contains(r"\ud800"));
    let message = control.next_message().await.unwrap().unwrap();
    assert!(message.as_result().is_some());
}

#[tokio::test(start_paused = true)]
async fn input_stays_open_until_cli_is_idle() {
    let mut settings = settings();
    settings.close_after_turn = true;
    let (control, mut cli) = connect(settings);
    cli.send(state("running")).await;
    cli.send(result(false)).await;
    // The CLI still gets responses to the requests that it sends after the result.
    cli.server_message("c", ping(1)).await;
    assert!(cli.read().await.is_some());
    cli.send(state("idle")).await;
    assert_eq!(cli.read().await, None);
    cli.send(json!({"type": "last"})).await;
    drop(cli);
    assert!(control.next_message().await.unwrap().is_ok());
    assert!(control.next_message().await.unwrap().is_ok());
    assert!(control.next_message().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn background_tasks_time_out_after_result() {
    let mut settings = settings();
    settings.close_after_turn = true;
    let (control, mut cli) = connect(settings);
    cli.send(state("running")).await;
    cli.send(result(false)).await;
    let start = Instant::now();
    assert_eq!(cli.read().await, None);
    assert_eq!(start.elapsed().as_secs(), 600);
    assert!(control.next_message().await.unwrap().is_ok());
    // The CLI ignores the end of its input. The connection ends after the grace period.
    assert!(control.next_message().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn invalid_json_fails_requests_and_messages() {
    let (control, mut cli) = connect(settings());
    let request = control.request("mcp_status", Map::new());
    let (response, ()) = tokio::join!(request, async {
        cli.expect_request("mcp_status").await;
        cli.write("Segmentation fault\n{\"type\": \"half\n").await;
    });
    let text = response.unwrap_err().to_string();
    let expected = "the Claude CLI wrote invalid JSON ({\"type\": \"half) (during: mcp_status)";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("Segmentation fault"), "{text}");
    let error = next_error(&control).await;
    assert!(
        matches!(
            error,
            Error::Lost {
                reason: LossReason::InvalidJson(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(control.next_message().await.is_none());
    let late = control.request("mcp_status", Map::new()).await;
    assert!(matches!(late, Err(Error::Lost { .. })));
    assert!(matches!(
        control.send_prompt(&json!("x"), "").await,
        Err(Error::Lost { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn partial_last_line_is_an_exit() {
    let (control, mut cli) = connect(settings());
    cli.write("{\"type\": \"ha").await;
    drop(cli);
    let error = next_error(&control).await;
    assert!(
        matches!(
            error,
            Error::Lost {
                reason: LossReason::Exited(_),
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("{\"type\": \"ha"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn endless_stray_output_is_not_the_cli() {
    let (control, mut cli) = connect(settings());
    let line = "y".repeat(1000) + "\n";
    for _ in 0..1100 {
        if cli.output.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    let error = next_error(&control).await;
    assert!(
        matches!(
            error,
            Error::Lost {
                reason: LossReason::NotTheCli,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn too_long_line_names_the_limit() {
    let (control, mut cli) = connect(settings());
    let long = format!("{{\"type\":\"{}", "x".repeat(70 * 1024));
    let _ = cli.output.write_all(long.as_bytes()).await;
    let error = next_error(&control).await.to_string();
    assert!(error.contains("more than 65536 bytes"), "{error}");
    assert!(error.contains("Options::max_buffer_size"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn full_queue_ends_connection_and_stays_readable() {
    let (control, mut cli) = connect(settings());
    let message = format!("{{\"type\":\"{}\"}}\n", "x".repeat(10_000));
    for _ in 0..20 {
        if cli.output.write_all(message.as_bytes()).await.is_err() {
            break;
        }
    }
    let response = control.request("mcp_status", Map::new()).await;
    let Err(Error::Lost { reason, .. }) = response else {
        panic!("{response:?}");
    };
    assert_eq!(reason, LossReason::QueueFull(128 * 1024));
    let mut count = 0;
    while let Some(Ok(_)) = control.next_message().await {
        count += 1;
    }
    assert_eq!(count, 13);
}

#[tokio::test(start_paused = true)]
async fn cli_that_does_not_read_is_lost() {
    let (control, _cli) = connect(settings());
    let long = json!("x".repeat(10_000));
    control.send_prompt(&long, "").await.unwrap();
    let error = next_error(&control).await;
    assert!(
        matches!(
            error,
            Error::Lost {
                reason: LossReason::NotReading(_),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn close_flushes_the_queue() {
    let (control, mut cli) = connect(settings());
    control.send_prompt(&json!("last"), "").await.unwrap();
    let ((), ()) = tokio::join!(control.close(), async {
        assert!(cli.read().await.is_some());
        assert_eq!(cli.read().await, None);
        drop(cli);
    });
    assert!(control.next_message().await.is_none());
    let late = control.request("mcp_status", Map::new()).await;
    assert!(matches!(late, Err(Error::Closed { .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn drop_stops_running_handlers() {
    let (guard, guard_dropped) = tokio::sync::oneshot::channel::<()>();
    let guard = Arc::new(Mutex::new(Some(guard)));
    let (started, has_started) = tokio::sync::oneshot::channel::<()>();
    let started = Arc::new(Mutex::new(Some(started)));
    let options = Options::new().can_use_tool(move |_| {
        let guard = guard.lock().unwrap().take();
        let started = started.lock().unwrap().take();
        async move {
            let _guard = guard;
            started.unwrap().send(()).unwrap();
            std::future::pending().await
        }
    });
    let (control, mut cli) = connect_with(&options, settings());
    let request = json!({
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t",
    });
    cli.request("asked", request).await;
    has_started.await.unwrap();
    drop(control);
    assert!(guard_dropped.await.is_err());
    assert_eq!(cli.read().await, None);
}

#[tokio::test(start_paused = true)]
async fn close_does_not_wait_for_stalled_cli() {
    let (control, _cli) = connect(settings());
    let long = "x".repeat(64 * 1024);
    control.send_prompt(&json!(long), "default").await.unwrap();
    let start = Instant::now();
    control.close().await;
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(control.next_message().await.is_none());
}
