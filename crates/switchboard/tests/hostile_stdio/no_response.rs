//! Servers that never respond, or only send progress notifications.

use switchboard_testkit::{Era, Script, Step};

use crate::table::{Case, legacy, text, timed_out, valid_response};

cases! {
    s09_no_response_to_call: "no response to a call" =>
        Case::on_work([Step::Hang])
            .call_timeout(300)
            .expects(timed_out())
            .expects(timed_out());
    s09_no_response_at_start: "no response to any request" =>
        Case::new(legacy().on("*", [Step::Hang]))
            .startup_timeout(600)
            .start_fails("no response to the handshake within 600ms");
    s09_no_response_to_listing: "no response to the tool listing" =>
        Case::new(legacy().on("tools/list", [Step::Hang]))
            .startup_timeout(2_000)
            .listing_fails("listing the tools failed: no response within");

    s11_endless_progress: "progress every 100 ms and no response" =>
        Case::on_work([Step::forever([Step::progress(1), Step::DelayMs(100)])])
            .call_timeout(800)
            .expects(timed_out());

    s42_no_response_to_probe: "no response to the probe, then the legacy handshake" =>
        Case::new(Script { era: Era::LegacySilentOnProbe, ..legacy() }
            .on("tools/call work", [valid_response()]))
            .expects(text("right"));
    s42_exit_on_probe: "exit on the probe" =>
        Case::new(Script { era: Era::LegacyExitsOnProbe, ..legacy() }
            .on("tools/call work", [valid_response()]))
            .expects(text("right"));

    s44_only_pings_answered: "responses to pings only" =>
        Case::new(legacy().on("*", [Step::Hang]).on("ping", [Step::Default]))
            .startup_timeout(600)
            .start_fails("no response to the handshake within 600ms");
}
