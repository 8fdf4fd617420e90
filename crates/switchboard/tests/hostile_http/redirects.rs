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

/// Executes calls of `work` and then redirects them within the server, twice. Expects that each call
/// is sent once.
fn redirects_calls_within_server(case: Case, url: &'static str, error: &'static str) -> Case {
    case.after_connect(|servers| {
        let fault = Fault::redirect(308, url).on("tools/call work");
        servers.hostile.arm(fault.after_execution().always());
    })
    .expects(error_response(error))
    .expects(error_response("HTTP 308"))
    .also_checks(|servers| {
        assert_eq!(servers.work_requests().len(), 2);
    })
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

    h10_same_url: "calls are redirected to their own URL, after they ran" =>
        redirects_calls_within_server(Case::modern(), "/mcp", "redirects to the same URL");
    h10_other_path: "calls are redirected to another path, after they ran" =>
        redirects_calls_within_server(Case::modern(), "/mcp?next", "which is not followed");
    h10_legacy: "calls of a legacy session are redirected, after they ran" =>
        redirects_calls_within_server(Case::legacy(), "/mcp", "redirects to the same URL");
    h10_sse: "POSTs of calls are redirected in HTTP+SSE of 2024-11-05" =>
        Case::sse()
            .after_connect(|servers| {
                servers.hostile.arm(Fault::redirect(307, "/message").on("tools/call work").always());
            })
            .expects(error_response("HTTP 307"))
            .also_checks(|servers| assert_eq!(servers.work_requests().len(), 1));
    h10_handshake: "the handshake is redirected within the server" =>
        Case::modern()
            .before_start(|servers| servers.hostile.arm(Fault::redirect(307, "/mcp?next").on("server/discover")))
            .expects(text("right"))
            .also_checks(|servers| {
                let calls = servers.work_requests();
                let paths: Vec<_> = calls.iter().map(|call| call.path.as_str()).collect();
                assert_eq!(paths, ["/mcp?next"]);
            });

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
