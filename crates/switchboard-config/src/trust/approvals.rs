//! What the user said about the entries of projects.
//!
//! Pure: [`ApprovalsFile`](super::approvals_file::ApprovalsFile) reads and writes them. Invariant: a word counts
//! for one server, in one project, with one content, and for nothing else.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ServerEntry;
use super::content_hash::ContentHash;
use super::review::Shown;
use crate::server_name::ServerName;

/// What the user said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It may run.
    Approved,
    /// It may not, and nobody is to ask again.
    Rejected,
}

/// What the user said about one entry of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Approval {
    /// The root of the project, without links.
    pub project: PathBuf,
    /// The name of the server.
    #[serde(deserialize_with = "read_name")]
    pub server: ServerName,
    /// What they said.
    pub verdict: Verdict,
    /// What they said it about.
    pub hash: ContentHash,
    /// When, in whole seconds.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub at: SystemTime,
    /// What they were shown; empty if that was very long.
    pub shown: Shown,
}

/// How an entry stands with the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// They said nothing about it, or need not be asked.
    Unknown,
    /// They approved exactly this.
    Approved(&'a Approval),
    /// They rejected exactly this.
    Rejected(&'a Approval),
    /// What they said was about something else of the same name.
    Changed(&'a Approval),
}

/// Everything that the user said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    pub(super) records: Vec<Approval>,
    /// The file that they were read from.
    pub(super) file: Option<PathBuf>,
}

impl Approvals {
    /// All of it, the oldest first.
    pub fn records(&self) -> &[Approval] {
        &self.records
    }

    /// How this entry stands.
    pub fn standing(&self, entry: &ServerEntry) -> Standing<'_> {
        let Some(project) = entry.project() else {
            return Standing::Unknown;
        };
        // A project that holds the file could write into it.
        let file = self.file.as_deref();
        if file.is_some_and(|file| file.starts_with(&project)) {
            return Standing::Unknown;
        }
        let is_meant = |record: &&Approval| is_about(record, &project, entry.name());
        let Some(record) = self.records.iter().find(is_meant) else {
            return Standing::Unknown;
        };
        match (entry.content_hash(), record.verdict) {
            (Some(hash), Verdict::Approved) if *hash == record.hash => Standing::Approved(record),
            (Some(hash), Verdict::Rejected) if *hash == record.hash => Standing::Rejected(record),
            _ => Standing::Changed(record),
        }
    }
}

pub(super) fn is_about(record: &Approval, project: &Path, server: &ServerName) -> bool {
    record.project == project && record.server == *server
}

fn read_name<'de, D: Deserializer<'de>>(from: D) -> Result<ServerName, D::Error> {
    let name = String::deserialize(from)?;
    ServerName::new(name).map_err(serde::de::Error::custom)
}

fn write_time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    to.serialize_u64(since.as_secs())
}

fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
    let seconds = u64::deserialize(from)?;
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    time.ok_or_else(|| serde::de::Error::custom("a time that no clock shows"))
}
