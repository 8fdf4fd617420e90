//! The user's recorded approvals and rejections, looked up per entry.
//!
//! Pure: [`ApprovalsFile`](super::approvals_file::ApprovalsFile) reads and writes them. Invariant:
//! a record applies to one server name, one project and one content hash.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ServerEntry;
use super::content_hash::ContentHash;
use super::review::ReviewFields;
use crate::server_name::ServerName;

/// The user's decision about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The entry may run.
    Approved,
    /// The entry may not run, and the user is not asked again.
    Rejected,
}

/// The decision about one entry of a project, as stored in `trust.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApprovalRecord {
    /// The canonical root of the project.
    pub project: PathBuf,
    /// The name of the server.
    #[serde(deserialize_with = "deserialize_name")]
    pub server: ServerName,
    /// The decision.
    pub verdict: Verdict,
    /// The hash of the reviewed content.
    pub hash: ContentHash,
    /// The time of the decision, in whole seconds.
    #[serde(
        rename = "at",
        serialize_with = "serialize_time",
        deserialize_with = "deserialize_time"
    )]
    pub decided_at: SystemTime,
    /// The fields that the user reviewed; empty if they were too long to store.
    #[serde(rename = "shown")]
    pub review: ReviewFields,
}

/// What the records say about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState<'a> {
    /// There is no record, or the entry needs none, or the approvals file lies inside the project.
    Unknown,
    /// The user approved exactly this content.
    Approved(&'a ApprovalRecord),
    /// The user rejected exactly this content.
    Rejected(&'a ApprovalRecord),
    /// The record is about a server of this name with another content, or the entry has no content
    /// hash to compare with.
    Changed(&'a ApprovalRecord),
}

/// All recorded decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approvals {
    pub(super) records: Vec<ApprovalRecord>,
    /// The file that the records were read from.
    pub(super) file: Option<PathBuf>,
}

impl Approvals {
    /// All records, oldest first.
    pub fn records(&self) -> &[ApprovalRecord] {
        &self.records
    }

    /// Looks up the record of an entry and compares the content hash.
    pub fn state_of(&self, entry: &ServerEntry) -> ApprovalState<'_> {
        let Some(project) = entry.project() else {
            return ApprovalState::Unknown;
        };
        // If the approvals file lies inside the project, the project could have written it.
        let file = self.file.as_deref();
        if file.is_some_and(|file| file.starts_with(&project)) {
            return ApprovalState::Unknown;
        }
        let is_for_entry =
            |record: &&ApprovalRecord| record.key() == (project.as_path(), entry.name());
        let Some(record) = self.records.iter().find(is_for_entry) else {
            return ApprovalState::Unknown;
        };
        match (entry.content_hash(), record.verdict) {
            (Some(hash), Verdict::Approved) if *hash == record.hash => {
                ApprovalState::Approved(record)
            }
            (Some(hash), Verdict::Rejected) if *hash == record.hash => {
                ApprovalState::Rejected(record)
            }
            _ => ApprovalState::Changed(record),
        }
    }
}

impl ApprovalRecord {
    /// Each project and server name has at most one record.
    pub(super) fn key(&self) -> (&Path, &ServerName) {
        (&self.project, &self.server)
    }
}

fn deserialize_name<'de, D: Deserializer<'de>>(from: D) -> Result<ServerName, D::Error> {
    let name = String::deserialize(from)?;
    ServerName::new(name).map_err(serde::de::Error::custom)
}

fn serialize_time<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    to.serialize_u64(since.as_secs())
}

fn deserialize_time<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
    let seconds = u64::deserialize(from)?;
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    time.ok_or_else(|| serde::de::Error::custom("time out of range"))
}
