//! A function call whose arguments and result are converted to and from JSON text, as for a tool.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::job::{Figures, Stopwatch, Work};

#[derive(Serialize, Deserialize)]
struct Arguments {
    message: String,
}

#[derive(Serialize, Deserialize)]
struct EchoResult {
    message: String,
}

fn echo(arguments: Arguments) -> EchoResult {
    EchoResult {
        message: arguments.message,
    }
}

pub fn calls(work: &Work) -> Figures {
    make_calls(work, work.warm_up);
    let stopwatch = Stopwatch::start();
    let latencies = make_calls(work, work.calls);
    stopwatch.stop(latencies)
}

fn make_calls(work: &Work, calls: usize) -> Vec<Duration> {
    let arguments = work.arguments();
    let one = || {
        let began = Instant::now();
        let text = serde_json::to_string(black_box(&arguments)).expect("JSON");
        let result = echo(serde_json::from_str(&text).expect("arguments"));
        black_box(serde_json::to_string(&result).expect("JSON"));
        began.elapsed()
    };
    (0..calls).map(|_| one()).collect()
}
