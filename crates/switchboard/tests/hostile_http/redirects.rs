//! Servers that send us elsewhere. `matrix` has all the ways there are; here is what the caller sees.
//!
//! That nothing follows from https to http is shown where there are certificates, in the tests of the
//! client.

use switchboard_testkit::http::Fault;

use crate::table::{Row, Start, refused, text};

/// Sends whoever calls `work` to the other server.
fn away(status: u16) -> Row {
    Row::modern()
        .then(move |stage| {
            let fault = Fault::redirect(status, &stage.elsewhere.url());
            stage.server.arm(fault.on("tools/call work"));
        })
        .sees(refused("which is another server"))
        .holds(|stage| assert_eq!(stage.elsewhere.connections(), 0))
}

/// Sends whoever calls `work` to this address.
fn to(url: &'static str) -> Row {
    Row::modern()
        .works(Fault::redirect(307, url))
        .sees(refused("put it into the entry"))
}

rows! {
    h08_301: "is elsewhere for good" => away(301);
    h08_302: "is elsewhere for now" => away(302);
    h08_303: "has its answer elsewhere" => away(303);
    h08_307: "wants the request sent elsewhere for now" => away(307);
    h08_308: "wants the request sent elsewhere for good" => away(308);
    h08_at_the_start: "is elsewhere, whatever it is asked" =>
        Row::modern()
            .before(|stage| {
                let fault = Fault::redirect(308, &stage.elsewhere.url());
                stage.server.arm(fault.always());
            })
            .does_not_start(Start::Retried("which is another server"))
            .holds(|stage| assert_eq!(stage.elsewhere.connections(), 0));
    h08_nowhere: "sends us away and does not say where" =>
        Row::modern().works(Fault::status(307)).sees(refused("does not say where"));

    h09_another_scheme: "sends us on with another scheme" =>
        Row::modern()
            .then(|stage| {
                let url = stage.elsewhere.url().replace("http:", "https:");
                stage.server.arm(Fault::redirect(307, &url).on("tools/call work"));
            })
            .sees(refused("which is another server"))
            .holds(|stage| assert_eq!(stage.elsewhere.connections(), 0));

    h10_circle: "sends us in a circle" =>
        Row::modern()
            .then(|stage| stage.server.arm(Fault::redirect(307, "/mcp").on("tools/call work").always()))
            .sees(refused("HTTP 307"))
            .holds(|stage| {
                let calls = stage.server.requests_with("tools/call work").len();
                assert!(calls <= 12, "{calls} requests");
            });
    h10_five_hops: "sends us on five times, which we follow" =>
        Row::modern()
            .works(Fault::redirect(308, "/mcp").times(5))
            .sees(text("right"))
            .holds(|stage| assert_eq!(stage.server.count("tools/call work"), 1));

    h11_metadata: "sends us to where machines in a cloud have their secrets" =>
        to("http://169.254.169.254/latest/meta-data/");
    h11_loopback: "sends us to ourselves by another name" => to("http://[::1]:1/mcp");
    h11_file: "sends us to a file" => to("file:///etc/passwd");
    h11_script: "sends us to a script" => to("javascript:alert(1)");
    h11_data: "sends us to itself" => to("data:application/json,{}");
    h11_no_address: "sends us to what is no address" =>
        Row::modern().works(Fault::redirect(307, "http://[")).sees(refused("does not say where"));

    h12_another_port: "sends us to another port of the same host" => away(307);
}
