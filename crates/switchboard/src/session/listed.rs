//! The four listings of the protocol, and what each has of its own.

use super::changes::Change;
use super::remote::Streamable;
use crate::limits::Limits;
use crate::mcp::{Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool};
use crate::telemetry::Redactor;
use crate::transport::memory::LocalServer;
use crate::wire::decode::{self, Item, Page};

/// Something that a server lists page by page.
pub(crate) trait Listed: Sized + Send + Sync + 'static {
    /// How the listing is asked for.
    const METHOD: &'static str;
    /// Where its items stand in the answer.
    const KEY: &'static str;
    /// One of them, in words.
    const WHAT: &'static str;
    /// What a server announces when the list changes.
    const CHANGE: Change;
    /// The field of [`Limits`] that bounds their number.
    const LIMIT: &'static str;
    const ITEM: Item<Self>;

    /// Whether a server has such things.
    fn is_offered(capabilities: &ServerCapabilities) -> bool;

    /// Whether it says when the list changes.
    fn is_announced(capabilities: &ServerCapabilities) -> bool;

    fn most(limits: &Limits) -> usize;

    /// Masks what the server says of it in words. What is sent back to it stays as it is.
    fn redact(&mut self, redactor: &Redactor);

    /// What a server in this process has.
    fn of_local(server: &dyn LocalServer) -> Vec<Self>;

    /// What it is asked for by.
    fn known_by(&self) -> &str;

    /// What a session over HTTP has to know of it.
    fn taken_by(_: &mut Page<Self>, _: &Streamable) {}
}

impl Listed for Tool {
    const METHOD: &'static str = "tools/list";
    const KEY: &'static str = "tools";
    const WHAT: &'static str = "tool";
    const CHANGE: Change = Change::Tools;
    const LIMIT: &'static str = "tools_per_server";
    const ITEM: Item<Self> = decode::tool;

    fn is_offered(capabilities: &ServerCapabilities) -> bool {
        capabilities.tools
    }

    fn is_announced(capabilities: &ServerCapabilities) -> bool {
        capabilities.tools_list_changed
    }

    fn most(limits: &Limits) -> usize {
        limits.tools_per_server
    }

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
    }

    fn of_local(server: &dyn LocalServer) -> Vec<Self> {
        server.tools()
    }

    fn known_by(&self) -> &str {
        &self.name
    }

    fn taken_by(page: &mut Page<Self>, streamable: &Streamable) {
        streamable.take_page(page);
    }
}

impl Listed for Resource {
    const METHOD: &'static str = "resources/list";
    const KEY: &'static str = "resources";
    const WHAT: &'static str = "resource";
    const CHANGE: Change = Change::Resources;
    const LIMIT: &'static str = "resources_per_server";
    const ITEM: Item<Self> = decode::resource;

    fn is_offered(capabilities: &ServerCapabilities) -> bool {
        capabilities.resources
    }

    fn is_announced(capabilities: &ServerCapabilities) -> bool {
        capabilities.resources_list_changed
    }

    fn most(limits: &Limits) -> usize {
        limits.resources_per_server
    }

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
    }

    fn of_local(server: &dyn LocalServer) -> Vec<Self> {
        server.resources()
    }

    fn known_by(&self) -> &str {
        &self.uri
    }
}

impl Listed for ResourceTemplate {
    const METHOD: &'static str = "resources/templates/list";
    const KEY: &'static str = "resourceTemplates";
    const WHAT: &'static str = "template";
    const CHANGE: Change = Change::Resources;
    const LIMIT: &'static str = "resources_per_server";
    const ITEM: Item<Self> = decode::resource_template;

    fn is_offered(capabilities: &ServerCapabilities) -> bool {
        capabilities.resources
    }

    fn is_announced(capabilities: &ServerCapabilities) -> bool {
        capabilities.resources_list_changed
    }

    fn most(limits: &Limits) -> usize {
        limits.resources_per_server
    }

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
    }

    fn of_local(server: &dyn LocalServer) -> Vec<Self> {
        server.resource_templates()
    }

    fn known_by(&self) -> &str {
        &self.uri_template
    }
}

impl Listed for Prompt {
    const METHOD: &'static str = "prompts/list";
    const KEY: &'static str = "prompts";
    const WHAT: &'static str = "prompt";
    const CHANGE: Change = Change::Prompts;
    const LIMIT: &'static str = "prompts_per_server";
    const ITEM: Item<Self> = decode::prompt;

    fn is_offered(capabilities: &ServerCapabilities) -> bool {
        capabilities.prompts
    }

    fn is_announced(capabilities: &ServerCapabilities) -> bool {
        capabilities.prompts_list_changed
    }

    fn most(limits: &Limits) -> usize {
        limits.prompts_per_server
    }

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
        for argument in &mut self.arguments {
            redactor.redact_texts([&mut argument.title, &mut argument.description]);
        }
    }

    fn of_local(server: &dyn LocalServer) -> Vec<Self> {
        server.prompts()
    }

    fn known_by(&self) -> &str {
        &self.name
    }
}
