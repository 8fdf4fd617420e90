//! Resources and prompts in the form that a model receives.

use serde_json::json;
use switchboard::Readiness;
use switchboard::content::{Block, DirectoryResultStore};
use switchboard::mention;
use switchboard::query::QueryError;
use switchboard_testkit::{MemoryServer, Script};

use super::common::{InMemory, host_with, permissive};
use super::{arguments, host_of};

#[tokio::test(start_paused = true)]
async fn resource_text_is_sanitized_and_blobs_stored() {
    let temporary = tempfile::tempdir().unwrap();
    let script =
        Script::modern().raw_resource(json!({"uri": "demo://x", "name": "x", "contents": [
            {"uri": "demo://x", "mimeType": "text/plain", "text": "red \u{1b}[31mtext"},
            {"uri": "demo://x", "mimeType": "application/octet-stream", "blob": "aGk="},
        ]}));
    let host = permissive()
        .result_store(DirectoryResultStore::new(temporary.path().join("results")))
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let read = host.read_resource("s", "demo://x").await.unwrap();
    let saved = read.contents[1].blob_saved_to.clone().unwrap();
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        json!({"contents": [
            {"uri": "demo://x", "mimeType": "text/plain", "text": "red text"},
            {"uri": "demo://x", "mimeType": "application/octet-stream", "blobSavedTo": saved},
        ]})
    );
    assert_eq!(std::fs::read(saved).unwrap(), b"hi");
}

#[tokio::test(start_paused = true)]
async fn prompt_messages_keep_their_roles() {
    let (host, _server) = host_with(Script::legacy().prompt("greet").prompt("picture")).await;
    let values = arguments([("name", "Ann\u{1b}[2J"), ("style", "kind")]);
    let prompt = host.get_prompt("s", "greet", &values).await.unwrap();
    assert_eq!(
        serde_json::to_value(&prompt.messages).unwrap(),
        json!([
            {"role": "user", "content": {"type": "text", "text": "Greet Ann in this style: kind"}},
            {"role": "assistant", "content": {"type": "text", "text": "Hello, Ann!"}},
        ])
    );
    let prompt = host
        .get_prompt("s", "picture", &arguments([]))
        .await
        .unwrap();
    let Block::Image { mime_type, .. } = &prompt.messages[0].content else {
        panic!("{prompt:?}");
    };
    assert_eq!(mime_type, "image/png");
}

#[tokio::test(start_paused = true)]
async fn every_mentioned_resource_is_read_once() {
    let host = host_of([
        ("a", Script::legacy().resource("demo://one", "first")),
        ("b", Script::modern().resource("demo://two", "second")),
    ])
    .await;
    let text = "look at @a:demo://one, at @b:demo://two and at @a:demo://one; ask \
                @missing:demo://x or ann@a:demo://one";
    assert_eq!(mention::mentions(text).len(), 4);
    let mentions = host.read_mentions(text).await;
    let found: Vec<_> = (mentions.iter())
        .map(|found| (&text[found.range.clone()], &found.outcome))
        .collect();
    let [(one, Ok(first)), (two, Ok(second)), (missing, Err(error))] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((*one, *two), ("@a:demo://one", "@b:demo://two"));
    assert_eq!(first.contents[0].text.as_deref(), Some("first"));
    assert_eq!(second.contents[0].text.as_deref(), Some("second"));
    assert_eq!(*missing, "@missing:demo://x");
    assert!(matches!(error, QueryError::UnknownServer(_)));
}
