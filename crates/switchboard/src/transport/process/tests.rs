//! Children are the same, whichever way they come to be.

use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::*;

const PATH: &str = "/usr/bin:/bin";
/// How long what was dropped may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(target_os = "linux")]
const WAYS: [Way; 2] = [Way::Vfork, Way::Fork];
#[cfg(not(target_os = "linux"))]
const WAYS: [Way; 1] = [Way::Fork];

/// A child that comes to be while a file is written has it open for a moment, and no file that is open
/// for writing can be executed. Tests may run at the same time.
static WRITING: RwLock<()> = RwLock::new(());

fn launch<const N: usize>(command: &str, args: [&str; N]) -> Launch {
    Launch {
        command: command.to_owned(),
        args: args.map(str::to_owned).to_vec(),
        cwd: None,
        env: BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]),
        outer_mark: None,
        keeps_daemons: false,
        seal: None,
        file: None,
    }
}

fn on_path(path: &str, launch: Launch) -> Launch {
    let env = BTreeMap::from([("PATH".to_owned(), path.to_owned())]);
    Launch { env, ..launch }
}

fn in_folder(folder: &Path, launch: Launch) -> Launch {
    let cwd = Some(folder.to_owned());
    Launch { cwd, ..launch }
}

fn write(folder: &Path, name: &str, text: &str, mode: u32) -> String {
    let _alone = WRITING.write().unwrap_or_else(PoisonError::into_inner);
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn start(way: Way, launch: &Launch) -> Result<Spawned, SpawnError> {
    let _nobody_writes = WRITING.read().unwrap_or_else(PoisonError::into_inner);
    spawn_by(way, launch)
}

fn started(way: Way, launch: &Launch) -> Spawned {
    start(way, launch).unwrap_or_else(|error| panic!("{way:?}: {error}"))
}

/// What a child prints, and how it ends.
async fn run(way: Way, launch: &Launch) -> (String, String) {
    let Spawned {
        mut leader, pipes, ..
    } = started(way, launch);
    let Pipes {
        stdin, mut stdout, ..
    } = pipes;
    drop(stdin);
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).await.unwrap();
    let exit = Exit(leader.wait().await.ok());
    (printed, exit.to_string())
}

async fn printed(way: Way, launch: &Launch) -> String {
    run(way, launch).await.0
}

fn error(way: Way, launch: &Launch) -> SpawnError {
    match start(way, launch) {
        Ok(_) => panic!("{way:?}: {launch:?} was started"),
        Err(error) => error,
    }
}

#[cfg(target_os = "linux")]
#[test]
fn this_system_needs_no_copy() {
    assert_eq!(Way::of_this_system(), Way::Vfork);
}

#[tokio::test]
async fn the_end_of_a_child_is_told() {
    for way in WAYS {
        for (script, end) in [
            ("exit 0", "exited with code 0"),
            ("exit 255", "exited with code 255"),
            ("kill -9 $$", "was killed by signal 9"),
        ] {
            let (printed, exit) = run(way, &launch("sh", ["-c", script])).await;
            assert_eq!((printed.as_str(), exit.as_str()), ("", end), "{way:?}");
        }
    }
}

#[tokio::test]
async fn a_child_gets_its_arguments_and_variables_and_no_others() {
    for way in WAYS {
        let mut envied = launch("env", []);
        envied.env.insert("EMPTY".to_owned(), String::new());
        let variables = printed(way, &envied).await;
        assert_eq!(variables, format!("EMPTY=\nPATH={PATH}\n"), "{way:?}");
        let script = r#"printf '<%s>' "$0" "$@""#;
        let echo = launch("sh", ["-c", script, "zero", "", "one two", "é"]);
        assert_eq!(printed(way, &echo).await, "<zero><><one two><é>", "{way:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_has_its_three_streams_and_nothing_else_open() {
    // Not to be closed in children, as libraries in other languages have it.
    let open = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    assert!(open.as_raw_fd() > 2);
    for way in WAYS {
        // The fourth is the folder that is listed.
        let listed = printed(way, &launch("ls", ["/proc/self/fd"])).await;
        assert_eq!(listed, "0\n1\n2\n3\n", "{way:?}");
    }
}

/// A set of signals, as the kernel tells of it.
#[cfg(target_os = "linux")]
fn signals(status: &str, set: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(set));
    u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "masks have no safe wrapper")]
