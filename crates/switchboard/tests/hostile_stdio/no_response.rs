//! Servers that say nothing, too little, or too slowly.

use switchboard_testkit::{Era, Script, Step};

use crate::table::{Row, legacy, right, text, timed_out};

rows! {
    s09_mute: "takes a call and never answers it" =>
        Row::working([Step::Hang])
            .call_timeout(300)
            .sees(timed_out())
            .sees(timed_out());
    s09_mute_from_the_start: "reads everything and never says a word" =>
        Row::of(legacy().on("*", [Step::Hang]))
            .startup_timeout(600)
            .does_not_start("no answer to the handshake within 600ms");
    s09_mute_about_its_tools: "shakes hands, and never lists its tools" =>
        Row::of(legacy().on("tools/list", [Step::Hang]))
            .startup_timeout(2_000)
            .lists_nothing("listing the tools failed: no response within");

    s11_progress_for_ever: "reports progress every 100 ms, and never an answer" =>
        Row::working([Step::forever([Step::progress(1), Step::DelayMs(100)])])
            .call_timeout(800)
            .sees(timed_out());

    s42_silent_on_the_probe: "does not answer the probe, then the older handshake" =>
        Row::of(Script { era: Era::LegacySilentOnProbe, ..legacy() }
            .on("tools/call work", [right()]))
            .sees(text("right"));
    s42_dies_of_the_probe: "exits when it is probed" =>
        Row::of(Script { era: Era::LegacyExitsOnProbe, ..legacy() }
            .on("tools/call work", [right()]))
            .sees(text("right"));

    s44_answers_only_pings: "answers pings, and nothing else" =>
        Row::of(legacy().on("*", [Step::Hang]).on("ping", [Step::Default]))
            .startup_timeout(600)
            .does_not_start("no answer to the handshake within 600ms");
}
