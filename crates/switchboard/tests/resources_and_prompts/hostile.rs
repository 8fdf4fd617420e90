//! Group R: addresses, names and types that mean harm.

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
async fn r1_an_address_is_for_its_server_alone_whatever_it_says() {
    let addresses = [
        "file:///../../etc/passwd",
        "file:///%2e%2e/%2e%2e/etc/passwd",
        "file:///etc/passwd%00.txt",
        "http://169.254.169.254/latest/meta-data",
        "other:demo://x",
        r"\\host\share\CON",
        "demo://x\u{202e}",
    ];
    let (host, server) = host_with(Script::legacy().resource("demo://x", "x")).await;
    for uri in addresses {
        let error = host.read_resource_raw("s", uri).await.unwrap_err();
        assert!(error.is_not_found(), "{uri}: {error}");
    }
    // To the letter: nothing is resolved, decoded or fetched here.
    let asked = server.received_with("resources/read");
    let asked: Vec<_> = asked.iter().map(|asked| &asked["params"]["uri"]).collect();
    assert_eq!(asked, addresses.map(Value::from).iter().collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn r1_what_can_be_no_address_is_not_sent() {
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
async fn r5_an_address_of_a_mebibyte_is_neither_sent_nor_listed_to_anybodys_harm() {
    let long = format!("demo://{}", "x".repeat(1024 * 1024));
    let script = Script::legacy()
        .resource(&long, "x")
        .resource("demo://short", "y");
    let (host, server) = host_with(script).await;
    let error = host.read_resource_raw("s", &long).await.unwrap_err();
    assert!(matches!(error, QueryError::InvalidUri(_)), "{error}");
    assert!(server.received_with("resources/read").is_empty());
    let offer = host.resources(None).await.unwrap();
    assert!((offer.items.iter()).any(|resource| resource.item.uri == "demo://short"));
}

#[tokio::test(start_paused = true)]
async fn r6_a_server_is_not_asked_for_what_another_has() {
    let host = host_of([
        ("a", Script::legacy().resource("demo://a", "of a")),
        ("b", Script::legacy().resource("demo://b", "of b")),
    ])
    .await;
    assert!(host.read_resource_raw("a", "demo://a").await.is_ok());
    assert!(host.read_resource_raw("b", "demo://a").await.is_err());
}

/// Whatever is not below `folder/results`, and what is.
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
async fn r3_r4_no_name_of_a_server_reaches_the_disk() {
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
async fn r7_a_lie_about_bytes_is_noted_and_not_believed() {
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
        read.notes[0].contains("said to be image/png"),
        "{:?}",
        read.notes
    );
}

#[tokio::test(start_paused = true)]
async fn r8_a_read_that_never_comes_holds_up_nobody_else() {
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
