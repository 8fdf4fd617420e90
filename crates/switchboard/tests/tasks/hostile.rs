//! Tasks of faulty or hostile servers: odd intervals, ids, messages and results.

use super::modern::{created, done, server_with_task, task_state};
use super::*;

/// Makes one call. Returns its outcome, its duration in seconds and the number of `tasks/get`
/// requests.
async fn measure(script: Script, deadlines: Deadlines) -> (Result<Output, CallError>, f64, usize) {
    let server = MemoryServer::new(script);
    let host = host_of(&server, &SlowUser::default(), deadlines).await;
    let start_time = tokio::time::Instant::now();
    let outcome = call_work(&host).await;
    let duration = start_time.elapsed().as_secs_f64();
    (outcome, duration, server.received_with("tasks/get").len())
}

#[tokio::test(start_paused = true)]
async fn poll_interval_is_clamped() {
    let table = [
        (json!(0), 1.0),
        (json!(-5), 1.0),
        (json!("often"), 1.0),
        (json!(null), 1.0),
        (json!(0.001), 0.1),
        (json!(1), 0.1),
        (json!(5_000), 5.0),
        (json!(1e300), 30.0),
        (json!(u64::MAX), 30.0),
    ];
    for (interval, expected) in table {
        let task = created(json!({"pollIntervalMs": interval}));
        let script = server_with_task([done("x")]).on("tools/call work", [task]);
        let (outcome, duration, poll_count) = measure(script, Deadlines::default()).await;
        assert_eq!(outcome.unwrap().to_text(), "x");
        assert_eq!(poll_count, 1);
        assert!(
            (expected..expected * 1.15).contains(&duration),
            "{interval}: {duration}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn poll_interval_stays_below_task_ttl() {
    let mut deadlines = Deadlines::default();
    deadlines.idle = seconds(10);
    let slow = || {
        Step::until(
            20,
            [task_state("working", json!({"pollIntervalMs": 60_000}))],
        )
    };
    let script = server_with_task([slow(), Step::after(21, [done("x")])]);
    let (outcome, ..) = measure(script, deadlines).await;
    assert_eq!(outcome.unwrap().to_text(), "x");

    let task = created(json!({"pollIntervalMs": 20_000, "ttlMs": 6_000}));
    let script = server_with_task([done("x")]).on("tools/call work", [task]);
    let (outcome, duration, _) = measure(script, Deadlines::default()).await;
    outcome.unwrap();
    assert!(duration < 3.5, "{duration}");
}

#[tokio::test(start_paused = true)]
async fn invalid_task_id_fails_the_call() {
    for id in [
        json!("x".repeat(1024 * 1024)),
        json!(""),
        json!(7),
        json!(null),
    ] {
        let script =
            server_with_task([done("x")]).on("tools/call work", [created(json!({"taskId": id}))]);
        let (outcome, duration, poll_count) = measure(script, Deadlines::default()).await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, CallError::InvalidResponse { .. }),
            "{error}"
        );
        assert!(error.to_string().len() < 1_000);
        assert_eq!((poll_count, duration < 1.0), (0, true));
    }
}

#[tokio::test(start_paused = true)]
async fn status_message_is_truncated_and_task_id_checked() {
    let long = json!({"statusMessage": "m".repeat(1024 * 1024)});
    let (host, _) = start_with_script(server_with_task([
        Step::until(1, [task_state("working", long)]),
        Step::after(2, [done("x")]),
    ]))
    .await;
    let (outcome, progress) = call_work_with_progress(&host).await;
    outcome.unwrap();
    assert!(progress[0].len() < 5_000);

    let other = json!({"taskId": "t-2", "result": text_result("stolen")});
    let (host, _) = start_with_script(server_with_task([task_state("completed", other)])).await;
    let error = call_work(&host).await.unwrap_err();
    assert!(error.to_string().contains("another task"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn task_result_cannot_be_another_task() {
    for kind in ["task", "input_required", "made up"] {
        let nested = json!({"result": {"resultType": kind, "taskId": "t-1", "status": "working"}});
        let (host, server) =
            start_with_script(server_with_task([task_state("completed", nested)])).await;
        let error = call_work(&host).await.unwrap_err();
        assert!(
            matches!(error, CallError::InvalidResponse { .. }),
            "{error}"
        );
        assert_eq!(request_counts(&server, ["tasks/get"]), [1]);
    }
}

#[tokio::test(start_paused = true)]
async fn poll_errors_are_retried_a_few_times() {
    let internal_error = || Step::error(-32_603, "try later");
    let (host, server) = start_with_script(server_with_task([
        Step::until(2, [internal_error()]),
        Step::after(3, [done("x")]),
    ]))
    .await;
    assert_eq!(call_work(&host).await.unwrap().to_text(), "x");
    assert_eq!(request_counts(&server, ["tools/call", "tasks/get"]), [1, 3]);

    let (outcome, duration, poll_count) =
        measure(server_with_task([internal_error()]), Deadlines::default()).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!((poll_count, duration < 60.0), (4, true));
}

#[tokio::test(start_paused = true)]
async fn tasks_do_not_block_other_calls() {
    let (host, _) = start_with_script(server_with_task([task_state(
        "working",
        json!({"pollIntervalMs": 0}),
    )]))
    .await;
    let endless: Vec<_> = (0..16).map(|_| host.call(WORK, json!({}))).collect();
    let all = futures_util::future::join_all(endless.into_iter().map(IntoFuture::into_future));
    let echo = async {
        tokio::time::sleep(seconds(60)).await;
        host.call("mcp__s__echo", json!({"message": "hi"})).await
    };
    tokio::select! {
        _ = all => panic!("a task ended"),
        echo = echo => assert_eq!(echo.unwrap().to_text(), "hi"),
    }
}
