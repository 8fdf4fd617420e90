//! Responses with duplicate keys, with both result and error, or with neither.

use switchboard_testkit::Step;

use crate::table::{Case, invalid_response, text, timed_out, valid_response};

const TEXT: &str = r#"{"content":[{"type":"text","text":"right"}]}"#;

/// A line with a JSON-RPC message that has these members.
fn message(members: &str) -> Step {
    Step::raw(&format!("{{\"jsonrpc\":\"2.0\",{members}}}").replace("TEXT", TEXT))
}

cases! {
    s28_two_methods: "a request with two `method` keys, then the response" =>
        Case::on_work([message(r#""id":$ID,"method":"ping","method":"roots/list""#), valid_response()])
            .expects(text("right"));
    s28_two_results: "response with two `result` keys" =>
        Case::on_work([message(r#""id":$ID,"result":TEXT,"result":{"content":[]}"#)])
            .expects(invalid_response("duplicate key `result`"));
    s28_two_ids: "response with two `id` keys, so the request is ambiguous" =>
        Case::on_work([message(r#""id":$ID,"id":1,"result":TEXT"#)])
            .call_timeout(300)
            .expects(timed_out());
    s28_escaped_duplicate_key: "second `result` key written with an escape" =>
        Case::on_work([message(r#""id":$ID,"result":TEXT,"res\u0075lt":{"content":[]}"#)])
            .expects(invalid_response("duplicate key `result`"));
    s28_other_case: "second `result` key in capitals, which is another key" =>
        Case::on_work([message(r#""id":$ID,"result":TEXT,"RESULT":{"content":[]}"#)])
            .expects(text("right"));

    s30_result_and_error: "response with result and error" =>
        Case::on_work([message(r#""id":$ID,"result":TEXT,"error":{"code":1,"message":"no"}"#)])
            .expects(invalid_response("both `result` and `error`"));
    s31_neither_result_nor_error: "response without result and error" =>
        Case::on_work([message(r#""id":$ID"#)])
            .expects(invalid_response("neither `result` nor `error`"));
    s31_null_result: "response with a null result" =>
        Case::on_work([message(r#""id":$ID,"result":null"#)])
            .expects(invalid_response("the result is not an object"));
}
