//! Hostile stdio servers, each a row of a table and a test of its own.
//!
//! A row says what a real child does (a script that `scripted-server` plays), what its caller must
//! see, and what is left afterwards. One harness plays them all: beside the hostile server run two
//! healthy ones, which must not notice; nothing hangs, memory stays in its bound, no process is left.
//! The ids are those of the list of hostile behaviours that the project keeps (group S, stdio).
//!
//! Beside the table: `bombs` and `crowds` measure what JSON may cost, `pressure` what floods, deaf
//! servers and bad neighbours may cost the others.

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

/// Every id of the list; the numbers that are missing were never given.
const GROUP_S: [u8; 39] = [
    1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21, 23, 24, 25, 26, 27, 28, 30, 31,
    32, 33, 34, 35, 36, 37, 39, 40, 41, 42, 44, 45, 46,
];

#[test]
fn the_table_has_a_row_for_every_hostile_behaviour() {
    let rows = [
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
    let numbers: BTreeSet<u8> = rows.concat().into_iter().map(number).collect();
    assert_eq!(numbers, BTreeSet::from(GROUP_S));
}

/// The number at the beginning of a row's name: 7 for `s07_a_picture`.
fn number(name: &str) -> u8 {
    let digits = name
        .strip_prefix('s')
        .and_then(|name| name.split('_').next());
    digits.unwrap().parse().unwrap()
}
