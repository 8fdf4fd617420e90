use super::*;
use crate::jsonrpc::{self, Message, Outcome, Received};
use crate::limits::Limits;
use crate::mcp::{ContentBlock, ToolDefinition};

fn tool_page(answer: &Answer) -> Result<Page<ToolDefinition>, InvalidMessage> {
    page(answer, "tools", 100, tool)
}

fn call_tool_result(answer: &Answer) -> Result<CallToolResult, NoResult> {
    super::call_tool_result(answer, 3)
}

/// The result of an answer, as it comes out of a line.
fn answer(result: &[u8]) -> Answer {
    let line = [br#"{"jsonrpc":"2.0","id":1,"result":"#, result, b"}"].concat();
    match jsonrpc::read(&line, Limits::default().json_budget()) {
        Received::Message(Message::Answer {
            outcome: Outcome::Result(text, shape),
            ..
        }) => Answer::new(text.to_vec().into(), shape, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_are_read_alike_whether_they_are_plain_or_not() {
    let texts = |result: &[u8]| -> Vec<_> {
        let result = call_tool_result(&answer(result)).unwrap();
        let text = |block: &ContentBlock| match block {
            ContentBlock::Text(text) => (text.text.clone(), text.annotations.is_some()),
            other => (format!("{other:?}"), false),
        };
        result.content.iter().map(text).collect()
    };
    let plain = |text: &str| vec![(text.to_owned(), false)];
    assert_eq!(
        texts(br#"{"content":[{"type":"text","text":"a"}]}"#),
        plain("a")
    );
    assert_eq!(
        texts(br#"{"content":[ { "text" : "" , "type" : "text" } ] }"#),
        plain("")
    );
    assert_eq!(
        texts(r#"{"content":[{"type":"text","text":"\u00e9 \n \"é\""}]}"#.as_bytes()),
        plain("é \n \"é\"")
    );
    assert_eq!(
        texts(br#"{"content":[{"type":"text","text":"a","annotations":{}}]}"#),
        [("a".to_owned(), true)]
    );
    // What stands twice has two readings, so it is passed on as it came.
    let twice = &texts(br#"{"content":[{"type":"text","text":"a","text":"b"}]}"#)[0].0;
    assert!(twice.starts_with("Unknown"), "{twice}");
    let half_pair = &texts(br#"{"content":[{"type":"text","text":"\ud800"}]}"#)[0].0;
    assert!(half_pair.starts_with("Unknown"), "{half_pair}");
}

#[test]
fn one_malformed_tool_is_left_out_and_the_others_stay() {
    let page = tool_page(&answer(
        br#"{"tools":[
            {"name":"good","inputSchema":{"type":"object"}},
            {"name":"no-schema"},
            {"inputSchema":{}},
            "text",
            {"name":"bad-title","title":7,"inputSchema":{}},
            {"name":"odd-hints","inputSchema":{},"annotations":{"readOnlyHint":"yes"}}
        ],"nextCursor":"","extra":1}"#,
    ))
    .unwrap();
    let names: Vec<_> = page.items.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "odd-hints"]);
    let left_out: Vec<_> = page
        .left_out
        .iter()
        .map(|left| (left.what.as_str(), left.why.as_str()))
        .collect();
    assert_eq!(
        left_out,
        [
            ("no-schema", "it has no `inputSchema`"),
            ("number 3", "it has no name"),
            (
                "number 4",
                "invalid type: string \"text\", expected an object"
            ),
            ("bad-title", "invalid type: integer `7`, expected a string"),
            (
                "odd-hints",
                "its annotations are malformed and were ignored"
            ),
        ]
    );
    assert_eq!(page.next_cursor.as_deref(), Some(""));
}

#[test]
fn a_block_of_an_unknown_kind_is_carried_through() {
    let result = call_tool_result(&answer(br#"{"content":[{"type":"text","text":"a","x":1},{"type":"hologram","depth":[3]},{"type":"text"}],
            "tools":[],"messages":1,"isError":true}"#))
    .unwrap();
    assert_eq!(
        result.content,
        [
            ContentBlock::text("a"),
            ContentBlock::Unknown(Json::parse(r#"{"type":"hologram","depth":[3]}"#).unwrap()),
            ContentBlock::Unknown(Json::parse(r#"{"type":"text"}"#).unwrap()),
        ]
    );
    assert!(result.is_error);
}

#[test]
fn an_empty_result_is_an_answer_and_an_unknown_kind_of_result_is_not() {
    assert_eq!(
        call_tool_result(&answer(b"{}")).unwrap(),
        CallToolResult::default()
    );
    assert_eq!(
        call_tool_result(&answer(
            br#"{"resultType":"complete","structuredContent":null}"#
        ))
        .unwrap(),
        CallToolResult {
            structured_content: Json::parse("null").ok(),
            ..Default::default()
        }
    );
    let riddle = call_tool_result(&answer(br#"{"resultType":"riddle"}"#));
    let problem = InvalidMessage::malformed("a result of the unknown type \"riddle\"");
    assert_eq!(riddle, Err(NoResult::Unusable(problem)));
    assert!(call_tool_result(&answer(b"[]")).is_err());
    assert!(call_tool_result(&answer(br#"{"content":{}}"#)).is_err());
}

#[test]
fn text_that_is_not_utf_8_fails_the_one_answer() {
    assert!(
        call_tool_result(&answer(
            b"{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}"
        ))
        .is_err()
    );
}

#[test]
fn an_error_keeps_the_servers_words_whatever_their_shape() {
    let error = error_object(br#"{"code":-32601.0,"message":"no","data":{"a":1}}"#).unwrap();
    assert_eq!((error.code, error.message.as_str()), (-32601, "no"));
    assert_eq!(error.data.unwrap().as_str(), r#"{"a":1}"#);
    assert_eq!(
        error_object(br#""just words""#).unwrap().message,
        "just words"
    );
    assert_eq!(error_object(b"[1]").unwrap().message, "[1]");
    let long = format!(r#"{{"code":1,"message":"{}"}}"#, "ä".repeat(10_000));
    assert!(error_object(long.as_bytes()).unwrap().message.len() < 5_000);
}

#[test]
fn a_server_describes_itself_in_both_eras() {
    let legacy = initialized(&answer(br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},
            "serverInfo":{"name":"s","version":"1"},"instructions":"be kind"}"#))
    .unwrap();
    assert_eq!(legacy.version, "2025-06-18");
    assert_eq!(legacy.server.info, Some(Implementation::new("s", "1")));
    assert!(legacy.server.capabilities.tools && legacy.server.capabilities.tools_list_changed);
    assert!(legacy.server.capabilities.logging && !legacy.server.capabilities.prompts);

    let modern = discovered(&answer(br#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"outer"},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"inner","version":"2"}}}"#))
    .unwrap();
    assert_eq!(modern.supported, ["2026-07-28"]);
    assert_eq!(modern.server.info, Some(Implementation::new("inner", "2")));
    assert!(discovered(&answer(b"{}")).is_err());
}

#[test]
fn progress_is_read_with_its_token() {
    let (token, note) =
        progress(br#"{"progressToken":5,"progress":0.5,"total":1,"message":"half"}"#).unwrap();
    assert_eq!((token, note.progress, note.total), (5, 0.5, Some(1.0)));
    assert_eq!(progress(br#"{"progressToken":"x","progress":1}"#), None);
}

#[test]
fn blocks_and_tools_beyond_the_limit_are_left_out_and_counted() {
    for block in [r#"{"type":"text","text":"a"}"#, r#"{"type":"hologram"}"#] {
        let content = [block; 5].join(",");
        let text = format!(r#"{{"content":[{content}]}}"#);
        let result = call_tool_result(&answer(text.as_bytes())).unwrap();
        assert_eq!((result.content.len(), result.blocks_left_out), (3, 2));
    }
    let tools = [r#"{"name":"a","inputSchema":{}}"#; 5].join(",");
    let text = format!(r#"{{"tools":[{tools}]}}"#);
    let page = super::page(&answer(text.as_bytes()), "tools", 3, tool).unwrap();
    assert_eq!((page.items.len(), page.is_cut), (3, true));
}
