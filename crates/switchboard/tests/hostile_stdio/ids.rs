//! Which request an answer belongs to.

use switchboard_testkit::Step;

use crate::table::{Kind, Row, Sees, legacy, refused, right, text, timed_out};

/// A wrong answer under this id.
fn wrong(id: &str) -> Step {
    Step::raw(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"wrong"}}]}}}}"#
    ))
}

fn wrong_first(id: &str) -> Row {
    Row::working([wrong(id), right()]).sees(text("right"))
}

/// Whoever waits in vain is told that answers came, under ids that we did not give.
fn only_foreign(id: &str) -> Row {
    Row::working([wrong(id)])
        .call_timeout(300)
        .sees(Sees::Error(Kind::TimedOut, "with unknown request ids"))
}

rows! {
    s12_late_answer: "answers when the call has timed out, then the next ones" =>
        Row::of(legacy()
            .tool("later")
            .on("notifications/cancelled", [])
            .on("tools/call work", [Step::DelayMs(2_500), Step::text("late")])
            .on("tools/call later", [Step::DelayMs(600), right()]))
            .call_timeout(1_500)
            .sees(timed_out())
            .calls("later", text("right"))
            .calls("later", text("right"));

    s21_unknown_id: "answers a request that was never made, then the real one" =>
        wrong_first("987654321");
    s21_only_an_unknown_id: "answers only a request that was never made" =>
        only_foreign("987654321");
    s21_answers_twice: "answers a request twice, the second time wrongly" =>
        Row::working([right(), wrong("$ID")])
            .sees(text("right"))
            .sees(text("right"));

    s23_string_id: "answers under the id as a string, then as it is" => wrong_first(r#""$ID""#);
    s23_float_id: "answers under the id as a fraction, then as it is" => wrong_first("$ID.0");
    s23_null_id: "answers under no id, then under the right one" => wrong_first("null");
    s23_negative_id: "answers under the negative id, then under the right one" => wrong_first("-$ID");
    s23_padded_id: "answers under the id with a zero before it, then as it is" => wrong_first("0$ID");
    s23_only_a_string_id: "answers only under the id as a string" => only_foreign(r#""$ID""#);
    s23_only_a_float_id: "answers only under the id as a fraction" => only_foreign("$ID.0");
    s23_only_a_null_id: "answers only under no id" => only_foreign("null");
    s23_an_error_under_no_id: "refuses the one call that there is under no id" =>
        Row::working([Step::raw(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not understood"}}"#,
        )])
        .sees(refused("not understood"));
}
