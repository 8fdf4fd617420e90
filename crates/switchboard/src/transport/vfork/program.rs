//! The program that a child becomes: which file, with which arguments and variables.
//!
//! It is searched for as `execvp` does it, on the child's own `PATH` and from the child's own
//! directory, unless the launch says which file it is; which of the files it is, only the attempt to
//! start them tells. Invariant: everything is made by [`Program::prepare`]; [`Program::begin`] only goes through it.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;

use rustix::io::Errno;

use super::last_error;
use crate::transport::process::Launch;

/// Where programs are without a `PATH`, according to the C library.
const DEFAULT_PATH: &str = if cfg!(target_env = "musl") {
    "/usr/local/bin:/bin:/usr/bin"
} else {
    "/bin:/usr/bin"
};
/// What reads a file that is executable and does not say what reads it.
const SHELL: &CStr = c"/bin/sh";

/// A program to become.
pub(super) struct Program {
    /// The files that it may be, in order.
    files: Vec<CString>,
    arguments: Pointers,
    /// The arguments of the shell, if it is to read the file: its name, the file, the arguments.
    shell_arguments: Pointers,
    variables: Pointers,
}

impl Program {
    pub(super) fn prepare(launch: &Launch) -> io::Result<Self> {
        let command = launch.command.as_str();
        let path = launch.env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
        let files: io::Result<_> = match &launch.file {
            Some(file) => text(file.as_os_str().as_bytes()).map(|file| vec![file]),
            None => files(command, path).into_iter().map(text).collect(),
        };
        let arguments = || launch.args.iter().map(String::as_str);
        let variables = launch.env.iter();
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        Ok(Self {
            files: files?,
            arguments: Pointers::to([command].into_iter().chain(arguments()))?,
            shell_arguments: Pointers::to(["/bin/sh", command].into_iter().chain(arguments()))?,
            variables: Pointers::to(variables)?,
        })
    }

    /// Comes back only if there is no such program, and says why.
    pub(super) fn begin(&mut self) -> Errno {
        let mut error = Errno::NOENT;
        let mut was_denied = false;
        for file in &self.files {
            error = execute(file, &self.arguments, &self.variables);
            if error == Errno::NOEXEC {
                self.shell_arguments.point(1, file);
                error = execute(SHELL, &self.shell_arguments, &self.variables);
            }
            match error {
                Errno::ACCESS => was_denied = true,
                // Not there, or on a file system that is not: the next may be.
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                // It was found, and something is wrong with it.
                _ => return error,
            }
        }
        if was_denied { Errno::ACCESS } else { error }
    }
}

/// The files that a command may mean. One with a slash is not searched for.
fn files(command: &str, path: &str) -> Vec<String> {
    if command.is_empty() {
        return Vec::new();
    }
    if command.contains('/') {
        return vec![command.to_owned()];
    }
    let file = |folder: &str| match folder {
        // The working directory.
        "" => command.to_owned(),
        folder => format!("{folder}/{command}"),
    };
    path.split(':').map(file).collect()
}

/// Texts, as the kernel takes them: pointers, and a last one to nothing.
struct Pointers {
    /// What they point to, unless they were changed.
    _texts: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Pointers {
    fn to(texts: impl Iterator<Item = impl AsRef<[u8]>>) -> io::Result<Self> {
        let texts: Vec<CString> = texts.map(text).collect::<io::Result<_>>()?;
        let pointers = texts.iter().map(|text| text.as_ptr());
        let pointers = pointers.chain([ptr::null()]).collect();
        Ok(Self {
            _texts: texts,
            pointers,
        })
    }

    /// Lets one of them point elsewhere.
    fn point(&mut self, index: usize, text: &CStr) {
        if let Some(pointer) = self.pointers.get_mut(index) {
            *pointer = text.as_ptr();
        }
    }
}

#[expect(unsafe_code, reason = "the system call has no safe wrapper here")]
fn execute(file: &CStr, arguments: &Pointers, variables: &Pointers) -> Errno {
    let (arguments, variables) = (arguments.pointers.as_ptr(), variables.pointers.as_ptr());
    // SAFETY: both lists end with a null pointer, and everything before it points to C strings that
    // live in the lists or, in the case of the file that a shell is to read, in the `Program`.
    unsafe {
        libc::execve(file.as_ptr(), arguments, variables);
    }
    last_error()
}

/// As a C string, which has no room for a NUL byte.
pub(super) fn text(text: impl AsRef<[u8]>) -> io::Result<CString> {
    let invalid = |_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "nul byte found in provided data",
        )
    };
    CString::new(text.as_ref()).map_err(invalid)
}
