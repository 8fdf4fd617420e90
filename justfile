# `just` lists the recipes; each is one line that works without just as well.

_default:
    @just --list --unsorted

# formatting, lints, documentation, dependency rules
check:
    cargo xtask check

# every test; arguments go to the test runner: `just test -p switchboard`
test *ARGS:
    cargo xtask test {{ if ARGS == "" { "" } else { "-- " + ARGS } }}

# what CI runs: check, then fuzz a little, then test, with the time of each step
ci:
    cargo xtask ci

# a heavy check in full, of which CI runs a share: `just whole seeds`, `just whole all`
whole NAME:
    cargo xtask whole {{NAME}}

# made-up bytes for what reads them: `just fuzz`, `just fuzz lines --seconds 600`
fuzz *ARGS:
    cargo xtask fuzz {{ARGS}}

# the official conformance suite: `just conformance`, `just conformance --requirements 2026-07-28`
conformance *ARGS:
    cargo xtask conformance {{ARGS}}

# the main job, narrated: nothing to configure
demo:
    cargo run --release -- demo

# install the reference servers, and start each one to see that it answers
fixtures:
    cargo xtask fixtures --verify

# the crates' documentation, opened in the browser
doc:
    cargo doc --workspace --features switchboard/rmcp --no-deps --open

# the pages that are made from the code: docs/config.md's reference, the JSON Schemas
docs:
    cargo xtask docs

# format everything in place
fmt:
    cargo fmt --all

# what it costs beside a hand-written client and rmcp: all of it, or a part: `just bench "64 in flight"`
[positional-arguments]
bench *ARGS:
    cargo build --release && cd bench && cargo build --release && cargo run --release -- "$@"

# all of the bench, and its picture
bench-picture: (bench "--svg" "../docs/bench.svg")
