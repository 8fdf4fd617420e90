//! Blocks and resets signals around the creation of a child that shares our memory.
//!
//! Invariant: no signal is delivered to the child before all handlers of the host are reset.

#![expect(unsafe_code, reason = "these system calls have no safe wrappers")]

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Blocks all signals for this thread and the children it creates, until dropped.
pub(super) struct BlockedSignals {
    previous_mask: libc::sigset_t,
}

impl BlockedSignals {
    pub(super) fn block_all() -> io::Result<Self> {
        let (mut all, mut previous) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first call fills `all`, the second reads it and fills `previous`.
        let error = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), previous.as_mut_ptr())
        };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: the call above has filled it.
        let previous_mask = unsafe { previous.assume_init() };
        Ok(Self { previous_mask })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: restores a mask that this thread had.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.previous_mask,
                ptr::null_mut(),
            );
        }
    }
}

/// Called in the child: resets handled signals to their default. Signals that the host ignores stay
/// ignored, except SIGPIPE: every Rust program ignores it, and most other programs expect the
/// default.
pub(super) fn reset_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        if signal == libc::SIGPIPE || is_handled(signal) {
            // SAFETY: an all-zero `sigaction` is valid and means the default. The child has its own
            // dispositions, because `CLONE_SIGHAND` is not set.
            unsafe {
                let default: libc::sigaction = MaybeUninit::zeroed().assume_init();
                libc::sigaction(signal, &raw const default, ptr::null_mut());
            }
        }
    }
}

fn is_handled(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call only fills `action`, which is a valid value even if the call fails.
    let handler = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction
    };
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// Called in the child: unblocks all signals.
pub(in crate::spawn) fn unblock_all() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: the first call fills `none`, the second reads it.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}
