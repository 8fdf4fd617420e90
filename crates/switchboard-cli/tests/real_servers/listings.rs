//! Resources, templates, prompts, completions and non-text results of the reference server.

use std::fs;

use serde_json::{Value, json};
use switchboard_testkit::{Sandbox, assert_no_process_left};

use super::{entry, fixtures, node, run};

/// Configures the entry as the server `it`, and checks resources, prompts, completions and results
/// of this server.
pub(crate) fn try_listings(sandbox: &Sandbox, entry: &Value) {
    sandbox.write(
        ".mcp.json",
        json!({"mcpServers": {"it": entry}}).to_string(),
    );
    try_resources(sandbox);
    try_templates(sandbox);
    try_prompts(sandbox);
    try_blocks(sandbox);
}

fn names<'a>(listed: &'a Value, key: &str) -> Vec<&'a str> {
    let items = listed.as_array().unwrap().iter();
    items.map(|item| item[key].as_str().unwrap()).collect()
}

fn try_resources(sandbox: &Sandbox) {
    let listed = run(sandbox, &["resources"]);
    let document = names(&listed, "uri")
        .into_iter()
        .find(|uri| uri.ends_with("/architecture.md"));
    let document = document.unwrap_or_else(|| panic!("{listed:#}"));
    let read = run(sandbox, &["read", "it", document]);
    let part = &read["contents"][0];
    assert_eq!(part["mimeType"], "text/markdown", "{read:#}");
    assert!(part["text"].as_str().unwrap().contains("Everything"));
}

fn try_templates(sandbox: &Sandbox) {
    let listed = run(sandbox, &["resources", "it", "--templates"]);
    let templates = names(&listed, "uriTemplate");
    let of_kind = |kind: &str| {
        let found = templates.iter().find(|template| template.contains(kind));
        *found.unwrap_or_else(|| panic!("{templates:?}"))
    };
    let text = run(sandbox, &["read", "it", of_kind("/text/"), "resourceId=7"]);
    let text = text["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Resource 7:"), "{text}");
    let blob = run(sandbox, &["read", "it", of_kind("/blob/"), "resourceId=7"]);
    let saved = blob["contents"][0]["blobSavedTo"].as_str().unwrap();
    assert!(
        fs::read_to_string(saved)
            .unwrap()
            .starts_with("Resource 7:")
    );
    let args = [
        "read",
        "it",
        of_kind("/text/"),
        "--complete",
        "resourceId=7",
    ];
    assert_eq!(run(sandbox, &args)["values"], json!(["7"]));
}

fn try_prompts(sandbox: &Sandbox) {
    let listed = run(sandbox, &["prompts", "it"]);
    let commands = names(&listed, "command");
    assert!(commands.contains(&"mcp__it__args-prompt"), "{commands:?}");
    let prompt = run(sandbox, &["prompt", "mcp__it__args-prompt", "city=Paris"]);
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("Paris"), "{text}");
    let prompt = ["prompt", "it", "completable-prompt"];
    let departments = run(
        sandbox,
        &[&prompt[..], &["--complete", "department=E"]].concat(),
    );
    assert_eq!(departments["values"], json!(["Engineering"]));
    let chosen = ["department=Engineering", "--complete", "name=A"];
    let people = run(sandbox, &[&prompt[..], &chosen].concat());
    assert_eq!(people["values"], json!(["Alice"]));
    let embedding = [
        "prompt",
        "it",
        "resource-prompt",
        "resourceType=Text",
        "resourceId=1",
    ];
    let embedded = run(sandbox, &embedding).to_string();
    assert!(
        embedded.contains("demo://resource/dynamic/text/1"),
        "{embedded}"
    );
}

fn try_blocks(sandbox: &Sandbox) {
    let call = |tool: &str, arguments: Value| {
        let name = format!("mcp__it__{tool}");
        run(sandbox, &["call", &name, &arguments.to_string(), "--yes"])
    };
    let linked = call("get-resource-links", json!({"count": 2}));
    let links = linked["content"].as_array().unwrap().iter();
    let links: Vec<_> = links
        .filter(|block| block["type"] == "resource_link")
        .filter_map(|block| block["uri"].as_str())
        .collect();
    assert_eq!(links.len(), 2, "{linked:#}");
    for link in links {
        // Read the resource that the link refers to from the server that returned the link.
        run(sandbox, &["read", "it", link]);
    }
    let picture = call("get-tiny-image", json!({}));
    let blocks = picture["content"].as_array().unwrap();
    assert!(blocks.iter().any(|block| block["mimeType"] == "image/png"));
    let annotated = call(
        "get-annotated-message",
        json!({"messageType": "error", "includeImage": true}),
    );
    assert_eq!(annotated["content"].as_array().unwrap().len(), 2);
    let weather = call("get-structured-content", json!({"location": "New York"}));
    assert!(
        weather["structuredContent"]["temperature"].is_number(),
        "{weather:#}"
    );
    // The text block repeats the structured content, and the host adds no note about a mismatch.
    let text = weather["content"][0]["text"].as_str().unwrap();
    let text: Value = serde_json::from_str(text).unwrap();
    assert_eq!(text, weather["structuredContent"]);
    assert_eq!(weather["notes"], json!([]));
    let reference = call("get-resource-reference", json!({})).to_string();
    assert!(reference.contains("demo://resource/dynamic/text/1"));
}

#[tokio::test]
async fn everything_server_lists_resources_and_prompts() {
    let server = node("server-everything", &["stdio"]);
    let Some(fixtures) = fixtures(&server.entry_point) else {
        return;
    };
    let sandbox = Sandbox::new();
    let entry = entry(&server, &fixtures, &sandbox);
    try_listings(&sandbox, &entry);
    assert_no_process_left(sandbox.tag()).await;
}
