use super::*;
use crate::jsonrpc::{self, Message, Outcome, ParsedLine, RawResult, decode_error_object};
use crate::limits::{FieldLimits, Limits};
use crate::mcp::{CallToolResult, ContentBlock, Implementation, Json, ToolDefinition};

fn tool_page(result: &RawResult) -> Result<Page<ToolDefinition>, InvalidMessage> {
    page(result, "tools", 100, &FieldLimits::default(), tool)
}

fn call_tool_result(result: &RawResult) -> Result<CallToolResult, IncompleteResult> {
    super::call_tool_result(result, 3)
}

/// Parses a response line with this result.
fn raw_result(result: &[u8]) -> RawResult {
    let line = [br#"{"jsonrpc":"2.0","id":1,"result":"#, result, b"}"].concat();
    match jsonrpc::parse_line(&line, Limits::default().json_budget()) {
        ParsedLine::Message(Message::Response {
            outcome: Outcome::Result(text, index),
            ..
        }) => RawResult::new(text.to_vec().into(), index, None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_blocks_decode_equally_on_fast_and_slow_path() {
    let texts = |result: &[u8]| -> Vec<_> {
        let result = call_tool_result(&raw_result(result)).unwrap();
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
    // With a duplicate member, the block is kept as JSON.
    let duplicate = &texts(br#"{"content":[{"type":"text","text":"a","text":"b"}]}"#)[0].0;
    assert!(duplicate.starts_with("Unknown"), "{duplicate}");
    let lone_surrogate = &texts(br#"{"content":[{"type":"text","text":"\ud800"}]}"#)[0].0;
    assert!(lone_surrogate.starts_with("Unknown"), "{lone_surrogate}");
}

#[test]
fn malformed_tool_is_skipped_and_others_are_kept() {
    let page = tool_page(&raw_result(
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
    let skipped: Vec<_> = page
        .skipped
        .iter()
        .map(|skipped| (skipped.name.as_str(), skipped.reason.as_str()))
        .collect();
    assert_eq!(
        skipped,
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
fn unknown_block_is_kept_as_json() {
    let result = call_tool_result(&raw_result(br#"{"content":[{"type":"text","text":"a","x":1},{"type":"hologram","depth":[3]},{"type":"text"}],
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
fn empty_result_is_valid_and_unknown_result_type_is_not() {
    assert_eq!(
        call_tool_result(&raw_result(b"{}")).unwrap(),
        CallToolResult::default()
    );
    assert_eq!(
        call_tool_result(&raw_result(
            br#"{"resultType":"complete","structuredContent":null}"#
        ))
        .unwrap(),
        CallToolResult {
            structured_content: Json::parse("null").ok(),
            ..Default::default()
        }
    );
    let unknown = call_tool_result(&raw_result(br#"{"resultType":"partial"}"#));
    let problem = InvalidMessage::malformed("unknown `resultType` \"partial\"");
    assert_eq!(unknown, Err(IncompleteResult::Invalid(problem)));
    assert!(call_tool_result(&raw_result(b"[]")).is_err());
    assert!(call_tool_result(&raw_result(br#"{"content":{}}"#)).is_err());
}

#[test]
fn invalid_utf8_fails_only_its_response() {
    let result = call_tool_result(&raw_result(
        b"{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}",
    ));
    let problem = InvalidMessage::malformed("a content block is not UTF-8");
    assert_eq!(result, Err(IncompleteResult::Invalid(problem)));
}

#[test]
fn malformed_error_keeps_its_text() {
    let error = decode_error_object(br#"{"code":-32601.0,"message":"no","data":{"a":1}}"#).unwrap();
    assert_eq!((error.code, error.message.as_str()), (-32601, "no"));
    assert_eq!(error.data.unwrap().as_str(), r#"{"a":1}"#);
    assert_eq!(
        decode_error_object(br#""only text""#).unwrap().message,
        "only text"
    );
    assert_eq!(decode_error_object(b"[1]").unwrap().message, "[1]");
    let long = format!(r#"{{"code":1,"message":"{}"}}"#, "ä".repeat(10_000));
    assert!(decode_error_object(long.as_bytes()).unwrap().message.len() < 5_000);
}

#[test]
fn server_description_is_decoded_in_both_eras() {
    let legacy = initialize_result(&raw_result(br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},
            "serverInfo":{"name":"s","version":"1"},"instructions":"be kind"}"#), &FieldLimits::default())
    .unwrap();
    assert_eq!(legacy.version, "2025-06-18");
    assert_eq!(legacy.server.info, Some(Implementation::new("s", "1")));
    assert!(legacy.server.capabilities.tools && legacy.server.capabilities.tools_list_changed);
    assert!(legacy.server.capabilities.logging && !legacy.server.capabilities.prompts);

    let modern = discover_result(&raw_result(br#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"outer"},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"inner","version":"2"}}}"#), &FieldLimits::default())
    .unwrap();
    assert_eq!(modern.supported, ["2026-07-28"]);
    assert_eq!(modern.server.info, Some(Implementation::new("inner", "2")));
    assert!(discover_result(&raw_result(b"{}"), &FieldLimits::default()).is_err());
}

#[test]
fn progress_is_decoded_with_its_token() {
    let (token, progress_note) =
        progress(br#"{"progressToken":5,"progress":0.5,"total":1,"message":"half"}"#).unwrap();
    assert_eq!(
        (token, progress_note.progress, progress_note.total),
        (5, 0.5, Some(1.0))
    );
    assert_eq!(progress(br#"{"progressToken":"x","progress":1}"#), None);
}

#[test]
fn items_over_the_limit_are_dropped() {
    for block in [r#"{"type":"text","text":"a"}"#, r#"{"type":"hologram"}"#] {
        let content = [block; 5].join(",");
        let text = format!(r#"{{"content":[{content}]}}"#);
        let result = call_tool_result(&raw_result(text.as_bytes())).unwrap();
        assert_eq!((result.content.len(), result.blocks_left_out), (3, 2));
    }
    let tools = [r#"{"name":"a","inputSchema":{}}"#; 5].join(",");
    let text = format!(r#"{{"tools":[{tools}]}}"#);
    let page = super::page(
        &raw_result(text.as_bytes()),
        "tools",
        3,
        &FieldLimits::default(),
        tool,
    )
    .unwrap();
    assert_eq!((page.items.len(), page.is_truncated), (3, true));
}

const SMALL: FieldLimits = FieldLimits {
    name_bytes: 8,
    description_bytes: 16,
    schema_bytes: 32,
};

#[test]
fn server_description_is_bounded() {
    let long = "x".repeat(100_000);
    let description = format!(
        r#""capabilities":{{"tools":{{}},"x":"{long}"}},"instructions":"{long}",
        "serverInfo":{{"name":"{long}","version":"{long}","title":"{long}"}}"#
    );
    let initialized = format!(r#"{{"protocolVersion":"2025-06-18",{description}}}"#);
    let initialized = initialize_result(&raw_result(initialized.as_bytes()), &SMALL).unwrap();
    let discovered = format!(r#"{{"supportedVersions":[],{description}}}"#);
    let discovered = discover_result(&raw_result(discovered.as_bytes()), &SMALL).unwrap();
    for server in [initialized.server, discovered.server] {
        let mut info = Implementation::new("xxxxxxxx [truncated]", "xxxxxxxx [truncated]");
        info.title = Some("xxxxxxxx [truncated]".to_owned());
        assert_eq!(server.info, Some(info));
        assert_eq!(
            server.instructions.as_deref(),
            Some("xxxxxxxxxxxxxxxx [truncated]")
        );
        assert!(server.capabilities.tools);
        assert_eq!(server.capabilities.raw, None);
    }
}

#[test]
fn fields_of_tools_are_bounded() {
    let long = "x".repeat(100_000);
    let tools = format!(
        r#"{{"tools":[
        {{"name":"a","title":"{long}","description":"{long}","inputSchema":{{}},
          "outputSchema":{{"x":"{long}"}},"_meta":{{"x":"{long}"}},"annotations":{{"title":"{long}"}}}},
        {{"name":"b","inputSchema":{{"x":"{long}"}}}},
        {{"name":"{long}","inputSchema":{{}}}}]}}"#
    );
    let page = page(&raw_result(tools.as_bytes()), "tools", 9, &SMALL, tool).unwrap();
    let mut expected = ToolDefinition::new("a", Json::parse("{}").unwrap());
    expected.title = Some("xxxxxxxx [truncated]".to_owned());
    expected.annotations.title = expected.title.clone();
    expected.description = Some("xxxxxxxxxxxxxxxx [truncated]".to_owned());
    assert_eq!(page.items, [expected]);
    let skipped = page.skipped.iter();
    let skipped: Vec<_> = skipped
        .map(|skipped| format!("{}: {}", skipped.name, skipped.reason))
        .collect();
    assert_eq!(
        skipped,
        [
            "a: its description was cut to 16 bytes (limit `descriptionBytes`)",
            "a: its `outputSchema` is larger than 32 bytes (limit `schemaBytes`) and was ignored",
            "a: its `_meta` is larger than 32 bytes (limit `schemaBytes`) and was ignored",
            "b: its `inputSchema` is larger than 32 bytes (limit `schemaBytes`)",
            "number 3: its name is longer than 8 bytes",
        ]
    );
}

#[test]
fn fields_of_resources_and_prompts_are_bounded() {
    let long = "x".repeat(100_000);
    let texts = format!(r#""title":"{long}","description":"{long}","_meta":{{"x":"{long}"}}"#);
    let cut = |max: usize| Some(format!("{} [truncated]", "x".repeat(max)));
    let text = format!(
        r#"{{"resources":[{{"uri":"a:b","name":"{long}","mimeType":"{long}",
        "annotations":{{"x":"{long}"}},{texts}}}]}}"#
    );
    let listed = page(
        &raw_result(text.as_bytes()),
        "resources",
        9,
        &SMALL,
        resource,
    )
    .unwrap();
    let mut expected = crate::mcp::Resource::new("a:b", cut(8).unwrap());
    (expected.title, expected.mime_type) = (cut(8), cut(8));
    expected.description = cut(16);
    assert_eq!(listed.items, [expected]);
    let text =
        format!(r#"{{"prompts":[{{"name":"a","arguments":[{{"name":"b",{texts}}}],{texts}}}]}}"#);
    let listed = page(&raw_result(text.as_bytes()), "prompts", 9, &SMALL, prompt).unwrap();
    let mut argument = crate::mcp::PromptArgument::new("b");
    (argument.title, argument.description) = (cut(8), cut(16));
    let mut expected = crate::mcp::Prompt::new("a").argument(argument);
    (expected.title, expected.description) = (cut(8), cut(16));
    assert_eq!(listed.items, [expected]);
}
