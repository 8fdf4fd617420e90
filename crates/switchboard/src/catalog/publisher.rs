//! Assembles the catalog from the tool lists of all servers and publishes it.
//!
//! Invariants: an older snapshot never replaces a newer one, because snapshots are built and
//! published under the lock on the [`ToolTable`]. After a server was replaced by another one of the
//! same name, changes by the replaced server are ignored. A change of one server takes time in
//! proportion to the tools of that server, not to the tools of all servers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::{ArcSwap, Guard};
use switchboard_wire::mcp::ToolDefinition;
use switchboard_wire::naming;
use switchboard_wire::schema::SchemaBudget;
use switchboard_wire::sync::lock;

use super::diff::CatalogDiff;
use super::group::{Group, ListedTools};
use super::{Catalog, CatalogTool};
use crate::event::{Event, EventSink};
use crate::id::{Revision, ServerName, ToolName};

/// Identifies one server of a host, by its name and by a sequence number that is never reused. A
/// server that replaces another one of the same name has another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerKey {
    pub(crate) server: ServerName,
    pub(crate) sequence: u64,
}

/// The server part of a wire name.
type ServerPart = Arc<str>;

/// The entry of one server in the [`ToolTable`].
struct ServerTools {
    /// The sequence number in the [`ServerKey`] of the server.
    sequence: u64,
    /// The position in the configured order.
    position: u64,
    part: ServerPart,
    tools: Vec<Arc<CatalogTool>>,
    /// Whether the tools appear in the catalog. `false` after
    /// [`Host::disable_server`](crate::Host::disable_server), until the server is enabled.
    enabled: bool,
    /// Limits the memory of the compiled schemas of this server.
    schemas: SchemaBudget,
}

/// The tools of all servers, from which snapshots are built.
#[derive(Default)]
struct ToolTable {
    by_server: HashMap<ServerName, ServerTools>,
    by_part: HashMap<ServerPart, Vec<ServerName>>,
    /// The servers in the order in which their tools appear in the catalog.
    order: BTreeMap<u64, ServerName>,
    next_position: u64,
    /// The server parts of the changes that are not published yet.
    staged: BTreeSet<ServerPart>,
}

impl ToolTable {
    /// Adds a server at the end of the order. Replaces a server of the same name. Returns the server
    /// part of its name.
    fn insert(&mut self, key: &ServerKey) -> ServerPart {
        self.remove_name(&key.server);
        let part: ServerPart = naming::server_part(&key.server).into();
        let position = self.next_position;
        self.next_position += 1;
        let same_part = self.by_part.entry(Arc::clone(&part)).or_default();
        same_part.push(key.server.clone());
        self.order.insert(position, key.server.clone());
        let tools = ServerTools {
            sequence: key.sequence,
            position,
            part: Arc::clone(&part),
            tools: Vec::new(),
            enabled: true,
            schemas: SchemaBudget::default(),
        };
        self.by_server.insert(key.server.clone(), tools);
        part
    }

    /// Returns the entry of the server with this key. `None` if another server now has the name.
    fn get_mut(&mut self, key: &ServerKey) -> Option<&mut ServerTools> {
        let tools = self.by_server.get_mut(&key.server);
        tools.filter(|tools| tools.sequence == key.sequence)
    }

    /// Removes the server with this key. Returns its server part.
    fn remove(&mut self, key: &ServerKey) -> Option<ServerPart> {
        self.get_mut(key)?;
        self.remove_name(&key.server)
    }

    fn remove_name(&mut self, name: &ServerName) -> Option<ServerPart> {
        let removed = self.by_server.remove(name)?;
        self.order.remove(&removed.position);
        if let Some(same_part) = self.by_part.get_mut(&removed.part) {
            same_part.retain(|server| server != name);
            if same_part.is_empty() {
                self.by_part.remove(&removed.part);
            }
        }
        Some(removed.part)
    }

    /// Moves the servers to the order of `names`. Servers that are not in `names` follow at the
    /// end. Returns the server parts of all servers that moved.
    fn reorder(&mut self, names: Vec<ServerName>) -> Vec<ServerPart> {
        if self.order.values().eq(names.iter()) {
            return Vec::new();
        }
        let old = std::mem::take(&mut self.order);
        let mut moved = Vec::new();
        for name in names.into_iter().chain(old.into_values()) {
            let Some(server) = self.by_server.get_mut(&name) else {
                continue;
            };
            if self.order.get(&server.position) == Some(&name) {
                continue;
            }
            server.position = self.next_position;
            moved.push(Arc::clone(&server.part));
            self.order.insert(self.next_position, name);
            self.next_position += 1;
        }
        moved
    }

