//! `rmcp-call SERVER MESSAGE`: a minimal rmcp program for comparison with `switchboard call`. It
//! connects, lists, calls `echo` and prints the result.

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(server), Some(message)) = (words.next(), words.next()) else {
        return Err("usage: rmcp-call SERVER MESSAGE".into());
    };
    let command = tokio::process::Command::new(server);
    let client = ().serve(TokioChildProcess::new(command)?).await?;
    let tools = client.list_all_tools().await?;
    if !tools.iter().any(|tool| tool.name == "echo") {
        return Err("the server has no tool `echo`".into());
    }
    let arguments = serde_json::Map::from_iter([("message".to_owned(), message.into())]);
    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
    let result = client.call_tool(call).await?;
    for block in &result.content {
        if let Some(text) = block.as_text() {
            println!("{}", text.text);
        }
    }
    client.cancel().await?;
    Ok(())
}
