//! Lists of tools that do not come to an end.

use switchboard_testkit::{Cursors, Script, Step};

use crate::harness::Scene;
use crate::table::{Row, legacy, right, text};

/// A server whose pages are like this. The first page has all three tools.
fn pages(cursors: Cursors, cursor_bytes: usize) -> Row {
    let script = Script {
        cursor_bytes,
        ..legacy().paged(3, cursors)
    };
    Row::of(script.on("tools/call work", [right()])).sees(text("right"))
}

fn notes(scene: &Scene) -> String {
    scene.inspection().notes.join("\n")
}

fn notes_say(words: &'static str) -> impl Fn(&Scene) {
    move |scene| {
        let notes = notes(scene);
        assert!(notes.contains(words), "no {words:?} in: {notes}");
    }
}

rows! {
    s41_same_cursor_for_ever: "names the same next page again and again" =>
        pages(Cursors::Loop, 0)
            .holds(notes_say("the list is cut after 3 tools, because of pages that go round in a circle"));
    s41_a_million_pages: "has always one page more" =>
        pages(Cursors::Endless, 0)
            .holds(notes_say("because of 1000 pages (limit `list_pages`)"));
    s41_cursor_of_10_mib: "names its next page in 10 MiB" =>
        pages(Cursors::Endless, 10 * 1024 * 1024)
            .memory(64)
            .holds(notes_say("because of a cursor of 10485760 bytes (limit `cursor_bytes`)"));
    s41_cursor_that_is_no_string: "names its next page by a number" =>
        Row::of(legacy()
            .on("tools/list", [Step::Reply(serde_json::json!({"tools": legacy().tools, "nextCursor": 7}))])
            .on("tools/call work", [right()]))
            .sees(text("right"))
            .holds(notes_say("the cursor of the next page is not a string"));
}
