//! Many servers and long listings.

use std::fs;

use serde_json::{Map, Value, json};
use switchboard_testkit::Script;

use crate::support::{Entry, TestCli};

/// A server with ten tools, in shell so that it starts fast.
const SMALL_SERVER: &str = r#"
tools='{"name":"t0","inputSchema":{}}'
for n in 1 2 3 4 5 6 7 8 9; do tools="$tools,{\"name\":\"t$n\",\"inputSchema\":{}}"; done
while read -r line; do
  id=${line##*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"small","version":"1"}}' ;;
    *'"tools/list"'*) result="{\"tools\":[$tools]}" ;;
    *'"server/discover"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}"; continue ;;
    *) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
"#;

fn cli_with_small_servers(count: usize) -> TestCli {
    let cli = TestCli::empty();
    let script = cli.sandbox.project().join("server.sh");
    fs::write(&script, SMALL_SERVER).unwrap();
    let entry = json!({"command": "sh", "args": [script]});
    let servers: Map<String, Value> = (0..count)
        .map(|index| (format!("s{index}"), entry.clone()))
        .collect();
    cli.sandbox
        .write(".mcp.json", json!({ "mcpServers": servers }).to_string());
    cli
}

#[tokio::test]
async fn many_servers_are_listed_without_a_failure() {
    let cli = cli_with_small_servers(120);
    let list = cli.run(&["list", "--json"]).await.json();
    let servers = list["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 120);
    for server in servers {
        assert_eq!(server["status"], "connected", "{server}");
        assert_eq!(server["tools"].as_array().unwrap().len(), 10);
    }
    let tools = cli.run(&["tools", "--json"]).await.json();
    assert_eq!(tools.as_array().unwrap().len(), 1_200);
}

#[tokio::test]
async fn cut_listing_is_noted() {
    let script = (0..5).fold(Script::legacy(), |script, index| {
        script
            .resource(&format!("demo://r{index}"), "text")
            .tool(&format!("t{index}"))
    });
    let cli = TestCli::with_servers([("lib", Entry::from(script))]);
    let limits = json!({"limits": {"resourcesPerServer": 2, "toolsPerServer": 3}});
    cli.sandbox
        .write_config("switchboard/settings.json", limits.to_string());
    let resources_note = "the list is cut after 2 resources, because of more than 2 resources (limit `resourcesPerServer`)";
    let tools_note =
        "the list is cut after 3 tools, because of more than 3 tools (limit `toolsPerServer`)";
    for (command, note, count) in [("resources", resources_note, 2), ("tools", tools_note, 3)] {
        let text = cli.run(&[command]).await;
        assert_eq!(text.code, 0);
        assert_eq!(text.stderr, format!("server lib: {note}"));
        let json = cli.run(&[command, "--json"]).await.json();
        let elements = json.as_array().unwrap();
        assert_eq!(elements.len(), count + 1);
        assert_eq!(elements[count], json!({"server": "lib", "note": note}));
    }
}
