//! Computes the difference between two catalog snapshots: added, removed and changed tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::CatalogTool;
use super::group::Group;
use crate::id::{ServerName, WireName};

/// The differences between two snapshots, group by group.
#[derive(Debug, Default)]
pub(super) struct CatalogDiff {
    by_server: BTreeMap<ServerName, ToolChanges>,
    /// Whether the snapshots differ in the availability of a tool, in the order of the tools or in
    /// the rejected tools.
    metadata_changed: bool,
}

/// The changed tools of one server.
#[derive(Debug, Default)]
pub(super) struct ToolChanges {
    pub(super) added: Vec<WireName>,
    pub(super) removed: Vec<WireName>,
    pub(super) changed: Vec<WireName>,
}

impl CatalogDiff {
    /// Adds the differences between two versions of a group.
    pub(super) fn add_group(&mut self, before: &Group, after: &Group) {
        let (old, new) = (before.tools(), after.tools());
        let (old, new) = trim_common_ends(&old, &new);
        for tool in new {
            match before.get(tool.wire_name.as_str()) {
                None => self.of_server_of(tool).added.push(tool.wire_name.clone()),
                Some(old) if old.id != tool.id || old.definition != tool.definition => {
                    self.of_server_of(tool).changed.push(tool.wire_name.clone());
                }
                Some(_) => {}
            }
        }
        for tool in old {
            if after.get(tool.wire_name.as_str()).is_none() {
                self.of_server_of(tool).removed.push(tool.wire_name.clone());
            }
        }
        self.metadata_changed |= names_and_availability(old) != names_and_availability(new)
            || has_other_layout(before, after);
    }

    fn of_server_of(&mut self, tool: &CatalogTool) -> &mut ToolChanges {
        self.by_server.entry(tool.id.server.clone()).or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_server.is_empty() && !self.metadata_changed
    }

    pub(super) fn into_changes(self) -> BTreeMap<ServerName, ToolChanges> {
        self.by_server
    }
}

fn names_and_availability<'a>(tools: &'a [&Arc<CatalogTool>]) -> Vec<(&'a WireName, bool)> {
    let tools = tools.iter();
    tools
        .map(|tool| (&tool.wire_name, tool.available))
        .collect()
}

/// Whether the rejected tools differ, or the positions of the servers with tools. Positions are
/// compared only if both versions of the group have tools; otherwise its tools are reported as added
/// or removed.
fn has_other_layout(before: &Group, after: &Group) -> bool {
    let layout = |group: &'_ Group| -> Vec<_> {
        let sections = group.sections().iter();
        let shown = sections.filter(|section| !section.tools.is_empty());
        shown.map(|section| section.position).collect::<Vec<u64>>()
    };
    let rejected = |group: &Group| -> Vec<_> {
        let sections = group.sections().iter();
        sections
            .flat_map(|section| section.rejected.iter().cloned())
            .collect()
    };
    let is_shown_in_both = !before.tools().is_empty() && !after.tools().is_empty();
    (is_shown_in_both && layout(before) != layout(after)) || rejected(before) != rejected(after)
}

/// Removes the common prefix and the common suffix of `a` and `b`, comparing pointers only. Usually
/// only a few tools changed, and both snapshots share the other tools.
fn trim_common_ends<'a, 't>(
    mut a: &'a [&'t Arc<CatalogTool>],
    mut b: &'a [&'t Arc<CatalogTool>],
) -> (&'a [&'t Arc<CatalogTool>], &'a [&'t Arc<CatalogTool>]) {
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
