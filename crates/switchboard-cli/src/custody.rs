//! What this process does as a whole so that no server survives it.
//!
//! It adopts orphans, has a guardian for the case that it is killed, and writes down who it is for
//! the case that its guardian is killed too. All of that begins with the first host and not before:
//! a command that starts nothing pays nothing. Invariant: nothing here can fail a command.

mod records;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use switchboard::HostBuilder;
use switchboard::process::{Adoption, GuardianCommand, HostTag};

use records::{Record, Records};

/// The hidden word under which this binary is a guardian.
pub(crate) const GUARDIAN: &str = "__guardian";

/// The custody of this process over whatever its hosts start.
#[derive(Debug)]
pub(crate) struct Custody {
    records: Records,
    /// Removed when this is dropped.
    written: Mutex<Vec<Record>>,
}

impl Custody {
    /// `folder` is where running hosts are written down; it need not exist.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            records: Records::new(folder),
            written: Mutex::default(),
        }
    }

    /// Takes a host into custody, and ends what earlier ones left.
    pub(crate) fn over(&self, host: HostBuilder) -> HostBuilder {
        let ended = self.records.clean_up();
        if ended > 0 {
            tracing::warn!("ended {ended} processes that a killed switchboard had left");
        }
        let tag = HostTag::new();
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match self.records.write(tag) {
            Ok(record) => written.push(record),
            Err(error) => tracing::debug!(%error, "this host is not written down"),
        }
        let guardian = GuardianCommand::new("/proc/self/exe").arg(GUARDIAN);
        let host = host.tag(tag).guardian(guardian);
        match Adoption::begin() {
            Ok(adoption) => host.adopt_orphans(adoption),
            Err(error) => {
                tracing::debug!(%error, "orphans are not adopted");
                host
            }
        }
    }
}
