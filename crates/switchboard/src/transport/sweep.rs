//! Ends processes that left their group, by number and start, never by number alone.
//!
//! Whom to end is said by a *look* that is repeated until it finds nobody new. Plain and blocking,
//! because it also runs where there is no runtime. Invariant: a signal reaches the process that was
//! seen, or nobody: between look and signal it is held by a descriptor and looked at again.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::procfs::{self, Environments, Stat};
use super::tag::Mark;

/// How long a daemon may take to leave after SIGTERM.
pub(crate) const GRACE: Duration = Duration::from_millis(250);
/// How long is waited after SIGKILL: only a kernel that is stuck keeps a process.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// How often is looked whether they are gone.
const POLL: Duration = Duration::from_millis(5);
/// How often is looked for new ones: whoever starts processes faster than that is not outrun.
const ROUNDS: usize = 32;
/// After so many looks that found nobody new, there is nobody.
const QUIET_LOOKS: usize = 3;

/// A process as it was seen. Its number may be somebody else's later; number and start are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sighting {
    pub(crate) pid: Pid,
    pub(crate) start: u64,
}

impl Sighting {
    /// `None`: it is gone, or all but.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let stat = Stat::of(pid).filter(|stat| !stat.is_over())?;
        Some(Self {
            pid,
            start: stat.start,
        })
    }

    pub(crate) fn is_there(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Signals this very process; nobody if it is gone.
    #[cfg(target_os = "linux")]
    pub(crate) fn signal(&self, signal: Signal) {
        use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
        // Gone meanwhile, or not ours to signal: the next look tells.
        let _ = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            Ok(held) if self.is_there() => pidfd_send_signal(held, signal),
            // Before Linux 5.3 there remains the moment between the look and the signal.
            Err(_) if self.is_there() => kill_process(self.pid, signal),
            _ => Ok(()),
        };
    }

    /// Nobody is ever seen where there is no `/proc`.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "as on Linux")]
    pub(crate) fn signal(&self, _: Signal) {}
}

/// Everybody with a mark for which `choose` has an answer, and the answer.
pub(crate) fn marked<T>(choose: impl Fn(&Mark) -> Option<T>) -> Vec<(Sighting, T)> {
    let mut environments = Environments::default();
    let mut chosen = |pid| environments.marks(pid).find_map(|mark| choose(&mark));
    let mut found = Vec::new();
    for pid in procfs::others() {
        if chosen(pid).is_none() {
            continue;
        }
        // The number may have changed hands: the mark must be there after the start is known, too.
        if let Some(sighting) = Sighting::of(pid)
            && let Some(answer) = chosen(pid)
        {
            found.push((sighting, answer));
        }
    }
    found
}

/// Asks everybody that `look` finds to leave, and waits a moment. False: there is nobody.
pub(crate) fn ask_to_leave(look: impl Fn() -> Vec<Sighting>) -> bool {
    let asked = look();
    for process in &asked {
        process.signal(Signal::TERM);
        // One that was stopped could not heed it.
        process.signal(Signal::CONT);
    }
    wait_for(&asked, GRACE);
    !asked.is_empty()
}

/// Kills everybody that `look` finds. Nobody of them is left when it comes back. Whoever saw somebody
/// before does not trust a single look.
pub(crate) fn end_now(look: impl Fn() -> Vec<Sighting>, was_somebody: bool) {
    let killed = kill_rounds(&look, was_somebody);
    if !killed.is_empty() {
        wait_for(&killed, AFTER_KILL);
        // A look takes leave of the dead where they are ours.
        look();
    }
}

/// Ends everybody that `look` finds, where somebody was seen: SIGTERM, a moment, SIGKILL.
pub(crate) fn end(look: impl Fn() -> Vec<Sighting>) {
    ask_to_leave(&look);
    end_now(look, true);
}

/// Kills until looks find nobody new. Those already killed may take a moment to vanish; and where
/// there was somebody, one who moves on all the time may slip through a single look, or two.
fn kill_rounds(look: &impl Fn() -> Vec<Sighting>, was_somebody: bool) -> Vec<Sighting> {
    let mut killed = Vec::new();
    let mut known = HashSet::new();
    let mut quiet_looks = 0;
    for _ in 0..ROUNDS {
        let fresh: Vec<_> = look()
            .into_iter()
            .filter(|one| known.insert(*one))
            .collect();
        quiet_looks = if fresh.is_empty() { quiet_looks + 1 } else { 0 };
        let was_nobody = !was_somebody && killed.is_empty() && fresh.is_empty();
        if was_nobody || quiet_looks == QUIET_LOOKS {
            break;
        }
        for process in &fresh {
            process.signal(Signal::KILL);
        }
        killed.extend(fresh);
    }
    killed
}

fn wait_for(processes: &[Sighting], at_most: Duration) {
    wait(|| processes.iter().any(Sighting::is_there), at_most);
}

/// Waits as long as those who were killed are there.
pub(crate) fn wait_while(are_there: impl Fn() -> bool) {
    wait(are_there, AFTER_KILL);
}

#[expect(
    clippy::disallowed_methods,
    reason = "runs on threads and in processes that have no runtime"
)]
fn wait(are_there: impl Fn() -> bool, at_most: Duration) {
    let end = Instant::now() + at_most;
    while are_there() && Instant::now() < end {
        std::thread::sleep(POLL);
    }
}
