//! Resources and prompts of a server made of functions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use switchboard::inprocess::{
    InProcessPrompt, InProcessResource, InProcessTemplate, LocalServer, ServerNotification,
};
use switchboard::mcp::{
    ErrorObject, GetPromptResult, PromptMessage, ReadResourceResult, ResourceBody,
};
use switchboard::{InProcessServer, ToolError};

use super::{empty, host_of};

fn library() -> InProcessServer {
    empty()
        .resource("notes://today", "today", || async { Ok("nothing yet") })
        .with_resource(
            InProcessResource::new("logo://small", "logo", || async { Ok(vec![1_u8, 2, 3]) })
                .title("The logo")
                .description("A picture of it")
                .mime_type("image/png"),
        )
        .resource("both://", "both", || async {
            Ok(ReadResourceResult::new([
                ResourceBody::text("both://1", "one").mime_type("text/plain"),
                ResourceBody::bytes("both://2", [2]),
            ]))
        })
        .resource("broken://", "broken", || async {
            Err::<String, _>(ToolError::new("the shelf fell down"))
        })
        .resource("panics://", "panics", || async {
            assert!(std::hint::black_box(false), "no such shelf");
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
async fn a_function_is_a_resource() {
    let server = library();
    let listed = serde_json::to_value(server.resources()).unwrap();
    assert_eq!(listed[0], json!({"uri": "notes://today", "name": "today"}));
    assert_eq!(
        listed[1],
        json!({
            "uri": "logo://small",
            "name": "logo",
            "title": "The logo",
            "description": "A picture of it",
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
async fn a_template_is_filled_in_and_taken_apart_again() {
    let server = library();
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
#[should_panic(expected = "the template x://{?query} cannot be used")]
fn a_template_that_cannot_be_taken_apart_is_refused_when_the_program_starts() {
    let _ = empty().resource_template("x://{?query}", "x", |_| async { Ok("") });
}

#[tokio::test]
async fn a_failure_to_read_is_a_refusal() {
    let server = library();
    let error = read(&server, "broken://").await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorObject::INTERNAL, "the shelf fell down")
    );
    let error = read(&server, "panics://").await.unwrap_err();
    assert_eq!(
        error.message,
        "the resource panics:// panicked: no such shelf"
    );
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// What to look at
    code: String,
    /// What to look for
    focus: Option<String>,
}

fn reviewing() -> InProcessServer {
    empty()
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
            Err::<String, _>("out of words".into())
        })
}

async fn fill_in(
    server: &InProcessServer,
    name: &str,
    arguments: Value,
) -> Result<Value, ErrorObject> {
    let arguments: BTreeMap<String, String> = serde_json::from_value(arguments).unwrap();
    let filled = server.get_prompt(name, &arguments).await;
    Ok(serde_json::to_value(filled?.messages).unwrap())
}

#[tokio::test]
async fn a_function_is_a_prompt() {
    let server = reviewing();
    let listed = serde_json::to_value(server.prompts()).unwrap();
    assert_eq!(
        listed[0],
        json!({
            "name": "review",
            "description": "Reviews code",
            "arguments": [
                {"name": "code", "description": "What to look at", "required": true},
                {"name": "focus", "description": "What to look for", "required": false},
            ],
        })
    );
    let said =
        |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    for (name, arguments, messages) in [
        (
            "review",
            json!({"code": "main.rs", "focus": "bugs"}),
            json!([said("user", "Look at main.rs for bugs")]),
        ),
        (
            "review",
            json!({"code": "main.rs"}),
            json!([said("user", "Look at main.rs for everything")]),
        ),
        (
            "hello",
            json!({}),
            json!([said("user", "Hello"), said("assistant", "Good day")]),
        ),
        ("whole", json!({}), json!([said("user", "whole")])),
    ] {
        assert_eq!(fill_in(&server, name, arguments).await, Ok(messages));
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_be_filled_in_is_refused() {
    let server = reviewing();
    for (name, code, message) in [
        (
            "review",
            ErrorObject::INVALID_PARAMS,
            "the arguments cannot be used: missing field `code`",
        ),
        ("broken", ErrorObject::INTERNAL, "out of words"),
        (
            "other",
            ErrorObject::INVALID_PARAMS,
            "there is no prompt other: list the prompts anew",
        ),
    ] {
        let error = fill_in(&server, name, json!({})).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

#[test]
#[should_panic(expected = "the field count cannot be")]
fn a_prompt_of_what_is_no_text_is_refused_when_the_program_starts() {
    #[derive(Deserialize, JsonSchema)]
    struct Times {
        count: u32,
    }
    let _ = empty().prompt("times", "", |times: Times| async move {
        Ok(times.count.to_string())
    });
}

#[test]
fn what_there_is_or_will_be_is_announced() {
    let announced = |server: InProcessServer| {
        let capabilities = server.capabilities();
        assert!(capabilities.tools && capabilities.tools_list_changed);
        assert_eq!(capabilities.resources, capabilities.resources_subscribe);
        assert_eq!(capabilities.resources, capabilities.resources_list_changed);
        assert_eq!(capabilities.prompts, capabilities.prompts_list_changed);
        (capabilities.resources, capabilities.prompts)
    };
    assert_eq!(announced(empty()), (false, false));
    assert_eq!(announced(library()), (true, false));
    assert_eq!(announced(reviewing()), (false, true));
    assert_eq!(announced(empty().expect_resources()), (true, false));
    assert_eq!(announced(empty().expect_prompts()), (false, true));
}

#[test]
fn every_change_is_told() {
    let server = empty();
    let mut notices = server.notifications().unwrap();
    server.add_resource(InProcessResource::new("a://", "a", || async { Ok("a") }));
    assert_eq!(notices.try_recv(), Ok(ServerNotification::ResourcesChanged));
    server.add_template(InProcessTemplate::new("a://{b}", "b", |_| async { Ok("") }));
    assert_eq!(notices.try_recv(), Ok(ServerNotification::ResourcesChanged));
    server.resource_updated("a://");
    assert_eq!(
        notices.try_recv(),
        Ok(ServerNotification::ResourceUpdated("a://".into()))
    );
    assert!(server.remove_resource("a://") && server.remove_resource("a://{b}"));
    assert_eq!(notices.try_recv(), Ok(ServerNotification::ResourcesChanged));
    assert_eq!(notices.try_recv(), Ok(ServerNotification::ResourcesChanged));
    server.add_prompt(InProcessPrompt::new("p", "", || async { Ok("p") }));
    assert_eq!(notices.try_recv(), Ok(ServerNotification::PromptsChanged));
    assert!(server.remove_prompt("p"));
    assert_eq!(notices.try_recv(), Ok(ServerNotification::PromptsChanged));
    assert!(!server.remove_prompt("p") && !server.remove_resource("a://"));
    assert!(notices.try_recv().is_err());
}

#[tokio::test]
async fn a_host_finds_resources_and_prompts_that_come_to_a_server_without_any() {
    let server = empty();
    let host = host_of(server.clone()).await;
    assert!(host.resources(None).await.unwrap().items.is_empty());
    let error = host
        .read_resource_raw("s", "notes://new")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("resources"), "{error}");
    server.add_resource(InProcessResource::new("notes://new", "new", || async {
        Ok("here")
    }));
    server.add_template(InProcessTemplate::new("notes://{day}", "day", |_| async {
        Ok("that day")
    }));
    server.add_prompt(InProcessPrompt::new("greet", "", || async { Ok("Hello.") }));
    let resources = host.resources(None).await.unwrap().items;
    assert_eq!(resources[0].item.uri, "notes://new");
    assert_eq!(
        host.resource_templates(Some("s"))
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let read = host.read_resource_raw("s", "notes://new").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("here"));
    assert_eq!(host.prompts(None).await.unwrap().items.len(), 1);
    let prompt = host
        .get_prompt_raw("s", "greet", &BTreeMap::new())
        .await
        .unwrap();
    assert_eq!(prompt.messages.len(), 1);
    server.remove_resource("notes://new");
    server.remove_resource("notes://{day}");
    assert!(host.resources(None).await.unwrap().items.is_empty());
    host.shutdown().await;
}
