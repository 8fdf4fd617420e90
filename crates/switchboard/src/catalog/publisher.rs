//! Assembles the catalog from the tool lists of all servers and publishes it.
//!
//! Invariants: an older snapshot never replaces a newer one, because snapshots are built and
//! published under the lock on the [`ToolTable`]. After a server was replaced by another one of the
//! same name, changes by the replaced server are ignored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use switchboard_wire::mcp::ToolDefinition;
use switchboard_wire::naming::{self, NameClash};
use switchboard_wire::sync::lock;

use super::diff::CatalogDiff;
use super::{Catalog, CatalogTool, RejectedTool};
use crate::event::{Event, EventSink};
use crate::id::{Revision, ServerName, ToolName};

/// Identifies one server of a host, by its name and by a sequence number that is never reused. A
/// server that replaces another one of the same name has another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerKey {
    pub(crate) server: ServerName,
    pub(crate) sequence: u64,
}

/// The entry of one server in the [`ToolTable`].
#[derive(Default)]
struct ServerTools {
    /// The sequence number in the [`ServerKey`] of the server.
    sequence: u64,
    tools: Vec<Arc<CatalogTool>>,
    /// Whether the tools appear in the catalog. `false` after
    /// [`Host::disable_server`](crate::Host::disable_server), until the server is enabled.
    enabled: bool,
}

/// The tools of all servers, from which snapshots are built.
#[derive(Default)]
struct ToolTable {
    by_server: BTreeMap<ServerName, ServerTools>,
    /// The servers in the order in which their tools appear in the catalog.
    order: Vec<ServerName>,
}

impl ToolTable {
    fn insert(&mut self, key: &ServerKey) {
        let tools = ServerTools {
            sequence: key.sequence,
            enabled: true,
            ..ServerTools::default()
        };
        self.by_server.insert(key.server.clone(), tools);
    }

    /// Returns the entry of the server with this key. `None` if another server now has the name.
    fn get_mut(&mut self, key: &ServerKey) -> Option<&mut ServerTools> {
        let tools = self.by_server.get_mut(&key.server);
        tools.filter(|tools| tools.sequence == key.sequence)
    }

    fn remove(&mut self, key: &ServerKey) -> bool {
        let exists = self.get_mut(key).is_some();
        if exists {
            self.by_server.remove(&key.server);
            self.order.retain(|server| *server != key.server);
        }
        exists
    }

    /// Builds a snapshot of the tools of all enabled servers. Its revision is still 0.
    fn build_catalog(&self) -> Catalog {
        let in_order = self.order.iter();
        let enabled = in_order
            .filter_map(|server| self.by_server.get(server))
            .filter(|server| server.enabled);
        let tools: Vec<_> = enabled.flat_map(|server| &server.tools).collect();
        let names: Vec<_> = tools
            .iter()
            .map(|tool| (&tool.wire_name, tool.name_is_unchanged))
            .collect();
        let owners = naming::assign_wire_names(&names);
        if owners.len() == tools.len() {
            return Catalog {
                tools: tools.into_iter().cloned().collect(),
                by_name: owners,
                ..Catalog::default()
            };
        }
        let mut catalog = Catalog::default();
        for (index, tool) in tools.iter().enumerate() {
            let wire = tool.wire_name.clone();
            let owner = owners.get(&wire).filter(|owner| **owner != index);
            match owner.and_then(|owner| tools.get(*owner)) {
                Some(owner) => {
                    let holder = owner.id.clone();
                    catalog.rejected.push(RejectedTool {
                        id: tool.id.clone(),
                        reason: NameClash { wire, holder }.to_string(),
                    });
                }
                None => {
                    catalog.by_name.insert(wire, catalog.tools.len());
                    catalog.tools.push(Arc::clone(tool));
                }
            }
        }
        catalog
    }
}

/// Receives the tool list of each server and publishes catalog snapshots.
pub(crate) struct CatalogPublisher {
    table: Mutex<ToolTable>,
    current: ArcSwap<Catalog>,
    events: EventSink,
}

impl CatalogPublisher {
    pub(crate) fn new(events: EventSink) -> Self {
        Self {
            table: Mutex::default(),
            current: ArcSwap::default(),
            events,
        }
    }

