//! What changed between two states of the catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalog, CatalogTool};
use crate::id::{ServerName, WireName};

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) added: Vec<WireName>,
    pub(crate) removed: Vec<WireName>,
    pub(crate) changed: Vec<WireName>,
    /// Only what surrounds the tools changed: availability, order, refusals.
    around: bool,
}

impl Difference {
    fn concerns_tools(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty())
    }

    pub(crate) fn is_nothing(&self) -> bool {
        !self.concerns_tools() && !self.around
    }

    /// What of it concerns the tools of which server.
    pub(crate) fn by_server(
        self,
        before: &Catalog,
        after: &Catalog,
    ) -> BTreeMap<ServerName, Difference> {
        let mut parts: BTreeMap<ServerName, Difference> = BTreeMap::new();
        let mut hand_out = |names: Vec<WireName>, whose: &Catalog, list: List| {
            for name in names {
                if let Some(tool) = whose.get(name.as_str()) {
                    list(parts.entry(tool.id.server.clone()).or_default()).push(name);
                }
            }
        };
        hand_out(self.added, after, |part| &mut part.added);
        hand_out(self.removed, before, |part| &mut part.removed);
        hand_out(self.changed, after, |part| &mut part.changed);
        parts
    }
}

type List = fn(&mut Difference) -> &mut Vec<WireName>;

pub(crate) fn between(before: &Catalog, after: &Catalog) -> Difference {
    let (old, new) = without_common_ends(&before.tools, &after.tools);
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
    let outline = |tools: &[Arc<CatalogTool>]| -> Vec<(WireName, bool)> {
        let tools = tools.iter();
        tools
            .map(|tool| (tool.wire_name.clone(), tool.available))
            .collect()
    };
    Difference {
        added: missing_in(new, before),
        removed: missing_in(old, after),
        changed: changed.map(|tool| tool.wire_name.clone()).collect(),
        around: before.refused != after.refused || outline(old) != outline(new),
    }
}

/// Most servers have nothing to do with a change: their tools are the very same, before it and
/// after it.
fn without_common_ends<'a, T>(
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
