use super::*;
use crate::limits::Limits;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn message(line: &[u8]) -> Message<'_> {
    match read(line, Limits::default().json_budget()) {
        Received::Message(message) => message,
        other => panic!("{other:?} from {}", text(line)),
    }
}

fn result_of(line: &str) -> (&[u8], Shape) {
    match message(line.as_bytes()) {
        Message::Answer {
            outcome: Outcome::Result(text, shape),
            ..
        } => (text, shape),
        other => panic!("{other:?} from {line}"),
    }
}

fn broken(line: &[u8]) -> (Option<u64>, String) {
    match read(line, Limits::default().json_budget()) {
        Received::Broken { id, problem } => (id, problem.to_string()),
        other => panic!("{other:?} from {line:?}"),
    }
}

fn is_noise(line: &[u8]) -> bool {
    matches!(read(line, Limits::default().json_budget()), Received::Noise)
}

#[test]
fn an_answer_names_its_request_and_carries_its_result() {
    for line in [
        r#"{"jsonrpc":"2.0","id":3,"result":{"a":[1,{}]}}"#,
        r#"{"result":{"a":[1,{}]},"jsonrpc":"2.0","id":3}"#,
        "\u{feff} { \"id\" : 3 , \"result\" : {\"a\":[1,{}]} , \"x\":\"}\\\"\" }\r",
        r#"{"jsonrpc":"2.0","\u0069d":3,"result":{"a":[1,{}]}}"#,
    ] {
        let Message::Answer { id, outcome } = message(line.as_bytes()) else {
            panic!("{line} is no answer");
        };
        let Outcome::Result(result, shape) = outcome else {
            panic!("{line} holds no result");
        };
        assert_eq!((id, text(result)), (AnswerId::Ours(3), r#"{"a":[1,{}]}"#));
        assert!(shape.is_exact, "{line}");
    }
}

#[test]
fn the_members_of_a_result_are_found_however_many_and_long_they_are() {
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
        let (text, shape) = result_of(&line);
        let answer = Answer::new(Bytes::copy_from_slice(text), shape, None);
        let mut found = Vec::new();
        let visit = |key: &[u8], value: &[u8]| found.push((key.to_vec(), value.to_vec()));
        answer.members(visit).unwrap();
        let expected = keys.iter().map(|key| key.replace("\\n", "\n"));
        let expected = expected.map(|key| (key.into_bytes(), b"[0]".to_vec()));
        assert_eq!(found, expected.collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn a_result_that_is_not_quite_json_is_known_not_to_be() {
    for result in [
        "{\"a\":01}",
        "{\"a\":NaN}",
        "{\"a\":[1 2]}",
        "{\"a\":\"\t\"}",
        "{\"a\t\":1}",
        "[\"\\x\"]",
    ] {
        let line = format!(r#"{{"id":3,"result":{result}}}"#);
        let (text, shape) = result_of(&line);
        assert_eq!((text, shape.is_exact), (result.as_bytes(), false));
    }
}

#[test]
fn only_the_exact_integer_is_an_id_of_ours() {
    for (token, expected) in [
        ("1", AnswerId::Ours(1)),
        ("18446744073709551615", AnswerId::Ours(u64::MAX)),
        ("184467440737095516160", AnswerId::Foreign),
        ("1.0", AnswerId::Foreign),
        ("01", AnswerId::Foreign),
        ("-1", AnswerId::Foreign),
        ("\"1\"", AnswerId::Foreign),
        ("null", AnswerId::Null),
        ("true", AnswerId::Foreign),
    ] {
        assert_eq!(answer_id(token.as_bytes()), expected, "{token}");
    }
}

#[test]
fn the_id_of_a_servers_request_is_kept_to_the_letter() {
    for id in ["7", "\"a\\u0041\"", "-3", "12345678901234567890123"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        match message(line.as_bytes()) {
            Message::Request {
                id: kept,
                method,
                params: None,
            } => {
                assert_eq!((kept.as_json(), &*method), (id, "ping"));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_malformed_message_has_a_defined_answer() {
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
            "the key `id` stands twice",
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
        assert_eq!(broken(line.as_bytes()), (id, problem.to_owned()), "{line}");
    }
}

#[test]
fn what_is_not_json_rpc_is_noise() {
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
fn a_batch_is_handed_over_message_by_message() {
    let line = br#"[{"jsonrpc":"2.0","id":1,"result":{}} , {"jsonrpc":"2.0","method":"a"}]"#;
    match read(line, Limits::default().json_budget()) {
        Received::Batch(messages) => assert_eq!(
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
fn a_message_over_its_budget_still_names_the_request_it_fails() {
    let limits = Limits {
        json_nodes: 10,
        ..Limits::default()
    };
    let wide = r#"{"result":[0,0,0,0,0,0,0,0,0,0,0],"jsonrpc":"2.0","id":6}"#;
    match read(wide.as_bytes(), limits.json_budget()) {
        Received::Broken {
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
    match read(deep.as_bytes(), Limits::default().json_budget()) {
        Received::Broken {
            id: Some(6),
            problem: InvalidMessage::TooDeep { limit: 128 },
        } => {}
        other => panic!("{other:?}"),
    }
}

proptest::proptest! {
    #[test]
    fn reading_never_panics(line: Vec<u8>) {
        read(&line, Limits::default().json_budget());
    }

    #[test]
    fn whatever_serde_writes_is_read_back_span_for_span(
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
            Message::Answer { id: AnswerId::Ours(read), outcome: Outcome::Result(span, _) } => {
                proptest::prop_assert_eq!(read, id);
                let back: serde_json::Value = serde_json::from_slice(span).unwrap();
                proptest::prop_assert_eq!(back, result);
            }
            other => panic!("{other:?}"),
        }
    }
}
