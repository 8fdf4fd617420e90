//! The `execve` call of a child, with arguments, environment and candidate files prepared.
//!
//! Unless the caller names the file, the command is searched like in `execvp`, but on the child's
//! own `PATH` and relative to the child's working directory. Only the attempt to execute a
//! candidate shows whether it is the right one. An open file is executed by its descriptor, so that
//! nothing can replace it. Invariant: [`ExecPlan::prepare`] allocates
//! everything; [`ExecPlan::exec`] allocates nothing.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;

use rustix::io::Errno;

use super::close_fds::above_stdio;
use crate::launch::{Launch, ResolvedExecutable};

/// The search path of the C library for an environment without `PATH`.
const DEFAULT_PATH: &str = if cfg!(target_env = "musl") {
    "/usr/local/bin:/bin:/usr/bin"
} else {
    "/bin:/usr/bin"
};
/// Runs executable files that have no `#!` line and no known binary format.
const SHELL: &CStr = c"/bin/sh";

/// A prepared `execve` call.
pub(super) struct ExecPlan {
    /// The file to execute, instead of a candidate.
    open_file: Option<OwnedFd>,
    /// The files to try, in order.
    candidates: Vec<CString>,
    arguments: CStringArray,
    /// Arguments of the shell if it has to run the file: name, file, arguments.
    shell_arguments: CStringArray,
    environment: CStringArray,
}

impl ExecPlan {
    pub(super) fn prepare(
        launch: &Launch,
        executable: Option<&ResolvedExecutable>,
    ) -> io::Result<Self> {
        let command = launch.command.as_str();
        let path = launch.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let candidates: io::Result<_> = match executable {
            Some(executable) => {
                c_string(executable.path.as_os_str().as_bytes()).map(|file| vec![file])
            }
            None => candidates(command, path)
                .into_iter()
                .map(c_string)
                .collect(),
        };
        let open_file = executable.and_then(|executable| executable.file.as_ref());
        let open_file = open_file.map(|file| above_stdio(file.try_clone()?));
        let arguments = || launch.args.iter().map(String::as_str);
        let variables = launch.env.iter();
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        Ok(Self {
            open_file: open_file.transpose()?,
            candidates: candidates?,
            arguments: CStringArray::new([command].into_iter().chain(arguments()))?,
            shell_arguments: CStringArray::new(
                ["/bin/sh", command].into_iter().chain(arguments()),
            )?,
            environment: CStringArray::new(variables)?,
        })
    }

    /// Executes the open file, or the first candidate that can be executed. Returns only on failure.
    pub(super) fn exec(&mut self) -> Errno {
        if let Some(file) = &self.open_file {
            return execveat(file, &self.arguments, &self.environment);
        }
        let mut error = Errno::NOENT;
        let mut was_denied = false;
        for file in &self.candidates {
            error = execve(file, &self.arguments, &self.environment);
            if error == Errno::NOEXEC {
                self.shell_arguments.replace(1, file);
                error = execve(SHELL, &self.shell_arguments, &self.environment);
            }
            match error {
                Errno::ACCESS => was_denied = true,
                // The file or its file system does not exist: try the next candidate.
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                // The file exists but cannot be executed.
                _ => return error,
            }
        }
        if was_denied { Errno::ACCESS } else { error }
    }
}

/// The files that a command may refer to. A command with a slash is not searched on the path.
fn candidates(command: &str, path: &str) -> Vec<String> {
    if command.is_empty() {
        return Vec::new();
    }
    if command.contains('/') {
        return vec![command.to_owned()];
    }
    let file_in = |directory: &str| match directory {
        // An empty entry is the working directory.
        "" => command.to_owned(),
        directory => format!("{directory}/{command}"),
    };
    path.split(':').map(file_in).collect()
}

/// A null-terminated array of C strings.
#[derive(Debug)]
struct CStringArray {
    /// Owns what the pointers point to, except for replaced ones.
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

#[expect(
    unsafe_code,
    reason = "raw pointers are neither `Send` nor `Sync` by default"
)]
// SAFETY: the pointers point to heap memory that the array owns or, after `replace`, that the
// `ExecPlan` owns. The memory is only read.
unsafe impl Send for CStringArray {}
#[expect(
    unsafe_code,
    reason = "raw pointers are neither `Send` nor `Sync` by default"
)]
// SAFETY: as for `Send`.
unsafe impl Sync for CStringArray {}

impl CStringArray {
    fn new(strings: impl Iterator<Item = impl AsRef<[u8]>>) -> io::Result<Self> {
        let strings: Vec<CString> = strings.map(c_string).collect::<io::Result<_>>()?;
        let pointers = strings.iter().map(|string| string.as_ptr());
        let pointers = pointers.chain([ptr::null()]).collect();
        Ok(Self {
            _strings: strings,
            pointers,
        })
    }

    /// Replaces one pointer. The caller keeps `string` alive.
    fn replace(&mut self, index: usize, string: &CStr) {
        if let Some(pointer) = self.pointers.get_mut(index) {
            *pointer = string.as_ptr();
        }
    }
}

#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
fn execve(file: &CStr, arguments: &CStringArray, environment: &CStringArray) -> Errno {
    let (arguments, environment) = (arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    // SAFETY: both arrays end with a null pointer. All other pointers point to C strings owned by
    // the arrays or, for the file that a shell runs, by the `ExecPlan`.
    unsafe {
        libc::execve(file.as_ptr(), arguments, environment);
    }
    last_errno()
}

/// Executes an open file. The descriptor is close-on-exec, so the program does not inherit it.
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
fn execveat(file: &OwnedFd, arguments: &CStringArray, environment: &CStringArray) -> Errno {
    // SAFETY: as in `execve`; the empty path with `AT_EMPTY_PATH` selects the open file.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            arguments.pointers.as_ptr(),
            environment.pointers.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
    }
    last_errno()
}

pub(super) fn last_errno() -> Errno {
    let error = io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(error.unwrap_or(libc::EINVAL))
}

/// Converts to a C string; fails if the text contains a NUL byte.
pub(super) fn c_string(text: impl AsRef<[u8]>) -> io::Result<CString> {
    // The same message as the standard library's `Command`.
    let invalid = |_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "nul byte found in provided data",
        )
    };
    CString::new(text.as_ref()).map_err(invalid)
}
