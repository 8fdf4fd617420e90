use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt, AsyncWrite, DuplexStream, duplex};

use super::*;

fn write_queue(writer: impl AsyncWrite + Send + Unpin + 'static) -> WriteQueue {
    WriteQueue::new(
        Box::new(writer),
        1024 * 1024,
        MemoryBudget::new(1024 * 1024),
    )
}

fn line(number: u64) -> Vec<u8> {
    format!("line {number}\n").into_bytes()
}

/// Enqueues lines with 64 requests in flight, so that they are queued and not written directly.
fn enqueue_concurrently(queue: &WriteQueue, numbers: Range<u64>) {
    for number in numbers {
        queue.enqueue(Some(number), line(number), 64).unwrap();
    }
}

/// Waits until the pipe holds bytes, and reads them.
async fn read_some(reader: &mut DuplexStream) -> String {
    let mut read = vec![0; 64 * 1024];
    let count = reader.read(&mut read).await.unwrap();
    String::from_utf8(read[..count].to_vec()).unwrap()
}

fn lines(numbers: Range<u64>) -> String {
    let lines: Vec<_> = numbers.map(line).collect();
    String::from_utf8(lines.concat()).unwrap()
}

const MANY: u64 = 64;

#[tokio::test]
async fn single_request_is_written_directly() {
    let (writer, mut reader) = duplex(64 * 1024);
    let queue = write_queue(writer);
    queue.enqueue(Some(0), line(0), 1).unwrap();
    // The writer task does not run in this test, so `enqueue` must have written the line.
    assert_eq!(read_some(&mut reader).await, lines(0..1));
}

#[tokio::test]
async fn concurrent_requests_are_written_together() {
    let writes = Arc::new(AtomicUsize::new(0));
    let queue = write_queue(CountingSink(Arc::clone(&writes)));
    let enqueue = async {
        enqueue_concurrently(&queue, 0..MANY);
        while !lock(&queue.state).queue.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        failed = queue.run() => panic!("{failed:?}"),
        () = enqueue => {}
    }
    assert_eq!(writes.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn lines_keep_their_order_when_the_pipe_is_small() {
    for capacity in [1, 7, 8, 50, 100] {
        let (writer, mut reader) = duplex(capacity);
        let queue = write_queue(writer);
        let all = 3 * MANY + 5;
        enqueue_concurrently(&queue, 0..all);
        let mut read = String::new();
        tokio::select! {
            failed = queue.run() => panic!("{failed:?}"),
            () = async {
                while read.len() < lines(0..all).len() {
                    read += &read_some(&mut reader).await;
                }
            } => {}
        }
        assert_eq!(read, lines(0..all), "capacity {capacity}");
    }
}

#[tokio::test]
async fn partly_written_line_cannot_be_cancelled() {
    // The pipe has room for the first line and a part of the second.
    let (writer, _reader) = duplex(10);
    let queue = write_queue(writer);
    queue.enqueue(Some(0), line(0), 1).unwrap();
    queue.enqueue(Some(1), line(1), 1).unwrap();
    enqueue_concurrently(&queue, 2..MANY);
    assert!(!queue.cancel_unsent(0) && !queue.cancel_unsent(1));
    assert!(queue.cancel_unsent(2) && queue.cancel_unsent(MANY - 1));
}

#[tokio::test]
async fn cancelled_line_does_not_hold_back_the_others() {
    let (writer, mut reader) = duplex(64 * 1024);
    let queue = write_queue(writer);
    enqueue_concurrently(&queue, 0..3);
    tokio::select! {
        biased;
        failed = queue.run() => panic!("{failed:?}"),
        // Runs when the writer task yields before its first write.
        () = async {
            assert!(queue.cancel_unsent(1));
            let remaining = [line(0), line(2)].concat();
            assert_eq!(read_some(&mut reader).await.as_bytes(), remaining);
        } => {}
    }
}

/// A writer that accepts every write and counts the writes.
struct CountingSink(Arc<AtomicUsize>);

impl AsyncWrite for CountingSink {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A writer that fails every write.
struct BrokenPipe;

impl AsyncWrite for BrokenPipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn broken_pipe_reports_unstarted_requests_as_not_sent() {
    let queue = write_queue(BrokenPipe);
    enqueue_concurrently(&queue, 0..MANY);
    let failed = queue.run().await.unwrap();
    assert_eq!(failed.not_sent, (0..MANY).collect::<Vec<_>>());
    let refused = queue.enqueue(Some(MANY), line(MANY), 2);
    assert_eq!(refused, Err(EnqueueError::Closed(failed.error)));
}
