use std::path::Path;

use switchboard_process::{Spawning, SupervisorOptions};

use super::*;
use switchboard_client::auth::Challenge;

fn children(spawning: Spawning) -> ProcessSupervisor {
    ProcessSupervisor::new(SupervisorOptions {
        spawning,
        ..SupervisorOptions::new()
    })
}

fn helper_with(directory: Option<&Path>, command: &str, spawning: Spawning) -> HeadersHelper {
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    let variables = Variables::from([
        ("PATH".to_owned(), path),
        ("WITHHELD".to_owned(), "w".to_owned()),
    ]);
    HeadersHelper::new(
        command.to_owned(),
        ServerName::new("tickets").unwrap(),
        "https://a.example/mcp".to_owned(),
        Arc::new(variables),
        directory.map(Path::to_owned),
        children(spawning),
        Redactor::new(["entry-secret".to_owned()]),
    )
}

async fn request_credential(helper: &HeadersHelper) -> Result<Credential, AuthError> {
    let name = ServerName::new("tickets").unwrap();
    let url = "https://a.example/mcp";
    helper.credential(AuthRequest::new(&name, url)).await
}

async fn refuse(helper: &HeadersHelper, credential: &Credential, before: u32) -> AuthVerdict {
    let name = ServerName::new("tickets").unwrap();
    let challenge = Challenge::default();
    let refusal =
        AuthRefusal::new(&name, 401, &challenge, credential).with_previous_refusals(before);
    helper.refused(refusal).await
}

fn value<'a>(credential: &'a Credential, name: &str) -> &'a str {
    credential.headers()[name].to_str().unwrap()
}

/// A command that prints a header `X-Run` with the number of its runs in the working directory.
const RUN_COUNTER: &str = "echo >> runs; echo \"X-Run: $(wc -l < runs | tr -d ' ')\"";

#[tokio::test]
async fn command_gets_server_name_and_url_but_no_withheld_variable() {
    let directory = tempfile::tempdir().unwrap();
    let command =
        r#"echo "X-A: $SWITCHBOARD_SERVER_NAME $SWITCHBOARD_SERVER_URL <$WITHHELD> $(pwd)""#;
    let helper = helper_with(Some(directory.path()), command, Spawning::Allowed);
    let credential = request_credential(&helper).await.unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let expected = format!("tickets https://a.example/mcp <> {}", directory.display());
    assert_eq!(value(&credential, "x-a"), expected);
}

#[tokio::test]
async fn headers_are_cached_until_server_refuses_them() {
    let directory = tempfile::tempdir().unwrap();
    let helper = helper_with(Some(directory.path()), RUN_COUNTER, Spawning::Allowed);
    let first = request_credential(&helper).await.unwrap();
    assert_eq!(value(&first, "x-run"), "1");
    assert_eq!(request_credential(&helper).await.unwrap(), first);

    // Concurrent rejections of the same headers cause one run.
    let refusals = (0..8).map(|_| refuse(&helper, &first, 0));
    let verdicts = futures_util::future::join_all(refusals).await;
    assert_eq!(verdicts, vec![AuthVerdict::TryAgain; 8]);
    let second = request_credential(&helper).await.unwrap();
    assert_eq!(value(&second, "x-run"), "2");
    // A late rejection of the first headers does not cause a run, because newer headers are cached.
    assert_eq!(refuse(&helper, &first, 0).await, AuthVerdict::TryAgain);
    assert_eq!(request_credential(&helper).await.unwrap(), second);
    // The second rejection of the same request does not cause a run.
    assert_eq!(refuse(&helper, &second, 1).await, AuthVerdict::NeedsLogin);
    assert_eq!(request_credential(&helper).await.unwrap(), second);
}

#[tokio::test]
async fn unchanged_headers_after_refusal_need_login() {
    let helper = helper_with(None, "echo 'X-A: 1'", Spawning::Allowed);
    let credential = request_credential(&helper).await.unwrap();
    assert_eq!(
        refuse(&helper, &credential, 0).await,
        AuthVerdict::NeedsLogin
    );
}

#[tokio::test]
async fn failure_quotes_last_stderr_line_without_secrets() {
    let command = "echo 'Authorization: Bearer sesame-open'; \
                   echo first >&2; echo 'entry-secret sesame-open ghp_0123456789abcdefghij: locked' >&2; exit 3";
    let helper = helper_with(None, command, Spawning::Allowed);
    let error = request_credential(&helper).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`headersHelper` exited with code 3: *** *** ***: locked"
    );
    assert!(!error.is_permanent());
    // A failed run is not cached: the next request runs the command again.
    assert_eq!(request_credential(&helper).await.unwrap_err(), error);
}

#[tokio::test]
async fn concurrent_requests_share_failed_run() {
    let directory = tempfile::tempdir().unwrap();
    let helper = helper_with(
        Some(directory.path()),
        "echo >> runs; exit 1",
        Spawning::Allowed,
    );
    let outcomes =
        futures_util::future::join_all((0..8).map(|_| request_credential(&helper))).await;
    assert!(outcomes.iter().all(Result::is_err));
    let runs = std::fs::read_to_string(directory.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 1);
}

#[tokio::test]
async fn endless_output_is_rejected() {
    let helper = helper_with(None, "yes", Spawning::Allowed);
    assert_eq!(
        request_credential(&helper).await.unwrap_err().to_string(),
        "`headersHelper` printed more than 64 KiB"
    );
}

#[tokio::test]
async fn hanging_command_is_killed_with_its_descendants() {
    let directory = tempfile::tempdir().unwrap();
    let command = "sleep 600 & echo $! > child; wait";
    let helper = helper_with(Some(directory.path()), command, Spawning::Allowed);
    let child = directory.path().join("child");
    let request = request_credential(&helper);
    tokio::pin!(request);
    let child_started = async {
        while !std::fs::read_to_string(&child).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = &mut request => panic!("{outcome:?}"),
        () = child_started => {}
    }
    // On a paused clock, `RUN_TIMEOUT` elapses at once.
    tokio::time::pause();
    let error = request.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`headersHelper` took longer than 10 s and was killed"
    );
    helper.children.kill_all();
    let pid = std::fs::read_to_string(&child).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let has_ended = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        status.is_err() || status.is_ok_and(|text| text.contains(") Z "))
    };
    while !has_ended() {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn disabled_spawning_prevents_run() {
    let directory = tempfile::tempdir().unwrap();
    let helper = helper_with(Some(directory.path()), RUN_COUNTER, Spawning::Disabled);
    let error = request_credential(&helper).await.unwrap_err().to_string();
    assert!(
        error.contains("this host may not start programs"),
        "{error}"
    );
    assert!(!directory.path().join("runs").exists());
}
