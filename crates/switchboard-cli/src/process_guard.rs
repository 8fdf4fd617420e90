//! Ensures that no server outlives this process.
//!
//! This process becomes a subreaper, to which orphaned descendants of servers are reparented. It
//! starts a guardian process, which kills the servers if this process is killed. It writes a record
//! per host: if the guardian is killed too, the next start finds and kills the servers. Invariant:
//! a failure in this module never fails a command.

mod host_records;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard::HostBuilder;
use switchboard::process::{Guardian, HostId, Subreaper};

use host_records::{HostRecordFile, HostRecords};

/// The hidden command that runs this binary as a guardian process.
pub(crate) const GUARDIAN: &str = "__guardian";

/// Cleans up the processes of all hosts of this run.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    records: HostRecords,
    subreaper: Option<Subreaper>,
    /// The guardian for the first host, until [`Self::attach`] takes it. [`Self::begin`] spawns it
    /// early, so that its process starts while the config is loaded.
    guardian: Mutex<Option<Guardian>>,
    /// The records of the running hosts of this process. The files are removed by
    /// [`ProcessGuard::release`], or when this guard is dropped.
    record_files: Mutex<Vec<HostRecordFile>>,
}

impl ProcessGuard {
    /// Makes this process a subreaper and spawns a guardian. `directory` is where the host records
    /// are written; it need not exist yet.
    pub(crate) fn begin(directory: PathBuf) -> Self {
        // Enable the subreaper before the guardian is spawned. A subreaper that is enabled when
        // this process already has children kills only those orphans that carry the marker of the
        // host.
        let subreaper = Subreaper::enable();
        if let Err(error) = &subreaper {
            tracing::debug!(%error, "cannot become a subreaper");
        }
        let guardian = new_guardian();
        guardian.start_early();
        Self {
            records: HostRecords::new(directory),
            subreaper: subreaper.ok(),
            guardian: Mutex::new(Some(guardian)),
            record_files: Mutex::default(),
        }
    }

    /// Adds id, guardian and subreaper to a host, and kills the processes that hosts of killed
    /// `switchboard` processes left behind.
    pub(crate) fn attach(&self, host: HostBuilder) -> HostBuilder {
        let killed = self.records.clean_up();
        if killed > 0 {
            tracing::warn!("killed {killed} processes left by a killed switchboard");
        }
        let id = HostId::new();
        match self.records.write(id) {
            Ok(record) => lock(&self.record_files).push(record),
            Err(error) => tracing::debug!(%error, "cannot write the host record"),
        }
        let started = lock(&self.guardian).take();
        let host = host
            .host_id(id)
            .guardian(started.unwrap_or_else(new_guardian));
        match &self.subreaper {
            Some(subreaper) => host.subreaper(subreaper.clone()),
            None => host,
        }
    }

    /// `None` if this process could not become a subreaper, for example because the platform has no
    /// subreapers.
    pub(crate) fn subreaper(&self) -> Option<Subreaper> {
        self.subreaper.clone()
    }

    /// Removes the records. Call this after all hosts have shut down and before the hosts are
    /// dropped. Dropping a host waits for the exit of its guardian, so the guardian can exit while
    /// the records are removed.
    pub(crate) fn release(&self) {
        lock(&self.record_files).clear();
    }
}

fn new_guardian() -> Guardian {
    Guardian::new("/proc/self/exe", [GUARDIAN])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