#[tokio::test]
async fn no_signal_is_blocked_in_a_child_and_sigpipe_is_not_ignored() {
    let own = || fs::read_to_string("/proc/thread-self/status").unwrap();
    // SAFETY: the set is made by the first call; it changes this thread only.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    let before = own();
    assert_ne!(signals(&before, "SigBlk"), 0);
    let sigpipe = 1 << (libc::SIGPIPE - 1);
    assert_ne!(signals(&before, "SigIgn") & sigpipe, 0);
    for way in WAYS {
        let status = printed(way, &launch("cat", ["/proc/self/status"])).await;
        assert_eq!(signals(&status, "SigBlk"), 0, "{way:?}");
        let ignored = signals(&before, "SigIgn") & !sigpipe;
        assert_eq!(signals(&status, "SigIgn"), ignored, "{way:?}");
        assert_eq!(signals(&own(), "SigBlk"), signals(&before, "SigBlk"));
    }
}

#[cfg(target_os = "linux")]
/// The session of this process: zero if its leader is not to be seen from here.
fn session() -> i32 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    let session = after_name.split_ascii_whitespace().nth(3).unwrap();
    session.parse().unwrap()
}

#[tokio::test]
async fn a_child_leads_its_own_group_in_our_session() {
    for way in WAYS {
        let stat = printed(way, &launch("cat", ["/proc/self/stat"])).await;
        let numbers: Vec<i32> = stat
            .split(' ')
            .filter_map(|field| field.parse().ok())
            .take(4)
            .collect();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(numbers, [numbers[0], own, numbers[0], session()], "{way:?}");
    }
}

