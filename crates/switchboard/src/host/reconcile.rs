//! What has to be done to get from the servers that are to the servers that are wanted.
//!
//! Pure. Invariant: a server whose launch did not change is neither removed nor added.

use std::collections::{BTreeMap, BTreeSet};

use switchboard_config::{LaunchDecision, LaunchSpec, ServerEntry, Trust};

use super::site::project_of;
use crate::id::ServerName;

/// The way from one set of dynamic servers to another.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) remove: Vec<ServerName>,
    pub(crate) add: Vec<LaunchSpec>,
}

pub(crate) fn between(
    current: &BTreeMap<ServerName, LaunchSpec>,
    wanted: BTreeMap<ServerName, LaunchSpec>,
) -> Plan {
    let stays = |name: &ServerName, spec: &LaunchSpec| {
        wanted
            .get(name)
            .is_some_and(|wanted| wanted.is_same_launch(spec))
    };
    let (keep, remove): (Vec<_>, Vec<_>) =
        current.iter().partition(|(name, spec)| stays(name, spec));
    let keep: Vec<_> = keep.into_iter().map(|(name, _)| name.clone()).collect();
    let remove = remove.into_iter().map(|(name, _)| name.clone()).collect();
    let add = wanted.into_iter().filter(|(name, _)| !keep.contains(name));
    Plan {
        remove,
        add: add.map(|(_, spec)| spec).collect(),
    }
}

/// What became of an entry of a file.
#[derive(Clone, Debug)]
pub(crate) enum Filed {
    Launched(Box<LaunchSpec>),
    /// There is no consent to it, or no sense in it: nothing of it runs.
    Withheld,
}

impl From<LaunchDecision> for Filed {
    fn from(admission: LaunchDecision) -> Self {
        match admission {
            LaunchDecision::Launch(spec) => Self::Launched(Box::new(spec)),
            _ => Self::Withheld,
        }
    }
}

/// What is to be done with one entry of the new config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Add,
    /// It runs, and goes on as it is.
    Keep,
    /// Nothing of it runs, then and now; why not may have changed.
    Renew,
    /// The server of this name makes way for another.
    Replace,
    /// The name belongs to a server that no file governs, or to an entry before this one.
    Refuse,
}

#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) entry: ServerEntry,
    pub(crate) admission: LaunchDecision,
    pub(crate) step: Step,
}

/// The way from one config to another.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) remove: Vec<ServerName>,
    /// One for each entry of the new config, in its order.
    pub(crate) changes: Vec<Change>,
    /// All servers, in the order in which they are to be listed.
    pub(crate) order: Vec<ServerName>,
}

/// `current` is what came from files so far, `order` the order of all servers.
pub(crate) fn reload(
    current: &BTreeMap<ServerName, Filed>,
    order: &[ServerName],
    wanted: Vec<ServerEntry>,
    trust: &Trust,
) -> Reload {
    let others: BTreeSet<_> = order
        .iter()
        .filter(|name| !current.contains_key(*name))
        .collect();
    let mut names = Vec::new();
    let mut changes = Vec::new();
    for entry in wanted {
        let name = entry.name();
        let admission = entry.decide_launch(trust);
        let step = if others.contains(name) || names.contains(name) {
            Step::Refuse
        } else {
            names.push(name.clone());
            step(current.get(name), &admission)
        };
        changes.push(Change {
            entry,
            admission,
            step,
        });
    }
    let gone = current.keys().filter(|name| !names.contains(name));
    Reload {
        remove: gone.cloned().collect(),
        order: arrange(order, |name| current.contains_key(name), names),
        changes,
    }
}

fn step(current: Option<&Filed>, admission: &LaunchDecision) -> Step {
    match (current, admission) {
        (None, _) => Step::Add,
        (Some(Filed::Launched(old)), LaunchDecision::Launch(new)) if is_same(old, new) => {
            Step::Keep
        }
        (Some(_), LaunchDecision::Launch(_)) | (Some(Filed::Launched(_)), _) => Step::Replace,
        (Some(Filed::Withheld), _) => Step::Renew,
    }
}

/// An entry that moves into a project works in another folder.
fn is_same(old: &LaunchSpec, new: &LaunchSpec) -> bool {
    old.is_same_launch(new) && project_of(old) == project_of(new)
}

/// Puts the wanted names, in their order, where those that came from files were. Servers that did not
/// stay where they were. What is left over comes after the last of them.
fn arrange(
    order: &[ServerName],
    is_filed: impl Fn(&ServerName) -> bool,
    wanted: Vec<ServerName>,
) -> Vec<ServerName> {
    let mut wanted = wanted.into_iter();
    let last = order.iter().rposition(&is_filed);
    let mut arranged = Vec::new();
    for (place, name) in order.iter().enumerate() {
        if !is_filed(name) {
            arranged.push(name.clone());
        } else if Some(place) == last {
            arranged.extend(wanted.by_ref());
        } else {
            arranged.extend(wanted.next());
        }
    }
    arranged.extend(wanted);
    arranged
}

#[cfg(test)]
mod tests;
