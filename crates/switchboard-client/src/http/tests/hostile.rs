//! Malformed, oversized and endless responses; gzip.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::{BodyError, HttpErrorKind};
use super::*;
use crate::delivery::Delivery;

/// Sends one request to a server that responds with the bytes `raw` and returns the error.
async fn error_for(raw: impl Into<Vec<u8>>) -> HttpError {
    let server = Server::responding(raw).await;
    expect_error(&server.client(), post("x")).await
}

#[tokio::test]
async fn oversized_response_heads_are_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n", "x".repeat(10 << 20));
    let many = "X-Many: x\r\n".repeat(10_000);
    let some = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100 << 10));
    for raw in [long, format!("HTTP/1.1 200 OK\r\n{many}\r\n"), some] {
        let error = error_for(raw).await;
        assert_eq!(error.delivery, Delivery::Unknown);
        assert!(
            matches!(error.kind, HttpErrorKind::InvalidResponse { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn malformed_responses_are_refused() {
    for raw in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ] {
        let error = error_for(raw).await;
        assert_eq!(error.delivery, Delivery::Unknown, "{raw:?}");
        assert!(
            matches!(error.kind, HttpErrorKind::InvalidResponse { .. }),
            "{raw:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn surplus_bytes_are_not_taken_for_next_response() {
    let raw = format!("{}{}", ok("first"), ok("forged"));
    let server = Server::responding(raw).await;
    let client = server.client();
    for _ in 0..5 {
        if let Ok(response) = client.send(post("x")).await {
            assert_eq!(read_text(response).await, "first");
        }
    }
}

#[tokio::test]
async fn truncated_body_is_an_error() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\nshort")
            .await;
    })
    .await;
    let mut response = server.client().send(post("x")).await.unwrap();
    let outcome = response
        .body
        .collect(LIMIT, &MemoryBudget::new(LIMIT))
        .await;
    let Err(BodyError::Http(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        matches!(error.kind, HttpErrorKind::IncompleteResponse { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn content_length_over_limit_is_refused_at_once() {
    let server = Server::responding("HTTP/1.1 200 OK\r\nContent-Length: 4194305\r\n\r\n").await;
    let client = server.client();
    let mut response = client.send(post("x")).await.unwrap();
    let outcome = response
        .body
        .collect(LIMIT, &MemoryBudget::new(LIMIT))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::TooLong { limit: LIMIT })),
        "{outcome:?}"
    );
    assert!(response.body.has_released_connection() && client.0.pool.len() == 0);
}

#[tokio::test]
async fn endless_body_is_closed_at_limit() {
    let (closed, is_closed) = tokio::sync::oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await;
            let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
            let mut written = 0;
            while peer.stream.write_all(chunk.as_bytes()).await.is_ok() {
                written += 0x1000;
            }
            closed.unwrap().send(written).unwrap();
        }
    })
    .await;
    let mut response = server.client().send(post("x")).await.unwrap();
    let outcome = response
        .body
        .collect(LIMIT, &MemoryBudget::new(2 * LIMIT))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::TooLong { .. })),
        "{outcome:?}"
    );
    let written = is_closed.await.unwrap();
    // More than `LIMIT` bytes may be written, because socket buffers hold bytes that the client
    // never reads. Without a limit, the client would never close the connection.
    assert!(written < 16 * LIMIT, "{written} bytes");
}

