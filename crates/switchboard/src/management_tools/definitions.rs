//! The table of the management tools. The names and input schemas of the tools are the same as in
//! other agents.

use serde_json::{Value, json};
use switchboard_wire::mcp::Json;

use super::{ExecuteFn, parse, refresh_and_wait, resources, watches};
use crate::watch::WatchKind;

/// A management tool: what the model sees of it, and the function that executes it.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) input_schema: Json,
    pub(super) execute: ExecuteFn,
}

/// All management tools, in the order in which a model sees them.
pub(super) fn definitions() -> impl Iterator<Item = Definition> {
    let groups = [
        Vec::from(resource_tools()),
        Vec::from(subscription_tools()),
        Vec::from(polling_tools()),
        Vec::from(server_tools()),
    ];
    groups.into_iter().flatten()
}

fn resource_tools() -> [Definition; 2] {
    [
        Definition {
            name: "ListMcpResources",
            description: "Lists the resources of one MCP server, or of all MCP servers.",
            input_schema: object(&json!({"server": server()}), &[]),
            execute: |host, input, context| {
                Box::pin(async move { resources::list(host, parse(input)?, context).await })
            },
        },
        Definition {
            name: "ReadMcpResource",
            description: "Reads a resource of an MCP server by its URI. Binary data is saved to a file, \
                          and the result contains the path of the file.",
            input_schema: object(
                &json!({"server": server(), "uri": uri()}),
                &["server", "uri"],
            ),
            execute: |host, input, context| {
                Box::pin(async move { resources::read(host, parse(input)?, context).await })
            },
        },
    ]
}

fn subscription_tools() -> [Definition; 2] {
    [
        Definition {
            name: "SubscribeMcpResource",
            description: "Watches a resource of an MCP server. When the resource changes, you get a \
                          message between turns with the changes and the reason that you give here.",
            input_schema: object(
                &json!({"server": server(), "uri": uri(), "reason": reason()}),
                &["server", "uri"],
            ),
            execute: |host, input, context| {
                Box::pin(async move { watches::subscribe(host, parse(input)?, context).await })
            },
        },
        Definition {
            name: "UnsubscribeMcpResource",
            description: "Stops subscriptions: the one with this subscriptionId, or all that match the \
                          server and the URI.",
            input_schema: object(
                &json!({"server": server(), "uri": uri(), "subscriptionId": subscription_id()}),
                &[],
            ),
            execute: |host, input, context| {
                Box::pin(async move {
                    watches::unsubscribe(host, WatchKind::Subscription, &parse(input)?, context)
                })
            },
        },
    ]
}

fn polling_tools() -> [Definition; 2] {
    [
        Definition {
            name: "SubscribePolling",
            description: "Calls a tool or reads a resource of an MCP server at an interval. When the \
                          result changes, you get a message between turns.",
            input_schema: object(
                &json!({
                    "type": {"type": "string", "enum": ["tool", "resource"]},
                    "server": server(),
                    "toolName": text("The name of the tool without the mcp__ prefix"),
                    "arguments": {"type": "object", "description": "The arguments of the tool"},
                    "uri": uri(),
                    "intervalMs": {
                        "type": "number",
                        "minimum": 1000,
                        "default": 5000,
                        "description": "The polling interval in milliseconds",
                    },
                    "reason": reason(),
                }),
                &["type", "server"],
            ),
            execute: |host, input, context| {
                Box::pin(async move { watches::poll(host, parse(input)?, context).await })
            },
        },
        Definition {
            name: "UnsubscribePolling",
            description: "Stops polls: the one with this subscriptionId, or all that match the server \
                          and the target, which is the name of a tool or the URI of a resource.",
            input_schema: object(
                &json!({
                    "subscriptionId": subscription_id(),
                    "server": server(),
                    "target": text("The name of the tool or the URI of the resource"),
                }),
                &[],
            ),
            execute: |host, input, context| {
                Box::pin(async move {
                    watches::unsubscribe(host, WatchKind::Poll, &parse(input)?, context)
                })
            },
        },
    ]
}

fn server_tools() -> [Definition; 2] {
    [
        Definition {
            name: "RefreshMcpTools",
            description: "Lists the tools of MCP servers again and returns which were added and removed.",
            input_schema: object(&json!({"server": server()}), &[]),
            execute: |host, input, context| {
                Box::pin(
                    async move { refresh_and_wait::refresh(host, parse(input)?, context).await },
                )
            },
        },
        Definition {
            name: "WaitForMcpServers",
            description: "Waits until MCP servers that are starting are connected or have failed, and \
                          returns their status.",
            input_schema: object(
                &json!({
                    "servers": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "The names of the servers. Default: all",
                    },
                    "timeoutMs": {
                        "type": "number",
                        "minimum": 0,
                        "default": 30000,
                        "description": "The longest time to wait, in milliseconds",
                    },
                }),
                &[],
            ),
            execute: |host, input, context| {
                Box::pin(async move { refresh_and_wait::wait(host, parse(input)?, context).await })
            },
        },
    ]
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn server() -> Value {
    text("The name of the server")
}

fn uri() -> Value {
    text("The URI of the resource")
}

fn reason() -> Value {
    text("Why you watch it. Every message about a change repeats it")
}

fn subscription_id() -> Value {
    text("The id that the subscribing tool returned")
}

/// Returns the JSON Schema of an object that has only these properties.
fn object(properties: &Value, required: &[&str]) -> Json {
    Json::from(&json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}
