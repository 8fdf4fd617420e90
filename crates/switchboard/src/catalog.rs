//! The catalog: the tools of all servers under the names by which a model calls them.
//!
//! `CatalogPublisher` receives the tool list of each server and publishes immutable [`Catalog`]
//! snapshots. Invariant: the order of tools depends only on the configured order of the servers and
//! on the order in the tool list of each server. It does not depend on which server connects first.
//! The tool list that a model sees is therefore stable, and prompt caches remain valid.
//!
//! A snapshot shares all parts that did not change with the previous snapshot, so that a change of
//! one server takes time in proportion to the tools of that server.

mod diff;
mod group;
mod publisher;

use std::sync::{Arc, OnceLock};

use rpds::HashTrieMapSync;
use switchboard_wire::mcp::{Json, ToolDefinition};
use switchboard_wire::naming::{self, EncodedName};
use switchboard_wire::schema::{CompiledSchema, SchemaBudget};

use crate::id::{Revision, ServerName, ToolId, WireName};
use group::{Group, Section};

pub(crate) use publisher::{CatalogPublisher, ServerKey};

/// A tool of a server, with its wire name and its compiled schemas.
// Every call clones the `Arc` around this struct. The alignment puts the reference counts of two
// tools in different cache lines, so that concurrent calls do not contend for one line.
#[derive(Debug)]
#[non_exhaustive]
#[repr(align(64))]
pub struct CatalogTool {
    /// The server, and the name of the tool as the server sent it.
    pub id: ToolId,
    /// The name by which a model calls the tool.
    pub wire_name: WireName,
    /// The definition that the server sent.
    pub definition: Arc<ToolDefinition>,
    /// Whether a call can be made: the server is connected, or starts with its first call.
    pub available: bool,
    pub(crate) input_schema: Arc<CompiledSchema>,
    pub(crate) output_schema: Option<Arc<CompiledSchema>>,
    /// Whether the wire name contains the server name and the tool name exactly, neither encoded
    /// nor shortened. Of several tools with the same wire name, the catalog contains the first one
    /// whose name is unchanged, or else the first one.
    name_is_unchanged: bool,
}

impl CatalogTool {
    fn new(
        server: &ServerName,
        definition: ToolDefinition,
        available: bool,
        budget: &SchemaBudget,
    ) -> Self {
        let id = ToolId::new(server.clone(), definition.name.as_str());
        let name = EncodedName::new(&id.server, &id.tool);
        let compile = |schema: &Json| Arc::new(CompiledSchema::with_budget(schema.clone(), budget));
        Self {
            id,
            wire_name: name.wire,
            available,
            input_schema: compile(&definition.input_schema),
            output_schema: definition.output_schema.as_ref().map(compile),
            definition: Arc::new(definition),
            name_is_unchanged: name.is_exact,
        }
    }

    /// Says for each schema of the tool that is known to be unusable that values are not validated
    /// against it, and why. A schema that no call has used is unknown until
    /// [`Host::check_schemas`](crate::Host::check_schemas) compiles it.
    pub fn schema_notes(&self) -> impl Iterator<Item = String> {
        let input = self.input_schema.known_unusable_reason();
        let output = self.output_schema.as_ref();
        let output = output.and_then(|schema| schema.known_unusable_reason());
        let name = &self.id.tool;
        let note = move |what: &str, reason| format!("tool {name}: {what} not validated: {reason}");
        let input = input.map(|reason| note("arguments are", reason));
        input
            .into_iter()
            .chain(output.map(|reason| note("structured content is", reason)))
    }

    /// Returns the same tool with `available` set to this value. Clones only the `Arc` if nothing
    /// changes.
    fn with_availability(self: &Arc<Self>, available: bool) -> Arc<Self> {
        if self.available == available {
            return Arc::clone(self);
        }
        Arc::new(Self {
            id: self.id.clone(),
            wire_name: self.wire_name.clone(),
            definition: Arc::clone(&self.definition),
            available,
            input_schema: Arc::clone(&self.input_schema),
            output_schema: self.output_schema.clone(),
            name_is_unchanged: self.name_is_unchanged,
        })
    }
}

/// A tool that is not in the catalog, because another tool has the same wire name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedTool {
    /// The server and the name of the tool that is not in the catalog.
    pub id: ToolId,
    /// An error message that names the wire name and the tool that has it.
    pub reason: String,
}

/// An immutable snapshot of the tools of all servers.
#[derive(Debug, Default)]
pub struct Catalog {
    revision: Revision,
    /// The tools by the server part of their wire names.
    groups: HashTrieMapSync<Arc<str>, Arc<Group>>,
    /// All tools in order. Computed when it is first needed, because it takes time in proportion to
    /// the number of all tools.
    all: OnceLock<AllTools>,
}

#[derive(Debug, Default)]
struct AllTools {
    tools: Vec<Arc<CatalogTool>>,
    rejected: Vec<RejectedTool>,
}

impl Catalog {
    /// The revision of this snapshot. Each published snapshot has a revision that is one higher
    /// than that of the previous snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// All tools. The servers are in the configured order, and the tools of each server in the
    /// order of its tool list.
    ///
    /// The first call for a snapshot takes time in proportion to the number of all tools. To look
    /// up single tools or servers, use [`Catalog::get`] and [`Catalog::tools_of`].
    pub fn tools(&self) -> &[Arc<CatalogTool>] {
        &self.all().tools
    }

    /// Finds the tool with this wire name.
    pub fn get(&self, wire_name: &str) -> Option<&Arc<CatalogTool>> {
        let (part, _) = naming::split_wire_name(wire_name)?;
        self.groups.get(part)?.get(wire_name)
    }

    /// The tools of one server.
    pub fn tools_of<'a>(
        &'a self,
        server: &'a ServerName,
    ) -> impl Iterator<Item = &'a Arc<CatalogTool>> {
        self.section(server)
            .into_iter()
            .flat_map(|section| &section.tools)
    }

    /// The tools that are not in [`Catalog::tools`], because other tools have the same wire names.
    pub fn rejected(&self) -> &[RejectedTool] {
        &self.all().rejected
    }

    /// The tools of one server that are not in the catalog, as in [`Catalog::rejected`].
    pub fn rejected_of(&self, server: &ServerName) -> &[RejectedTool] {
        self.section(server)
            .map_or(&[], |section| section.rejected.as_slice())
    }

    fn section(&self, server: &ServerName) -> Option<&Section> {
        let part = naming::server_part(server);
        self.groups.get(part.as_str())?.section(server)
    }

    fn all(&self) -> &AllTools {
        self.all.get_or_init(|| {
            let groups = self.groups.values();
            let mut sections: Vec<&Section> = groups.flat_map(|group| group.sections()).collect();
            sections.sort_unstable_by_key(|section| section.position);
            let mut all = AllTools::default();
            for section in sections {
                all.tools.extend_from_slice(&section.tools);
                all.rejected.extend_from_slice(&section.rejected);
            }
            all
        })
    }
}
