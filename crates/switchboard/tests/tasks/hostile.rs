//! Tasks of servers that mean harm, or know no better.

use super::modern::{created, done, state, working};
use super::*;

/// How long one call takes, and how often its server is asked meanwhile.
async fn measure(script: Script, deadlines: Deadlines) -> (Result<Output, CallError>, f64, usize) {
    let server = MemoryServer::new(script);
    let host = host_of(&server, &Person::default(), deadlines).await;
    let began = tokio::time::Instant::now();
    let outcome = work(&host).await;
    let took = began.elapsed().as_secs_f64();
    (outcome, took, server.received_with("tasks/get").len())
}

#[tokio::test(start_paused = true)]
async fn the_interval_is_bounded_on_both_sides() {
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
        let made = created(json!({"pollIntervalMs": interval}));
        let script = working([done("x")]).on("tools/call work", [made]);
        let (outcome, took, asked) = measure(script, Deadlines::default()).await;
        assert_eq!(outcome.unwrap().to_text(), "x");
        assert_eq!(asked, 1);
        assert!(
            (expected..expected * 1.15).contains(&took),
            "{interval}: {took}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_so_seldom_that_the_task_is_lost_meanwhile() {
    let mut deadlines = Deadlines::default();
    deadlines.idle = seconds(10);
    let slow = || Step::until(20, [state("working", json!({"pollIntervalMs": 60_000}))]);
    let script = working([slow(), Step::after(21, [done("x")])]);
    let (outcome, ..) = measure(script, deadlines).await;
    assert_eq!(outcome.unwrap().to_text(), "x");

    let made = created(json!({"pollIntervalMs": 20_000, "ttlMs": 6_000}));
    let script = working([done("x")]).on("tools/call work", [made]);
    let (outcome, took, _) = measure(script, Deadlines::default()).await;
    outcome.unwrap();
    assert!(took < 3.5, "{took}");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_cannot_be_sent_back_is_refused_at_once() {
    for id in [
        json!("x".repeat(1024 * 1024)),
        json!(""),
        json!(7),
        json!(null),
    ] {
        let script = working([done("x")]).on("tools/call work", [created(json!({"taskId": id}))]);
        let (outcome, took, asked) = measure(script, Deadlines::default()).await;
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, CallError::InvalidResponse { .. }),
            "{error}"
        );
        assert!(error.to_string().len() < 1_000);
        assert_eq!((asked, took < 1.0), (0, true));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_said_of_a_task_is_cut_and_that_of_another_is_refused() {
    let long = json!({"statusMessage": "m".repeat(1024 * 1024)});
    let (host, _) = started(working([
        Step::until(1, [state("working", long)]),
        Step::after(2, [done("x")]),
    ]))
    .await;
    let (outcome, told) = told_work(&host).await;
    outcome.unwrap();
    assert!(told[0].len() < 5_000);

    let other = json!({"taskId": "t-2", "result": text_result("stolen")});
    let (host, _) = started(working([state("completed", other)])).await;
    let error = work(&host).await.unwrap_err();
    assert!(error.to_string().contains("another task"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_yet_another_promise_is_none() {
    for kind in ["task", "input_required", "made up"] {
        let nested = json!({"result": {"resultType": kind, "taskId": "t-1", "status": "working"}});
        let (host, server) = started(working([state("completed", nested)])).await;
        let error = work(&host).await.unwrap_err();
        assert!(
            matches!(error, CallError::InvalidResponse { .. }),
            "{error}"
        );
        assert_eq!(counts(&server, ["tasks/get"]), [1]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mishap_of_the_server_is_passed_over_and_many_are_not() {
    let mishap = || Step::error(-32_603, "try later");
    let (host, server) = started(working([
        Step::until(2, [mishap()]),
        Step::after(3, [done("x")]),
    ]))
    .await;
    assert_eq!(work(&host).await.unwrap().to_text(), "x");
    assert_eq!(counts(&server, ["tools/call", "tasks/get"]), [1, 3]);

    let (outcome, took, asked) = measure(working([mishap()]), Deadlines::default()).await;
    let error = outcome.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!((asked, took < 60.0), (4, true));
}

#[tokio::test(start_paused = true)]
async fn tasks_do_not_hold_up_other_calls() {
    let (host, _) = started(working([state("working", json!({"pollIntervalMs": 0}))])).await;
    let endless: Vec<_> = (0..16).map(|_| host.call(WORK, json!({}))).collect();
    let all = futures_util::future::join_all(endless.into_iter().map(IntoFuture::into_future));
    let echo = async {
        tokio::time::sleep(seconds(60)).await;
        host.call("mcp__s__echo", json!({"message": "hi"})).await
    };
    tokio::select! {
        _ = all => panic!("they never end"),
        echo = echo => assert_eq!(echo.unwrap().to_text(), "hi"),
    }
}