#[tokio::test]
async fn a_file_that_does_not_say_what_reads_it_is_read_by_the_shell() {
    let folder = TempDir::new().unwrap();
    let tool = write(folder.path(), "tool", r#"printf '<%s>' "$0" "$@""#, 0o755);
    let path = folder.path().to_str().unwrap();
    for way in WAYS {
        for command in ["tool", tool.as_str()] {
            let printed = printed(way, &on_path(path, launch(command, ["1", "2"]))).await;
            assert_eq!(printed, format!("<{tool}><1><2>"), "{way:?}");
        }
    }
}

#[tokio::test]
async fn a_command_is_searched_on_the_path_of_its_entry() {
    let folder = TempDir::new().unwrap();
    let make = |name: &str, text: &str, mode| {
        fs::create_dir(folder.path().join(name)).unwrap();
        write(&folder.path().join(name), "tool", text, mode)
    };
    make("one", "#!/bin/sh\necho one", 0o755);
    make("two", "#!/bin/sh\necho two", 0o755);
    make("denied", "#!/bin/sh\necho denied", 0o644);
    let path = |names: [&str; 3]| {
        let folders = names.map(|name| folder.path().join(name).to_str().unwrap().to_owned());
        folders.join(":")
    };
    for way in WAYS {
        for (names, found) in [
            (["one", "two", "gone"], "one\n"),
            (["two", "one", "gone"], "two\n"),
            (["denied", "gone", "two"], "two\n"),
            // A file is no folder.
            (["one/tool", "gone", "one"], "one\n"),
        ] {
            let launch = on_path(&path(names), launch("tool", []));
            assert_eq!(printed(way, &launch).await, found, "{way:?}");
        }
        let denied = on_path(&path(["gone", "denied", "gone"]), launch("tool", []));
        let why = "no permission (try: chmod +x tool)".to_owned();
        let command = "tool".to_owned();
        let expected = SpawnError::NotExecutable { command, why };
        assert_eq!(error(way, &denied), expected, "{way:?}");
    }
}

#[tokio::test]
async fn without_a_path_the_system_s_own_is_searched() {
    for way in WAYS {
        let env = BTreeMap::new();
        let (_, exit) = run(
            way,
            &Launch {
                env,
                ..launch("true", [])
            },
        )
        .await;
        assert_eq!(exit, "exited with code 0", "{way:?}");
    }
}

#[tokio::test]
async fn relative_paths_begin_in_the_child_s_folder() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("bin")).unwrap();
    let text = "#!/bin/sh\n/bin/pwd -P";
    write(folder.path(), "here", text, 0o755);
    write(&folder.path().join("bin"), "tool", text, 0o755);
    let real = fs::canonicalize(folder.path()).unwrap();
    for way in WAYS {
        for (command, path) in [
            ("./here", PATH),
            ("bin/tool", PATH),
            ("tool", "bin"),
            ("here", ""),
            ("here", "/no/such/folder:"),
        ] {
            let launch = on_path(path, in_folder(folder.path(), launch(command, [])));
            let printed = printed(way, &launch).await;
            assert_eq!(printed.trim_end(), real.to_str().unwrap(), "{way:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_started_is_told_in_the_same_words() {
    let folder = TempDir::new().unwrap();
    let plain = write(folder.path(), "plain", "#!/bin/sh\n", 0o644);
    let lost = write(folder.path(), "lost", "#!/no/such/shell\n", 0o755);
    let folder_name = folder.path().to_str().unwrap();
    let below_a_file = format!("{plain}/x");
    let long = "x".repeat(200 * 1024);
    let not_found = |command: &str| format!("command not found: {command}");
    let denied = |why: &str, command: &str| format!("{command} cannot be executed: {why}");
    let failed = |why: &str, command: &str| format!("{command} could not be started: {why}");
    let no_nul = "nul byte found in provided data";
    let chmod = format!("no permission (try: chmod +x {plain})");
    let first_line = "the program named in its first line is missing";
    let mut variable = launch("true", []);
    variable.env.insert("A".to_owned(), "b\0c".to_owned());
    let table = [
        (launch("", []), not_found("")),
        (launch("no-such-command", []), not_found("no-such-command")),
        (launch("/no/such", []), not_found("/no/such")),
        (launch(&below_a_file, []), not_found(&below_a_file)),
        (launch(&plain, []), denied(&chmod, &plain)),
        (launch(&lost, []), denied(first_line, &lost)),
        (
            launch(folder_name, []),
            denied("it is a directory", folder_name),
        ),
        (
            launch("true", [&long]),
            failed("Argument list too long (os error 7)", "true"),
        ),
        (launch("a\0b", []), failed(no_nul, "a\0b")),
        (launch("true", ["a\0b"]), failed(no_nul, "true")),
        (variable, failed(no_nul, "true")),
        (
            in_folder(Path::new("/no/such"), launch("true", [])),
            "the working directory /no/such does not exist".to_owned(),
        ),
    ];
    for way in WAYS {
        for (launch, expected) in &table {
            assert_eq!(error(way, launch).to_string(), *expected, "{way:?}");
        }
    }
}

/// Whether a child has been taken leave of: a zombie has not.
#[cfg(target_os = "linux")]
async fn assert_gone(child: Pid) {
    let began = Instant::now();
    while procfs::Stat::of(child).is_some() {
        assert!(began.elapsed() < PATIENCE, "{child:?} is left");
        tokio::task::yield_now().await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_that_is_dropped_leaves_no_zombie() {
    for way in WAYS {
        let spawned = started(way, &launch("sleep", ["1000"]));
        drop(spawned.leader);
        assert_gone(spawned.group).await;
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_that_outlives_its_runtime_leaves_no_zombie() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let first = runtime().unwrap();
    let spawned = first.block_on(async { started(Way::Vfork, &launch("sleep", ["1000"])) });
    let Spawned { leader, group, .. } = spawned;
    drop(first);
    drop(leader);
    runtime().unwrap().block_on(assert_gone(group));
}
