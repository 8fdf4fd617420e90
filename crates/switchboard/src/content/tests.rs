use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use switchboard_wire::mcp::{CallToolResult, ContentBlock, MediaContent, ResourceBody};
use switchboard_wire::text::fit;

use super::*;
use crate::id::ServerName;
use crate::limits::Limits;

fn with_text_limit(bytes: usize) -> Limits {
    let mut limits = Limits::default();
    limits.result_text_bytes = bytes;
    limits
}

fn render(blocks: Vec<ContentBlock>) -> Output {
    let result = CallToolResult::new(blocks);
    render_tool_result(result, &Limits::default(), None)
}

fn text(text: &str) -> Block {
    Block::text(text)
}

fn media(data: &str) -> MediaContent {
    MediaContent::from_base64(data, "image/png")
}

fn link() -> ResourceLink {
    let mut link = ResourceLink::new("file:///notes.txt", "notes");
    link.mime_type = Some("text/plain".into());
    link.size = Some(120);
    link
}

fn resource(text: Option<&str>, blob: Option<&str>) -> ContentBlock {
    let mut body = ResourceBody::text("file:///a\u{1b}[31m", "").mime_type("application/pdf");
    body.text = text.map(str::to_owned);
    body.blob = blob.map(str::to_owned);
    ContentBlock::resource(body)
}

#[test]
fn failed_tool_is_rendered_like_any_other() {
    let output = render_tool_result(
        CallToolResult::error("no such file"),
        &Limits::default(),
        None,
    );
    let expected = Output {
        blocks: vec![text("no such file")],
        is_error: true,
        ..Output::default()
    };
    assert_eq!(output, expected);
}

#[test]
fn clean_text_is_not_copied() {
    let sent = "x".repeat(1_000);
    let address = sent.as_ptr();
    let output = render(vec![ContentBlock::text(sent)]);
    let Block::Text { text, .. } = &output.blocks[0] else {
        panic!("{output:?}")
    };
    assert_eq!(text.as_ptr(), address);
}

#[test]
fn every_block_kind_is_sanitized_and_described() {
    let unknown = Json::parse(r#"{"type":"hologram\u001b[0m","x":1}"#).unwrap();
    let nameless = Json::parse("[1]").unwrap();
    let mut described = ResourceLink::new("file:///notes.txt", "two\nlines");
    described.description = Some("says\u{202e} what".into());
    let output = render(vec![
        ContentBlock::text("a\u{1b}[31mb\u{200b}"),
        ContentBlock::Image(media("iVBORw==")),
        ContentBlock::Audio(media("AAAA")),
        ContentBlock::ResourceLink(link()),
        ContentBlock::ResourceLink(described),
        resource(Some("inside\u{7}"), None),
        resource(None, Some("AAAAAAA=")),
        resource(None, None),
        ContentBlock::Unknown(unknown),
        ContentBlock::Unknown(nameless),
    ]);
    assert_eq!(
        output.to_text(),
        "ab\n\
         [image: image/png, 4 bytes]\n\
         [audio: image/png, 3 bytes]\n\
         [resource link: notes <file:///notes.txt> (text/plain, 120 bytes)]\n\
         [resource link: two lines <file:///notes.txt>: says what]\n\
         [resource <file:///a>]\ninside\n\
         [resource <file:///a> (application/pdf, 5 bytes of binary data)]\n\
         [resource <file:///a> (empty)]\n\
         [content of type \"hologram\", 34 bytes, cannot be shown]\n\
         [content of unknown type, 3 bytes, cannot be shown]"
    );
    let raws: Vec<bool> = output
        .blocks
        .iter()
        .map(|block| matches!(block, Block::Described { raw: Some(_), .. }))
        .collect();
    assert_eq!(
        raws,
        [
            false, false, false, false, false, false, true, true, true, true
        ]
    );
    assert_eq!(
        output.notes,
        ["escape sequences or invisible characters were removed from block 1, 6"]
    );
}

#[test]
fn other_line_ends_are_not_noted() {
    let output = render(vec![ContentBlock::text("a\r\nb\rc")]);
    assert_eq!(output.to_text(), "a\nb\nc");
    assert_eq!(output.notes, [""; 0]);
}

#[test]
fn image_in_structured_content_is_not_shown_as_text() {
    let image = MediaContent::new(vec![7; 90_000], "image/png");
    let block = ContentBlock::Image(image.clone());
    let structured =
        json!({"content": [{"type": "image", "data": image.data, "mimeType": "image/png"}]});
    let result = CallToolResult::new([block]).structured(&structured);
    let output = render_tool_result(result, &Limits::default(), None);
    assert_eq!(
        output.to_text(),
        "[image: image/png, 90000 bytes]\n{\"content\":[{\"type\":\"image\",\"data\":\"[90000 \
         bytes, the same data as in a block above]\",\"mimeType\":\"image/png\"}]}"
    );
}

#[test]
fn binary_data_of_embedded_resource_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryResultStore::new(folder.path().join("results"));
    let body = ResourceBody::bytes("file:///a", "%PDF-1.7 x").mime_type("application/pdf");
    let result = CallToolResult::new([ContentBlock::resource(body)]);
    let output = render_tool_result(result, &Limits::default(), Some(&store));
    let Block::Described {
        blob_saved_to: Some(path),
        ..
    } = &output.blocks[0]
    else {
        panic!("{output:?}")
    };
    assert_eq!(std::fs::read(path).unwrap(), b"%PDF-1.7 x");
    assert_eq!(
        output.to_text(),
        format!(
            "[resource <file:///a> (application/pdf, 10 bytes of binary data), saved to {}]",
            path.display()
        )
    );
    let json = serde_json::to_value(&output).unwrap();
    assert_eq!(json["blocks"][0]["blobSavedTo"], json!(path));
}

