//! Hostile URIs, file names and MIME types in resources.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::Readiness;
use switchboard::content::DirectoryResultStore;
use switchboard::query::QueryError;
use switchboard_testkit::{MemoryServer, Script};

use super::common::{InMemory, host_with, permissive};
use super::host_of;

#[tokio::test(start_paused = true)]
async fn uri_is_sent_to_server_unchanged() {
    let uris = [
        "file:///../../etc/passwd",
        "file:///%2e%2e/%2e%2e/etc/passwd",
        "file:///etc/passwd%00.txt",
        "http://169.254.169.254/latest/meta-data",
        "other:demo://x",
        r"\\host\share\CON",
        "demo://x\u{202e}",
    ];
    let (host, server) = host_with(Script::legacy().resource("demo://x", "x")).await;
    for uri in uris {
        let error = host.read_resource_raw("s", uri).await.unwrap_err();
        assert!(error.is_not_found(), "{uri}: {error}");
    }
    // The host does not resolve, decode or fetch a URI itself.
    let requested = server.received_with("resources/read");
    let requested: Vec<_> = requested
        .iter()
        .map(|request| &request["params"]["uri"])
        .collect();
    assert_eq!(requested, uris.map(Value::from).iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn invalid_uri_is_not_sent() {
    let (host, server) = host_with(Script::legacy().resource("demo://x", "x")).await;
    for uri in [
        "",
        "demo://x\0",
        "demo://x\r\nInjected: yes",
        "demo://\u{1b}[2J",
        "demo://\u{9b}",
    ] {
        let error = host.read_resource_raw("s", uri).await.unwrap_err();
        assert!(
            matches!(error, QueryError::InvalidUri(_)),
            "{uri:?}: {error}"
        );
    }
    assert!(server.received_with("resources/read").is_empty());
}

#[tokio::test(start_paused = true)]
async fn oversized_uri_is_not_sent() {
    let long = format!("demo://{}", "x".repeat(1024 * 1024));
    let script = Script::legacy()
        .resource(&long, "x")
        .resource("demo://short", "y");
    let (host, server) = host_with(script).await;
    let error = host.read_resource_raw("s", &long).await.unwrap_err();
    assert!(matches!(error, QueryError::InvalidUri(_)), "{error}");
    assert!(server.received_with("resources/read").is_empty());
    let listing = host.resources(None).await.unwrap();
    assert!((listing.items.iter()).any(|resource| resource.item.uri == "demo://short"));
}

#[tokio::test(start_paused = true)]
async fn read_goes_only_to_named_server() {
    let host = host_of([
        ("a", Script::legacy().resource("demo://a", "of a")),
        ("b", Script::legacy().resource("demo://b", "of b")),
    ])
    .await;
    assert!(host.read_resource_raw("a", "demo://a").await.is_ok());
    assert!(host.read_resource_raw("b", "demo://a").await.is_err());
}

/// All files below `folder`, relative to it.
fn files_below(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                found.push(name.display().to_string());
            }
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn stored_file_names_ignore_server_names() {
    let names = [
        "../../.ssh/authorized_keys",
        "/etc/cron.d/x",
        "C:\\Windows\\System32\\x.exe",
        "CON",
        "a.txt:stream.exe",
        "~/.bashrc",
        "x.desktop",
    ];
    for name in names {
        let temporary = tempfile::tempdir().unwrap();
        let part = json!({
            "uri": format!("file:///{name}"), "name": name, "mimeType": format!("text/{name}"),
            "blob": "TVqQAA==",
        });
        let script = Script::legacy().raw_resource(json!({
            "uri": "demo://x", "name": name, "contents": [part],
        }));
        let host = permissive()
            .result_store(DirectoryResultStore::new(temporary.path().join("results")))
            .connector("s", InMemory(MemoryServer::new(script)))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let read = host.read_resource("s", "demo://x").await.unwrap();
        let saved = read.contents[0].blob_saved_to.as_ref().unwrap();
        let files = files_below(temporary.path());
        assert_eq!(files.len(), 1, "{name}: {files:?}");
        assert!(files[0].starts_with("results/result-"), "{files:?}");
        let extension = saved.extension().unwrap();
        assert!(extension == "txt" || extension == "bin", "{extension:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_mime_type_is_corrected_and_noted() {
    let temporary = tempfile::tempdir().unwrap();
    let page = "PCFkb2N0eXBlIGh0bWw+PHNjcmlwdD4=";
    let script = Script::modern().blob("demo://logo.png", "image/png", page);
    let host = permissive()
        .result_store(DirectoryResultStore::new(temporary.path().join("results")))
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let read = host.read_resource("s", "demo://logo.png").await.unwrap();
    let part = &read.contents[0];
    assert_eq!(part.mime_type.as_deref(), Some("text/html"));
    let saved = part.blob_saved_to.as_ref().unwrap();
    assert_eq!(saved.extension().unwrap(), "txt");
    assert!(
        read.notes[0].contains("declared as image/png"),
        "{:?}",
        read.notes
    );
}

#[tokio::test(start_paused = true)]
async fn hanging_read_blocks_no_other_server() {
    let hanging = Script::legacy()
        .resource("demo://x", "x")
        .on("resources/read", [switchboard_testkit::Step::Hang]);
    let host = host_of([
        ("hanging", hanging),
        ("b", Script::legacy().resource("demo://b", "b")),
    ])
    .await;
    let start_time = tokio::time::Instant::now();
    let (slow, quick) = tokio::join!(host.read_resource("hanging", "demo://x"), async {
        let read = host.read_resource("b", "demo://b").await;
        (read, start_time.elapsed())
    });
    assert!(matches!(slow, Err(QueryError::TimedOut { .. })));
    assert!(quick.0.is_ok() && quick.1 < Duration::from_secs(1));
    assert!(start_time.elapsed() < Duration::from_secs(31));
}
