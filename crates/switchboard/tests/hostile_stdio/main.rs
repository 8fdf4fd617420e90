//! Hostile stdio servers: one test per case of a table.
//!
//! A case describes what a real child process does (a script that `scripted-server` runs), which
//! outcome the calls to that server must have, and the state of the server afterwards. `harness`
//! runs every case in a host with two healthy servers. It checks that the healthy servers are not
//! affected, nothing hangs, memory stays within the limit of the case, and no process is left. The
//! name of a case begins with `s` and the number of a behaviour; `STDIO_BEHAVIOURS` lists the
//! numbers.
//!
//! Three modules are not table-driven: `json_bombs` and `many_items` measure the cost of hostile
//! JSON, `floods` checks back-pressure and isolation.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod harness;
#[macro_use]
mod table;

mod floods;
mod framing;
mod ids;
mod json_bombs;
mod listings;
mod malformed_results;
mod many_items;
mod no_response;
mod oversized;
mod processes;
mod spawn_failures;
mod unsolicited_messages;

use std::collections::BTreeSet;

/// What a hostile stdio server does. Missing numbers were never assigned.
const STDIO_BEHAVIOURS: [(u8, &str); 39] = [
    (1, "lines without an end"),
    (2, "lines far above the limit"),
    (3, "lines at the limit"),
    (4, "too many JSON values"),
    (5, "deep nesting"),
    (7, "large images"),
    (8, "very many content blocks"),
    (9, "no response"),
    (11, "endless progress"),
    (12, "late responses"),
    (13, "exit at startup"),
    (14, "exit in the middle of a message"),
    (15, "crash during a call"),
    (16, "ignored or stopped by signals"),
    (17, "grandchildren"),
    (19, "closed stdout"),
    (20, "closed stdin"),
    (21, "unknown and duplicate ids"),
    (23, "ids of the wrong type"),
    (24, "secrets in the environment"),
    (25, "inherited descriptors"),
    (26, "written files"),
    (27, "fork bombs"),
    (28, "duplicate keys"),
    (30, "result and error together"),
    (31, "neither result nor error"),
    (32, "batches"),
    (33, "invalid UTF-8"),
    (34, "byte order marks, zero bytes, blank lines"),
    (35, "banners and log lines"),
    (36, "stderr floods"),
    (37, "secrets in messages"),
    (39, "requests from the server"),
    (40, "floods of change notifications"),
    (41, "endless listings"),
    (42, "trouble with the probe"),
    (44, "responses to pings only"),
    (45, "odd numbers"),
    (46, "commands that cannot be started"),
];

#[test]
fn every_hostile_behaviour_has_a_case() {
    let cases = [
        framing::NAMES,
        ids::NAMES,
        spawn_failures::NAMES,
        listings::NAMES,
        processes::NAMES,
        malformed_results::NAMES,
        no_response::NAMES,
        oversized::NAMES,
        unsolicited_messages::NAMES,
    ];
    let numbers: BTreeSet<u8> = cases.concat().into_iter().map(number).collect();
    assert_eq!(numbers, STDIO_BEHAVIOURS.map(|(number, _)| number).into());
}

/// Returns the number in a case name, such as 7 for `s07_image_of_8_mib`.
fn number(name: &str) -> u8 {
    let digits = name
        .strip_prefix('s')
        .and_then(|name| name.split('_').next());
    digits.unwrap().parse().unwrap()
}
