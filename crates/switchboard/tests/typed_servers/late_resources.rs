//! A host lists resources and prompts that are added after it connected.

use std::collections::BTreeMap;

use switchboard::in_process::{InProcessPrompt, InProcessResource, InProcessTemplate};

use super::{empty_server, host_of};

#[tokio::test]
async fn host_lists_resources_and_prompts_added_later() {
    let server = empty_server();
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
