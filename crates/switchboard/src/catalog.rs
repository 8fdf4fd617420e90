//! The published union of what all servers offer.
//!
//! Servers hand in their listings; readers get immutable snapshots. Invariant: the order of tools
//! depends only on the order of servers and on each server's own order, never on who was faster,
//! so that a model's list does not flicker and prompt caches survive.

pub(crate) mod diff;
pub(crate) use switchboard_wire::naming;
pub(crate) mod paging;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};

use crate::call::arguments::CompiledSchema;
use crate::event::{Event, EventSink};
use crate::id::{Revision, ServerName, ToolId, ToolName, WireName};
use crate::mcp::{Json, Tool};
use crate::sync::lock;
use naming::{NameClash, Spelled};

/// A tool as the catalog offers it.
// Every call counts a reference to it: the count has a line of the cache for itself.
#[derive(Debug)]
#[non_exhaustive]
#[repr(align(64))]
pub struct CatalogTool {
    /// Which tool of which server.
    pub id: ToolId,
    /// How a model calls it.
    pub wire_name: WireName,
    /// The server's own description.
    pub definition: Arc<Tool>,
    /// False while its server is away.
    pub available: bool,
    pub(crate) input: Arc<CompiledSchema>,
    pub(crate) output: Option<Arc<CompiledSchema>>,
    /// The wire name shows the server's name and the tool's unchanged.
    is_exact: bool,
}

impl CatalogTool {
    fn new(server: &ServerName, definition: Tool, available: bool) -> Self {
        let id = ToolId::new(server.clone(), definition.name.as_str());
        let spelled = Spelled::new(&id.server, &id.tool);
        let compiled = |schema: &Json| Arc::new(CompiledSchema::new(schema.clone()));
        Self {
            id,
            wire_name: spelled.wire,
            available,
            input: compiled(&definition.input_schema),
            output: definition.output_schema.as_ref().map(compiled),
            definition: Arc::new(definition),
            is_exact: spelled.is_exact,
        }
    }

    /// The same tool while its server is away, or back.
    fn when(self: &Arc<Self>, available: bool) -> Arc<Self> {
        if self.available == available {
            return Arc::clone(self);
        }
        Arc::new(Self {
            id: self.id.clone(),
            wire_name: self.wire_name.clone(),
            definition: Arc::clone(&self.definition),
            available,
            input: Arc::clone(&self.input),
            output: self.output.clone(),
            is_exact: self.is_exact,
        })
    }
}

/// A tool that has no name of its own on the wire and is therefore not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedTool {
    /// Which tool.
    pub id: ToolId,
    /// Why.
    pub reason: String,
}

/// One state of the catalog.
#[derive(Debug, Default)]
pub struct Catalog {
    revision: Revision,
    tools: Vec<Arc<CatalogTool>>,
    by_name: HashMap<WireName, usize>,
    refused: Vec<RejectedTool>,
}

impl Catalog {
    /// Which state this is.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// All tools, in their stable order.
    pub fn tools(&self) -> &[Arc<CatalogTool>] {
        &self.tools
    }

    /// The tool that a model calls by this name.
    pub fn get(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        self.by_name
            .get(name)
            .and_then(|&place| self.tools.get(place))
    }

    /// The tools of one server.
    pub fn tools_of<'a>(
        &'a self,
        server: &'a ServerName,
    ) -> impl Iterator<Item = &'a Arc<CatalogTool>> {
        self.tools
            .iter()
            .filter(move |tool| tool.id.server == *server)
    }

    /// The tools that could not be named.
    pub fn rejected(&self) -> &[RejectedTool] {
        &self.refused
    }
}

/// Which server of a name is meant. Places are never given twice: a server that comes under the name
/// of an earlier one is not that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) server: ServerName,
    pub(crate) place: u64,
}

/// What one server offers right now.
#[derive(Default)]
struct Offer {
    /// Whose it is.
    place: u64,
    tools: Vec<Arc<CatalogTool>>,
    exposed: bool,
}

/// What all servers offer.
#[derive(Default)]
struct Offers {
    by_server: BTreeMap<ServerName, Offer>,
    /// The servers in the order in which their tools are listed.
    order: Vec<ServerName>,
}

impl Offers {
    fn admit(&mut self, owner: &Stand) {
        let offer = Offer {
            place: owner.place,
            exposed: true,
            ..Offer::default()
        };
        self.by_server.insert(owner.server.clone(), offer);
    }

    /// The offer of this very server.
    fn of(&mut self, owner: &Stand) -> Option<&mut Offer> {
        let offer = self.by_server.get_mut(&owner.server);
        offer.filter(|offer| offer.place == owner.place)
    }

    fn remove(&mut self, owner: &Stand) -> bool {
        let is_there = self.of(owner).is_some();
        if is_there {
            self.by_server.remove(&owner.server);
            self.order.retain(|server| *server != owner.server);
        }
        is_there
    }
}

/// Where servers hand in what they offer.
pub(crate) struct Publisher {
    offers: Mutex<Offers>,
    current: ArcSwap<Catalog>,
    events: EventSink,
}

