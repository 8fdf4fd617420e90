//! Hostile HTTP servers: one test per case of a table.
//!
//! A case describes what a server on loopback does, which outcome the calls to that server must
//! have, and the state of the session afterwards. `harness` runs every case in a host with two
//! healthy servers. It checks that the healthy servers are not affected, nothing hangs, memory
//! stays within the limit of the case, no connection is left, and the credential of the hostile
//! server reaches no other server and no message. The name of a case begins with a group and the
//! number of a behaviour; `HTTP_BEHAVIOURS` and `LEGACY_BEHAVIOURS` list the behaviours.
//!
//! Two modules are not table-driven: `matrix` combines credentials with every kind of redirect, and
//! `many_servers` lets many servers fail at the same time.

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

/// Group h: what a hostile HTTP server does. A missing number was never assigned, or other tests
/// cover its behaviour (OAuth logins, HTTP/2, unit tests of the HTTP client).
const HTTP_BEHAVIOURS: [(u8, &str); 30] = [
    (1, "endless response bodies"),
    (2, "endless error bodies"),
    (3, "compression bombs and unknown encodings"),
    (4, "wrong `Content-Length`"),
    (5, "oversized response heads"),
    (7, "trailers"),
    (8, "redirects to another server"),
    (9, "redirects to another scheme"),
    (10, "redirect loops"),
    (11, "redirects to internal or non-HTTP targets"),
    (12, "redirects to another port"),
    (13, "invalid names of parameter headers"),
    (15, "parameter headers for unsupported types"),
    (16, "hostile values in parameter headers"),
    (17, "HTML instead of JSON"),
    (18, "statuses without a response"),
    (19, "no response at all"),
    (20, "slow responses"),
    (21, "floods of useless events"),
    (23, "credentials echoed by the server"),
    (24, "streams that end before the response"),
    (26, "messages that belong to other requests"),
    (28, "very many lines, fields or events"),
    (29, "unusual line ends and byte order marks"),
    (30, "unusual `Retry-After`"),
    (31, "endless 401 and 403"),
    (35, "unknown `resultType`"),
    (37, "header mismatch errors"),
    (38, "cookies"),
    (39, "connections that close when reused"),
];

/// Group l: what a hostile server of a legacy transport does.
const LEGACY_BEHAVIOURS: [(u8, &str); 9] = [
    (1, "endpoint at another origin"),
    (2, "invalid endpoint URL"),
    (4, "missing `endpoint` event"),
    (5, "no response on the event stream"),
    (7, "invalid session ids"),
    (8, "changing session id"),
    (9, "sessions that expire on every call"),
    (11, "duplicate responses"),
    (12, "failing session deletion"),
];

#[test]
fn every_hostile_behaviour_has_a_case() {
    let cases = [
        responses::NAMES,
        bodies::NAMES,
        events::NAMES,
        redirects::NAMES,
        error_statuses::NAMES,
        sessions::NAMES,
        timeouts::NAMES,
    ]
    .concat();
    assert_eq!(
        numbers('h', &cases),
        HTTP_BEHAVIOURS.map(|(number, _)| number).into()
    );
    assert_eq!(
        numbers('l', &cases),
        LEGACY_BEHAVIOURS.map(|(number, _)| number).into()
    );
}

/// Returns the numbers in the case names of one group, such as 7 for `h07_trailers`.
fn numbers(group: char, names: &[&str]) -> BTreeSet<u8> {
    let number = |name: &&str| {
        let name = name.strip_prefix(group)?;
        Some(name.split('_').next()?.parse().unwrap())
    };
    names.iter().filter_map(number).collect()
}
