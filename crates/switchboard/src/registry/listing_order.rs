//! The order of the tools of a registry.
//!
//! Invariant: a tool keeps its position relative to all tools that were listed before it, so that
//! the tool list of a model only grows at its end.

use std::collections::{HashMap, HashSet};

/// Remembers the order in which tools were listed first.
#[derive(Debug, Default)]
pub(super) struct ListingOrder {
    positions: HashMap<String, usize>,
    next: usize,
}

impl ListingOrder {
    /// Tools that are no longer listed keep their position. When this many names are remembered,
    /// only those of the listed tools are kept.
    const MAX_REMEMBERED: usize = 20_000;

    /// Moves tools that were not listed before to the end, and sorts the others as they were listed
    /// first.
    pub(super) fn sort<T>(&mut self, tools: &mut [T], name: fn(&T) -> &str) {
        for tool in &*tools {
            let name = name(tool);
            if !self.positions.contains_key(name) {
                self.positions.insert(name.to_owned(), self.next);
                self.next += 1;
            }
        }
        tools.sort_by_cached_key(|tool| self.positions.get(name(tool)).copied());
        if self.positions.len() > Self::MAX_REMEMBERED.max(2 * tools.len()) {
            let listed: HashSet<&str> = tools.iter().map(name).collect();
            self.positions
                .retain(|name, _| listed.contains(name.as_str()));
        }
    }
}
