# Run `just` to list the recipes. Each recipe is one command that also works without just.

_default:
    @just --list --unsorted

# check formatting, lints, module cycles, documentation and dependency rules
check:
    cargo xtask check

# run every test; arguments go to the test runner: `just test -p switchboard`
test *ARGS:
    cargo xtask test {{ if ARGS == "" { "" } else { "-- " + ARGS } }}

# run what CI runs: check, fuzz (20 s per target), test
ci:
    cargo xtask ci

# run a stress test at full length (CI runs a part of it): `just stress seeds`, `just stress all`
stress NAME:
    cargo xtask stress {{NAME}}

# run the fuzz targets, 60 s each by default: `just fuzz`, `just fuzz lines --seconds 600`
fuzz *ARGS:
    cargo xtask fuzz {{ARGS}}

# run the official MCP conformance suite: `just conformance`, `just conformance --requirements 2026-07-28`
conformance *ARGS:
    cargo xtask conformance {{ARGS}}

# run the built-in walkthrough; it needs no configuration
demo:
    cargo run --release -- demo

# install the reference servers and check that each one answers
fixtures:
    cargo xtask fixtures --verify

# build the API documentation and open it in the browser
doc:
    cargo doc --workspace --features switchboard/rmcp --no-deps --open

# write the generated docs: the key tables of docs/config.md and the JSON Schemas
docs:
    cargo xtask docs

# format all sources
fmt:
    cargo fmt --all

# compare with a hand-written client and rmcp; a filter selects rows: `just bench "64 in flight"`
[positional-arguments]
bench *ARGS:
    cargo build --release && cd bench && cargo build --release && cargo run --release -- "$@"

# run the whole benchmark and write docs/bench.svg
bench-chart: (bench "--svg" "../docs/bench.svg")
