//! Compares the children of all [`SpawnMethod`]s. Most tests run every method.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::*;
use crate::child_process::ExitOutcome;
use crate::procfs;

const PATH: &str = "/usr/bin:/bin";
/// How long a dropped child may take to disappear.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(target_os = "linux")]
const METHODS: [SpawnMethod; 2] = [SpawnMethod::Vfork, SpawnMethod::Fork];
#[cfg(not(target_os = "linux"))]
const METHODS: [SpawnMethod; 1] = [SpawnMethod::Fork];

/// Held for writing while a test creates an executable, for reading while a child starts. A child
/// that starts while a file is open for writing inherits the descriptor for a moment, and a file
/// that is open for writing cannot be executed.
static WRITING: RwLock<()> = RwLock::new(());

fn launch<const N: usize>(command: &str, args: [&str; N]) -> Launch {
    Launch {
        args: args.map(str::to_owned).to_vec(),
        env: BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]),
        ..Launch::new(command)
    }
}

fn on_path(path: &str, launch: Launch) -> Launch {
    let env = BTreeMap::from([("PATH".to_owned(), path.to_owned())]);
    Launch { env, ..launch }
}

fn in_directory(directory: &Path, launch: Launch) -> Launch {
    let cwd = Some(directory.to_owned());
    Launch { cwd, ..launch }
}

fn write(directory: &Path, name: &str, text: &str, mode: u32) -> String {
    let _exclusive = WRITING.write().unwrap_or_else(PoisonError::into_inner);
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn start(method: SpawnMethod, launch: &Launch) -> Result<SpawnedChild, SpawnError> {
    let _no_writer = WRITING.read().unwrap_or_else(PoisonError::into_inner);
    spawn_with(method, launch, None)
}

fn started(method: SpawnMethod, launch: &Launch) -> SpawnedChild {
    start(method, launch).unwrap_or_else(|error| panic!("{method:?}: {error}"))
}

/// The child's output and exit outcome.
async fn run(method: SpawnMethod, launch: &Launch) -> (String, String) {
    let SpawnedChild {
        mut handle, pipes, ..
    } = started(method, launch);
    let ChildPipes {
        stdin, mut stdout, ..
    } = pipes;
    drop(stdin);
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).await.unwrap();
    let exit = ExitOutcome(handle.wait().await.ok());
    (printed, exit.to_string())
}

async fn printed(method: SpawnMethod, launch: &Launch) -> String {
    run(method, launch).await.0
}

fn error(method: SpawnMethod, launch: &Launch) -> SpawnError {
    match start(method, launch) {
        Ok(_) => panic!("{method:?}: {launch:?} was started"),
        Err(error) => error,
    }
}

#[cfg(target_os = "linux")]
#[test]
fn vfork_is_supported_here() {
    assert_eq!(SpawnMethod::of_this_system(), SpawnMethod::Vfork);
}

#[tokio::test]
async fn exit_code_and_signal_are_reported() {
    for method in METHODS {
        for (script, end) in [
            ("exit 0", "exited with code 0"),
            ("exit 255", "exited with code 255"),
            ("kill -9 $$", "was killed by signal 9"),
        ] {
            let (printed, exit) = run(method, &launch("sh", ["-c", script])).await;
            assert_eq!((printed.as_str(), exit.as_str()), ("", end), "{method:?}");
        }
    }
}

#[tokio::test]
async fn child_gets_exactly_its_arguments_and_variables() {
    for method in METHODS {
        let mut with_variable = launch("env", []);
        with_variable.env.insert("EMPTY".to_owned(), String::new());
        let variables = printed(method, &with_variable).await;
        assert_eq!(variables, format!("EMPTY=\nPATH={PATH}\n"), "{method:?}");
        let script = r#"printf '<%s>' "$0" "$@""#;
        let echo = launch("sh", ["-c", script, "zero", "", "one two", "é"]);
        assert_eq!(
            printed(method, &echo).await,
            "<zero><><one two><é>",
            "{method:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn child_has_only_standard_streams_open() {
    // Without close-on-exec, as libraries in other languages open files.
    let open = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    assert!(open.as_raw_fd() > 2);
    for method in METHODS {
        // Descriptor 3 is the directory that `ls` reads.
        let listed = printed(method, &launch("ls", ["/proc/self/fd"])).await;
        assert_eq!(listed, "0\n1\n2\n3\n", "{method:?}");
    }
}

/// One signal mask of `/proc/PID/status`.
#[cfg(target_os = "linux")]
fn signals(status: &str, set: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(set));
    u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "signal masks have no safe wrapper")]
