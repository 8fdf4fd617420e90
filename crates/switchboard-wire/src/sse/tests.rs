use proptest::prelude::*;

use super::*;

/// An item without its share of the budget.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Event {
        kind: Option<String>,
        id: Option<String>,
        data: String,
    },
    Retry(u64),
    LetGo(Option<u64>, LetGo),
    Endless,
}

fn events(limit: usize) -> Events {
    Events::new(limit, &Budget::new(1_000_000))
}

fn seen(item: Item) -> Seen {
    match item {
        Item::Event(event) => Seen::Event {
            kind: event.kind.map(Into::into),
            id: event.id,
            data: String::from_utf8_lossy(&event.data).into_owned(),
        },
        Item::Retry(pause) => Seen::Retry(u64::try_from(pause.as_millis()).unwrap()),
        Item::LetGo { id, why } => Seen::LetGo(id, why),
    }
}

fn feed(events: &mut Events, pieces: &[&[u8]]) -> Vec<Seen> {
    let mut found = Vec::new();
    for piece in pieces {
        events.push(Bytes::copy_from_slice(piece));
        loop {
            match events.next_item() {
                Ok(Some(item)) => found.push(seen(item)),
                Ok(None) => break,
                Err(Endless) => {
                    found.push(Seen::Endless);
                    return found;
                }
            }
        }
    }
    found
}

/// What comes out, whole or byte by byte.
fn all(limit: usize, text: impl AsRef<[u8]>) -> Vec<Seen> {
    let text = text.as_ref();
    let whole = feed(&mut events(limit), &[text]);
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(feed(&mut events(limit), &bytes), whole);
    whole
}

fn event(data: &str) -> Seen {
    Seen::Event {
        kind: None,
        id: None,
        data: data.to_owned(),
    }
}

fn of_kind(kind: &str, data: &str) -> Seen {
    Seen::Event {
        kind: Some(kind.to_owned()),
        id: None,
        data: data.to_owned(),
    }
}

fn with_id(id: &str, data: &str) -> Seen {
    Seen::Event {
        kind: None,
        id: Some(id.to_owned()),
        data: data.to_owned(),
    }
}

