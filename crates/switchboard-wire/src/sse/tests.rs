use proptest::prelude::*;

use super::*;

/// An item without its memory permit.
#[derive(Clone, Debug, PartialEq)]
enum TestItem {
    Event {
        kind: Option<String>,
        id: Option<String>,
        data: String,
    },
    Retry(u64),
    Discarded(Option<u64>, DiscardReason),
    Unterminated,
}

fn events(limit: usize) -> SseParser {
    SseParser::new(limit, &MemoryBudget::new(1_000_000))
}

fn test_item(item: SseItem) -> TestItem {
    match item {
        SseItem::Event(event) => TestItem::Event {
            kind: event.kind.map(Into::into),
            id: event.id,
            data: String::from_utf8_lossy(&event.data).into_owned(),
        },
        SseItem::Retry(delay) => TestItem::Retry(u64::try_from(delay.as_millis()).unwrap()),
        SseItem::Discarded { id, reason } => TestItem::Discarded(id, reason),
    }
}

fn feed(events: &mut SseParser, pieces: &[&[u8]]) -> Vec<TestItem> {
    let mut found = Vec::new();
    for piece in pieces {
        events.push(Bytes::copy_from_slice(piece));
        loop {
            match events.next_item() {
                Ok(Some(item)) => found.push(test_item(item)),
                Ok(None) => break,
                Err(Unterminated) => {
                    found.push(TestItem::Unterminated);
                    return found;
                }
            }
        }
    }
    found
}

/// Parses the text in one piece, and checks that parsing it byte by byte returns the same items.
fn all(limit: usize, text: impl AsRef<[u8]>) -> Vec<TestItem> {
    let text = text.as_ref();
    let whole = feed(&mut events(limit), &[text]);
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(feed(&mut events(limit), &bytes), whole);
    whole
}

fn event(data: &str) -> TestItem {
    TestItem::Event {
        kind: None,
        id: None,
        data: data.to_owned(),
    }
}

fn of_kind(kind: &str, data: &str) -> TestItem {
    TestItem::Event {
        kind: Some(kind.to_owned()),
        id: None,
        data: data.to_owned(),
    }
}

fn with_id(id: &str, data: &str) -> TestItem {
    TestItem::Event {
        kind: None,
        id: Some(id.to_owned()),
        data: data.to_owned(),
    }
}

#[test]
fn events_are_parsed_as_specified() {
    let table: [(&str, &[TestItem]); 24] = [
        ("data: a\n\n", &[event("a")]),
        ("data:a\n\n", &[event("a")]),
        ("data:  a \n\n", &[event(" a ")]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &[event("a"), event("b")]),
        ("data: a\r\rdata: b\r\r", &[event("a"), event("b")]),
        ("data: a\n\rdata: b\r\n\n", &[event("a"), event("b")]),
        ("data: a\ndata:b\r\ndata\rdata:\n\n", &[event("a\nb\n\n")]),
        ("data\n\n", &[event("")]),
        ("data\n\ndata\ndata\n\ndata:", &[event(""), event("\n")]),
        ("\u{feff}data: a\n\n", &[event("a")]),
        ("\u{feff}\u{feff}data: a\n\n", &[]),
        ("\n\u{feff}data: a\n\n", &[]),
        ("\u{feff}: hello\ndata: a\n\n", &[event("a")]),
        (": hello\n:\n:data: b\ndata: a\n\n", &[event("a")]),
        ("dat: a\ndata : b\nDATA: c\ndatas: d\n data: e\n\n", &[]),
        ("event: x\n\ndata: a\n\n", &[event("a")]),
        (
            "event: x\ndata: a\n\ndata: b\n\n",
            &[of_kind("x", "a"), event("b")],
        ),
        ("data: a\nevent: x\nevent: y\n\n", &[of_kind("y", "a")]),
        ("event: message\ndata: a\n\n", &[event("a")]),
        ("event\ndata: a\n\n", &[event("a")]),
        ("data: {\"a\": \"b: c\"}\n\n", &[event("{\"a\": \"b: c\"}")]),
        ("data: a", &[]),
        ("data: a\n", &[]),
        ("id: 1\ndata: \n\n", &[with_id("1", "")]),
    ];
    for (text, expected) in table {
        assert_eq!(all(100, text), expected, "{text:?}");
    }
}

