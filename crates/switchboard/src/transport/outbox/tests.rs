use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncReadExt, AsyncWrite, DuplexStream, duplex};

use super::*;

fn outbox(writer: impl AsyncWrite + Send + Unpin + 'static) -> Outbox {
    Outbox::new(Box::new(writer), 1024 * 1024, Budget::new(1024 * 1024))
}

fn line(number: u64) -> Vec<u8> {
    format!("line {number}\n").into_bytes()
}

/// Submits lines, with so many under way that all of `ENOUGH` are a company.
fn submit_in_company(outbox: &Outbox, numbers: Range<u64>) {
    submit_with(outbox, 2 * *COMPANY.end(), numbers);
}

fn submit_with(outbox: &Outbox, under_way: usize, numbers: Range<u64>) {
    for number in numbers {
        let id = Some(number);
        outbox.submit(id, line(number), under_way).unwrap();
    }
}

/// What there is to read without anybody else doing anything.
async fn read_some(reader: &mut DuplexStream) -> String {
    let mut read = vec![0; 64 * 1024];
    let count = reader.read(&mut read).await.unwrap();
    String::from_utf8(read[..count].to_vec()).unwrap()
}

fn lines(numbers: Range<u64>) -> String {
    let lines: Vec<_> = numbers.map(line).collect();
    String::from_utf8(lines.concat()).unwrap()
}

const ENOUGH: u64 = *COMPANY.end() as u64;

#[tokio::test]
async fn whoever_completes_the_company_writes_for_all() {
    let (writer, mut reader) = duplex(64 * 1024);
    let outbox = outbox(writer);
    submit_in_company(&outbox, 0..ENOUGH);
    // Nobody runs the writing task.
    assert_eq!(read_some(&mut reader).await, lines(0..ENOUGH));
}

#[tokio::test]
async fn half_of_those_under_way_are_a_company() {
    let (writer, mut reader) = duplex(64 * 1024);
    let outbox = outbox(writer);
    submit_with(&outbox, 40, 0..20);
    assert_eq!(read_some(&mut reader).await, lines(0..20));
    // That fewer wait for an answer just then changes little.
    submit_with(&outbox, 20, 0..20);
    assert_eq!(read_some(&mut reader).await, lines(0..20));
}

#[tokio::test]
async fn what_does_not_fit_is_written_later_and_in_order() {
    for room in [1, 7, 8, 50, 100] {
        let (writer, mut reader) = duplex(room);
        let outbox = outbox(writer);
        let all = 3 * ENOUGH + 5;
        submit_in_company(&outbox, 0..all);
        let mut read = String::new();
        tokio::select! {
            broken = outbox.run() => panic!("{broken:?}"),
            () = async {
                while read.len() < lines(0..all).len() {
                    read += &read_some(&mut reader).await;
                }
            } => {}
        }
        assert_eq!(read, lines(0..all), "room for {room} bytes");
    }
}

#[tokio::test]
async fn a_line_that_was_not_begun_can_still_be_taken_back() {
    // The first line and a part of the second.
    let (writer, _reader) = duplex(10);
    let outbox = outbox(writer);
    submit_in_company(&outbox, 0..ENOUGH);
    assert!(!outbox.withdraw(0) && !outbox.withdraw(1));
    assert!(outbox.withdraw(2) && outbox.withdraw(ENOUGH - 1));
}

#[tokio::test]
async fn what_is_left_is_written_when_one_is_taken_back_meanwhile() {
    let (writer, mut reader) = duplex(64 * 1024);
    let outbox = outbox(writer);
    submit_with(&outbox, 3, 0..3);
    tokio::select! {
        biased;
        broken = outbox.run() => panic!("{broken:?}"),
        // While the task that writes waits for others to join.
        () = async {
            assert!(outbox.withdraw(1));
            let left = [line(0), line(2)].concat();
            assert_eq!(read_some(&mut reader).await.as_bytes(), left);
        } => {}
    }
}

/// Takes nothing.
struct Gone;

impl AsyncWrite for Gone {
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
async fn when_the_company_meets_a_broken_pipe_none_of_it_was_sent() {
    let outbox = outbox(Gone);
    submit_in_company(&outbox, 0..ENOUGH);
    let broken = outbox.run().await.unwrap();
    assert_eq!(broken.not_sent, (0..ENOUGH).collect::<Vec<_>>());
    let refused = outbox.submit(Some(ENOUGH), line(ENOUGH), 2);
    assert_eq!(refused, Err(Refused::Broken(broken.error)));
}
