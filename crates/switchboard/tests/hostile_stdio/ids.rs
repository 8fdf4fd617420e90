//! Response ids: late responses, unknown ids and ids of the wrong type.

use switchboard_testkit::Step;

use crate::table::{
    Case, ErrorKind, Expected, error_response, legacy, text, timed_out, valid_response,
};

/// A response with the text `wrong` and this id.
fn wrong(id: &str) -> Step {
    Step::raw(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"wrong"}}]}}}}"#
    ))
}

fn wrong_first(id: &str) -> Case {
    Case::on_work([wrong(id), valid_response()]).expects(text("right"))
}

/// The server sends only a response with this unknown id. The call times out, and the error
/// mentions unknown ids.
fn only_unknown_id(id: &str) -> Case {
    Case::on_work([wrong(id)])
        .call_timeout(300)
        .expects(Expected::Error(
            ErrorKind::TimedOut,
            "with unknown request ids",
        ))
}

cases! {
    s12_late_response: "response after the timeout, then responses to later calls" =>
        Case::new(legacy()
            .tool("later")
            .on("notifications/cancelled", [])
            .on("tools/call work", [Step::DelayMs(2_500), Step::text("late")])
            .on("tools/call later", [Step::DelayMs(600), valid_response()]))
            .call_timeout(1_500)
            .expects(timed_out())
            .calls("later", text("right"))
            .calls("later", text("right"));

    s21_unknown_id: "response with an unknown id, then the valid response" =>
        wrong_first("987654321");
    s21_only_an_unknown_id: "only a response with an unknown id" =>
        only_unknown_id("987654321");
    s21_duplicate_response: "two responses to one request, the second one wrong" =>
        Case::on_work([valid_response(), wrong("$ID")])
            .expects(text("right"))
            .expects(text("right"));

    s23_string_id: "response with the id as a string, then the valid response" => wrong_first(r#""$ID""#);
    s23_float_id: "response with the id as a fraction, then the valid response" => wrong_first("$ID.0");
    s23_null_id: "response with a null id, then the valid response" => wrong_first("null");
    s23_negative_id: "response with the negated id, then the valid response" => wrong_first("-$ID");
    s23_padded_id: "response with a zero-padded id, then the valid response" => wrong_first("0$ID");
    s23_only_a_string_id: "only a response with the id as a string" => only_unknown_id(r#""$ID""#);
    s23_only_a_float_id: "only a response with the id as a fraction" => only_unknown_id("$ID.0");
    s23_only_a_null_id: "only a response with a null id" => only_unknown_id("null");
    s23_error_with_null_id: "error with a null id while one call is in flight" =>
        Case::on_work([Step::raw(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not understood"}}"#,
        )])
        .expects(error_response("not understood"));
}
