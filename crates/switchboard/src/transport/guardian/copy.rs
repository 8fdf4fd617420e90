//! A guardian that is a copy of this process: no program has to be found, loaded and linked for it.
//!
//! Invariant: a copy is made by the only thread of a process, so that nothing in it is half done by
//! one that is not there; and it never goes back to the code that it was copied from.

use std::ffi::OsString;
use std::io;

use super::Watchman;

/// Makes the copy. `words` is what it is called with where processes are listed.
#[cfg(target_os = "linux")]
pub(super) fn start(words: &[OsString]) -> io::Result<Watchman> {
    linux::start(words)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn start(_: &[OsString]) -> io::Result<Watchman> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe fork")]
mod linux {
    use std::ffi::OsString;
    use std::fs::{self, File, OpenOptions};
    use std::io::{self, BufReader, PipeReader};
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    use std::os::unix::ffi::OsStrExt as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::process::{Pid, PrctlMmMap, configure_virtual_memory_map};

    use super::super::{Watchman, watch};

    pub(super) fn start(words: &[OsString]) -> io::Result<Watchman> {
        if !is_alone() {
            return Err(io::Error::other("there are other threads"));
        }
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        let (hearing, telling) = io::pipe()?;
        // SAFETY: no other thread holds a lock, so everything works in the copy as it does here.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(telling);
                let _ = catch_unwind(AssertUnwindSafe(|| be_guardian(words, hearing, null)));
                // SAFETY: the process is over, and nothing runs that the original left for its end.
                unsafe { libc::_exit(0) }
            }
            pid => {
                let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("it has no number"))?;
                Watchman::new(pid, telling.into())
            }
        }
    }

    fn is_alone() -> bool {
        fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
    }

    /// Lets go of what the original had, and keeps watch. Stdin of the original may have been read
    /// ahead, so the pipe gets a reader of its own.
    fn be_guardian(words: &[OsString], hearing: PipeReader, null: File) {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        if let Some(area) = Area::find() {
            area.rewrite(&words.join(&0));
        }
        for (new, standard) in [
            (hearing.as_raw_fd(), 0),
            (null.as_raw_fd(), 1),
            (null.as_raw_fd(), 2),
        ] {
            // SAFETY: the copy has no other use for the standard three.
            unsafe {
                libc::dup2(new, standard);
            }
        }
        drop((hearing, null));
        // SAFETY: nobody else reads or closes it any more.
        let pipe = unsafe { File::from_raw_fd(0) };
        watch::keep_watch_on(BufReader::new(pipe));
    }

    /// The words and the environment that a process was started with, as others see them, and what
    /// else the kernel wants to hear when they move.
    struct Area {
        map: PrctlMmMap,
    }

    impl Area {
        fn find() -> Option<Self> {
            let stat = fs::read_to_string("/proc/self/stat").ok()?;
            let (_, after_name) = stat.rsplit_once(')')?;
            let fields: Vec<_> = after_name.split_ascii_whitespace().collect();
            // The state, which follows the name, is the third.
            let field = |number: usize| fields.get(number - 3)?.parse().ok();
            // SAFETY: asks where the heap ends, and moves nothing.
            let brk = unsafe { libc::sbrk(0) };
            let map = PrctlMmMap {
                start_code: field(26)?,
                end_code: field(27)?,
                start_data: field(45)?,
                end_data: field(46)?,
                start_brk: field(47)?,
                brk: brk as u64,
                start_stack: field(28)?,
                arg_start: field(48)?,
                arg_end: field(49)?,
                env_start: field(50)?,
                env_end: field(51)?,
                auxv: std::ptr::null_mut(),
                auxv_size: 0,
                exe_fd: -1,
            };
            let is_known = map.arg_start > 0 && map.env_start > 0;
            let is_sound = map.arg_start <= map.arg_end && map.env_start <= map.env_end;
            (is_known && is_sound).then_some(Self { map })
        }

        /// Puts these words in the place of the old ones, and nothing in that of the environment.
        fn rewrite(mut self, words: &[u8]) {
            let length = |start: u64, end: u64| usize::try_from(end - start).unwrap_or(0);
            let (args, env) = (self.map.arg_start as *mut u8, self.map.env_start as *mut u8);
            let args_length = length(self.map.arg_start, self.map.arg_end);
            let env_length = length(self.map.env_start, self.map.env_end);
            // The last one is not written: there the words end.
            let words = words.get(..args_length.saturating_sub(1)).unwrap_or(words);
            // SAFETY: the kernel put them there, on the stack, for the program to have; this is its
            // only thread, and it looks at neither from here on.
            unsafe {
                args.write_bytes(0, args_length);
                env.write_bytes(0, env_length);
                args.copy_from_nonoverlapping(words.as_ptr(), words.len());
            }
            self.map.arg_end = self.map.arg_start + words.len() as u64 + 1;
            self.map.env_end = self.map.env_start;
            // SAFETY: all is as it was, but for the two ends, which only others look at. Where the
            // kernel refuses, they see zeros.
            let _ = unsafe { configure_virtual_memory_map(&self.map) };
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_other_threads_is_not_copied() {
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(0);
        let other = std::thread::spawn(move || ended.recv());
        let refused = start(&[]).unwrap_err();
        assert_eq!(refused.to_string(), "there are other threads");
        drop(end);
        other.join().unwrap().unwrap_err();
    }
}
