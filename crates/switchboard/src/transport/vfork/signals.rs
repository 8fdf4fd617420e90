//! Signals around the birth of a child that shares our memory.
//!
//! Invariant: none is delivered to the child before every handler of the host is out of its reach.

#![expect(unsafe_code, reason = "these system calls have no safe wrappers")]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// No signal is delivered to this thread, or to what it starts, until this is dropped.
pub(super) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(super) fn all() -> io::Result<Self> {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call fills in `all`, the second reads it and fills in `before`.
        let error = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: the call above has filled it in.
        let before = unsafe { before.assume_init() };
        Ok(Self { before })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is one that this thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

/// For the child: signals do what they do by default, but for those that the host ignores. SIGPIPE is
/// ignored by every Rust program, and by few others.
pub(super) fn reset_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        if signal == libc::SIGPIPE || is_handled(signal) {
            // SAFETY: a disposition is a number and flags, for which zero is a value; it means the
            // default. The child has its own dispositions.
            unsafe {
                let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}

fn is_handled(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it only fills in `action`, which is valid before, too, if it refuses.
    let handler = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// For the child: every signal is delivered.
pub(in crate::transport) fn unblock_all() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: the first call fills in `none`, the second reads it.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}
