//! Applies changes of a config file to a running host.
//!
//! `cargo run --example config_reload -- mcp.json`, then edit the file.

use std::path::PathBuf;

use switchboard::Host;
use switchboard::config::{ConfigSnapshot, ConfigSources, PolledFiles, ReloadThread, Trust};
use tokio::sync::watch;

#[expect(
    clippy::disallowed_methods,
    reason = "the embedding program passes the environment to the host"
)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).unwrap_or("mcp.json".to_owned());
    let sources = ConfigSources {
        user: Some(PathBuf::from(file)),
        ..ConfigSources::default()
    };
    let variables: std::collections::HashMap<_, _> = std::env::vars().collect();
    let host = Host::builder().environment(variables.clone()).start()?;

    let (sender, mut latest) = watch::channel(ConfigSnapshot::default());
    let targets = move || PolledFiles::from(sources.clone());
    let _watcher = ReloadThread::spawn(targets, variables, move |reading| {
        drop(sender.send(reading));
    })?;
    while latest.changed().await.is_ok() {
        let loaded = latest.borrow_and_update().loaded.clone();
        for diagnostic in &loaded.diagnostics {
            eprintln!("{diagnostic}");
        }
        let result = host.apply_config(loaded.config, &Trust::none()).await;
        println!("{}", serde_json::to_string(&result)?);
    }
    host.shutdown().await;
    Ok(())
}