    /// Builds the group of the enabled servers with this server part.
    fn build_group(&self, part: &str) -> Option<Group> {
        let names = self.by_part.get(part)?;
        let listed = names.iter().filter_map(|name| {
            let (server, tools) = self.by_server.get_key_value(name)?;
            tools.enabled.then_some(ListedTools {
                server,
                position: tools.position,
                tools: &tools.tools,
            })
        });
        let mut listed: Vec<_> = listed.collect();
        listed.sort_unstable_by_key(|server| server.position);
        Group::build(&listed)
    }
}

/// Receives the tool list of each server and publishes catalog snapshots.
pub(crate) struct CatalogPublisher {
    table: Mutex<ToolTable>,
    current: ArcSwap<Catalog>,
    events: EventSink,
}

impl std::fmt::Debug for CatalogPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CatalogPublisher").finish_non_exhaustive()
    }
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
        lock(&self.table).order.values().cloned().collect()
    }

    /// Returns the server whose wire names have this server part, or one of them if there are
    /// several.
    pub(crate) fn server_of_part(&self, part: &str) -> Option<ServerName> {
        let table = lock(&self.table);
        table.by_part.get(part)?.first().cloned()
    }

    /// Adds a server without tools at the end of the order. Publishes nothing.
    pub(crate) fn add_server(&self, key: &ServerKey) {
        lock(&self.table).insert(key);
    }

    /// Removes and adds servers and sets the order of all servers. The catalog shows these changes
    /// only after the next [`Self::publish_staged`].
    pub(crate) fn stage(&self, removed: &[ServerKey], added: &[ServerKey], order: Vec<ServerName>) {
        let mut table = lock(&self.table);
        for key in removed {
            let part = table.remove(key);
            table.staged.extend(part);
        }
        for key in added {
            // The server may replace one of the same name, whose tools are in the catalog.
            let part = table.insert(key);
            table.staged.insert(part);
        }
        let moved = table.reorder(order);
        table.staged.extend(moved);
    }

    /// Publishes the changes that [`Self::stage`] made.
    pub(crate) fn publish_staged(&self) {
        let mut table = lock(&self.table);
        let parts = std::mem::take(&mut table.staged);
        self.publish(&table, parts);
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
                _ => Arc::new(CatalogTool::new(
                    &key.server,
                    tool,
                    available,
                    &server.schemas,
                )),
            };
            let tools = tools.into_iter().map(reuse_or_create).collect();
            server.tools = tools;
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
        if let Some(part) = table.remove(key) {
            self.publish(&table, [part]);
        }
    }

    fn update(&self, key: &ServerKey, change: impl FnOnce(&mut ServerTools)) {
        let mut table = lock(&self.table);
        if let Some(server) = table.get_mut(key) {
            change(server);
            let part = Arc::clone(&server.part);
            self.publish(&table, [part]);
        }
    }

    /// Builds the groups with these server parts again, and publishes a snapshot if it differs from
    /// the current one. The caller holds the lock on the table, so that an older snapshot never
    /// replaces a newer one.
    fn publish(&self, table: &ToolTable, parts: impl IntoIterator<Item = ServerPart>) {
        let before = self.current();
        let mut groups = before.groups.clone();
        let mut diff = CatalogDiff::default();
        let empty = Group::default();
        for part in parts {
            let old = before.groups.get(&part).map(Arc::as_ref);
            let new = table.build_group(&part);
            diff.add_group(old.unwrap_or(&empty), new.as_ref().unwrap_or(&empty));
            match new {
                Some(group) => groups.insert_mut(part, Arc::new(group)),
                None => {
                    groups.remove_mut(&part);
                }
            }
        }
        if diff.is_empty() {
            return;
        }
        let revision = Revision(before.revision.0 + 1);
        self.current.store(Arc::new(Catalog {
            revision,
            groups,
            all: OnceLock::new(),
        }));
        if !self.events.has_listeners() {
            return;
        }
        for (server, changes) in diff.into_changes() {
            self.events.send(|| Event::ToolsChanged {
                server,
                revision,
                added: changes.added,
                removed: changes.removed,
                changed: changes.changed,
            });
        }
    }
}
