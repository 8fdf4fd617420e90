use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MEAN: f64 = 0.5;

fn crash() -> Failure {
    Failure::new(FailureKind::Crash)
}

fn unreachable() -> Failure {
    Failure::new(FailureKind::Unreachable)
}

fn seconds(verdict: Verdict) -> f64 {
    match verdict {
        Verdict::RetryIn(delay) => delay.as_secs_f64(),
        Verdict::GiveUp(why) => panic!("gave up: {why}"),
    }
}

#[test]
fn delays_grow_to_the_cap_and_stay_there() {
    let mut backoff = Backoff::new(Policy::default());
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
fn jitter_strays_a_fifth_either_way() {
    for (jitter, expected) in [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2), (7.0, 1.2), (-1.0, 0.8)] {
        let delay = seconds(Backoff::new(Policy::default()).after_failure(
            unreachable(),
            Instant::now(),
            jitter,
        ));
        assert!((delay - expected).abs() < 1e-6, "{jitter}: {delay}");
    }
    let senseless =
        Backoff::new(Policy::default()).after_failure(unreachable(), Instant::now(), f64::NAN);
    assert_eq!(senseless, Verdict::RetryIn(Duration::from_secs(1)));
}

#[test]
fn the_fifth_crash_within_three_minutes_is_a_crash_loop() {
    let mut backoff = Backoff::new(Policy::default());
    let start = Instant::now();
    for crashes in 0..4 {
        let now = start + Duration::from_secs(45 * crashes);
        assert!(matches!(
            backoff.after_failure(crash(), now, MEAN),
            Verdict::RetryIn(_)
        ));
        backoff.proved_alive();
    }
    let fifth = backoff.after_failure(crash(), start + Duration::from_secs(180), MEAN);
    let Verdict::GiveUp(why) = fifth else {
        panic!("{fifth:?}")
    };
    assert_eq!(
        why,
        GiveUp::CrashLoop {
            crashes: 5,
            window: Duration::from_secs(180)
        }
    );
    assert_eq!(why.to_string(), "crashed 5 times within 180 s");
}

#[test]
fn crashes_further_apart_are_retried_for_ever() {
    let mut backoff = Backoff::new(Policy::default());
    let start = Instant::now();
    for crashes in 0..100 {
        let now = start + Duration::from_secs(46 * crashes);
        assert!(matches!(
            backoff.after_failure(crash(), now, MEAN),
            Verdict::RetryIn(_)
        ));
    }
}

#[test]
fn an_unreachable_server_is_no_crash_loop() {
    let mut backoff = Backoff::new(Policy::default());
    let now = Instant::now();
    for _ in 0..4 {
        seconds(backoff.after_failure(crash(), now, MEAN));
    }
    for _ in 0..50 {
        seconds(backoff.after_failure(unreachable(), now, MEAN));
    }
    assert!(matches!(
        backoff.after_failure(crash(), now, MEAN),
        Verdict::GiveUp(GiveUp::CrashLoop { .. })
    ));
}

#[test]
fn allowed_attempts_are_counted_from_the_last_sign_of_life() {
    let mut backoff = Backoff::new(Policy {
        max_attempts: Some(2),
        ..Policy::default()
    });
    let now = Instant::now();
    let mut next = || backoff.after_failure(unreachable(), now, MEAN);
    assert_eq!(next(), Verdict::RetryIn(Duration::from_secs(1)));
    assert!(matches!(next(), Verdict::RetryIn(_)));
    let used_up = Verdict::GiveUp(GiveUp::Attempts { max: 2 });
    assert_eq!(next(), used_up);
    assert_eq!(next(), used_up);
    backoff.proved_alive();
    assert_eq!(
        backoff.after_failure(unreachable(), now, MEAN),
        Verdict::RetryIn(Duration::from_secs(1))
    );
}

#[test]
fn a_one_shot_command_never_retries() {
    for failure in [crash(), unreachable()] {
        let mut backoff = Backoff::new(Policy::never());
        let verdict = backoff.after_failure(failure, Instant::now(), MEAN);
        assert_eq!(verdict, Verdict::GiveUp(GiveUp::Attempts { max: 0 }));
    }
    assert_eq!(
        GiveUp::Attempts { max: 0 }.to_string(),
        "not retried",
        "nothing was attempted, so nothing was used up"
    );
}