#[test]
fn last_event_id_is_that_of_complete_events() {
    let table: [(&[u8], Option<&str>); 10] = [
        (b"data: a\n\n", None),
        (b"id: 1\ndata: a\n\n", Some("1")),
        (b"id: 1\n\n", Some("1")),
        (b"id: 1\n\ndata: a\n\n", Some("1")),
        (b"id: 1\n\nid: 2\ndata: a\n", Some("1")),
        (b"id: 1\n\nid\n\n", None),
        (b"id: 1\n\nid: \n\n", None),
        (b"id: 1\n\nid: 2\0\n\n", Some("1")),
        (b"id: 1\nid: 2 3\n\n", Some("2 3")),
        (b"id: \xff\n\n", Some("\u{fffd}")),
    ];
    for (text, expected) in table {
        let mut events = events(100);
        feed(&mut events, &[text]);
        assert_eq!(events.last_event_id(), expected, "{text:?}");
    }
}

#[test]
fn reset_drops_incomplete_event_and_keeps_last_id() {
    let mut events = events(100);
    let first: [&[u8]; 1] = [b"id: 1\ndata: whole\n\nid: 2\nevent: odd\ndata: {\"ha"];
    assert_eq!(feed(&mut events, &first), [with_id("1", "whole")]);
    events.reset_for_resume();
    assert_eq!(events.last_event_id(), Some("1"));
    let resumed: [&[u8]; 1] = [b"id: 2\ndata: again\n\n"];
    assert_eq!(feed(&mut events, &resumed), [with_id("2", "again")]);
    assert_eq!(events.last_event_id(), Some("2"));
}

#[test]
fn too_long_id_is_ignored() {
    for (length, is_kept) in [(MAX_ID_BYTES, true), (MAX_ID_BYTES + 1, false)] {
        let mut events = events(10_000);
        let id = "x".repeat(length);
        let text = format!("id: 1\n\nid: {id}\n\n");
        feed(&mut events, &[text.as_bytes()]);
        let expected = if is_kept { &id } else { "1" };
        assert_eq!(events.last_event_id(), Some(expected));
    }
}

#[test]
fn long_event_type_is_truncated() {
    let kind = format!("message{}", "x".repeat(1_000));
    let found = all(10_000, format!("event: {kind}\ndata: a\n\n"));
    assert_eq!(found, [of_kind(&kind[..=MAX_KIND_BYTES], "a")]);
}

#[test]
fn retry_is_bounded_milliseconds() {
    let max_retry = 60 * 60 * 1000;
    let table: [(&str, &[TestItem]); 9] = [
        ("retry: 500\n", &[TestItem::Retry(500)]),
        ("retry:0\n", &[TestItem::Retry(0)]),
        ("retry: 315360000000\n", &[TestItem::Retry(max_retry)]),
        (
            "retry: 99999999999999999999\n",
            &[TestItem::Retry(max_retry)],
        ),
        ("retry: -1\nretry: +1\nretry: 1.5\nretry: 1s\n", &[]),
        ("retry:  5\nretry: 5 \n", &[]),
        ("retry\nretry:\nretry: \n", &[]),
        ("retry: \u{0661}\n", &[]),
        ("retry: 0000000000000000000000000x\n", &[]),
    ];
    for (text, expected) in table {
        assert_eq!(all(100, text), expected, "{text:?}");
    }
}

#[test]
fn limit_is_the_largest_accepted_event() {
    let too_long = TestItem::Discarded(None, DiscardReason::TooLong);
    assert_eq!(all(3, "data: abc\n\n"), [event("abc")]);
    assert_eq!(all(3, "data: a\ndata:b\n\n"), [event("a\nb")]);
    assert_eq!(
        all(3, "data:abcd\n\ndata:x\n\n"),
        [too_long.clone(), event("x")]
    );
    assert_eq!(all(3, "data:a\ndata:b\ndata\n\n"), [too_long]);
}

#[test]
fn oversized_response_reports_its_id() {
    let response = r#"{"result":{"a":[{"id":9}],"text":"\",\"id\":8"},"jsonrpc":"2.0", "id" : 7 }"#;
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"aaaaaa"}}"#;
    let split = response.replace(',', ",\ndata:");
    for (text, id) in [(response, Some(7)), (&split, Some(7)), (request, None)] {
        let found = all(30, format!("id: 4\ndata: {text}\n\ndata: ok\n\n"));
        assert_eq!(
            found,
            [TestItem::Discarded(id, DiscardReason::TooLong), event("ok")]
        );
    }
}

