//! Endless and invalid tool listings.

use switchboard_testkit::{Cursors, Script, Step};

use crate::harness::TestHost;
use crate::table::{Case, legacy, text, valid_response};

/// A server whose tool listing returns these cursors. The first page contains all three tools.
fn pages(cursors: Cursors, cursor_bytes: usize) -> Case {
    let script = Script {
        cursor_bytes,
        ..legacy().paged(3, cursors)
    };
    Case::new(script.on("tools/call work", [valid_response()])).expects(text("right"))
}

fn notes(test_host: &TestHost) -> String {
    test_host.details().notes.join("\n")
}

fn notes_contain(message: &'static str) -> impl Fn(&TestHost) {
    move |test_host| {
        let notes = notes(test_host);
        assert!(notes.contains(message), "no {message:?} in: {notes}");
    }
}

/// A server with endless pages. Besides the usual tools, each page has a tool whose schema or
/// description has this many bytes.
fn endless_tools(bytes: u64, is_schema: bool) -> Case {
    let before = concat!(
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"nextCursor":"$ID","tools":["#,
        r#"{"name":"work","inputSchema":{"type":"object"}},"#,
        r#"{"name":"pid","inputSchema":{"type":"object"}},"#,
        r#"{"name":"echo","inputSchema":{"type":"object"}},{"name":"t$ID","#,
    );
    let (member, after) = if is_schema {
        (r#""inputSchema":{"x":""#, "\"}}]}}\n")
    } else {
        (r#""inputSchema":{},"description":""#, "\"}]}}\n")
    };
    let page = [
        Step::bytes(&format!("{before}{member}")),
        Step::repeated_bytes("x", bytes),
        Step::bytes(after),
    ];
    let script = legacy().on("tools/list", page);
    Case::new(script.on("tools/call work", [valid_response()])).expects(text("right"))
}

cases! {
    s41_large_tools: "endless pages of tools of 900 KB" =>
        endless_tools(900_000, true)
            .limits(|limits| limits.listing_bytes = 32 * 1024 * 1024)
            .memory(64)
            .also_checks(notes_contain("bytes (limit `listingBytes`)"));
    s41_huge_schemas: "endless pages of tools with schemas of 3 MB" =>
        endless_tools(3_000_000, true)
            .memory(40)
            .also_checks(notes_contain("its `inputSchema` is larger than 1048576 bytes (limit `schemaBytes`)"));
    s41_huge_descriptions: "endless pages of tools with descriptions of 3 MB" =>
        endless_tools(3_000_000, false)
            .memory(40)
            .also_checks(notes_contain("its description was cut to 65536 bytes (limit `descriptionBytes`)"));

    s41_cursor_loop: "the same cursor on every page" =>
        pages(Cursors::Loop, 0)
            .also_checks(notes_contain("the list is cut after 3 tools, because of a cursor that the server already returned"));
    s41_endless_pages: "every page has a next page" =>
        pages(Cursors::Endless, 0)
            .also_checks(notes_contain("because of 1000 pages (limit `listPages`)"));
    s41_cursor_of_10_mib: "cursor of 10 MiB" =>
        pages(Cursors::Endless, 10 * 1024 * 1024)
            .memory(64)
            .also_checks(notes_contain("because of a cursor of 10485760 bytes (limit `cursorBytes`)"));
    s41_cursor_is_not_a_string: "cursor is a number" =>
        Case::new(legacy()
            .on("tools/list", [Step::Reply(serde_json::json!({"tools": legacy().tools, "nextCursor": 7}))])
            .on("tools/call work", [valid_response()]))
            .expects(text("right"))
            .also_checks(notes_contain("the cursor of the next page is not a string"));
}
