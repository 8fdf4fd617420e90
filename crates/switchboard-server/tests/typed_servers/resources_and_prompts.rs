//! Resources and prompts of an `InProcessServer`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard_server::{
    InProcessPrompt, InProcessResource, InProcessTemplate, LocalServer, ServerNotification,
};
use switchboard_server::{InProcessServer, ToolError};
use switchboard_wire::mcp::{
    ErrorObject, GetPromptResult, PromptMessage, ReadResourceResult, ResourceBody,
};

use super::empty_server;

fn server_with_resources() -> InProcessServer {
    empty_server()
        .resource("notes://today", "today", || async { Ok("nothing yet") })
        .with_resource(
            InProcessResource::new("logo://small", "logo", || async { Ok(vec![1_u8, 2, 3]) })
                .title("The logo")
                .description("A picture")
                .mime_type("image/png"),
        )
        .resource("both://", "both", || async {
            Ok(ReadResourceResult::new([
                ResourceBody::text("both://1", "one").mime_type("text/plain"),
                ResourceBody::bytes("both://2", [2]),
            ]))
        })
        .resource("broken://", "broken", || async {
            Err::<String, _>(ToolError::new("disk failure"))
        })
        .resource("panics://", "panics", || async {
            assert!(std::hint::black_box(false), "no such disk");
            Ok("")
        })
        .with_template(
            InProcessTemplate::new(
                "notes://{day}/{+path}",
                "notes",
                |values: BTreeMap<String, String>| async move {
                    Ok(format!("{} of {}", values["path"], values["day"]))
                },
            )
            .mime_type("text/plain"),
        )
}

async fn read(server: &InProcessServer, uri: &str) -> Result<Value, ErrorObject> {
    let read = server.read_resource(uri).await?;
    Ok(serde_json::to_value(read.contents).unwrap())
}

#[tokio::test]
async fn functions_become_resources() {
    let server = server_with_resources();
    let listed = serde_json::to_value(server.resources()).unwrap();
    assert_eq!(listed[0], json!({"uri": "notes://today", "name": "today"}));
    assert_eq!(
        listed[1],
        json!({
            "uri": "logo://small",
            "name": "logo",
            "title": "The logo",
            "description": "A picture",
            "mimeType": "image/png",
        })
    );
    for (uri, contents) in [
        (
            "notes://today",
            json!([{"uri": "notes://today", "text": "nothing yet"}]),
        ),
        (
            "logo://small",
            json!([{"uri": "logo://small", "mimeType": "image/png", "blob": "AQID"}]),
        ),
        (
            "both://",
            json!([
                {"uri": "both://1", "mimeType": "text/plain", "text": "one"},
                {"uri": "both://2", "blob": "Ag=="},
            ]),
        ),
    ] {
        assert_eq!(read(&server, uri).await, Ok(contents));
    }
}

#[tokio::test]
async fn template_matches_uri_and_decodes_values() {
    let server = server_with_resources();
    assert_eq!(
        serde_json::to_value(server.resource_templates()).unwrap(),
        json!([{"uriTemplate": "notes://{day}/{+path}", "name": "notes", "mimeType": "text/plain"}])
    );
    let uri = "notes://some%20day/a/b";
    let contents = json!([{"uri": uri, "mimeType": "text/plain", "text": "a/b of some day"}]);
    assert_eq!(read(&server, uri).await, Ok(contents));
    let error = read(&server, "notes://yesterday").await.unwrap_err();
    assert_eq!(error.code, ErrorObject::RESOURCE_NOT_FOUND);
}

#[test]
#[should_panic(expected = "cannot register template x://{?query}")]
fn unsupported_template_panics_at_registration() {
    let _ = empty_server().resource_template("x://{?query}", "x", |_| async { Ok("") });
}

#[test]
#[should_panic(expected = "cannot register resource x: its URI is empty")]
fn resource_without_uri_panics_at_registration() {
    let _ = empty_server().resource("", "x", || async { Ok("") });
}

#[tokio::test]
async fn read_failure_and_panic_are_errors() {
    let server = server_with_resources();
    let error = read(&server, "broken://").await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorObject::INTERNAL, "disk failure")
    );
    let error = read(&server, "panics://").await.unwrap_err();
    assert_eq!(error.message, "resource panics:// panicked: no such disk");
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// Code to review
    code: String,
    /// Topic of the review
    focus: Option<String>,
}

