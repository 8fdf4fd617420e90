//! Ensures that no server outlives this process.
//!
//! This process becomes a subreaper, starts a guardian process in case it is killed, and writes a
//! record per host in case the guardian is killed too. Invariant: a failure in this module never
//! fails a command.

mod host_records;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard::HostBuilder;
use switchboard::process::{Guardian, HostId, Subreaper};

use host_records::{HostRecordFile, HostRecords};

/// The hidden command that turns this binary into a guardian.
pub(crate) const GUARDIAN: &str = "__guardian";

/// Cleans up the processes of all hosts of this run.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    records: HostRecords,
    subreaper: Option<Subreaper>,
    /// The guardian of the first host. [`Self::begin`] spawns it early, so that it starts while the
    /// config is loaded.
    guardian: Mutex<Option<Guardian>>,
    /// The records of running hosts. Removed by [`ProcessGuard::release`], or when this guard is
    /// dropped.
    record_files: Mutex<Vec<HostRecordFile>>,
}

impl ProcessGuard {
    /// Becomes a subreaper and spawns a guardian. `directory` holds the host records; it need not
    /// exist.
    pub(crate) fn begin(directory: PathBuf) -> Self {
        // Enable it before the guardian is spawned. If a child exists at that time, the subreaper
        // kills only those orphans that carry the marker of the host.
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

    /// Adds id, guardian and subreaper to a host, and kills the processes that earlier hosts left
    /// behind.
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

    /// `None` if the platform has no subreapers.
    pub(crate) fn subreaper(&self) -> Option<Subreaper> {
        self.subreaper.clone()
    }

    /// Removes the records. Call it after all hosts have shut down and before they are dropped:
    /// dropping a host waits for its guardian, which exits while the records are removed.
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
