//! The part of the catalog in which wire names can clash: the servers with the same server part.
//!
//! A wire name splits in one way into a server part and a tool part. Two tools can have the same
//! wire name only if the server parts of their servers are equal, so each group is built without
//! the others. Nearly every group has one server.

use std::collections::HashMap;
use std::sync::Arc;

use switchboard_wire::naming::{self, NameClash};

use super::{CatalogTool, RejectedTool};
use crate::id::{ServerName, WireName};

/// The servers with the same server part in their wire names.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The servers in the configured order.
    sections: Vec<Section>,
}

/// The tools of one server in a catalog.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) server: ServerName,
    /// The position of the server in the configured order.
    pub(super) position: u64,
    pub(super) tools: Vec<Arc<CatalogTool>>,
    pub(super) rejected: Vec<RejectedTool>,
    /// The index of each tool in `tools`, by wire name.
    by_name: HashMap<WireName, usize>,
}

/// The tools that one server listed.
pub(super) struct ListedTools<'a> {
    pub(super) server: &'a ServerName,
    pub(super) position: u64,
    pub(super) tools: &'a [Arc<CatalogTool>],
}

impl Group {
    /// Assigns each wire name to one tool. `servers` are in the configured order. Returns `None` if
    /// no server has tools.
    pub(super) fn build(servers: &[ListedTools<'_>]) -> Option<Self> {
        let tools: Vec<_> = servers.iter().flat_map(|server| server.tools).collect();
        if tools.is_empty() {
            return None;
        }
        let names: Vec<_> = tools
            .iter()
            .map(|tool| (&tool.wire_name, tool.name_is_unchanged))
            .collect();
        let mut owners = naming::assign_wire_names(&names);
        if let [server] = servers
            && owners.len() == tools.len()
        {
            let section = Section {
                server: server.server.clone(),
                position: server.position,
                tools: server.tools.to_vec(),
                rejected: Vec::new(),
                by_name: std::mem::take(&mut owners),
            };
            return Some(Self {
                sections: vec![section],
            });
        }
        let mut first = 0;
        let sections = servers.iter().map(|server| {
            let section = Section::build(server, first, &owners, &tools);
            first += server.tools.len();
            section
        });
        Some(Self {
            sections: sections.collect(),
        })
    }

    pub(super) fn sections(&self) -> &[Section] {
        &self.sections
    }

    pub(super) fn section(&self, server: &ServerName) -> Option<&Section> {
        let mut sections = self.sections.iter();
        sections.find(|section| section.server == *server)
    }

    pub(super) fn get(&self, wire_name: &str) -> Option<&Arc<CatalogTool>> {
        self.sections.iter().find_map(|section| {
            let index = section.by_name.get(wire_name)?;
            section.tools.get(*index)
        })
    }

    /// Returns the tools of all servers of the group in order.
    pub(super) fn tools(&self) -> Vec<&Arc<CatalogTool>> {
        let sections = self.sections.iter();
        sections.flat_map(|section| &section.tools).collect()
    }
}

impl Section {
    /// Builds the section of one server. `owners` has the index of the tool that gets each wire
    /// name, `tools` the tools of all servers of the group, and `first` the index of the first tool
    /// of this server.
    fn build(
        server: &ListedTools<'_>,
        first: usize,
        owners: &HashMap<WireName, usize>,
        tools: &[&Arc<CatalogTool>],
    ) -> Self {
        let mut section = Self {
            server: server.server.clone(),
            position: server.position,
            tools: Vec::with_capacity(server.tools.len()),
            rejected: Vec::new(),
            by_name: HashMap::with_capacity(server.tools.len()),
        };
        for (offset, tool) in server.tools.iter().enumerate() {
            let wire = tool.wire_name.clone();
            let owner = owners.get(&wire).filter(|owner| **owner != first + offset);
            match owner.and_then(|owner| tools.get(*owner)) {
                Some(owner) => {
                    let holder = owner.id.clone();
                    section.rejected.push(RejectedTool {
                        id: tool.id.clone(),
                        reason: NameClash { wire, holder }.to_string(),
                    });
                }
                None => {
                    section.by_name.insert(wire, section.tools.len());
                    section.tools.push(Arc::clone(tool));
                }
            }
        }
        section
    }
}