#[test]
fn unusable_media_is_described() {
    let largest = "A".repeat(Limits::default().result_media_bytes - 4);
    let output = render(vec![
        ContentBlock::Image(media(&largest)),
        ContentBlock::Image(media("AAAAAAAA")),
        ContentBlock::Image(media("ignore all\n")),
        ContentBlock::Image(media("data:image/png;base64,AAAA")),
        ContentBlock::Image(media("AAAA")),
        resource(None, Some("AAAA")),
    ]);
    let described = |description: &str| Block::described(description.into());
    assert!(matches!(&output.blocks[0], Block::Image { data, .. } if *data == largest));
    assert_eq!(
        output.blocks[1..],
        [
            described("[image: image/png, omitted: 6 bytes exceed the limit]"),
            described("[image: image/png, omitted: the data is not valid base64]"),
            described("[image: image/png, omitted: the data is not valid base64]"),
            Block::Image {
                data: "AAAA".into(),
                mime_type: "image/png".into(),
                annotations: None,
            },
            described("[resource <file:///a> (application/pdf, 3 bytes of binary data)]"),
        ]
    );
}

#[test]
fn structured_content_without_text_is_shown_as_json() {
    let result = CallToolResult::default().structured(&json!({"a": "b\u{200b}"}));
    let output = render_tool_result(result.clone(), &Limits::default(), None);
    assert_eq!(output.blocks, [text(r#"{"a":"b"}"#)]);
    assert_eq!(output.structured, result.structured_content);
    let both = CallToolResult::text("words").structured(&json!(1));
    assert_eq!(
        render_tool_result(both, &Limits::default(), None).blocks,
        [text("words")]
    );
    assert_eq!(render(vec![]), Output::default());
}

#[test]
fn structured_content_is_shown_once() {
    let data = json!({"celsius": 21});
    let mut result = CallToolResult::text(data.to_string()).structured(&data);
    let output = render_tool_result(result.clone(), &Limits::default(), None);
    assert_eq!(output.to_text(), r#"{"celsius":21}"#);
    result.content = vec![ContentBlock::ResourceLink(link())];
    let output = render_tool_result(result, &Limits::default(), None);
    assert_eq!(
        output.to_text(),
        "[resource link: notes <file:///notes.txt> (text/plain, 120 bytes)]\n{\"celsius\":21}"
    );
}

#[test]
fn links_name_their_server() {
    let server = ServerName::new("files").unwrap();
    let result = CallToolResult::new([
        ContentBlock::text("see"),
        ContentBlock::ResourceLink(link()),
        ContentBlock::Unknown(Json::from(&json!({"type": "resource_link"}))),
    ]);
    let output = render_tool_result_from(Some(&server), result, &Limits::default(), None);
    let first = output.to_text();
    let first = first.lines().nth(1).unwrap();
    assert_eq!(
        first,
        "[resource link: notes <file:///notes.txt> of server files (text/plain, 120 bytes)]"
    );
    assert_eq!(output.links(), [link()]);
    assert!(Output::text("none").links().is_empty());
}

#[test]
fn text_is_cut_one_byte_over_limit() {
    for (sent, budget) in [("abcdef", 6), ("abcdé", 6), ("ab🦀", 6)] {
        let whole = render_tool_result(CallToolResult::text(sent), &with_text_limit(budget), None);
        assert_eq!(whole.blocks, [text(sent)]);
        let roomy = render_tool_result(
            CallToolResult::text(sent),
            &with_text_limit(budget + 1),
            None,
        );
        assert_eq!(roomy.blocks, [text(sent)]);
        let cut = render_tool_result(
            CallToolResult::text(sent),
            &with_text_limit(budget - 1),
            None,
        );
        let shown = fit(sent, 5);
        assert_eq!(
            cut.to_text(),
            format!(
                "{shown}\n[truncated: 6 bytes total, first {} shown; the rest was discarded]",
                shown.len()
            )
        );
    }
}

#[test]
fn blocks_share_limit_and_full_text_is_stored() {
    let store = MemoryResultStore::new(1_000);
    let result = CallToolResult::new([
        ContentBlock::text("first"),
        ContentBlock::Image(media("AAAA")),
        ContentBlock::text("second\u{200b} block"),
        ContentBlock::text("third"),
        ContentBlock::ResourceLink(link()),
        ContentBlock::Image(media("BBBB")),
    ]);
    let output = render_tool_result(result, &with_text_limit(12), Some(&store));
    let handle = output.stored.unwrap();
    let whole = "first\nsecond block\nthird\n\
                 [resource link: notes <file:///notes.txt> (text/plain, 120 bytes)]";
    assert_eq!(store.read(&handle).unwrap(), whole);
    assert_eq!(
        output.to_text(),
        format!(
            "first\n[image: image/png, 3 bytes]\nsecond\n\
             [truncated: {} bytes total, first 12 shown; full text stored as {handle}]\n\
             [image: image/png, 3 bytes]",
            whole.len()
        )
    );
}

#[test]
fn cut_between_blocks_leaves_marker() {
    for budget in [5, 6] {
        let result =
            CallToolResult::new([ContentBlock::text("first"), ContentBlock::text("second")]);
        let output = render_tool_result(result, &with_text_limit(budget), None);
        let marker = "[truncated: 12 bytes total, first 5 shown; the rest was discarded]";
        assert_eq!(output.blocks, [text("first"), text(marker)]);
    }
}

#[test]
fn failed_store_is_noted() {
    let store = MemoryResultStore::new(3);
    let output = render_tool_result(
        CallToolResult::text("abcdef"),
        &with_text_limit(2),
        Some(&store),
    );
    assert_eq!(output.stored, None);
    assert_eq!(
        output.notes,
        ["the full result could not be stored: larger than the limit of 3 bytes"]
    );
    assert!(output.to_text().contains("the rest was discarded"));
}

#[test]
fn long_fields_are_shortened() {
    let mut link = ResourceLink::new("u".repeat(1 << 20), "n".repeat(1 << 20));
    link.mime_type = Some("m".repeat(1 << 20));
    link.description = Some("d".repeat(1 << 20));
    let output = render(vec![ContentBlock::ResourceLink(link)]);
    assert!(output.to_text().len() < 4_000);
}

#[test]
fn output_serializes_to_json() {
    let annotations = Some(Json::from(json!({"audience": ["us\u{200b}er"]})));
    let mut image = media("AAAA");
    image.annotations.clone_from(&annotations);
    let mut link = ResourceLink::new("file:///a", "a\u{202e}");
    link.annotations = annotations;
    let mut result = CallToolResult::new([
        ContentBlock::text("a"),
        ContentBlock::Image(image),
        ContentBlock::ResourceLink(link),
        ContentBlock::Unknown(Json::from(json!({"type": "x\u{200b}"}))),
    ]);
    result.is_error = true;
    let output = render_tool_result(result, &Limits::default(), None);
    assert_eq!(
        serde_json::to_value(&output).unwrap(),
        json!({
            "blocks": [
                {"type": "text", "text": "a"},
                {
                    "type": "image", "data": "AAAA", "mimeType": "image/png",
                    "annotations": {"audience": ["user"]},
                },
                {
                    "type": "resource_link", "uri": "file:///a", "name": "a",
                    "annotations": {"audience": ["user"]},
                },
                {
                    "type": "other",
                    "description": "[content of type \"x\", 15 bytes, cannot be shown]",
                    "raw": {"type": "x"},
                },
            ],
            "isError": true,
        })
    );
}

proptest! {
    #[test]
    fn text_stays_within_limit_plus_marker(
        texts in vec(any::<String>(), 0..6),
        budget in 0..60_usize,
    ) {
        let store = MemoryResultStore::new(1 << 20);
        let whole: Vec<String> = texts.iter().map(|text| sanitize(text).into_owned()).collect();
        let whole = whole.join("\n");
        let result = CallToolResult::new(texts.into_iter().map(ContentBlock::text));
        let output = render_tool_result(result, &with_text_limit(budget), Some(&store));
        let shown = output.to_text();
        match output.stored {
            None => {
                prop_assert!(whole.len() <= budget);
                prop_assert_eq!(shown, whole);
            }
            Some(handle) => {
                prop_assert!(whole.len() > budget);
                prop_assert_eq!(store.read(&handle).unwrap(), whole.clone());
                let (part, _) = shown.rsplit_once("[truncated: ").unwrap();
                prop_assert!(part.len() <= budget + 2);
                prop_assert!(whole.starts_with(part.strip_suffix('\n').unwrap_or(part)));
            }
        }
    }
}
