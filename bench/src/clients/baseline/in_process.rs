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
struct Answer {
    message: String,
}

fn echo(arguments: Arguments) -> Answer {
    Answer {
        message: arguments.message,
    }
}

pub fn calls(work: &Work) -> Figures {
    drive(work, work.warm_up);
    let stopwatch = Stopwatch::start();
    let latencies = drive(work, work.calls);
    stopwatch.stop(latencies)
}

fn drive(work: &Work, calls: usize) -> Vec<Duration> {
    let arguments = work.arguments();
    let one = || {
        let began = Instant::now();
        let text = serde_json::to_string(black_box(&arguments)).expect("JSON");
        let answer = echo(serde_json::from_str(&text).expect("arguments"));
        black_box(serde_json::to_string(&answer).expect("JSON"));
        began.elapsed()
    };
    (0..calls).map(|_| one()).collect()
}
