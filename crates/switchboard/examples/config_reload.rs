//! Applies changes of a config file to a running host.
//!
//! Edit the config file while the example runs. After each edit the example prints which servers it
//! added, removed or replaced.
//!
//! ```text
//! cargo run -p switchboard --example config_reload -- mcp.json
//! ```

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

    let (sender, mut snapshots) = watch::channel(ConfigSnapshot::default());
    let polled_files = move || PolledFiles::from(sources.clone());
    let _reload_thread = ReloadThread::spawn(polled_files, variables, move |snapshot| {
        drop(sender.send(snapshot));
    })?;
    while snapshots.changed().await.is_ok() {
        let loaded = snapshots.borrow_and_update().loaded.clone();
        for diagnostic in &loaded.diagnostics {
            eprintln!("{diagnostic}");
        }
        let result = host.apply_config(loaded.config, &Trust::none()).await;
        println!("{}", serde_json::to_string(&result)?);
    }
    host.shutdown().await;
    Ok(())
}
