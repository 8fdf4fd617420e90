//! Servers that lie, flood and never end.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::{BodyError, HttpErrorKind};
use super::*;
use crate::delivery::Delivery;

async fn failure_of(answer: impl Into<Vec<u8>>) -> HttpError {
    let server = Server::answering(answer).await;
    failure(&server.client(), post("x")).await
}

#[tokio::test]
async fn heads_without_end_are_given_up() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n", "x".repeat(10 << 20));
    let many = "X-Many: x\r\n".repeat(10_000);
    let some = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(100 << 10));
    for answer in [long, format!("HTTP/1.1 200 OK\r\n{many}\r\n"), some] {
        let error = failure_of(answer).await;
        assert_eq!(error.delivery, Delivery::Unknown);
        assert!(
            matches!(error.kind, HttpErrorKind::Malformed { .. }),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn what_is_not_http_is_said_to_be() {
    for answer in [
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    ] {
        let error = failure_of(answer).await;
        assert_eq!(error.delivery, Delivery::Unknown, "{answer:?}");
        assert!(
            matches!(error.kind, HttpErrorKind::Malformed { .. }),
            "{answer:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn more_than_was_announced_is_not_taken_for_the_next_answer() {
    let answer = format!("{}{}", ok("first"), ok("forged"));
    let server = Server::answering(answer).await;
    let client = server.client();
    for _ in 0..5 {
        if let Ok(incoming) = client.send(post("x")).await {
            assert_eq!(text(incoming).await, "first");
        }
    }
}

#[tokio::test]
async fn less_than_was_announced_is_no_answer() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\nshort")
            .await;
    })
    .await;
    let mut incoming = server.client().send(post("x")).await.unwrap();
    let outcome = incoming
        .body
        .collect(LIMIT, &MemoryBudget::new(LIMIT))
        .await;
    let Err(BodyError::Http(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(matches!(error.kind, HttpErrorKind::Cut { .. }), "{error:?}");
}

#[tokio::test]
async fn a_length_over_the_limit_is_refused_before_anything_is_read() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 4194305\r\n\r\n").await;
    let client = server.client();
    let mut incoming = client.send(post("x")).await.unwrap();
    let outcome = incoming
        .body
        .collect(LIMIT, &MemoryBudget::new(LIMIT))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::TooLong { limit: LIMIT })),
        "{outcome:?}"
    );
    assert!(incoming.body.is_done() && client.0.pool.len() == 0);
}

#[tokio::test]
async fn an_endless_body_is_given_up_at_the_limit() {
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
    let mut incoming = server.client().send(post("x")).await.unwrap();
    let outcome = incoming
        .body
        .collect(LIMIT, &MemoryBudget::new(2 * LIMIT))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::TooLong { .. })),
        "{outcome:?}"
    );
    let written = is_closed.await.unwrap();
    // What the kernel holds for both sides is not ours; a client that went on reading would never
    // get here.
    assert!(
        written < 16 * LIMIT,
        "{written} bytes went into buffers on the way"
    );
}

#[tokio::test]
async fn an_answer_for_which_there_is_no_room_says_so() {
    let server = Server::answering(ok(&"x".repeat(500_000))).await;
    let mut incoming = server.client().send(post("x")).await.unwrap();
    let outcome = incoming
        .body
        .collect(LIMIT, &MemoryBudget::new(200_000))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::NoRoom { limit: 200_000 })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn what_is_held_is_given_back_with_the_body() {
    let server = Server::answering(ok(&"x".repeat(500_000))).await;
    let budget = MemoryBudget::new(600_000);
    let client = server.client();
    for _ in 0..3 {
        let mut incoming = client.send(post("x")).await.unwrap();
        let (body, held) = incoming.body.collect(LIMIT, &budget).await.unwrap();
        assert!(held.is_some() && body.len() == 500_000);
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
async fn gzip_is_undone_of_several_parts_too() {
    let large = "lorem ipsum ".repeat(50_000);
    let parts = [gzip(b"one "), gzip(b""), gzip(b"two")].concat();
    for (body, plain) in [
        (gzip(b"hello"), "hello"),
        (gzip(large.as_bytes()), large.as_str()),
        (parts, "one two"),
        (gzip(b""), ""),
        (Vec::new(), ""),
    ] {
        let server = Server::answering(encoded("gzip", &body)).await;
        let client = server.client();
        for _ in 0..2 {
            assert!(text(client.send(post("x")).await.unwrap()).await == plain);
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn gzip_comes_through_as_it_arrives() {
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let gone = Mutex::new(Some(gone));
    let server = Server::start(move |mut peer, _| {
        let gone = lock(&gone).take();
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
            gone.unwrap().await.unwrap();
            encoder.write_all(b"second").unwrap();
            let whole = encoder.finish().unwrap();
            peer.write(&whole[sent..]).await;
        }
    })
    .await;
    let mut incoming = server.client().send(post("x")).await.unwrap();
    let mut plain = Vec::new();
    while plain != b"first" {
        plain.extend(incoming.body.chunk().await.unwrap().unwrap());
    }
    go.send(()).unwrap();
    while let Some(chunk) = incoming.body.chunk().await.unwrap() {
        plain.extend(chunk);
    }
    assert_eq!(plain, b"firstsecond");
}

#[tokio::test]
async fn a_gzip_bomb_meets_the_limit_on_what_it_inflates_to() {
    let bomb = gzip(&vec![0; 64 << 20]);
    assert!(bomb.len() < 100_000);
    let server = Server::answering(encoded("gzip", &bomb)).await;
    let client = server.client();
    let mut incoming = client.send(post("x")).await.unwrap();
    let outcome = incoming
        .body
        .collect(LIMIT, &MemoryBudget::new(2 * LIMIT))
        .await;
    assert!(
        matches!(outcome, Err(BodyError::TooLong { .. })),
        "{outcome:?}"
    );

    let mut incoming = client.send(post("x")).await.unwrap();
    let mut largest = 0;
    while let Some(chunk) = incoming.body.chunk().await.unwrap() {
        largest = largest.max(chunk.len());
    }
    assert!(largest <= 128 * 1024, "a piece of {largest} bytes");
}

#[tokio::test]
async fn damaged_gzip_is_no_answer() {
    let whole = gzip("lorem ipsum ".repeat(100).as_bytes());
    let mut wrong_sum = whole.clone();
    let sum = wrong_sum.len() - 6;
    wrong_sum[sum] ^= 1;
    let garbage = [whole.as_slice(), b"garbage"].concat();
    let cut = whole[..whole.len() - 9].to_vec();
    for body in [cut, wrong_sum, b"not gzip at all".to_vec(), garbage] {
        let error = failure_of(encoded("gzip", &body)).await;
        assert!(
            matches!(error.kind, HttpErrorKind::Gzip { .. }),
            "{error:?}"
        );
        assert_eq!(error.delivery, Delivery::Unknown);
    }
}

#[tokio::test]
async fn an_encoding_that_was_not_asked_for_is_no_answer_but_the_status_is_known() {
    for encoding in ["br", "zstd", "gzip, gzip", "deflate"] {
        let server = Server::answering(encoded(encoding, b"whatever")).await;
        let mut incoming = server.client().send(post("x")).await.unwrap();
        assert_eq!(incoming.status, 200);
        let error = incoming.body.chunk().await.unwrap_err();
        assert!(error.to_string().contains(encoding), "{error}");
    }
}
