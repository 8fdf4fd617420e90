//! Loads the servers of a `.mcp.json` file and prints their status and tools.
//!
//! ```text
//! cargo run -p switchboard --example mcp_json -- .mcp.json
//! ```

use std::collections::HashMap;
use std::path::PathBuf;

use switchboard::config::{ConfigSources, Trust, load};
use switchboard::{Host, Readiness};

#[expect(
    clippy::disallowed_methods,
    reason = "the embedding program passes the environment to the host"
)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).unwrap_or(".mcp.json".to_owned());
    let sources = ConfigSources {
        project: Some(PathBuf::from(file)),
        ..ConfigSources::default()
    };
    let environment: HashMap<_, _> = std::env::vars().collect();
    let loaded = load(&sources, &environment);
    for diagnostic in &loaded.diagnostics {
        eprintln!("{diagnostic}");
    }

    // Trust the servers of the project file for this run. A real program asks the user first.
    let trust = Trust::project_for_this_run();
    let host = Host::builder()
        .environment(environment)
        .config(loaded.config, &trust)
        .start()?;
    host.wait_for(Readiness::All).await;
    for server in host.status() {
        let detail = server.error.or(server.detail).unwrap_or_default();
        println!("{} {} {detail}", server.name, server.status);
    }
    for tool in host.tools() {
        println!("{}", tool.wire_name);
    }
    host.shutdown().await;
    Ok(())
}
