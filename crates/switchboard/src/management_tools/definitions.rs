//! The table of the management tools. Names and inputs match those of other agents.

use serde_json::{Value, json};

use super::{Run, parse, resources, servers, watches};
use crate::mcp::Json;
use crate::watch::WatchKind;

/// One management tool.
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) input_schema: Json,
    pub(super) run: Run,
}

pub(super) fn definitions() -> [Definition; 8] {
    let text = |description: &str| json!({"type": "string", "description": description});
    let server = text("The name of the server");
    let uri = text("The URI of the resource");
    let reason = text("Why it is watched. Repeated in every message");
    let id = text("The id that the subscription returned");
    [
        Definition {
            name: "ListMcpResources",
            description: "Lists the resources of one MCP server or of all.",
            input_schema: object(&json!({"server": server}), &[]),
            run: |host, input, _| {
                Box::pin(async move { resources::list(host, parse(input)?).await })
            },
        },
        Definition {
            name: "ReadMcpResource",
            description: "Reads a resource of an MCP server by its URI. Binary data is saved to a file; \
                          the result contains its path.",
            input_schema: object(&json!({"server": server, "uri": uri}), &["server", "uri"]),
            run: |host, input, _| {
                Box::pin(async move { resources::read(host, parse(input)?).await })
            },
        },
        Definition {
            name: "SubscribeMcpResource",
            description: "Watches a resource of an MCP server. When it changes, you get a message \
                          between turns with the changes and the reason that you give here.",
            input_schema: object(
                &json!({"server": server, "uri": uri, "reason": reason}),
                &["server", "uri"],
            ),
            run: |host, input, context| {
                Box::pin(async move { watches::subscribe(host, parse(input)?, context).await })
            },
        },
        Definition {
            name: "UnsubscribeMcpResource",
            description: "Stops watching resources: the one with this subscriptionId, or all that match \
                          the server and the URI.",
            input_schema: object(
                &json!({"server": server, "uri": uri, "subscriptionId": id}),
                &[],
            ),
            run: |host, input, context| {
                Box::pin(async move {
                    watches::unsubscribe(host, WatchKind::Subscription, &parse(input)?, context)
                })
            },
        },
        Definition {
            name: "SubscribePolling",
            description: "Calls a tool or reads a resource of an MCP server at an interval. When the \
                          result changes, you get a message between turns.",
            input_schema: object(
                &json!({
                    "type": {"type": "string", "enum": ["tool", "resource"]},
                    "server": server,
                    "toolName": text("The name of the tool without the mcp__ prefix"),
                    "arguments": {"type": "object", "description": "The arguments of the tool"},
                    "uri": uri,
                    "intervalMs": {
                        "type": "number",
                        "minimum": 1000,
                        "default": 5000,
                        "description": "The interval in milliseconds",
                    },
                    "reason": reason,
                }),
                &["type", "server"],
            ),
            run: |host, input, context| {
                Box::pin(async move { watches::poll(host, parse(input)?, context).await })
            },
        },
        Definition {
            name: "UnsubscribePolling",
            description: "Stops polling: the one with this subscriptionId, or all that match the server \
                          and the target, which is the name of a tool or the URI of a resource.",
            input_schema: object(
                &json!({
                    "subscriptionId": id,
                    "server": server,
                    "target": text("The name of the tool or the URI of the resource"),
                }),
                &[],
            ),
            run: |host, input, context| {
                Box::pin(async move {
                    watches::unsubscribe(host, WatchKind::Poll, &parse(input)?, context)
                })
            },
        },
        Definition {
            name: "RefreshMcpTools",
            description: "Lists the tools of MCP servers again and returns which were added and removed.",
            input_schema: object(&json!({"server": server}), &[]),
            run: |host, input, _| {
                Box::pin(async move { servers::refresh(host, parse(input)?).await })
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
            run: |host, input, _| Box::pin(async move { servers::wait(host, parse(input)?).await }),
        },
    ]
}

/// The schema of an object with these properties and no others.
fn object(properties: &Value, required: &[&str]) -> Json {
    Json::from(&json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    }))
}
