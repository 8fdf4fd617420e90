//! Computes the difference between two catalog snapshots: added, removed and changed tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalog, CatalogTool};
use crate::id::{ServerName, WireName};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CatalogDiff {
    pub(super) added: Vec<WireName>,
    pub(super) removed: Vec<WireName>,
    pub(super) changed: Vec<WireName>,
    /// Whether the snapshots differ in the availability of a tool, in the order of the tools or in
    /// the rejected tools. [`CatalogDiff::by_server`] does not report such a change.
    metadata_changed: bool,
}

impl CatalogDiff {
    pub(super) fn new(before: &Catalog, after: &Catalog) -> Self {
        let (old, new) = trim_common_ends(&before.tools, &after.tools);
        let missing_in = |tools: &[Arc<CatalogTool>], other: &Catalog| {
            let missing = tools
                .iter()
                .filter(|tool| other.get(tool.wire_name.as_str()).is_none());
            missing.map(|tool| tool.wire_name.clone()).collect()
        };
        let changed = new.iter().filter(|tool| {
            before
                .get(tool.wire_name.as_str())
                .is_some_and(|old| old.id != tool.id || old.definition != tool.definition)
        });
        let names_and_availability = |tools: &[Arc<CatalogTool>]| -> Vec<(WireName, bool)> {
            let tools = tools.iter();
            tools
                .map(|tool| (tool.wire_name.clone(), tool.available))
                .collect()
        };
        Self {
            added: missing_in(new, before),
            removed: missing_in(old, after),
            changed: changed.map(|tool| tool.wire_name.clone()).collect(),
            metadata_changed: before.rejected != after.rejected
                || names_and_availability(old) != names_and_availability(new),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.removed.is_empty()
            && self.changed.is_empty()
            && !self.metadata_changed
    }

    /// Splits the diff by server. `before` and `after` are the compared snapshots.
    pub(super) fn by_server(
        self,
        before: &Catalog,
        after: &Catalog,
    ) -> BTreeMap<ServerName, CatalogDiff> {
        let mut by_server: BTreeMap<ServerName, CatalogDiff> = BTreeMap::new();
        let mut distribute = |names: Vec<WireName>, catalog: &Catalog, list: ListOf| {
            for name in names {
                if let Some(tool) = catalog.get(name.as_str()) {
                    list(by_server.entry(tool.id.server.clone()).or_default()).push(name);
                }
            }
        };
        distribute(self.added, after, |diff| &mut diff.added);
        distribute(self.removed, before, |diff| &mut diff.removed);
        distribute(self.changed, after, |diff| &mut diff.changed);
        by_server
    }
}

/// Selects `added`, `removed` or `changed` of a diff.
type ListOf = fn(&mut CatalogDiff) -> &mut Vec<WireName>;

/// Removes the common prefix and the common suffix of `a` and `b`, comparing pointers only. Usually
/// only the tools of one server changed, and both snapshots share the tools of all other servers.
fn trim_common_ends<'a, T>(
    mut a: &'a [Arc<T>],
    mut b: &'a [Arc<T>],
) -> (&'a [Arc<T>], &'a [Arc<T>]) {
    while let ([first, rest @ ..], [other, other_rest @ ..]) = (a, b)
        && Arc::ptr_eq(first, other)
    {
        (a, b) = (rest, other_rest);
    }
    while let ([rest @ .., last], [other_rest @ .., other]) = (a, b)
        && Arc::ptr_eq(last, other)
    {
        (a, b) = (rest, other_rest);
    }
    (a, b)
}
