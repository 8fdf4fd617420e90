//! Hostile remote servers, each a row of a table and a test of its own.
//!
//! A row says what a server on loopback does, what its caller must see, and what becomes of its
//! session. One harness plays them all: beside the hostile server there are two healthy ones, which
//! must not notice; nothing hangs, memory stays in its bound, no connection is left, and the
//! credential that every request carries shows up nowhere but with the server it is for. The ids
//! are those of the list of hostile behaviours that the project keeps (groups H, HTTP, and L, the
//! legacy transports).
//!
//! Beside the table: `matrix` sends credentials after every kind of redirect, `crowds` has many
//! servers fail at once.

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

mod bodies;
mod error_statuses;
mod events;
mod many_servers;
mod matrix;
mod redirects;
mod responses;
mod sessions;
mod timeouts;

use std::collections::BTreeSet;

/// Every id of the lists that concerns a client; the numbers that are missing were never given, or
/// belong to others: H32 to logins, H33 to HTTP/2, which is not spoken, H34 to the tests of the
/// client itself.
const GROUP_H: [u8; 30] = [
    1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 23, 24, 26, 28, 29, 30, 31,
    35, 37, 38, 39,
];
const GROUP_L: [u8; 9] = [1, 2, 4, 5, 7, 8, 9, 11, 12];

#[test]
fn the_table_has_a_row_for_every_hostile_behaviour() {
    let rows = [
        responses::NAMES,
        bodies::NAMES,
        events::NAMES,
        redirects::NAMES,
        error_statuses::NAMES,
        sessions::NAMES,
        timeouts::NAMES,
    ]
    .concat();
    assert_eq!(numbers('h', &rows), BTreeSet::from(GROUP_H));
    assert_eq!(numbers('l', &rows), BTreeSet::from(GROUP_L));
}

/// The numbers at the beginning of the names of one group: 7 for `h07_trailers`.
fn numbers(group: char, names: &[&str]) -> BTreeSet<u8> {
    let number = |name: &&str| {
        let name = name.strip_prefix(group)?;
        Some(name.split('_').next()?.parse().unwrap())
    };
    names.iter().filter_map(number).collect()
}
