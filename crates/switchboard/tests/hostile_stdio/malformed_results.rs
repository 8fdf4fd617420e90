//! What a message consists of.

use switchboard_testkit::Step;

use crate::table::{Row, right, text, timed_out, unusable};

const TEXT: &str = r#"{"content":[{"type":"text","text":"right"}]}"#;

/// One line with members of a message in it.
fn message(members: &str) -> Step {
    Step::raw(&format!("{{\"jsonrpc\":\"2.0\",{members}}}").replace("TEXT", TEXT))
}

rows! {
    s28_two_methods: "sends a request with two methods, then the answer" =>
        Row::working([message(r#""id":$ID,"method":"ping","method":"roots/list""#), right()])
            .sees(text("right"));
    s28_two_results: "answers with two results" =>
        Row::working([message(r#""id":$ID,"result":TEXT,"result":{"content":[]}"#)])
            .sees(unusable("the key `result` stands twice"));
    s28_two_ids: "answers under two ids, so that nobody knows which is meant" =>
        Row::working([message(r#""id":$ID,"id":1,"result":TEXT"#)])
            .call_timeout(300)
            .sees(timed_out());
    s28_disguised_twin: "hides the second result behind an escape" =>
        Row::working([message(r#""id":$ID,"result":TEXT,"res\u0075lt":{"content":[]}"#)])
            .sees(unusable("the key `result` stands twice"));
    s28_other_case: "spells a second result in capitals, which is another key" =>
        Row::working([message(r#""id":$ID,"result":TEXT,"RESULT":{"content":[]}"#)])
            .sees(text("right"));

    s30_result_and_error: "answers with both a result and an error" =>
        Row::working([message(r#""id":$ID,"result":TEXT,"error":{"code":1,"message":"no"}"#)])
            .sees(unusable("both `result` and `error`"));
    s31_neither: "answers with neither a result nor an error" =>
        Row::working([message(r#""id":$ID"#)])
            .sees(unusable("neither `result` nor `error`"));
    s31_null_result: "answers with a result of null" =>
        Row::working([message(r#""id":$ID,"result":null"#)])
            .sees(unusable("the result is not an object"));
}