#[tokio::test]
async fn body_over_memory_budget_is_refused() {
    let server = Server::responding(ok(&"x".repeat(500_000))).await;
    let mut response = server.client().send(post("x")).await.unwrap();
    let outcome = response
        .body
        .collect(LIMIT, &MemoryBudget::new(200_000))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::NoRoom { limit: 200_000 })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn memory_budget_is_returned_with_body() {
    let server = Server::responding(ok(&"x".repeat(500_000))).await;
    let budget = MemoryBudget::new(600_000);
    let client = server.client();
    for _ in 0..3 {
        let mut response = client.send(post("x")).await.unwrap();
        let (body, permit) = response.body.collect(LIMIT, &budget).await.unwrap();
        assert!(permit.is_some() && body.len() == 500_000);
        assert!(!budget.has_room(None, 200_000));
    }
    assert!(budget.has_room(None, 600_000));
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn multi_member_gzip_is_decoded() {
    let large = "lorem ipsum ".repeat(50_000);
    let parts = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
    for (body, plain) in [
        (gzip(b"hello"), "hello"),
        (gzip(large.as_bytes()), large.as_str()),
        (parts, "one two"),
        (gzip(b""), ""),
        (Vec::new(), ""),
    ] {
        let server = Server::responding(encoded("gzip", &body)).await;
        let client = server.client();
        for _ in 0..2 {
            assert!(read_text(client.send(post("x")).await.unwrap()).await == plain);
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn gzip_is_decoded_incrementally() {
    let (first_read, is_first_read) = tokio::sync::oneshot::channel::<()>();
    let is_first_read = Mutex::new(Some(is_first_read));
    let server = Server::start(move |mut peer, _| {
        let is_first_read = lock(&is_first_read).take();
        async move {
            peer.request().await;
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(b"first").unwrap();
            encoder.flush().unwrap();
            peer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
                .await;
            for byte in encoder.get_ref() {
                peer.write(&[*byte]).await;
            }
            let sent = encoder.get_ref().len();
            is_first_read.unwrap().await.unwrap();
            encoder.write_all(b"second").unwrap();
            let whole = encoder.finish().unwrap();
            peer.write(&whole[sent..]).await;
        }
    })
    .await;
    let mut response = server.client().send(post("x")).await.unwrap();
    let mut plain = Vec::new();
    while plain != b"first" {
        plain.extend(response.body.chunk().await.unwrap().unwrap());
    }
    first_read.send(()).unwrap();
    while let Some(chunk) = response.body.chunk().await.unwrap() {
        plain.extend(chunk);
    }
    assert_eq!(plain, b"firstsecond");
}

#[tokio::test]
async fn gzip_bomb_is_refused_at_decoded_limit() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let server = Server::responding(encoded("gzip", &bomb)).await;
    let client = server.client();
    let mut response = client.send(post("x")).await.unwrap();
    let outcome = response
        .body
        .collect(LIMIT, &MemoryBudget::new(2 * LIMIT))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::TooLong { .. })),
        "{outcome:?}"
    );

    let mut response = client.send(post("x")).await.unwrap();
    let mut largest = 0;
    while let Some(chunk) = response.body.chunk().await.unwrap() {
        largest = largest.max(chunk.len());
    }
    assert!(largest <= 128 * 1024, "a chunk of {largest} bytes");
}

#[tokio::test]
async fn corrupt_gzip_is_an_error() {
    let whole = gzip("lorem ipsum ".repeat(100).as_bytes());
    let mut wrong_checksum = whole.clone();
    let checksum = wrong_checksum.len() - 6;
    wrong_checksum[checksum] ^= 1;
    let garbage = [whole.as_slice(), b"garbage"].concat();
    let truncated = whole[..whole.len() - 9].to_vec();
    for body in [
        truncated,
        wrong_checksum,
        b"not gzip at all".to_vec(),
        garbage,
    ] {
        let error = error_for(encoded("gzip", &body)).await;
        assert!(
            matches!(error.kind, HttpErrorKind::CorruptGzip { .. }),
            "{error:?}"
        );
        assert_eq!(error.delivery, Delivery::Unknown);
    }
}

#[tokio::test]
async fn unsupported_encoding_fails_body_but_not_status() {
    for encoding in ["br", "zstd", "gzip, gzip", "deflate"] {
        let server = Server::responding(encoded(encoding, b"whatever")).await;
        let mut response = server.client().send(post("x")).await.unwrap();
        assert_eq!(response.status, 200);
        let error = response.body.chunk().await.unwrap_err();
        assert!(error.to_string().contains(encoding), "{error}");
    }
}
