//! Redirects of tool calls, and the error that the caller of the tool gets. `matrix` covers all
//! combinations of requests and redirects.
//!
//! Redirects from https to http are covered by the unit tests of the HTTP client, which have
//! certificates.

use switchboard_testkit::http::Fault;

use crate::table::{Case, Start, error_response, text};

/// Redirects calls of `work` to the server `other`, which is not in the config.
fn redirect_to_other(status: u16) -> Case {
    Case::modern()
        .after_connect(move |servers| {
            let fault = Fault::redirect(status, &servers.other.url());
            servers.hostile.arm(fault.on("tools/call work"));
        })
        .expects(error_response("which is another server"))
        .also_checks(|servers| assert_eq!(servers.other.connections(), 0))
}

/// Redirects calls of `work` to this URL.
fn redirect_to(url: &'static str) -> Case {
    Case::modern()
        .fault_on_work(Fault::redirect(307, url))
        .expects(error_response("set this URL as `url` of the entry"))
}

cases! {
    h08_301: "301 to another server" => redirect_to_other(301);
    h08_302: "302 to another server" => redirect_to_other(302);
    h08_303: "303 to another server" => redirect_to_other(303);
    h08_307: "307 to another server" => redirect_to_other(307);
    h08_308: "308 to another server" => redirect_to_other(308);
    h08_at_start: "308 to another server from the start" =>
        Case::modern()
            .before_start(|servers| {
                let fault = Fault::redirect(308, &servers.other.url());
                servers.hostile.arm(fault.always());
            })
            .start_fails(Start::Retried("which is another server"))
            .also_checks(|servers| assert_eq!(servers.other.connections(), 0));
    h08_without_location: "307 without Location" =>
        Case::modern().fault_on_work(Fault::status(307)).expects(error_response("without a valid `Location`"));

    h09_another_scheme: "307 to another scheme" =>
        Case::modern()
            .after_connect(|servers| {
                let url = servers.other.url().replace("http:", "https:");
                servers.hostile.arm(Fault::redirect(307, &url).on("tools/call work"));
            })
            .expects(error_response("which is another server"))
            .also_checks(|servers| assert_eq!(servers.other.connections(), 0));

    h10_loop: "endless redirects to the same URL" =>
        Case::modern()
            .after_connect(|servers| servers.hostile.arm(Fault::redirect(307, "/mcp").on("tools/call work").always()))
            .expects(error_response("HTTP 307"))
            .also_checks(|servers| {
                let calls = servers.hostile.requests_with("tools/call work").len();
                assert!(calls <= 12, "{calls} requests");
            });
    h10_five_hops: "five redirects within the server, which the client follows" =>
        Case::modern()
            .fault_on_work(Fault::redirect(308, "/mcp").times(5))
            .expects(text("right"))
            .also_checks(|servers| assert_eq!(servers.hostile.count("tools/call work"), 1));

    h11_metadata: "redirect to a cloud metadata address" =>
        redirect_to("http://169.254.169.254/latest/meta-data/");
    h11_loopback: "redirect to another loopback address" => redirect_to("http://[::1]:1/mcp");
    h11_file: "redirect to a file URL" => redirect_to("file:///etc/passwd");
    h11_script: "redirect to a javascript URL" => redirect_to("javascript:alert(1)");
    h11_data: "redirect to a data URL" => redirect_to("data:application/json,{}");
    h11_invalid_url: "redirect to an invalid URL" =>
        Case::modern().fault_on_work(Fault::redirect(307, "http://[")).expects(error_response("without a valid `Location`"));

    h12_another_port: "redirect to another port of the same host" => redirect_to_other(307);
}