fn server_with_prompts() -> InProcessServer {
    empty_server()
        .prompt("review", "Reviews code", |review: Review| async move {
            let focus = review.focus.unwrap_or_else(|| "everything".to_owned());
            Ok(format!("Look at {} for {focus}", review.code))
        })
        .prompt("hello", "Says hello", || async {
            Ok(vec![
                PromptMessage::user("Hello"),
                PromptMessage::assistant("Good day"),
            ])
        })
        .with_prompt(
            InProcessPrompt::new("whole", "", || async {
                Ok(GetPromptResult::new([PromptMessage::user("whole")]))
            })
            .title("All of it"),
        )
        .prompt("broken", "", || async {
            Err::<String, _>("no text".into())
        })
}

async fn get_prompt(
    server: &InProcessServer,
    name: &str,
    arguments: Value,
) -> Result<Value, ErrorObject> {
    let arguments: BTreeMap<String, String> = serde_json::from_value(arguments).unwrap();
    let prompt = server.get_prompt(name, &arguments).await;
    Ok(serde_json::to_value(prompt?.messages).unwrap())
}

#[tokio::test]
async fn functions_become_prompts() {
    let server = server_with_prompts();
    let listed = serde_json::to_value(server.prompts()).unwrap();
    assert_eq!(
        listed[0],
        json!({
            "name": "review",
            "description": "Reviews code",
            "arguments": [
                {"name": "code", "description": "Code to review", "required": true},
                {"name": "focus", "description": "Topic of the review", "required": false},
            ],
        })
    );
    let message =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    for (name, arguments, messages) in [
        (
            "review",
            json!({"code": "main.rs", "focus": "bugs"}),
            json!([message("user", "Look at main.rs for bugs")]),
        ),
        (
            "review",
            json!({"code": "main.rs"}),
            json!([message("user", "Look at main.rs for everything")]),
        ),
        (
            "hello",
            json!({}),
            json!([message("user", "Hello"), message("assistant", "Good day")]),
        ),
        ("whole", json!({}), json!([message("user", "whole")])),
    ] {
        assert_eq!(get_prompt(&server, name, arguments).await, Ok(messages));
    }
}

#[tokio::test]
async fn prompt_failures_are_errors() {
    let server = server_with_prompts();
    for (name, code, message) in [
        (
            "review",
            ErrorObject::INVALID_PARAMS,
            "invalid arguments: missing field `code`",
        ),
        ("broken", ErrorObject::INTERNAL, "no text"),
        (
            "other",
            ErrorObject::INVALID_PARAMS,
            "prompt other does not exist; list the prompts again",
        ),
    ] {
        let error = get_prompt(&server, name, json!({})).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

#[test]
#[should_panic(expected = "field count does not accept one")]
fn non_string_prompt_argument_panics_at_registration() {
    #[derive(Deserialize, JsonSchema)]
    struct Times {
        count: u32,
    }
    let _ = empty_server().prompt("times", "", |times: Times| async move {
        Ok(times.count.to_string())
    });
}

#[test]
fn capabilities_follow_content_and_advertising() {
    let advertised = |server: InProcessServer| {
        let capabilities = server.capabilities();
        assert!(capabilities.tools && capabilities.tools_list_changed);
        assert_eq!(capabilities.resources, capabilities.resources_subscribe);
        assert_eq!(capabilities.resources, capabilities.resources_list_changed);
        assert_eq!(capabilities.prompts, capabilities.prompts_list_changed);
        (capabilities.resources, capabilities.prompts)
    };
    assert_eq!(advertised(empty_server()), (false, false));
    assert_eq!(advertised(server_with_resources()), (true, false));
    assert_eq!(advertised(server_with_prompts()), (false, true));
    assert_eq!(
        advertised(empty_server().advertise_resources()),
        (true, false)
    );
    assert_eq!(
        advertised(empty_server().advertise_prompts()),
        (false, true)
    );
}

#[test]
fn every_change_sends_a_notification() {
    let server = empty_server();
    let mut notifications = server.notifications().unwrap();
    server.add_resource(InProcessResource::new("a://", "a", || async { Ok("a") }));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ResourcesChanged)
    );
    server.add_template(InProcessTemplate::new("a://{b}", "b", |_| async { Ok("") }));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ResourcesChanged)
    );
    server.notify_resource_updated("a://");
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ResourceUpdated("a://".into()))
    );
    assert!(server.remove_resource("a://") && server.remove_resource("a://{b}"));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ResourcesChanged)
    );
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ResourcesChanged)
    );
    server.add_prompt(InProcessPrompt::new("p", "", || async { Ok("p") }));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::PromptsChanged)
    );
    assert!(server.remove_prompt("p"));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::PromptsChanged)
    );
    assert!(!server.remove_prompt("p") && !server.remove_resource("a://"));
    assert!(notifications.try_recv().is_err());
}
