//! What changed between two states of the catalog.

use std::sync::Arc;

use super::{Catalog, CatalogTool};
use crate::id::WireName;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) added: Vec<WireName>,
    pub(crate) removed: Vec<WireName>,
    pub(crate) changed: Vec<WireName>,
    /// Only what surrounds the tools changed: availability, order, refusals.
    around: bool,
}

impl Difference {
    pub(crate) fn concerns_tools(&self) -> bool {
        !(self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty())
    }

    pub(crate) fn is_nothing(&self) -> bool {
        !self.concerns_tools() && !self.around
    }
}

pub(crate) fn between(before: &Catalog, after: &Catalog) -> Difference {
    let missing_in = |tools: &[Arc<CatalogTool>], other: &Catalog| {
        let missing = tools
            .iter()
            .filter(|tool| other.find(tool.wire_name.as_str()).is_none());
        missing.map(|tool| tool.wire_name.clone()).collect()
    };
    let changed = after.tools.iter().filter(|tool| {
        before
            .find(tool.wire_name.as_str())
            .is_some_and(|old| old.id != tool.id || old.definition != tool.definition)
    });
    let outline = |catalog: &Catalog| -> Vec<(WireName, bool)> {
        catalog
            .tools
            .iter()
            .map(|tool| (tool.wire_name.clone(), tool.available))
            .collect()
    };
    Difference {
        added: missing_in(&after.tools, before),
        removed: missing_in(&before.tools, after),
        changed: changed.map(|tool| tool.wire_name.clone()).collect(),
        around: before.refused != after.refused || outline(before) != outline(after),
    }
}