    /// Returns the snapshot that was published last.
    pub(crate) fn current(&self) -> Guard<Arc<Catalog>> {
        self.current.load()
    }

    /// The servers in the order in which their tools appear in the catalog.
    pub(crate) fn order(&self) -> Vec<ServerName> {
        lock(&self.table).order.clone()
    }

    /// Adds a server without tools at the end of the order. Publishes nothing.
    pub(crate) fn add_server(&self, key: &ServerKey) {
        let mut table = lock(&self.table);
        table.insert(key);
        table.order.retain(|server| *server != key.server);
        table.order.push(key.server.clone());
    }

    /// Removes and adds servers and sets the order of all servers. The catalog shows these changes
    /// only after the next publication; see [`Self::publish_staged`].
    pub(crate) fn stage(&self, removed: &[ServerKey], added: &[ServerKey], order: Vec<ServerName>) {
        let mut table = lock(&self.table);
        for key in removed {
            table.remove(key);
        }
        for key in added {
            table.insert(key);
        }
        table.order = order;
        // A server may have been removed since the caller computed the order.
        let ToolTable { by_server, order } = &mut *table;
        order.retain(|server| by_server.contains_key(server));
    }

    /// Publishes the changes that [`Self::stage`] made.
    pub(crate) fn publish_staged(&self) {
        self.publish(&lock(&self.table));
    }

    /// Replaces the tools of a server. A tool whose definition did not change keeps its compiled
    /// schemas.
    pub(crate) fn set_tools(&self, key: &ServerKey, tools: Vec<ToolDefinition>, available: bool) {
        self.update(key, |server| {
            let mut known: HashMap<ToolName, Arc<CatalogTool>> = std::mem::take(&mut server.tools)
                .into_iter()
                .map(|tool| (tool.id.tool.clone(), tool))
                .collect();
            let reuse_or_create = |tool: ToolDefinition| match known.remove(tool.name.as_str()) {
                Some(same) if *same.definition == tool => same.with_availability(available),
                _ => Arc::new(CatalogTool::new(&key.server, tool, available)),
            };
            server.tools = tools.into_iter().map(reuse_or_create).collect();
        });
    }

    /// Sets [`CatalogTool::available`] of all tools of a server. The tools stay in the catalog.
    pub(crate) fn set_available(&self, key: &ServerKey, available: bool) {
        self.update(key, |server| {
            for tool in &mut server.tools {
                *tool = tool.with_availability(available);
            }
        });
    }

    /// Shows the tools of a server in the catalog, or hides them. The tools are kept.
    pub(crate) fn set_enabled(&self, key: &ServerKey, enabled: bool) {
        self.update(key, |server| server.enabled = enabled);
    }

    /// Removes the tools of a server. The server keeps its position in the order.
    pub(crate) fn clear_tools(&self, key: &ServerKey) {
        self.update(key, |server| server.tools.clear());
    }

    /// Removes a server, its tools and its position in the order.
    pub(crate) fn remove(&self, key: &ServerKey) {
        let mut table = lock(&self.table);
        if table.remove(key) {
            self.publish(&table);
        }
    }

    fn update(&self, key: &ServerKey, change: impl FnOnce(&mut ServerTools)) {
        let mut table = lock(&self.table);
        if let Some(server) = table.get_mut(key) {
            change(server);
            self.publish(&table);
        }
    }

    /// Builds a snapshot of `table` and publishes it if it differs from the current snapshot. The
    /// caller holds the lock on the table, so that an older snapshot never replaces a newer one.
    fn publish(&self, table: &ToolTable) {
        let before = self.current();
        let mut next = table.build_catalog();
        let diff = CatalogDiff::new(&before, &next);
        if diff.is_empty() {
            return;
        }
        next.revision = Revision(before.revision.0 + 1);
        let next = Arc::new(next);
        self.current.store(Arc::clone(&next));
        if !self.events.has_listeners() {
            return;
        }
        for (server, diff) in diff.by_server(&before, &next) {
            self.events.send(|| Event::ToolsChanged {
                server,
                revision: next.revision,
                added: diff.added,
                removed: diff.removed,
                changed: diff.changed,
            });
        }
    }
}
