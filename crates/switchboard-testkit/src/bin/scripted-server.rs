//! Plays a script as a process: `scripted-server '<json>'` or `scripted-server @file`.
//!
//! The step `spawnChild` starts `scripted-server linger <group> <seconds>`, and the step `forkBomb`
//! starts `scripted-server fork-bomb <generations>`.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;
use std::time::Duration;

use switchboard_testkit::Script;
use switchboard_testkit::scripted::{Platform, ServerExit, serve, spawn_fork_bomb};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Runtime};

/// `EX_USAGE` of sysexits.h: the script is invalid.
const USAGE: i32 = 64;

fn main() {
    let inherited = open_descriptors();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["linger", group, seconds] => linger(group, seconds),
        ["fork-bomb", generations] => fork_bomb(generations),
        [script] => play(script, inherited),
        _ => Err("usage: scripted-server <script as JSON or @file>".to_owned()),
    };
    let code = outcome.unwrap_or_else(|reason| {
        let _ = writeln!(io::stderr(), "scripted-server: {reason}");
        USAGE
    });
    std::process::exit(code)
}

fn play(script: &str, inherited: Vec<i32>) -> Result<i32, String> {
    let script = read_script(script)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let stdin = take_stdin()?;
        let (stdout, stdout_copy) = take_stdout()?;
        Ok(serve(
            script,
            stdin,
            stdout,
            Platform::process(inherited, stdout_copy),
        )
        .await)
    });
    // Do not wait for a tokio thread that may be blocked in a write to stderr.
    runtime.shutdown_background();
    match ended {
        Ok(ServerExit::Exited(code)) => Ok(code),
        Ok(ServerExit::Killed) => Err("survived SIGKILL".to_owned()),
        Err(error) => Err(io::Error::to_string(&error)),
    }
}

fn read_script(argument: &str) -> Result<Script, String> {
    let text = match argument.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        None => argument.to_owned(),
    };
    Script::from_json(&text).map_err(|error| format!("invalid script: {error}"))
}

fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())
}

/// Opens stdin. A pipe is moved away from descriptor 0, so that dropping the stream closes the
/// pipe. Other kinds of files stay at descriptor 0.
fn take_stdin() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let descriptor = io::stdin().as_fd().try_clone_to_owned()?;
    let Ok(pipe) = pipe::Receiver::from_owned_fd(descriptor) else {
        return Ok(Box::new(tokio::io::stdin()));
    };
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(Box::new(pipe))
}

/// The stream to stdout, and a duplicate of the file descriptor of stdout.
type Stdout = (Box<dyn AsyncWrite + Send + Unpin>, Option<OwnedFd>);

/// Opens stdout. A pipe is moved away from descriptor 1, so that dropping the stream closes the
/// pipe. Other kinds of files stay at descriptor 1.
fn take_stdout() -> io::Result<Stdout> {
    let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
    let stdout_copy = descriptor.try_clone()?;
    let Ok(pipe) = pipe::Sender::from_owned_fd(descriptor) else {
        return Ok((Box::new(tokio::io::stdout()), Some(stdout_copy)));
    };
    rustix::stdio::dup2_stdout(File::create("/dev/null")?)?;
    Ok((Box::new(pipe), Some(stdout_copy)))
}

/// The file descriptors above 2 that are open.
fn open_descriptors() -> Vec<i32> {
    let listed: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The list contains the descriptor through which the directory was read. That one is closed by
    // now.
    let still_open = |number: &i32| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok();
    let above_standard = listed.into_iter().filter(|number| *number > 2);
    let mut descriptors: Vec<i32> = above_standard.filter(still_open).collect();
    descriptors.sort_unstable();
    descriptors
}

/// Prints `up` to stderr and sleeps, in a new session unless `group` is `in-group`. If `group` is
/// `orphan`, starts another process that prints and sleeps, and returns.
fn linger(group: &str, seconds: &str) -> Result<i32, String> {
    if group != "in-group" {
        rustix::process::setsid().map_err(|error| error.to_string())?;
    }
    if group == "orphan" {
        return spawn_orphan(seconds).map_err(|error| error.to_string());
    }
    let seconds = seconds.parse().map_err(|_| "invalid number of seconds")?;
    let runtime = runtime()?;
    let _ = writeln!(io::stderr(), "up");
    runtime.block_on(async { tokio::time::sleep(Duration::from_secs(seconds)).await });
    Ok(0)
}

/// Starts the next generation of processes, and sleeps.
fn fork_bomb(generations: &str) -> Result<i32, String> {
    let generations = generations
        .parse()
        .map_err(|_| "invalid number of generations")?;
    spawn_fork_bomb(generations).map_err(|error| error.to_string())?;
    linger("in-group", "300")
}

/// Starts the sleeping process and exits, so that the sleeping process becomes an orphan.
#[expect(
    clippy::disallowed_methods,
    reason = "the process outlives its parent on purpose"
)]
fn spawn_orphan(seconds: &str) -> io::Result<i32> {
    std::process::Command::new(std::env::current_exe()?)
        .args(["linger", "in-group", seconds])
        .stdin(Stdio::null())
        .spawn()?;
    Ok(0)
}