#[test]
fn events_are_read_by_the_rules_of_the_web() {
    let table: [(&str, &[Seen]); 24] = [
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
fn the_last_id_is_that_of_the_last_event_that_was_complete() {
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
fn half_an_event_is_lost_with_its_stream_and_the_last_id_is_not() {
    let mut events = events(100);
    let begun: [&[u8]; 1] = [b"id: 1\ndata: whole\n\nid: 2\nevent: odd\ndata: {\"ha"];
    assert_eq!(feed(&mut events, &begun), [with_id("1", "whole")]);
    events.begin_anew();
    assert_eq!(events.last_event_id(), Some("1"));
    let resumed: [&[u8]; 1] = [b"id: 2\ndata: again\n\n"];
    assert_eq!(feed(&mut events, &resumed), [with_id("2", "again")]);
    assert_eq!(events.last_event_id(), Some("2"));
}

#[test]
fn an_id_that_is_too_long_is_not_kept() {
    for (length, is_kept) in [(LONGEST_ID, true), (LONGEST_ID + 1, false)] {
        let mut events = events(10_000);
        let id = "x".repeat(length);
        let text = format!("id: 1\n\nid: {id}\n\n");
        feed(&mut events, &[text.as_bytes()]);
        let expected = if is_kept { &id } else { "1" };
        assert_eq!(events.last_event_id(), Some(expected));
    }
}

#[test]
fn a_very_long_kind_is_cut_and_is_no_message() {
    let kind = format!("message{}", "x".repeat(1_000));
    let found = all(10_000, format!("event: {kind}\ndata: a\n\n"));
    assert_eq!(found, [of_kind(&kind[..=LONGEST_KIND], "a")]);
}

#[test]
fn a_pause_is_a_number_of_milliseconds_and_has_a_limit() {
    let an_hour = 60 * 60 * 1000;
    let table: [(&str, &[Seen]); 9] = [
        ("retry: 500\n", &[Seen::Retry(500)]),
        ("retry:0\n", &[Seen::Retry(0)]),
        ("retry: 315360000000\n", &[Seen::Retry(an_hour)]),
        ("retry: 99999999999999999999\n", &[Seen::Retry(an_hour)]),
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
fn an_event_of_exactly_the_limit_passes_and_one_more_byte_does_not() {
    let too_long = Seen::LetGo(None, LetGo::TooLong);
    assert_eq!(all(3, "data: abc\n\n"), [event("abc")]);
    assert_eq!(all(3, "data: a\ndata:b\n\n"), [event("a\nb")]);
    assert_eq!(
        all(3, "data:abcd\n\ndata:x\n\n"),
        [too_long.clone(), event("x")]
    );
    assert_eq!(all(3, "data:a\ndata:b\ndata\n\n"), [too_long]);
}

#[test]
fn an_overlong_answer_is_known_by_its_id_and_the_next_event_comes_through() {
    let answer = r#"{"result":{"a":[{"id":9}],"text":"\",\"id\":8"},"jsonrpc":"2.0", "id" : 7 }"#;
    let request = r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"aaaaaa"}}"#;
    let parts = answer.replace(',', ",\ndata:");
    for (text, id) in [(answer, Some(7)), (&parts, Some(7)), (request, None)] {
        let found = all(30, format!("id: 4\ndata: {text}\n\ndata: ok\n\n"));
        assert_eq!(found, [Seen::LetGo(id, LetGo::TooLong), event("ok")]);
    }
}

#[test]
fn an_event_for_which_there_is_no_room_is_let_go_and_the_next_one_comes_through() {
    let budget = Budget::new(200_000);
    let mut other = None;
    assert!(budget.grow(&mut other, 150_000));
    let large = format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(100_000));
    let text = format!("data: {large}\n\ndata: ok\n\n");
    let (one, two) = text.as_bytes().split_at(70_000);
    let mut events = Events::new(1_000_000, &budget);
    let found = feed(&mut events, &[one, two]);
    assert_eq!(found, [Seen::LetGo(Some(7), LetGo::NoRoom), event("ok")]);
    drop(other);
    let found = feed(&mut events, &[one, two]);
    assert_eq!(found, [event(&large), event("ok")]);
    let mut all_of_it = None;
    assert!(budget.grow(&mut all_of_it, 200_000), "it was given back");
}

#[test]
fn a_stream_that_never_ends_a_line_or_an_event_is_given_up() {
    for text in ["data: ", ": ", "x", "id: ", "event: ", "", "retry: "] {
        let text = format!("data: a\n\n{text}{}", "x".repeat(1_000));
        assert_eq!(all(10, text), [event("a"), Seen::Endless]);
    }
    assert_eq!(all(10, "data: x\n".repeat(1_000)), [Seen::Endless]);
    assert_eq!(all(10, ": comment\n".repeat(1_000)), []);
}

#[test]
fn an_event_of_a_million_lines_takes_no_more_than_its_size() {
    let mut events = Events::new(1_000_000, &Budget::new(10_000_000));
    let piece = Bytes::from("data\n".repeat(10_000));
    for _ in 0..100 {
        events.push(piece.clone());
        assert!(events.next_item().unwrap().is_none());
        assert!(events.bytes_held() <= 1_000_000);
    }
    events.push(Bytes::from_static(b"\n"));
    let Some(Item::Event(event)) = events.next_item().unwrap() else {
        panic!("no event");
    };
    assert_eq!(event.data.len(), 999_999);
}

#[test]
fn what_came_in_one_piece_on_one_line_is_not_copied() {
    let piece = Bytes::from("event: message\ndata: abc\n\n");
    let place = piece.as_ptr().wrapping_add("event: message\ndata: ".len());
    let mut events = events(100);
    events.push(piece);
    let Some(Item::Event(event)) = events.next_item().unwrap() else {
        panic!("no event");
    };
    assert_eq!(event.data.as_ptr(), place);
}

/// A reader that is slow and simple: it has the whole stream, and no limits.
fn slow_reading(text: &str) -> Vec<Seen> {
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
                found.extend(data.take().map(|data| Seen::Event {
                    kind,
                    id,
                    data: data.join("\n"),
                }));
            }
            "data" => data.get_or_insert_default().push(value),
            "event" => {
                let cut = value.as_bytes().get(..=LONGEST_KIND);
                let shown = String::from_utf8_lossy(cut.unwrap_or(value.as_bytes()));
                kind = Some(shown.into_owned()).filter(|kind| !matches!(&**kind, "" | "message"));
            }
            "id" if !value.contains('\0') => id = Some(value.to_owned()),
            "retry" if value.parse::<u64>().is_ok() => {
                let asked: u64 = value.parse().unwrap();
                found.push(Seen::Retry(asked.min(60 * 60 * 1000)));
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
    fn a_stream_has_the_same_events_however_it_is_cut(
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
        prop_assert_eq!(unlimited, slow_reading(&text));
    }
}
