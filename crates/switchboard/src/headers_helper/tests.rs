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

fn helper_in(folder: Option<&Path>, command: &str, spawning: Spawning) -> HeadersHelper {
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
        folder.map(Path::to_owned),
        children(spawning),
        Redactor::new(["entry-secret".to_owned()]),
    )
}

async fn ask(helper: &HeadersHelper) -> Result<Credential, AuthError> {
    let name = ServerName::new("tickets").unwrap();
    let url = "https://a.example/mcp";
    helper.credential(AuthRequest::new(&name, url)).await
}

async fn refuse(helper: &HeadersHelper, credential: &Credential, before: u32) -> AuthVerdict {
    let name = ServerName::new("tickets").unwrap();
    let challenge = Challenge::default();
    let refusal = AuthRefusal::new(&name, 401, &challenge, credential).after(before);
    helper.refused(refusal).await
}

fn value<'a>(credential: &'a Credential, name: &str) -> &'a str {
    credential.headers()[name].to_str().unwrap()
}

/// Prints the number of its run.
const COUNTS: &str = "echo >> runs; echo \"X-Run: $(wc -l < runs | tr -d ' ')\"";

#[tokio::test]
async fn it_is_told_whose_headers_it_prints_and_nothing_that_is_withheld() {
    let folder = tempfile::tempdir().unwrap();
    let command =
        r#"echo "X-A: $SWITCHBOARD_SERVER_NAME $SWITCHBOARD_SERVER_URL <$WITHHELD> $(pwd)""#;
    let helper = helper_in(Some(folder.path()), command, Spawning::Allowed);
    let credential = ask(&helper).await.unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let expected = format!("tickets https://a.example/mcp <> {}", folder.display());
    assert_eq!(value(&credential, "x-a"), expected);
}

#[tokio::test]
async fn what_it_printed_is_kept_until_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let helper = helper_in(Some(folder.path()), COUNTS, Spawning::Allowed);
    let first = ask(&helper).await.unwrap();
    assert_eq!(value(&first, "x-run"), "1");
    assert_eq!(ask(&helper).await.unwrap(), first);

    // Refused at the same time, it runs once for all of them.
    let all = (0..8).map(|_| refuse(&helper, &first, 0));
    let verdicts = futures_util::future::join_all(all).await;
    assert_eq!(verdicts, vec![AuthVerdict::TryAgain; 8]);
    let second = ask(&helper).await.unwrap();
    assert_eq!(value(&second, "x-run"), "2");
    // One that comes late was refused what nobody sends any more.
    assert_eq!(refuse(&helper, &first, 0).await, AuthVerdict::TryAgain);
    assert_eq!(ask(&helper).await.unwrap(), second);
    // A request that was refused twice is not helped by a third run.
    assert_eq!(refuse(&helper, &second, 1).await, AuthVerdict::NeedsLogin);
    assert_eq!(ask(&helper).await.unwrap(), second);
}

#[tokio::test]
async fn the_same_headers_again_are_no_reason_to_try_again() {
    let helper = helper_in(None, "echo 'X-A: 1'", Spawning::Allowed);
    let credential = ask(&helper).await.unwrap();
    assert_eq!(
        refuse(&helper, &credential, 0).await,
        AuthVerdict::NeedsLogin
    );
}

#[tokio::test]
async fn a_failure_says_the_last_line_and_no_secret() {
    let command = "echo 'Authorization: Bearer sesame-open'; \
                   echo first >&2; echo 'entry-secret sesame-open ghp_0123456789abcdefghij: locked' >&2; exit 3";
    let helper = helper_in(None, command, Spawning::Allowed);
    let error = ask(&helper).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`headersHelper` exited with code 3: *** *** ***: locked"
    );
    assert!(!error.is_permanent());
    // The next request tries once more.
    assert_eq!(ask(&helper).await.unwrap_err(), error);
}

#[tokio::test]
async fn those_who_wait_for_a_run_that_fails_do_not_run_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let helper = helper_in(
        Some(folder.path()),
        "echo >> runs; exit 1",
        Spawning::Allowed,
    );
    let all = futures_util::future::join_all((0..8).map(|_| ask(&helper))).await;
    assert!(all.iter().all(Result::is_err));
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 1);
}

#[tokio::test]
async fn an_endless_output_ends_it() {
    let helper = helper_in(None, "yes", Spawning::Allowed);
    assert_eq!(
        ask(&helper).await.unwrap_err().to_string(),
        "`headersHelper` printed more than 64 KiB"
    );
}

#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    let folder = tempfile::tempdir().unwrap();
    // Whoever holds the lock is there.
    let command = "sleep 600 & echo $! > child; wait";
    let helper = helper_in(Some(folder.path()), command, Spawning::Allowed);
    let child = folder.path().join("child");
    let asking = ask(&helper);
    tokio::pin!(asking);
    let started = async {
        while !std::fs::read_to_string(&child).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = &mut asking => panic!("{outcome:?}"),
        () = started => {}
    }
    tokio::time::pause();
    let error = asking.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`headersHelper` took longer than 10 s and was ended"
    );
    helper.children.kill_all();
    let pid = std::fs::read_to_string(&child).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let gone = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        status.is_err() || status.is_ok_and(|text| text.contains(") Z "))
    };
    while !gone() {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn the_profile_server_runs_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let helper = helper_in(Some(folder.path()), COUNTS, Spawning::Disabled);
    let error = ask(&helper).await.unwrap_err().to_string();
    assert!(
        error.contains("this host may not start programs"),
        "{error}"
    );
    assert!(!folder.path().join("runs").exists());
}
