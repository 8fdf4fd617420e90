use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MEAN: f64 = 0.5;

fn crash() -> ConnectionFailure {
    ConnectionFailure::new(FailureKind::Crash)
}

fn unreachable() -> ConnectionFailure {
    ConnectionFailure::new(FailureKind::Unreachable)
}

fn seconds(decision: RetryDecision) -> f64 {
    match decision {
        RetryDecision::RetryIn(delay) => delay.as_secs_f64(),
        RetryDecision::GiveUp(why) => panic!("gave up: {why}"),
    }
}

#[test]
fn delays_grow_up_to_the_maximum() {
    let mut backoff = Backoff::new(RetryPolicy::default());
    let now = Instant::now();
    let delays: Vec<String> = (0..14)
        .map(|_| {
            format!(
                "{:.2}",
                seconds(backoff.after_failure(unreachable(), now, MEAN))
            )
        })
        .collect();
    assert_eq!(
        delays,
        [
            "1.00", "1.60", "2.56", "4.10", "6.55", "10.49", "16.78", "26.84", "42.95", "68.72",
            "109.95", "120.00", "120.00", "120.00"
        ]
    );
}

#[test]
fn jitter_is_at_most_a_fifth() {
    for (random, expected) in [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2), (7.0, 1.2), (-1.0, 0.8)] {
        let delay = seconds(Backoff::new(RetryPolicy::default()).after_failure(
            unreachable(),
            Instant::now(),
            random,
        ));
        assert!((delay - expected).abs() < 1e-6, "{random}: {delay}");
    }
    let not_a_number =
        Backoff::new(RetryPolicy::default()).after_failure(unreachable(), Instant::now(), f64::NAN);
    assert_eq!(not_a_number, RetryDecision::RetryIn(Duration::from_secs(1)));
}

#[test]
fn five_crashes_within_three_minutes_are_a_crash_loop() {
    let mut backoff = Backoff::new(RetryPolicy::default());
    let start = Instant::now();
    for crashes in 0..4 {
        let now = start + Duration::from_secs(45 * crashes);
        assert!(matches!(
            backoff.after_failure(crash(), now, MEAN),
            RetryDecision::RetryIn(_)
        ));
        backoff.record_success();
    }
    let fifth = backoff.after_failure(crash(), start + Duration::from_secs(180), MEAN);
    let RetryDecision::GiveUp(why) = fifth else {
        panic!("{fifth:?}")
    };
    assert_eq!(
        why,
        GiveUpReason::CrashLoop {
            crashes: 5,
            window: Duration::from_secs(180)
        }
    );
    assert_eq!(why.to_string(), "crashed 5 times within 180 s");
}

#[test]
fn rare_crashes_are_always_retried() {
    let mut backoff = Backoff::new(RetryPolicy::default());
    let start = Instant::now();
    for crashes in 0..100 {
        let now = start + Duration::from_secs(46 * crashes);
        assert!(matches!(
            backoff.after_failure(crash(), now, MEAN),
            RetryDecision::RetryIn(_)
        ));
    }
}

#[test]
fn unreachable_server_is_not_a_crash_loop() {
    let mut backoff = Backoff::new(RetryPolicy::default());
    let now = Instant::now();
    for _ in 0..4 {
        seconds(backoff.after_failure(crash(), now, MEAN));
    }
    for _ in 0..50 {
        seconds(backoff.after_failure(unreachable(), now, MEAN));
    }
    assert!(matches!(
        backoff.after_failure(crash(), now, MEAN),
        RetryDecision::GiveUp(GiveUpReason::CrashLoop { .. })
    ));
}

#[test]
fn success_restores_the_allowed_retries() {
    let mut backoff = Backoff::new(RetryPolicy {
        max_attempts: Some(2),
        ..RetryPolicy::default()
    });
    let now = Instant::now();
    let mut next = || backoff.after_failure(unreachable(), now, MEAN);
    assert_eq!(next(), RetryDecision::RetryIn(Duration::from_secs(1)));
    assert!(matches!(next(), RetryDecision::RetryIn(_)));
    let used_up = RetryDecision::GiveUp(GiveUpReason::Attempts { max: 2 });
    assert_eq!(next(), used_up);
    assert_eq!(next(), used_up);
    backoff.record_success();
    assert_eq!(
        backoff.after_failure(unreachable(), now, MEAN),
        RetryDecision::RetryIn(Duration::from_secs(1))
    );
}