#[test]
fn what_cannot_help_is_not_tried() {
    for policy in [Policy::default(), Policy::never()] {
        let verdict = Backoff::new(policy).after_failure(
            Failure::new(FailureKind::NotWorthRetrying),
            Instant::now(),
            MEAN,
        );
        assert_eq!(verdict, Verdict::GiveUp(GiveUp::NotWorthRetrying));
    }
}

#[test]
fn a_server_may_ask_for_more_time_but_not_for_ever() {
    for (asked, granted) in [(0, 1), (30, 30), (600, 600), (u64::MAX, 600)] {
        let failure = Failure {
            retry_after: Some(Duration::from_secs(asked)),
            ..unreachable()
        };
        let verdict = Backoff::new(Policy::default()).after_failure(failure, Instant::now(), MEAN);
        assert_eq!(verdict, Verdict::RetryIn(Duration::from_secs(granted)));
    }
}

#[test]
fn an_absurd_policy_does_not_panic() {
    let mut backoff = Backoff::new(Policy {
        first: Duration::MAX,
        cap: Duration::MAX,
        factor: f64::INFINITY,
        spread: -9.0,
        max_crashes: 0,
        ..Policy::default()
    });
    for jitter in [0.0, 1.0, f64::INFINITY] {
        backoff.after_failure(unreachable(), Instant::now(), jitter);
        backoff.after_failure(crash(), Instant::now(), jitter);
    }
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Fails(FailureKind),
    ProvesAlive,
}

fn happenings() -> impl Strategy<Value = Vec<(Happening, u64, f64)>> {
    let happening = prop_oneof![
        2 => Just(Happening::Fails(FailureKind::Crash)),
        4 => Just(Happening::Fails(FailureKind::Unreachable)),
        1 => Just(Happening::ProvesAlive),
    ];
    vec((happening, 0..100_000_u64, 0.0..=1.0), 0..60)
}

proptest! {
    #[test]
    fn every_delay_lies_in_its_envelope(happenings in happenings()) {
        let mut backoff = Backoff::new(Policy::default());
        let mut now = Instant::now();
        let mut mean = 1.0_f64;
        for (happening, passed, jitter) in happenings {
            now += Duration::from_millis(passed);
            let Happening::Fails(kind) = happening else {
                backoff.proved_alive();
                mean = 1.0;
                continue;
            };
            if let Verdict::RetryIn(delay) = backoff.after_failure(Failure::new(kind), now, jitter) {
                let delay = delay.as_secs_f64();
                prop_assert!(delay >= mean * 0.8 - 1e-6 && delay <= mean * 1.2 + 1e-6);
                prop_assert!(delay <= 144.0 + 1e-6);
                mean = (mean * 1.6).min(120.0);
            }
        }
    }

    #[test]
    fn a_crash_loop_is_called_exactly_at_five_within_the_window(happenings in happenings()) {
        let mut backoff = Backoff::new(Policy::default());
        let mut now = Instant::now();
        let mut crashes: Vec<Instant> = Vec::new();
        for (happening, passed, jitter) in happenings {
            now += Duration::from_millis(passed);
            let Happening::Fails(kind) = happening else {
                backoff.proved_alive();
                continue;
            };
            let verdict = backoff.after_failure(Failure::new(kind), now, jitter);
            if kind == FailureKind::Crash {
                crashes.push(now);
            }
            let recent = crashes.iter().filter(|at| now - **at <= Duration::from_secs(180)).count();
            let looping = kind == FailureKind::Crash && recent >= 5;
            prop_assert_eq!(matches!(verdict, Verdict::GiveUp(GiveUp::CrashLoop { .. })), looping);
        }
    }

    #[test]
    fn no_more_attempts_than_allowed(max in 0..8_u32, failures in 0..20_u32) {
        let mut backoff = Backoff::new(Policy { max_attempts: Some(max), ..Policy::default() });
        let granted = (0..failures)
            .filter(|_| matches!(
                backoff.after_failure(unreachable(), Instant::now(), MEAN),
                Verdict::RetryIn(_)
            ))
            .count();
        prop_assert_eq!(granted, failures.min(max) as usize);
    }
}
