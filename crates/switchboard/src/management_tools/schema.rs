//! How a model knows the management tools: names, words and inputs, exactly as agents expect them.

use serde_json::{Value, json};

use super::Kind;
use crate::mcp::Json;

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ListResources => "ListMcpResources",
            Self::ReadResource => "ReadMcpResource",
            Self::SubscribeResource => "SubscribeMcpResource",
            Self::UnsubscribeResource => "UnsubscribeMcpResource",
            Self::SubscribePolling => "SubscribePolling",
            Self::UnsubscribePolling => "UnsubscribePolling",
            Self::RefreshTools => "RefreshMcpTools",
            Self::WaitForServers => "WaitForMcpServers",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::ListResources => {
                "Lists the resources that MCP servers offer for reading, of all servers or of one."
            }
            Self::ReadResource => {
                "Reads a resource of an MCP server by its address. Bytes that are no text are saved \
                 to a file, whose path is in the answer."
            }
            Self::SubscribeResource => {
                "Watches a resource of an MCP server: when it changes, you are told between turns, \
                 with what changed and the reason that you give here."
            }
            Self::UnsubscribeResource => {
                "Ends the watching of resources: by its subscriptionId, or all that fit the server \
                 and the address."
            }
            Self::SubscribePolling => {
                "Calls a tool or reads a resource of an MCP server at an interval. You are told \
                 between turns when the answer is another than before."
            }
            Self::UnsubscribePolling => {
                "Ends polling: by its subscriptionId, or all that fit the server and the target, \
                 which is the name of a tool or the address of a resource."
            }
            Self::RefreshTools => {
                "Asks MCP servers for their tools anew, and says which were added and removed."
            }
            Self::WaitForServers => {
                "Waits until MCP servers that are still starting are connected or have failed, and \
                 says which of the two it was."
            }
        }
    }

    pub(super) fn input_schema(self) -> Json {
        let text = |what: &str| json!({"type": "string", "description": what});
        let server = text("The name of the server");
        let uri = text("The address of the resource");
        let reason = text("Why it is watched; you are reminded of it");
        let id = text("What the subscription was called when it began");
        let (properties, required) = match self {
            Self::ListResources | Self::RefreshTools => (json!({"server": server}), json!([])),
            Self::ReadResource => (
                json!({"server": server, "uri": uri}),
                json!(["server", "uri"]),
            ),
            Self::SubscribeResource => (
                json!({"server": server, "uri": uri, "reason": reason}),
                json!(["server", "uri"]),
            ),
            Self::UnsubscribeResource => (
                json!({"server": server, "uri": uri, "subscriptionId": id}),
                json!([]),
            ),
            Self::SubscribePolling => (
                json!({
                    "type": {"type": "string", "enum": ["tool", "resource"]},
                    "server": server,
                    "toolName": text("The name of the tool, as its server calls it"),
                    "arguments": {"type": "object", "description": "What the tool is called with"},
                    "uri": uri,
                    "intervalMs": {
                        "type": "number",
                        "minimum": 1000,
                        "default": 5000,
                        "description": "How often, in milliseconds",
                    },
                    "reason": reason,
                }),
                json!(["type", "server"]),
            ),
            Self::UnsubscribePolling => (
                json!({
                    "subscriptionId": id,
                    "server": server,
                    "target": text("The name of the tool or the address of the resource"),
                }),
                json!([]),
            ),
            Self::WaitForServers => (wait(), json!([])),
        };
        Json::from(&json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }
}

fn wait() -> Value {
    json!({
        "servers": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The names of the servers; all, if there are none",
        },
        "timeoutMs": {
            "type": "number",
            "minimum": 0,
            "default": 30000,
            "description": "How long to wait at most, in milliseconds",
        },
    })
}
