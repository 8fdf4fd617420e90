//! What this process does as a whole so that no server survives it.
//!
//! It adopts orphans, has a guardian for the case that it is killed, and writes down who it is for
//! the case that its guardian is killed too. Invariant: nothing here can fail a command.

mod host_records;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard::HostBuilder;
use switchboard::process::{Guardian, HostId, Subreaper};

use host_records::{HostRecordFile, HostRecords};

/// The hidden word under which this binary is a guardian.
pub(crate) const GUARDIAN: &str = "__guardian";

/// The custody of this process attach whatever its hosts start.
#[derive(Debug)]
pub(crate) struct ProcessGuard {
    records: HostRecords,
    subreaper: Option<Subreaper>,
    /// For the first host; it is on its way while the config is being read.
    guardian: Mutex<Option<Guardian>>,
    /// Removed at the [end](ProcessGuard::release), or when this is dropped.
    record_files: Mutex<Vec<HostRecordFile>>,
}

impl ProcessGuard {
    /// Begins it. `folder` is where running hosts are record_files down; it need not exist.
    pub(crate) fn begin(folder: PathBuf) -> Self {
        // Before the guardian is started, which is no child from before.
        let subreaper = Subreaper::enable();
        if let Err(error) = &subreaper {
            tracing::debug!(%error, "orphans are not adopted");
        }
        let guardian = guardian();
        guardian.start_early();
        Self {
            records: HostRecords::new(folder),
            subreaper: subreaper.ok(),
            guardian: Mutex::new(Some(guardian)),
            record_files: Mutex::default(),
        }
    }

    /// Takes a host into custody, and ends what earlier ones left.
    pub(crate) fn attach(&self, host: HostBuilder) -> HostBuilder {
        let ended = self.records.clean_up();
        if ended > 0 {
            tracing::warn!("ended {ended} processes that a killed switchboard had left");
        }
        let id = HostId::new();
        match self.records.write(id) {
            Ok(record) => lock(&self.record_files).push(record),
            Err(error) => tracing::debug!(%error, "this host is not record_files down"),
        }
        let started = lock(&self.guardian).take();
        let host = host.host_id(id).guardian(started.unwrap_or_else(guardian));
        match &self.subreaper {
            Some(subreaper) => host.subreaper(subreaper.clone()),
            None => host,
        }
    }

    /// Who takes in orphans, if anybody does.
    pub(crate) fn subreaper(&self) -> Option<Subreaper> {
        self.subreaper.clone()
    }

    /// Every host has ended everything, and nobody has to look for what they left. To be said before
    /// they are dropped: meanwhile their guardians end, and are not waited for as long.
    pub(crate) fn release(&self) {
        lock(&self.record_files).clear();
    }
}

fn guardian() -> Guardian {
    Guardian::new("/proc/self/exe", [GUARDIAN])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
