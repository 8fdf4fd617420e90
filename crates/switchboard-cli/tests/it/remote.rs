//! Remote servers over HTTP: `add`, `list`, `call`, `doctor` and authorization.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode};

use crate::support::TestCli;

async fn server() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::STATELESS).await
}

fn without_port(text: &str, server: &HttpServer) -> String {
    text.replace(&server.address().port().to_string(), "PORT")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn url_server_is_added_listed_and_called() {
    let server = server().await;
    server.require_bearer("sesame-open-sesame");
    let cli = TestCli::empty();
    let url = server.url();
    let header = "Authorization: Bearer sesame-open-sesame";
    let added = cli
        .run(&["add", "s", &url, "-t", "http", "-H", header])
        .await;
    assert_eq!(added.code, 0, "{added}");
    assert!(!added.to_string().contains("sesame"), "{added}");
    let listed = cli.run(&["list"]).await;
    assert!(
        listed.stdout.contains("✓ connected  s  local  http  1"),
        "{listed}"
    );
    let called = cli
        .run(&["call", "mcp__s__echo", "message=hello", "--yes"])
        .await;
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (0, "hello"),
        "{called}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_needed_exits_with_5() {
    let server = server().await;
    server.require_bearer("sesame-open-sesame");
    let cli = TestCli::with_servers([("s", json!({"type": "http", "url": server.url()}).into())]);
    let listed = cli.run(&["list"]).await;
    assert_eq!(listed.code, 0);
    assert_snapshot!(without_port(&listed.stdout, &server), @r#"
      STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
    ○ needs-auth  s  project  http  -  -
        the server requires a login (HTTP 401): Bearer
        hint: switchboard add s URL -H "Authorization: Bearer …" --force, or a `headersHelper` that prints the header
    "#);
    for args in [
        &["get", "s"][..],
        &["call", "mcp__s__echo", "message=x", "--yes"],
        &["why", "mcp__s__echo"],
    ] {
        let output = cli.run(args).await;
        assert_eq!(output.code, 5, "{output}");
        assert!(output.to_string().contains("requires a login"), "{output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_error_is_shown_in_list() {
    let server = server().await;
    server.arm(Fault::status(503).body("closed for repairs").always());
    let cli = TestCli::with_servers([("s", json!({"type": "http", "url": server.url()}).into())]);
    let listed = cli.run(&["list"]).await;
    assert!(listed.stdout.contains("HTTP 503"), "{listed}");
    assert!(listed.stdout.contains("closed for repairs"), "{listed}");
    let report = cli.run(&["doctor"]).await;
    assert_eq!(report.code, 4);
    let page = without_port(&report.stdout, &server);
    assert!(
        page.contains("✓  connect  http://127.0.0.1:PORT/mcp"),
        "{page}"
    );
    assert!(
        page.contains("✗  respond  the server returned HTTP 503"),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_checks_remote_steps() {
    let server = server().await;
    let url = server.url();
    let stopped = HttpServer::start(Script::modern(), Mode::STATELESS).await;
    let gone = stopped.url();
    stopped.stop().await;
    let cli = TestCli::with_servers([
        ("well", json!({"type": "http", "url": url}).into()),
        ("gone", json!({"type": "http", "url": gone}).into()),
        (
            "tls",
            json!({"type": "http", "url": url.replace("http:", "https:")}).into(),
        ),
    ]);
    let report = cli.run(&["doctor", "--json"]).await.json();
    let steps = |server: usize| {
        let steps = report["servers"][server]["steps"]
            .as_array()
            .unwrap()
            .iter();
        let steps = steps.map(|step| {
            let text = |key: &str| step[key].as_str().unwrap().to_owned();
            format!("{} {}", text("step"), text("outcome"))
        });
        steps.collect::<Vec<_>>().join(", ")
    };
    assert!(
        steps(0).contains("connect ok, respond ok, auth ok, handshake ok, tools ok"),
        "{}",
        steps(0)
    );
    assert!(
        steps(1).contains("connect failed, respond not-reached"),
        "{}",
        steps(1)
    );
    assert!(
        steps(2).contains("connect ok, tls failed, respond not-reached"),
        "{}",
        steps(2)
    );
}

#[tokio::test]
async fn headers_over_plain_http_are_warned_about() {
    let cli = TestCli::empty();
    let add = async |name: &str, url: &str| {
        let output = cli.run(&["add", name, url, "-H", "X-Key: value"]).await;
        assert_eq!(output.code, 0, "{output}");
        output
            .stderr
            .contains("headers are only sent over https:// or to localhost")
    };
    assert!(add("a", "http://example.com/mcp").await);
    assert!(!add("b", "https://example.com/mcp").await);
    assert!(!add("c", "http://localhost:3000/mcp").await);
    assert!(!add("d", "http://[::1]:3000/mcp").await);
    assert!(!add("e", "http://127.0.0.1/mcp").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_proxy_is_ignored_with_warning() {
    let server = server().await;
    let cli = TestCli::with_servers([("s", json!({"type": "http", "url": server.url()}).into())]);
    let mut command = cli.command(&["list"]);
    command.env("https_proxy", "socks5://me:hush-hush@127.0.0.1:1");
    let listed = cli.run_command(command).await;
    assert!(listed.stdout.contains("✓ connected  s"), "{listed}");
    assert!(listed.stderr.contains("ignoring https_proxy: "), "{listed}");
    assert!(!listed.to_string().contains("hush"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_claims_no_contact_that_did_not_happen() {
    let server = server().await;
    server.arm(
        Fault::status(200)
            .header("content-type", "text/html")
            .body("<html>")
            .always(),
    );
    let plain = "http://example.com/mcp";
    let cli = TestCli::with_servers([
        (
            "plain",
            json!({"type": "http", "url": plain, "headers": {"X-Key": "v"}}).into(),
        ),
        ("page", json!({"type": "http", "url": server.url()}).into()),
    ]);
    let report = cli.run(&["doctor", "--json"]).await.json();
    let failed = |server: usize| {
        let steps = report["servers"][server]["steps"]
            .as_array()
            .unwrap()
            .clone();
        let step = steps.into_iter().find(|step| step["outcome"] == "failed");
        step.unwrap()["step"].as_str().unwrap().to_owned()
    };
    assert_eq!(failed(0), "connect", "{report}");
    assert_eq!(failed(1), "respond", "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_exits_with_5_if_only_a_login_is_missing() {
    let server = server().await;
    server.require_bearer("sesame-open-sesame");
    let url = json!({"type": "http", "url": server.url()});
    let cli = TestCli::with_servers([("s", url.clone().into())]);
    assert_eq!(cli.run(&["doctor"]).await.code, 5);
    let cli = TestCli::with_servers([
        ("s", url.into()),
        ("bad", json!({"command": "no-such-program"}).into()),
    ]);
    assert_eq!(cli.run(&["doctor"]).await.code, 4);
}
