use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::encode;
use crate::limits::Limits;
use crate::mcp::ErrorObject;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn message(line: &[u8]) -> Message<'_> {
    match parse_line(line, Limits::default().json_budget()) {
        ParsedLine::Message(message) => message,
        other => panic!("{other:?} from {}", text(line)),
    }
}

fn result_of(line: &str) -> (&[u8], ObjectIndex) {
    match message(line.as_bytes()) {
        Message::Response {
            outcome: Outcome::Result(text, index),
            ..
        } => (text, index),
        other => panic!("{other:?} from {line}"),
    }
}

fn invalid(line: &[u8]) -> (Option<u64>, String) {
    match parse_line(line, Limits::default().json_budget()) {
        ParsedLine::Invalid { id, problem } => (id, problem.to_string()),
        other => panic!("{other:?} from {line:?}"),
    }
}

fn is_noise(line: &[u8]) -> bool {
    matches!(
        parse_line(line, Limits::default().json_budget()),
        ParsedLine::Noise
    )
}

#[test]
fn response_has_id_and_result() {
    for line in [
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":[1,{}]}}"#,
        r#"{"result":{"a":[1,{}]},"jsonrpc":"2.0","id":3}"#,
        "\u{feff} { \"id\" : 3 , \"result\" : {\"a\":[1,{}]} , \"x\":\"}\\\"\" }\r",
        r#"{"jsonrpc":"2.0","\u0069d":3,"result":{"a":[1,{}]}}"#,
    ] {
        let Message::Response { id, outcome } = message(line.as_bytes()) else {
            panic!("{line} is not a response");
        };
        let Outcome::Result(result, index) = outcome else {
            panic!("{line} has no result");
        };
        assert_eq!(
            (id, text(result)),
            (ResponseId::Number(3), r#"{"a":[1,{}]}"#)
        );
        assert!(index.is_valid_json, "{line}");
    }
}

#[test]
fn members_are_found_with_and_without_index() {
    let keys = |lengths: &[usize]| -> Vec<_> {
        let letters = 'a'..='z';
        let key = |(letter, length): (char, &usize)| letter.to_string().repeat(*length);
        letters.zip(lengths).map(key).collect()
    };
    for keys in [
        keys(&[1]),
        keys(&[1, 255, 2]),
        keys(&[1, 256, 2]),
        keys(&[1; 6]),
        keys(&[1; 7]),
        keys(&[0, 1]),
        vec!["a".to_owned(), "\\n".to_owned()],
    ] {
        let members: Vec<_> = keys.iter().map(|key| format!(r#""{key}":[0]"#)).collect();
        let result = format!("{{{}}}", members.join(" , "));
        let line = format!(r#"{{"id":3,"result":{result}}}"#);
        let (text, index) = result_of(&line);
        let raw = RawResult::new(Bytes::copy_from_slice(text), index, None);
        let mut found = Vec::new();
        let visit = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
        raw.members(visit).unwrap();
        let expected = keys.iter().map(|key| key.replace("\\n", "\n"));
        let expected = expected.map(|key| (key.into_bytes(), b"[0]".to_vec()));
        assert_eq!(found, expected.collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn invalid_json_in_result_is_recorded() {
    for result in [
        "{\"a\":01}",
        "{\"a\":NaN}",
        "{\"a\":[1 2]}",
        "{\"a\":\"\t\"}",
        "{\"a\t\":1}",
        "[\"\\x\"]",
    ] {
        let line = format!(r#"{{"id":3,"result":{result}}}"#);
        let (text, index) = result_of(&line);
        assert_eq!((text, index.is_valid_json), (result.as_bytes(), false));
    }
}

#[test]
fn only_canonical_integer_is_response_number() {
    for (token, expected) in [
        ("1", ResponseId::Number(1)),
        ("18446744073709551615", ResponseId::Number(u64::MAX)),
        ("184467440737095516160", ResponseId::Unknown),
        ("1.0", ResponseId::Unknown),
        ("01", ResponseId::Unknown),
        ("-1", ResponseId::Unknown),
        ("\"1\"", ResponseId::Unknown),
        ("null", ResponseId::Null),
        ("true", ResponseId::Unknown),
    ] {
        assert_eq!(ResponseId::parse(token.as_bytes()), expected, "{token}");
    }
}

#[test]
fn request_id_is_kept_as_written() {
    for id in ["7", "\"a\\u0041\"", "-3", "12345678901234567890123"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        match message(line.as_bytes()) {
            Message::Request {
                id: kept_id,
                method,
                params: None,
            } => {
                assert_eq!((kept_id.as_json(), &*method), (id, "ping"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn invalid_message_has_id_and_reason() {
    for (line, id, problem) in [
        (
            r#"{"jsonrpc":"2.0","id":4,"result":{},"error":{}}"#,
            Some(4),
            "both `result` and `error`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4}"#,
            Some(4),
            "neither `result` nor `error`",
        ),
        (r#"{"jsonrpc":"2.0"}"#, None, "neither `method` nor `id`"),
        (
            r#"{"jsonrpc":"2.0","id":4,"id":5,"result":{}}"#,
            Some(5),
            "duplicate key `id`",
        ),
        (
            r#"{"jsonrpc":"1.0","id":4,"result":{}}"#,
            Some(4),
            "`jsonrpc` is not \"2.0\"",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"result":{"#,
            Some(4),
            "not valid JSON",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"result":{]}}"#,
            Some(4),
            "not valid JSON",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"result":{}} trailing"#,
            Some(4),
            "not valid JSON",
        ),
        (
            r#"{"jsonrpc":"2.0","method":7}"#,
            None,
            "`method` is not a string",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"a","id":1.5}"#,
            None,
            "the id of a request must be an integer or a string",
        ),
    ] {
        assert_eq!(invalid(line.as_bytes()), (id, problem.to_owned()), "{line}");
    }
}

#[test]
fn other_output_is_noise() {
    for line in [
        "",
        "   ",
        "Server listening…",
        "\0",
        r#"{"level":"info","msg":"ready"}"#,
        "{not json",
        "[2024-01-01] INFO ready",
        "\"text\"",
        "42",
    ] {
        assert!(is_noise(line.as_bytes()), "{line:?}");
    }
    assert!(is_noise(b"\xff\xfe{"));
}

#[test]
fn batch_is_split_into_messages() {
    let line = br#"[{"jsonrpc":"2.0","id":1,"result":{}} , {"jsonrpc":"2.0","method":"a"}]"#;
    match parse_line(line, Limits::default().json_budget()) {
        ParsedLine::Batch(messages) => assert_eq!(
            messages.into_iter().map(text).collect::<Vec<_>>(),
            [
                r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
                r#"{"jsonrpc":"2.0","method":"a"}"#
            ]
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn message_over_budget_has_its_request_id() {
    let limits = Limits {
        json_nodes: 10,
        ..Limits::default()
    };
    let wide = r#"{"result":[0,0,0,0,0,0,0,0,0,0,0],"jsonrpc":"2.0","id":6}"#;
    match parse_line(wide.as_bytes(), limits.json_budget()) {
        ParsedLine::Invalid {
            id: Some(6),
            problem: InvalidMessage::TooManyValues { limit: 10 },
        } => {}
        other => panic!("{other:?}"),
    }
    let deep = format!(
        r#"{{"result":{}{},"id":6}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    match parse_line(deep.as_bytes(), Limits::default().json_budget()) {
        ParsedLine::Invalid {
            id: Some(6),
            problem: InvalidMessage::TooDeep { limit: 128 },
        } => {}
        other => panic!("{other:?}"),
    }
}

proptest::proptest! {
    #[test]
    fn parsing_never_panics(line: Vec<u8>) {
        parse_line(&line, Limits::default().json_budget());
    }

    #[test]
    fn serialized_response_is_parsed_back(
        id in 0u64..u64::MAX,
        keys in proptest::collection::vec(".*", 0..5),
        spaced: bool,
    ) {
        let result = serde_json::json!({ "keys": keys, "nested": [[{"a": keys}], null, 1.5e3] });
        let whole = serde_json::json!({ "jsonrpc": "2.0", "result": result, "id": id });
        let line = if spaced {
            serde_json::to_string_pretty(&whole).unwrap().replace('\n', " ")
        } else {
            whole.to_string()
        };
        match message(line.as_bytes()) {
            Message::Response { id: ResponseId::Number(parsed), outcome: Outcome::Result(span, _) } => {
                proptest::prop_assert_eq!(parsed, id);
                let back: serde_json::Value = serde_json::from_slice(span).unwrap();
                proptest::prop_assert_eq!(back, result);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn error_response_is_one_line() {
    let mut error = ErrorObject::new(ErrorObject::INTERNAL, "first\nsecond");
    let data = "{\r\n  \"key\": \"a\\nb\"\n}";
    error.data = Some(data.parse().unwrap());
    let line = encode::response(&RequestId::parse(b"1").unwrap(), Err(&error));
    let line = std::str::from_utf8(&line).unwrap();
    assert_eq!(line.matches(['\n', '\r']).count(), 1, "{line:?}");
    let sent: Value = serde_json::from_str(line).unwrap();
    assert_eq!(sent["error"]["data"], json!({"key": "a\nb"}));
}
