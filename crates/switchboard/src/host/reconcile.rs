//! Compares the current servers of a host with the wanted servers and plans which ones to add and
//! to remove.
//!
//! Pure: this module starts and stops nothing. Invariant: a server that would be launched with the
//! same config is neither removed nor added.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_config::{LaunchDecision, LaunchSpec, ServerEntry, Trust};

use super::server_spec::project_directory;
use crate::id::ServerName;

/// The changes that [`Host::set_servers`](crate::Host::set_servers) has to make.
#[derive(Debug, Default)]
pub(super) struct ServerDiff {
    pub(super) remove: Vec<ServerName>,
    pub(super) add: Vec<LaunchSpec>,
}

pub(super) fn diff_servers(
    current: &BTreeMap<ServerName, LaunchSpec>,
    wanted: BTreeMap<ServerName, LaunchSpec>,
) -> ServerDiff {
    let is_unchanged = |name: &ServerName, spec: &LaunchSpec| {
        wanted
            .get(name)
            .is_some_and(|wanted| wanted.is_same_launch(spec))
    };
    let (keep, remove): (Vec<_>, Vec<_>) = current
        .iter()
        .partition(|(name, spec)| is_unchanged(name, spec));
    let keep: Vec<_> = keep.into_iter().map(|(name, _)| name.clone()).collect();
    let remove = remove.into_iter().map(|(name, _)| name.clone()).collect();
    let add = wanted.into_iter().filter(|(name, _)| !keep.contains(name));
    ServerDiff {
        remove,
        add: add.map(|(_, spec)| spec).collect(),
    }
}

/// An entry of the current config files, and whether the host launched it.
#[derive(Clone, Debug)]
pub(super) enum FileEntry {
    Launched(Box<LaunchSpec>),
    /// The entry is invalid, rejected or not yet approved. Its server has a status, but no process.
    NotLaunched,
}

impl From<LaunchDecision> for FileEntry {
    fn from(decision: LaunchDecision) -> Self {
        match decision {
            LaunchDecision::Launch(spec) => Self::Launched(Box::new(spec)),
            _ => Self::NotLaunched,
        }
    }
}

/// What a reload does with an entry of the new config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryAction {
    /// Add a server, because no current config entry has this name.
    Add,
    /// Keep the running server, because the entry would be launched in the same way.
    Keep,
    /// Start nothing: the entry was not launched before and is not launched now. Only the reason in
    /// the status of its server may change.
    UpdateReason,
    /// Stop the server of this name and add a new one, because the launch of the entry changed.
    Replace,
    /// Skip the entry: a previous entry of the new config, or a server that the program added, has
    /// this name.
    NameTaken,
}

/// An entry of the new config, and what a reload does with it.
#[derive(Debug)]
pub(super) struct EntryChange {
    pub(super) entry: ServerEntry,
    pub(super) decision: LaunchDecision,
    pub(super) action: EntryAction,
}

/// Everything that a reload does. Created by [`plan_reload`].
#[derive(Debug)]
pub(super) struct ReloadPlan {
    pub(super) remove: Vec<ServerName>,
    /// One change per entry of the new config, in the order of the config.
    pub(super) changes: Vec<EntryChange>,
    /// The order of all servers after the reload.
    pub(super) order: Vec<ServerName>,
}

/// Plans a reload. `current` holds the entries of the current config files. `order` is the current
/// order of all servers, including those that the program added. `wanted` is the new config.
pub(super) fn plan_reload(
    current: &BTreeMap<ServerName, FileEntry>,
    order: &[ServerName],
    wanted: Vec<ServerEntry>,
    trust: &Trust,
) -> ReloadPlan {
    let program_servers: BTreeSet<_> = order
        .iter()
        .filter(|name| !current.contains_key(*name))
        .collect();
    let mut names = Vec::new();
    let mut changes = Vec::new();
    for entry in wanted {
        let name = entry.name();
        let decision = entry.decide_launch(trust);
        let action = if program_servers.contains(name) || names.contains(name) {
            EntryAction::NameTaken
        } else {
            names.push(name.clone());
            action_for(current.get(name), &decision)
        };
        changes.push(EntryChange {
            entry,
            decision,
            action,
        });
    }
    let removed = current.keys().filter(|name| !names.contains(name));
    ReloadPlan {
        remove: removed.cloned().collect(),
        order: merge_order(order, |name| current.contains_key(name), names),
        changes,
    }
}

fn action_for(current: Option<&FileEntry>, decision: &LaunchDecision) -> EntryAction {
    match (current, decision) {
        (None, _) => EntryAction::Add,
        (Some(FileEntry::Launched(old)), LaunchDecision::Launch(new))
            if is_same_launch(old, new) =>
        {
            EntryAction::Keep
        }
        (Some(_), LaunchDecision::Launch(_)) | (Some(FileEntry::Launched(_)), _) => {
            EntryAction::Replace
        }
        (Some(FileEntry::NotLaunched), _) => EntryAction::UpdateReason,
    }
}

/// Whether both specs have the same config and the same project directory. An entry that moves into
/// the file of a project is launched in another directory.
fn is_same_launch(old: &LaunchSpec, new: &LaunchSpec) -> bool {
    old.is_same_launch(new) && project_directory(old) == project_directory(new)
}

/// Computes the order of all servers after a reload. Servers that the program added keep their
/// positions in `order`. The names in `wanted` fill the positions of the current file entries. If
/// there are more names than positions, the remaining names follow the last of these positions.
fn merge_order(
    order: &[ServerName],
    is_from_file: impl Fn(&ServerName) -> bool,
    wanted: Vec<ServerName>,
) -> Vec<ServerName> {
    let mut wanted = wanted.into_iter();
    let last = order.iter().rposition(&is_from_file);
    let mut merged = Vec::new();
    for (position, name) in order.iter().enumerate() {
        if !is_from_file(name) {
            merged.push(name.clone());
        } else if Some(position) == last {
            merged.extend(wanted.by_ref());
        } else {
            merged.extend(wanted.next());
        }
    }
    merged.extend(wanted);
    merged
}

#[cfg(test)]
mod tests;