impl Publisher {
    pub(crate) fn new(events: EventSink) -> Self {
        Self {
            offers: Mutex::default(),
            current: ArcSwap::default(),
            events,
        }
    }

    /// The catalog as it is now, to look something up in it.
    pub(crate) fn current(&self) -> Guard<Arc<Catalog>> {
        self.current.load()
    }

    /// The servers in their order.
    pub(crate) fn order(&self) -> Vec<ServerName> {
        lock(&self.offers).order.clone()
    }

    /// Makes room for a server, behind all others.
    pub(crate) fn admit(&self, owner: &Stand) {
        let mut offers = lock(&self.offers);
        offers.admit(owner);
        offers.order.retain(|server| *server != owner.server);
        offers.order.push(owner.server.clone());
    }

    /// Lets servers go, makes room for others, and puts all into this order. Nobody sees it before
    /// the next publication, and then all of it at once.
    pub(crate) fn prepare(&self, gone: &[Stand], new: &[Stand], order: Vec<ServerName>) {
        let mut offers = lock(&self.offers);
        for owner in gone {
            offers.remove(owner);
        }
        for owner in new {
            offers.admit(owner);
        }
        offers.order = order;
        // One may have ended by itself while the order was made.
        let Offers { by_server, order } = &mut *offers;
        order.retain(|server| by_server.contains_key(server));
    }

    /// Publishes what was prepared.
    pub(crate) fn publish_prepared(&self) {
        self.publish(&lock(&self.offers));
    }

    /// A fresh listing. Definitions that did not change keep their compiled schemas.
    pub(crate) fn list(&self, owner: &Stand, tools: Vec<Tool>, available: bool) {
        self.change(owner, |offer| {
            let mut known: HashMap<ToolName, Arc<CatalogTool>> = std::mem::take(&mut offer.tools)
                .into_iter()
                .map(|tool| (tool.id.tool.clone(), tool))
                .collect();
            let renewed = |tool: Tool| match known.remove(tool.name.as_str()) {
                Some(same) if *same.definition == tool => same.when(available),
                _ => Arc::new(CatalogTool::new(&owner.server, tool, available)),
            };
            offer.tools = tools.into_iter().map(renewed).collect();
        });
    }

    /// The server is away, or back: its tools stay listed.
    pub(crate) fn set_available(&self, owner: &Stand, available: bool) {
        self.change(owner, |offer| {
            for tool in &mut offer.tools {
                *tool = tool.when(available);
            }
        });
    }

    /// A server that is switched off exposes nothing.
    pub(crate) fn set_exposed(&self, owner: &Stand, exposed: bool) {
        self.change(owner, |offer| offer.exposed = exposed);
    }

    /// The server gave up: its tools go, its place stays.
    pub(crate) fn withdraw(&self, owner: &Stand) {
        self.change(owner, |offer| offer.tools.clear());
    }

    /// The server is gone for good.
    pub(crate) fn remove(&self, owner: &Stand) {
        let mut offers = lock(&self.offers);
        if offers.remove(owner) {
            self.publish(&offers);
        }
    }

    fn change(&self, owner: &Stand, change: impl FnOnce(&mut Offer)) {
        let mut offers = lock(&self.offers);
        if let Some(offer) = offers.of(owner) {
            change(offer);
            self.publish(&offers);
        }
    }

    /// Puts the offers together. Called with the offers locked, so that snapshots never overtake
    /// each other.
    fn publish(&self, offers: &Offers) {
        let before = self.current();
        let mut next = assemble(offers);
        let difference = diff::between(&before, &next);
        if difference.is_nothing() {
            return;
        }
        next.revision = Revision(before.revision.0 + 1);
        let next = Arc::new(next);
        self.current.store(Arc::clone(&next));
        if !self.events.has_listeners() {
            return;
        }
        for (server, part) in difference.by_server(&before, &next) {
            self.events.send(|| Event::ToolsChanged {
                server,
                revision: next.revision,
                added: part.added,
                removed: part.removed,
                changed: part.changed,
            });
        }
    }
}

fn assemble(offers: &Offers) -> Catalog {
    let in_order = offers.order.iter();
    let exposed = in_order
        .filter_map(|server| offers.by_server.get(server))
        .filter(|offer| offer.exposed);
    let offered: Vec<_> = exposed.flat_map(|offer| &offer.tools).collect();
    let names: Vec<_> = offered
        .iter()
        .map(|tool| (&tool.wire_name, tool.is_exact))
        .collect();
    let holders = naming::holders(&names);
    if holders.len() == offered.len() {
        return Catalog {
            tools: offered.into_iter().cloned().collect(),
            by_name: holders,
            ..Catalog::default()
        };
    }
    let mut catalog = Catalog::default();
    for (place, tool) in offered.iter().enumerate() {
        let wire = tool.wire_name.clone();
        let holder = holders.get(&wire).filter(|holder| **holder != place);
        match holder.and_then(|holder| offered.get(*holder)) {
            Some(holder) => {
                let holder = holder.id.clone();
                catalog.refused.push(RejectedTool {
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