#[tokio::test]
async fn child_blocks_no_signal_and_handles_sigpipe() {
    let own = || fs::read_to_string("/proc/thread-self/status").unwrap();
    // SAFETY: the first call initializes the set; only the mask of this thread changes.
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
    for method in METHODS {
        let status = printed(method, &launch("cat", ["/proc/self/status"])).await;
        assert_eq!(signals(&status, "SigBlk"), 0, "{method:?}");
        let ignored = signals(&before, "SigIgn") & !sigpipe;
        assert_eq!(signals(&status, "SigIgn"), ignored, "{method:?}");
        assert_eq!(signals(&own(), "SigBlk"), signals(&before, "SigBlk"));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn child_leads_own_session_without_terminal() {
    for method in METHODS {
        let stat = printed(method, &launch("cat", ["/proc/self/stat"])).await;
        let numbers: Vec<i32> = stat
            .split(' ')
            .filter_map(|field| field.parse().ok())
            .take(5)
            .collect();
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(
            numbers,
            [numbers[0], own, numbers[0], numbers[0], 0],
            "{method:?}"
        );
    }
}

#[tokio::test]
async fn file_without_shebang_runs_in_shell() {
    let directory = TempDir::new().unwrap();
    let tool = write(
        directory.path(),
        "tool",
        r#"printf '<%s>' "$0" "$@""#,
        0o755,
    );
    let path = directory.path().to_str().unwrap();
    for method in METHODS {
        for command in ["tool", tool.as_str()] {
            let printed = printed(method, &on_path(path, launch(command, ["1", "2"]))).await;
            assert_eq!(printed, format!("<{tool}><1><2>"), "{method:?}");
        }
    }
}

#[tokio::test]
async fn command_is_searched_on_childs_path() {
    let directory = TempDir::new().unwrap();
    let make = |name: &str, text: &str, mode| {
        fs::create_dir(directory.path().join(name)).unwrap();
        write(&directory.path().join(name), "tool", text, mode)
    };
    make("one", "#!/bin/sh\necho one", 0o755);
    make("two", "#!/bin/sh\necho two", 0o755);
    make("denied", "#!/bin/sh\necho denied", 0o644);
    let path = |names: [&str; 3]| {
        let directories =
            names.map(|name| directory.path().join(name).to_str().unwrap().to_owned());
        directories.join(":")
    };
    for method in METHODS {
        for (names, found) in [
            (["one", "two", "gone"], "one\n"),
            (["two", "one", "gone"], "two\n"),
            (["denied", "gone", "two"], "two\n"),
            // A `PATH` entry that is a file is skipped.
            (["one/tool", "gone", "one"], "one\n"),
        ] {
            let launch = on_path(&path(names), launch("tool", []));
            assert_eq!(printed(method, &launch).await, found, "{method:?}");
        }
        let denied = on_path(&path(["gone", "denied", "gone"]), launch("tool", []));
        let why = "no permission (try: chmod +x tool)".to_owned();
        let command = "tool".to_owned();
        let expected = SpawnError::NotExecutable { command, why };
        assert_eq!(error(method, &denied), expected, "{method:?}");
    }
}

#[tokio::test]
async fn missing_path_falls_back_to_default() {
    for method in METHODS {
        let env = BTreeMap::new();
        let (_, exit) = run(
            method,
            &Launch {
                env,
                ..launch("true", [])
            },
        )
        .await;
        assert_eq!(exit, "exited with code 0", "{method:?}");
    }
}

#[tokio::test]
async fn relative_paths_start_in_childs_directory() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("bin")).unwrap();
    let text = "#!/bin/sh\n/bin/pwd -P";
    write(directory.path(), "here", text, 0o755);
    write(&directory.path().join("bin"), "tool", text, 0o755);
    let real = fs::canonicalize(directory.path()).unwrap();
    for method in METHODS {
        for (command, path) in [
            ("./here", PATH),
            ("bin/tool", PATH),
            ("tool", "bin"),
            ("here", ""),
            ("here", "/no/such/directory:"),
        ] {
            let launch = on_path(path, in_directory(directory.path(), launch(command, [])));
            let printed = printed(method, &launch).await;
            assert_eq!(printed.trim_end(), real.to_str().unwrap(), "{method:?}");
        }
    }
}

