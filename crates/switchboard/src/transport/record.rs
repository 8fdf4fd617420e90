//! Who a host is, for those who come after it.
//!
//! A guardian can be killed too. So a program may keep a [`HostRecord`] of each of its hosts in a
//! file; whoever starts next finds the records of hosts that are gone and ends what they left.
//! Invariant: only what carries exactly the tag of a host that is certainly gone is ended.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use rustix::process::Pid;

use super::procfs::{self, Stat};
use super::sweep;
use super::tag::HostTag;

/// A host: its tag, its process, and the machine and namespace in which that is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRecord {
    tag: HostTag,
    pid: Pid,
    /// In ticks since the machine was started.
    start: u64,
    /// Differs each time the machine was started.
    boot: String,
    /// In which process numbers mean the same.
    namespace: String,
}

/// What became of the host of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whereabouts {
    /// It is running.
    Here,
    /// It is gone; what it left may still be here.
    Gone,
    /// It ran before the machine was started anew: nothing of it is left.
    PastBoot,
    /// It runs, or ran, in another namespace: nothing can be said from here.
    Elsewhere,
}

impl HostRecord {
    /// The record of a host with this tag in this process.
    pub fn of_this_process(tag: HostTag) -> io::Result<Self> {
        let pid = rustix::process::getpid();
        let stat = Stat::of(pid).filter(|_| procfs::is_about_us());
        let stat = stat.ok_or_else(|| io::Error::other("/proc has no word of us"))?;
        Ok(Self {
            tag,
            pid,
            start: stat.start,
            boot: boot()?,
            namespace: namespace()?,
        })
    }

    /// The host's tag.
    pub fn tag(&self) -> HostTag {
        self.tag
    }

    /// Whether the host is still there.
    pub fn whereabouts(&self) -> Whereabouts {
        let (Ok(boot), Ok(namespace)) = (boot(), namespace()) else {
            return Whereabouts::Elsewhere;
        };
        if boot != self.boot {
            return Whereabouts::PastBoot;
        }
        if namespace != self.namespace || !procfs::is_about_us() {
            return Whereabouts::Elsewhere;
        }
        let is_here = |stat: Stat| stat.start == self.start && !stat.is_over();
        if Stat::of(self.pid).is_some_and(is_here) {
            Whereabouts::Here
        } else {
            Whereabouts::Gone
        }
    }
}

/// Ends what hosts left behind that are [gone](Whereabouts::Gone): SIGTERM, a moment, SIGKILL. What
/// `keepDaemons` keeps stays. Blocks. Returns how many processes there were.
pub fn end_leftovers(records: &[HostRecord]) -> usize {
    let gone: Vec<_> = records
        .iter()
        .filter(|record| record.whereabouts() == Whereabouts::Gone)
        .collect();
    if gone.is_empty() {
        return 0;
    }
    let look = || {
        let left = sweep::marked(|mark| {
            let host = gone.iter().find(|record| record.tag == mark.host);
            host.filter(|_| !mark.keeps_daemons).copied()
        });
        let began_after = left
            .into_iter()
            .filter(|(process, record)| process.start >= record.start);
        began_after.map(|(process, _)| process).collect::<Vec<_>>()
    };
    let count = look().len();
    if count > 0 {
        sweep::end(look);
    }
    count
}

fn boot() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned())
}

fn namespace() -> io::Result<String> {
    let link = fs::read_link("/proc/self/ns/pid")?;
    Ok(link.to_string_lossy().into_owned())
}

impl fmt::Display for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tag,
            pid,
            start,
            boot,
            namespace,
        } = self;
        let pid = pid.as_raw_nonzero();
        write!(f, "{tag} {pid} {start} {boot} {namespace}")
    }
}

/// That is not the text of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the record of a host")]
pub struct InvalidRecord;

impl FromStr for HostRecord {
    type Err = InvalidRecord;

    fn from_str(text: &str) -> Result<Self, InvalidRecord> {
        let fields: Vec<_> = text.split(' ').collect();
        let [tag, pid, start, boot, namespace] = fields[..] else {
            return Err(InvalidRecord);
        };
        let pid = pid.parse().ok().filter(|pid| *pid > 0);
        Ok(Self {
            tag: tag.parse().map_err(|_| InvalidRecord)?,
            pid: pid.and_then(Pid::from_raw).ok_or(InvalidRecord)?,
            start: start.parse().map_err(|_| InvalidRecord)?,
            boot: boot.to_owned(),
            namespace: namespace.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> HostRecord {
        HostRecord::of_this_process(HostTag::new()).unwrap()
    }

    #[test]
    fn a_record_is_read_back_and_nonsense_is_not() {
        let record = ours();
        assert_eq!(record.to_string().parse(), Ok(record));
        for nonsense in ["", "a b c d e", "1 2 3 4 5 6"] {
            assert_eq!(nonsense.parse::<HostRecord>(), Err(InvalidRecord));
        }
        let negative = ours().to_string().replacen(' ', " -", 1);
        assert_eq!(negative.parse::<HostRecord>(), Err(InvalidRecord));
    }

    #[test]
    fn a_host_is_here_only_with_its_own_start_boot_and_namespace() {
        let here = ours();
        assert_eq!(here.whereabouts(), Whereabouts::Here);
        // Another process has got its number.
        let start = here.start + 1;
        let reused = HostRecord {
            start,
            ..here.clone()
        };
        assert_eq!(reused.whereabouts(), Whereabouts::Gone);
        let boot = "another".to_owned();
        let before = HostRecord {
            boot,
            ..here.clone()
        };
        assert_eq!(before.whereabouts(), Whereabouts::PastBoot);
        let namespace = "pid:[1]".to_owned();
        let elsewhere = HostRecord { namespace, ..here };
        assert_eq!(elsewhere.whereabouts(), Whereabouts::Elsewhere);
    }
}