#[test]
fn event_over_memory_budget_is_discarded() {
    let budget = MemoryBudget::new(200_000);
    let mut other = None;
    assert!(budget.grow(&mut other, 150_000));
    let large = format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(100_000));
    let text = format!("data: {large}\n\ndata: ok\n\n");
    let (one, two) = text.as_bytes().split_at(70_000);
    let mut events = SseParser::new(1_000_000, &budget);
    let found = feed(&mut events, &[one, two]);
    assert_eq!(
        found,
        [
            TestItem::Discarded(Some(7), DiscardReason::OverMemoryBudget),
            event("ok")
        ]
    );
    drop(other);
    let found = feed(&mut events, &[one, two]);
    assert_eq!(found, [event(&large), event("ok")]);
    let mut whole_budget = None;
    assert!(
        budget.grow(&mut whole_budget, 200_000),
        "the budget is free again"
    );
}

#[test]
fn stream_without_line_or_event_end_is_unterminated() {
    for text in ["data: ", ": ", "x", "id: ", "event: ", "", "retry: "] {
        let text = format!("data: a\n\n{text}{}", "x".repeat(1_000));
        assert_eq!(all(10, text), [event("a"), TestItem::Unterminated]);
    }
    assert_eq!(all(10, "data: x\n".repeat(1_000)), [TestItem::Unterminated]);
    assert_eq!(all(10, ": comment\n".repeat(1_000)), []);
}

#[test]
fn many_empty_lines_use_bounded_memory() {
    let mut events = SseParser::new(1_000_000, &MemoryBudget::new(10_000_000));
    let piece = Bytes::from("data\n".repeat(10_000));
    for _ in 0..100 {
        events.push(piece.clone());
        assert!(events.next_item().unwrap().is_none());
        assert!(events.bytes_held() <= 1_000_000);
    }
    events.push(Bytes::from_static(b"\n"));
    let Some(SseItem::Event(event)) = events.next_item().unwrap() else {
        panic!("no event");
    };
    assert_eq!(event.data.len(), 999_999);
}

#[test]
fn single_line_in_one_piece_is_not_copied() {
    let piece = Bytes::from("event: message\ndata: abc\n\n");
    let data_start = piece.as_ptr().wrapping_add("event: message\ndata: ".len());
    let mut events = events(100);
    events.push(piece);
    let Some(SseItem::Event(event)) = events.next_item().unwrap() else {
        panic!("no event");
    };
    assert_eq!(event.data.as_ptr(), data_start);
}

/// A simple reference parser: it has the whole stream and no limits.
fn parse_reference(text: &str) -> Vec<TestItem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    let (mut found, mut kind, mut id, mut data) = (Vec::new(), None, None, None::<Vec<&str>>);
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            _ if line.is_empty() => {
                let (kind, id) = (kind.take(), id.take());
                found.extend(data.take().map(|data| TestItem::Event {
                    kind,
                    id,
                    data: data.join("\n"),
                }));
            }
            "data" => data.get_or_insert_default().push(value),
            "event" => {
                let cut = value.as_bytes().get(..=MAX_KIND_BYTES);
                let shown = String::from_utf8_lossy(cut.unwrap_or(value.as_bytes()));
                kind = Some(shown.into_owned()).filter(|kind| !matches!(&**kind, "" | "message"));
            }
            "id" if !value.contains('\0') => id = Some(value.to_owned()),
            "retry" if value.parse::<u64>().is_ok() => {
                let millis: u64 = value.parse().unwrap();
                found.push(TestItem::Retry(millis.min(60 * 60 * 1000)));
            }
            _ => {}
        }
    }
    found
}

fn stream() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("data"),
        Just("data:"),
        Just("data: "),
        Just("event: "),
        Just("event: message"),
        Just("id: "),
        Just("id"),
        Just("retry: "),
        Just("retry: 90\n"),
        Just("12"),
        Just("x"),
        Just(":"),
        Just(" "),
        Just("a"),
        Just("\u{feff}"),
        Just("\0"),
        Just("\n"),
        Just("\r"),
        Just("\r\n"),
        Just("\n\n"),
        Just("{\"id\":7,\"result\":\"\u{e9}\"}"),
    ];
    prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn events_do_not_depend_on_pieces(
        text in stream(),
        sizes in prop::collection::vec(1_usize..9, 1..9),
        limit in 1_usize..60,
    ) {
        let mut rest = text.as_bytes();
        let mut pieces = Vec::new();
        for size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let whole = feed(&mut events(limit), &[text.as_bytes()]);
        prop_assert_eq!(feed(&mut events(limit), &pieces), whole);
        let unlimited = feed(&mut events(10_000), &pieces);
        prop_assert_eq!(unlimited, parse_reference(&text));
    }
}