#[test]
fn one_shot_command_never_retries() {
    for failure in [crash(), unreachable()] {
        let mut backoff = Backoff::new(RetryPolicy::never());
        let decision = backoff.after_failure(failure, Instant::now(), MEAN);
        assert_eq!(
            decision,
            RetryDecision::GiveUp(GiveUpReason::Attempts { max: 0 })
        );
    }
    assert_eq!(
        GiveUpReason::Attempts { max: 0 }.to_string(),
        "not retried",
        "no retry was allowed, so none was used"
    );
}

#[test]
fn permanent_failure_is_not_retried() {
    for policy in [RetryPolicy::default(), RetryPolicy::never()] {
        let decision = Backoff::new(policy).after_failure(
            ConnectionFailure::new(FailureKind::Permanent),
            Instant::now(),
            MEAN,
        );
        assert_eq!(decision, RetryDecision::GiveUp(GiveUpReason::Permanent));
    }
}

#[test]
fn retry_after_is_respected_up_to_a_limit() {
    for (asked, granted) in [(0, 1), (30, 30), (600, 600), (u64::MAX, 600)] {
        let failure = ConnectionFailure {
            retry_after: Some(Duration::from_secs(asked)),
            ..unreachable()
        };
        let decision =
            Backoff::new(RetryPolicy::default()).after_failure(failure, Instant::now(), MEAN);
        assert_eq!(
            decision,
            RetryDecision::RetryIn(Duration::from_secs(granted))
        );
    }
}

#[test]
fn absurd_policy_does_not_panic() {
    let mut backoff = Backoff::new(RetryPolicy {
        first_delay: Duration::MAX,
        max_delay: Duration::MAX,
        factor: f64::INFINITY,
        jitter: -9.0,
        max_crashes: 0,
        ..RetryPolicy::default()
    });
    for random in [0.0, 1.0, f64::INFINITY] {
        backoff.after_failure(unreachable(), Instant::now(), random);
        backoff.after_failure(crash(), Instant::now(), random);
    }
}

#[derive(Clone, Copy, Debug)]
enum HistoryStep {
    Failure(FailureKind),
    Success,
}

fn steps() -> impl Strategy<Value = Vec<(HistoryStep, u64, f64)>> {
    let step = prop_oneof![
        2 => Just(HistoryStep::Failure(FailureKind::Crash)),
        4 => Just(HistoryStep::Failure(FailureKind::Unreachable)),
        1 => Just(HistoryStep::Success),
    ];
    vec((step, 0..100_000_u64, 0.0..=1.0), 0..60)
}

proptest! {
    #[test]
    fn every_delay_is_within_jitter_of_its_mean(steps in steps()) {
        let mut backoff = Backoff::new(RetryPolicy::default());
        let mut now = Instant::now();
        let mut mean = 1.0_f64;
        for (step, passed, random) in steps {
            now += Duration::from_millis(passed);
            let HistoryStep::Failure(kind) = step else {
                backoff.record_success();
                mean = 1.0;
                continue;
            };
            if let RetryDecision::RetryIn(delay) = backoff.after_failure(ConnectionFailure::new(kind), now, random) {
                let delay = delay.as_secs_f64();
                prop_assert!(delay >= mean * 0.8 - 1e-6 && delay <= mean * 1.2 + 1e-6);
                prop_assert!(delay <= 144.0 + 1e-6);
                mean = (mean * 1.6).min(120.0);
            }
        }
    }

    #[test]
    fn crash_loop_means_five_crashes_in_the_window(steps in steps()) {
        let mut backoff = Backoff::new(RetryPolicy::default());
        let mut now = Instant::now();
        let mut crashes: Vec<Instant> = Vec::new();
        for (step, passed, random) in steps {
            now += Duration::from_millis(passed);
            let HistoryStep::Failure(kind) = step else {
                backoff.record_success();
                continue;
            };
            let decision = backoff.after_failure(ConnectionFailure::new(kind), now, random);
            if kind == FailureKind::Crash {
                crashes.push(now);
            }
            let recent = crashes.iter().filter(|at| now - **at <= Duration::from_secs(180)).count();
            let looping = kind == FailureKind::Crash && recent >= 5;
            prop_assert_eq!(matches!(decision, RetryDecision::GiveUp(GiveUpReason::CrashLoop { .. })), looping);
        }
    }

    #[test]
    fn no_more_attempts_than_allowed(max in 0..8_u32, failures in 0..20_u32) {
        let mut backoff = Backoff::new(RetryPolicy { max_attempts: Some(max), ..RetryPolicy::default() });
        let granted = (0..failures)
            .filter(|_| matches!(
                backoff.after_failure(unreachable(), Instant::now(), MEAN),
                RetryDecision::RetryIn(_)
            ))
            .count();
        prop_assert_eq!(granted, failures.min(max) as usize);
    }
}
