//! Measures loading of 500 servers from five files: one each for the managed, command-line, local,
//! project and user scope.
//!
//! ```sh
//! cargo run --release -p switchboard-config --example load_many
//! ```

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use switchboard_config::{ConfigSource, ConfigSources, load};

const SOURCES: usize = 5;
const SERVERS_PER_SOURCE: usize = 100;
const ROUNDS: usize = 200;

fn main() -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut files = Vec::new();
    for source in 0..SOURCES {
        let path = folder.path().join(format!("{source}.json"));
        fs::write(&path, document(source))?;
        files.push(path);
    }
    let file = |source: usize| files.get(source).cloned();
    let sources = ConfigSources {
        managed: file(0),
        command_line: file(1).into_iter().map(ConfigSource::File).collect(),
        local: file(2),
        project: file(3),
        user: file(4),
        strict: false,
    };
    let environment = HashMap::from([("TOKEN".to_owned(), "secret".to_owned())]);
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            let loaded = load(&sources, &environment);
            let elapsed = started.elapsed();
            assert_eq!(loaded.config.servers.len(), SOURCES * SERVERS_PER_SOURCE);
            assert!(loaded.diagnostics.is_empty());
            elapsed
        })
        .collect();
    report(&mut times, folder.path())
}

/// Typical entries with a command, arguments and variables.
fn document(source: usize) -> String {
    let entry = |number: usize| {
        let name = format!("server-{source}-{number}");
        let entry = json!({
            "command": "npx",
            "args": ["-y", format!("@example/server-{number}@1.2.3"), "--root", "${ROOT:-/srv/data}"],
            "env": { "TOKEN": "${TOKEN}", "LEVEL": "info" },
            "timeout": 60_000,
            "lazy": true,
        });
        (name, entry)
    };
    let servers: Map<_, _> = (0..SERVERS_PER_SOURCE).map(entry).collect();
    format!("{:#}", json!({ "mcpServers": servers }))
}

fn report(times: &mut [Duration], folder: &Path) -> io::Result<()> {
    times.sort();
    let bytes: u64 = fs::read_dir(folder)?
        .map(|file| Ok::<_, io::Error>(file?.metadata()?.len()))
        .sum::<Result<_, _>>()?;
    let at = |part: usize| times.get(times.len() * part / 100).copied();
    println!(
        "{} servers from {SOURCES} files, {} KiB: fastest of {ROUNDS} {:.2?}, median {:.2?}",
        SOURCES * SERVERS_PER_SOURCE,
        bytes / 1024,
        at(0).unwrap_or_default(),
        at(50).unwrap_or_default(),
    );
    Ok(())
}
