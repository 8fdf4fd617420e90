use tokio::time::Instant;

use super::*;

async fn error(control: &Control) -> Error {
    control.next().await.unwrap().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn messages_come_in_order_unknown_ones_too_and_those_for_us_do_not() {
    let (control, mut cli) = connect(settings());
    cli.say(json!({"type": "keep_alive"})).await;
    cli.say(state("running")).await;
    cli.say(json!({"type": "surprise", "n": 1})).await;
    cli.say(json!({"n": 2})).await;
    cli.write("{\"type\":\"odd\",\"text\":\"\\ud800\"}\n").await;
    cli.say(result(false)).await;
    for text in [r#"{"type":"surprise","n":1}"#, r#"{"n":2}"#] {
        let message = control.next().await.unwrap().unwrap();
        assert!(matches!(message, Message::Unknown(_)), "{message:?}");
        assert_eq!(message.raw().as_str(), text);
    }
    let odd = control.next().await.unwrap().unwrap();
    assert!(odd.raw().as_str().contains(r"\ud800"));
    let message = control.next().await.unwrap().unwrap();
    assert!(message.as_result().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_turn_keeps_the_input_open_until_the_cli_is_idle() {
    let mut settings = settings();
    settings.ends_with_turn = true;
    let (control, mut cli) = connect(settings);
    cli.say(state("running")).await;
    cli.say(result(false)).await;
    // Still answered, after the result.
    cli.mcp("c", ping(1)).await;
    assert!(cli.read().await.is_some());
    cli.say(state("idle")).await;
    assert_eq!(cli.read().await, None);
    cli.say(json!({"type": "last"})).await;
    drop(cli);
    assert!(control.next().await.unwrap().is_ok());
    assert!(control.next().await.unwrap().is_ok());
    assert!(control.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_lingers_after_its_result_is_waited_for_only_so_long() {
    let mut settings = settings();
    settings.ends_with_turn = true;
    let (control, mut cli) = connect(settings);
    cli.say(state("running")).await;
    cli.say(result(false)).await;
    let began = Instant::now();
    assert_eq!(cli.read().await, None);
    assert_eq!(began.elapsed().as_secs(), 600);
    assert!(control.next().await.unwrap().is_ok());
    // It goes on talking, and is not listened to for ever.
    assert!(control.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn garbage_is_a_clear_error_for_everybody() {
    let (control, mut cli) = connect(settings());
    let asked = control.request("mcp_status", Map::new());
    let (answer, ()) = tokio::join!(asked, async {
        cli.awaits("mcp_status").await;
        cli.write("Segmentation fault\n{\"type\": \"half\n").await;
    });
    let said = answer.unwrap_err().to_string();
    let expected = "the Claude CLI wrote a line that is no JSON ({\"type\": \"half) while this was \
                    under way: mcp_status";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("Segmentation fault"), "{said}");
    let told = error(&control).await;
    assert!(
        matches!(
            told,
            Error::Lost {
                loss: Loss::Garbled(_),
                ..
            }
        ),
        "{told}"
    );
    assert!(control.next().await.is_none());
    let late = control.request("mcp_status", Map::new()).await;
    assert!(matches!(late, Err(Error::Lost { .. })));
    assert!(matches!(
        control.say(&json!("x"), "").await,
        Err(Error::Lost { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn half_a_line_at_the_end_is_not_what_went_wrong() {
    let (control, mut cli) = connect(settings());
    cli.write("{\"type\": \"ha").await;
    drop(cli);
    let told = error(&control).await;
    assert!(
        matches!(
            told,
            Error::Lost {
                loss: Loss::Exited(_),
                ..
            }
        ),
        "{told}"
    );
    assert!(told.to_string().contains("{\"type\": \"ha"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn another_program_that_prints_without_end_is_told_from_the_cli() {
    let (control, mut cli) = connect(settings());
    let line = "y".repeat(1000) + "\n";
    for _ in 0..1100 {
        if cli.output.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    let told = error(&control).await;
    assert!(
        matches!(
            told,
            Error::Lost {
                loss: Loss::NotTheCli,
                ..
            }
        ),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_ends_it_and_names_the_limit() {
    let (control, mut cli) = connect(settings());
    let long = format!("{{\"type\":\"{}", "x".repeat(70 * 1024));
    let _ = cli.output.write_all(long.as_bytes()).await;
    let told = error(&control).await.to_string();
    assert!(told.contains("more than 65536 bytes"), "{told}");
    assert!(told.contains("Options::max_buffer_size"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn messages_that_nobody_reads_come_to_an_end_and_can_still_be_read() {
    let (control, mut cli) = connect(settings());
    let message = format!("{{\"type\":\"{}\"}}\n", "x".repeat(10_000));
    for _ in 0..20 {
        if cli.output.write_all(message.as_bytes()).await.is_err() {
            break;
        }
    }
    let answer = control.request("mcp_status", Map::new()).await;
    let Err(Error::Lost { loss, .. }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(loss, Loss::NobodyReads(128 * 1024));
    let mut count = 0;
    while let Some(Ok(_)) = control.next().await {
        count += 1;
    }
    assert_eq!(count, 13);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_does_not_read_is_given_up() {
    let (control, _cli) = connect(settings());
    let long = json!("x".repeat(10_000));
    control.say(&long, "").await.unwrap();
    let told = error(&control).await;
    assert!(
        matches!(
            told,
            Error::Lost {
                loss: Loss::Deaf(_),
                ..
            }
        ),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn closing_sends_what_waits_and_then_the_end() {
    let (control, mut cli) = connect(settings());
    control.say(&json!("last"), "").await.unwrap();
    let ((), ()) = tokio::join!(control.close(), async {
        assert!(cli.read().await.is_some());
        assert_eq!(cli.read().await, None);
        drop(cli);
    });
    assert!(control.next().await.is_none());
    let late = control.request("mcp_status", Map::new()).await;
    assert!(matches!(late, Err(Error::Closed { .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn dropping_it_ends_what_is_being_answered() {
    let (dropped, seen) = tokio::sync::oneshot::channel::<()>();
    let dropped = Arc::new(Mutex::new(Some(dropped)));
    let (began, begun) = tokio::sync::oneshot::channel::<()>();
    let began = Arc::new(Mutex::new(Some(began)));
    let options = Options::new().can_use_tool(move |_| {
        let held = dropped.lock().unwrap().take();
        let began = began.lock().unwrap().take();
        async move {
            let _held = held;
            began.unwrap().send(()).unwrap();
            std::future::pending().await
        }
    });
    let (control, mut cli) = connect_with(&options, settings());
    let request = json!({
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t",
    });
    cli.ask("asked", request).await;
    begun.await.unwrap();
    drop(control);
    assert!(seen.await.is_err());
    assert_eq!(cli.read().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_cli_that_does_not_read_is_not_waited_for_when_it_is_left() {
    let (control, _cli) = connect(settings());
    let long = "x".repeat(64 * 1024);
    control.say(&json!(long), "default").await.unwrap();
    let began = Instant::now();
    control.close().await;
    assert!(began.elapsed() < Duration::from_secs(15));
    assert!(control.next().await.is_none());
}