#[tokio::test]
async fn both_methods_report_same_spawn_errors() {
    let directory = TempDir::new().unwrap();
    let plain = write(directory.path(), "plain", "#!/bin/sh\n", 0o644);
    let lost = write(directory.path(), "lost", "#!/no/such/shell\n", 0o755);
    let directory_name = directory.path().to_str().unwrap();
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
            launch(directory_name, []),
            denied("it is a directory", directory_name),
        ),
        (
            launch("true", [&long]),
            failed("Argument list too long (os error 7)", "true"),
        ),
        (launch("a\0b", []), failed(no_nul, "a\0b")),
        (launch("true", ["a\0b"]), failed(no_nul, "true")),
        (variable, failed(no_nul, "true")),
        (
            in_directory(Path::new("/no/such"), launch("true", [])),
            "the working directory /no/such does not exist".to_owned(),
        ),
    ];
    for method in METHODS {
        for (launch, expected) in &table {
            assert_eq!(error(method, launch).to_string(), *expected, "{method:?}");
        }
    }
}

/// Waits until the child is reaped; a zombie still has a `stat`.
#[cfg(target_os = "linux")]
async fn assert_gone(child: Pid) {
    let started_at = Instant::now();
    while procfs::Stat::of(child).is_some() {
        assert!(
            started_at.elapsed() < EXIT_TIMEOUT,
            "{child:?} was not reaped"
        );
        tokio::task::yield_now().await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropped_child_leaves_no_zombie() {
    for method in METHODS {
        let spawned = started(method, &launch("sleep", ["1000"]));
        drop(spawned.handle);
        assert_gone(spawned.group).await;
    }
}

#[cfg(target_os = "linux")]
#[test]
fn child_dropped_after_runtime_leaves_no_zombie() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let first = runtime().unwrap();
    let spawned = first.block_on(async { started(SpawnMethod::Vfork, &launch("sleep", ["1000"])) });
    let SpawnedChild { handle, group, .. } = spawned;
    drop(first);
    drop(handle);
    runtime().unwrap().block_on(assert_gone(group));
}

/// Copies a program of the system. Panics if the system has no such binary.
#[cfg(target_os = "linux")]
fn copy_program(program: &str, directory: &Path, name: &str) -> PathBuf {
    let _exclusive = WRITING.write().unwrap_or_else(PoisonError::into_inner);
    let path = directory.join(name);
    fs::copy(fs::canonicalize(program).unwrap(), &path).unwrap();
    path
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn open_file_is_executed_after_another_replaced_it() {
    use crate::launch::ResolvedExecutable;
    let directory = TempDir::new().unwrap();
    for method in METHODS {
        let path = copy_program("/bin/cat", directory.path(), "run");
        let file = File::open(&path).unwrap();
        let evil = copy_program("/bin/false", directory.path(), "evil");
        fs::rename(evil, &path).unwrap();
        let executable = ResolvedExecutable {
            file: Some(file),
            ..ResolvedExecutable::from(path)
        };
        // `cat` prints its arguments.
        let launch = launch("./run", ["/proc/self/cmdline"]);
        let spawned = {
            let _no_writer = WRITING.read().unwrap_or_else(PoisonError::into_inner);
            spawn_with(method, &launch, Some(&executable)).unwrap()
        };
        let SpawnedChild {
            mut handle, pipes, ..
        } = spawned;
        let mut printed = String::new();
        let mut stdout = pipes.stdout;
        stdout.read_to_string(&mut printed).await.unwrap();
        assert_eq!(printed, "./run\0/proc/self/cmdline\0", "{method:?}");
        let exit = ExitOutcome(handle.wait().await.ok());
        assert_eq!(exit.code(), Some(0), "{method:?}");
    }
}
