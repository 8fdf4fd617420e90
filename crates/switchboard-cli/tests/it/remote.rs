//! Remote servers, as a person meets them.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode};

use crate::support::Desk;

async fn server() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::STATELESS).await
}

fn without_port(text: &str, server: &HttpServer) -> String {
    text.replace(&server.address().port().to_string(), "PORT")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_behind_a_url_is_added_listed_and_called() {
    let server = server().await;
    server.require_bearer("sesame-open-sesame");
    let desk = Desk::empty();
    let url = server.url();
    let header = "Authorization: Bearer sesame-open-sesame";
    let added = desk
        .run(&["add", "s", &url, "-t", "http", "-H", header])
        .await;
    assert_eq!(added.code, 0, "{added}");
    assert!(!added.to_string().contains("sesame"), "{added}");
    let listed = desk.run(&["list"]).await;
    assert!(
        listed.stdout.contains("✓ connected  s  local  http  1"),
        "{listed}"
    );
    let called = desk
        .run(&["call", "mcp__s__echo", "message=hello", "--yes"])
        .await;
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (0, "hello"),
        "{called}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_login_ends_with_code_5() {
    let server = server().await;
    server.require_bearer("sesame-open-sesame");
    let desk = Desk::with([("s", json!({"type": "http", "url": server.url()}).into())]);
    let listed = desk.run(&["list"]).await;
    assert_eq!(listed.code, 0);
    assert_snapshot!(without_port(&listed.stdout, &server), @r#"
      STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
    ○ needs-auth  s  project  http  -  -
        the server wants a login (HTTP 401): Bearer
        hint: switchboard add s URL -H "Authorization: Bearer …" --force, or a `headersHelper` that prints the header
    "#);
    for args in [
        &["get", "s"][..],
        &["call", "mcp__s__echo", "message=x", "--yes"],
        &["why", "mcp__s__echo"],
    ] {
        let ran = desk.run(args).await;
        assert_eq!(ran.code, 5, "{ran}");
        assert!(ran.to_string().contains("wants a login"), "{ran}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_fails_is_listed_with_what_http_said() {
    let server = server().await;
    server.arm(Fault::status(503).body("closed for repairs").always());
    let desk = Desk::with([("s", json!({"type": "http", "url": server.url()}).into())]);
    let listed = desk.run(&["list"]).await;
    assert!(listed.stdout.contains("HTTP 503"), "{listed}");
    assert!(listed.stdout.contains("closed for repairs"), "{listed}");
    let examined = desk.run(&["doctor"]).await;
    assert_eq!(examined.code, 4);
    let page = without_port(&examined.stdout, &server);
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
async fn the_steps_to_a_remote_server_are_examined_one_by_one() {
    let server = server().await;
    let url = server.url();
    let nobody = HttpServer::start(Script::modern(), Mode::STATELESS).await;
    let gone = nobody.url();
    nobody.stop().await;
    let desk = Desk::with([
        ("well", json!({"type": "http", "url": url}).into()),
        ("gone", json!({"type": "http", "url": gone}).into()),
        (
            "tls",
            json!({"type": "http", "url": url.replace("http:", "https:")}).into(),
        ),
    ]);
    let examined = desk.run(&["doctor", "--json"]).await.json();
    let steps = |server: usize| {
        let steps = examined["servers"][server]["steps"]
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
async fn headers_for_a_plain_address_are_warned_about() {
    let desk = Desk::empty();
    let add = async |name: &str, url: &str| {
        let ran = desk.run(&["add", name, url, "-H", "X-Key: value"]).await;
        assert_eq!(ran.code, 0, "{ran}");
        ran.stderr
            .contains("headers are not sent over plain http://")
    };
    assert!(add("a", "http://example.com/mcp").await);
    assert!(!add("b", "https://example.com/mcp").await);
    assert!(!add("c", "http://localhost:3000/mcp").await);
    assert!(!add("d", "http://[::1]:3000/mcp").await);
    assert!(!add("e", "http://127.0.0.1/mcp").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_cannot_be_used_is_told_of_and_left_out() {
    let server = server().await;
    let desk = Desk::with([("s", json!({"type": "http", "url": server.url()}).into())]);
    let mut command = desk.command(&["list"]);
    command.env("https_proxy", "socks5://me:hush-hush@127.0.0.1:1");
    let listed = desk.finish(command).await;
    assert!(listed.stdout.contains("✓ connected  s"), "{listed}");
    assert!(listed.stderr.contains("ignoring https_proxy: "), "{listed}");
    assert!(!listed.to_string().contains("hush"), "{listed}");
}
