//! The four listings of the protocol: tools, resources, resource templates, prompts.

#[cfg(feature = "http")]
use super::http::StreamableHttpSession;
use super::list_changes::ListChangeKind;
use switchboard_wire::Limits;
use switchboard_wire::LocalServer;
use switchboard_wire::decode;
use switchboard_wire::decode::DecodeItem;
#[cfg(feature = "http")]
use switchboard_wire::decode::Page;
use switchboard_wire::mcp::{
    Prompt, Resource, ResourceTemplate, ServerCapabilities, ToolDefinition,
};
use switchboard_wire::redact::Redactor;

/// A type of items that servers list, with everything that differs between the listings.
pub trait ListItem: Sized + Send + Sync + 'static {
    /// Method of the list request.
    const METHOD: &'static str;
    /// Member of the result that holds the items.
    const KEY: &'static str;
    /// The noun for one item in messages to the user, in the singular.
    const NOUN: &'static str;
    /// The kind of the `list_changed` notification for this listing.
    const CHANGE_KIND: ListChangeKind;
    /// Name of the field of [`Limits`] that bounds the number of items.
    const LIMIT: &'static str;
    /// Decodes one item.
    const ITEM: DecodeItem<Self>;

    /// Whether a server with these capabilities supports the list request.
    fn is_offered(capabilities: &ServerCapabilities) -> bool;

    /// Whether a server with these capabilities sends `list_changed` notifications for this
    /// listing.
    fn is_announced(capabilities: &ServerCapabilities) -> bool;

    fn max_items(limits: &Limits) -> usize;

    /// Masks secrets in titles and descriptions. Names, URIs and schemas stay as they are, because
    /// later requests depend on them.
    fn redact(&mut self, redactor: &Redactor);

    /// Lists the items of a server in this process.
    fn list_local(server: &dyn LocalServer) -> Vec<Self>;

    /// The name or URI that identifies the item in requests.
    fn key(&self) -> &str;

    /// For a page of tools, records which tool arguments the session must repeat in HTTP headers,
    /// and removes tools that cannot be called over HTTP. Does nothing for other kinds of items.
    #[cfg(feature = "http")]
    fn register_header_params(_: &mut Page<Self>, _: &StreamableHttpSession) {}
}

/// Generates the members of [`ListItem`] that differ between the listings only in a name.
macro_rules! list_item {
    (
        method: $method:literal,
        key: $key:literal,
        noun: $noun:literal,
        change: $kind:ident,
        limit: $limit:ident,
        decode: $decode:path,
        capability: $offered:ident,
        announced_by: $announced:ident,
    ) => {
        const METHOD: &'static str = $method;
        const KEY: &'static str = $key;
        const NOUN: &'static str = $noun;
        const CHANGE_KIND: ListChangeKind = ListChangeKind::$kind;
        const LIMIT: &'static str = stringify!($limit);
        const ITEM: DecodeItem<Self> = $decode;

        fn is_offered(capabilities: &ServerCapabilities) -> bool {
            capabilities.$offered
        }

        fn is_announced(capabilities: &ServerCapabilities) -> bool {
            capabilities.$announced
        }

        fn max_items(limits: &Limits) -> usize {
            limits.$limit
        }
    };
}

impl ListItem for ToolDefinition {
    list_item!(
        method: "tools/list",
        key: "tools",
        noun: "tool",
        change: Tools,
        limit: tools_per_server,
        decode: decode::tool,
        capability: tools,
        announced_by: tools_list_changed,
    );

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
    }

    fn list_local(server: &dyn LocalServer) -> Vec<Self> {
        server.tools()
    }

    fn key(&self) -> &str {
        &self.name
    }

    #[cfg(feature = "http")]
    fn register_header_params(page: &mut Page<Self>, session: &StreamableHttpSession) {
        session.filter_tools_for_http(page);
    }
}

impl ListItem for Resource {
    list_item!(
        method: "resources/list",
        key: "resources",
        noun: "resource",
        change: Resources,
        limit: resources_per_server,
        decode: decode::resource,
        capability: resources,
        announced_by: resources_list_changed,
    );

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
    }

    fn list_local(server: &dyn LocalServer) -> Vec<Self> {
        server.resources()
    }

    fn key(&self) -> &str {
        &self.uri
    }
}

impl ListItem for ResourceTemplate {
    list_item!(
        method: "resources/templates/list",
        key: "resourceTemplates",
        noun: "template",
        change: Resources,
        limit: resources_per_server,
        decode: decode::resource_template,
        capability: resources,
        announced_by: resources_list_changed,
    );

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
    }

    fn list_local(server: &dyn LocalServer) -> Vec<Self> {
        server.resource_templates()
    }

    fn key(&self) -> &str {
        &self.uri_template
    }
}

impl ListItem for Prompt {
    list_item!(
        method: "prompts/list",
        key: "prompts",
        noun: "prompt",
        change: Prompts,
        limit: prompts_per_server,
        decode: decode::prompt,
        capability: prompts,
        announced_by: prompts_list_changed,
    );

    fn redact(&mut self, redactor: &Redactor) {
        redactor.redact_texts([&mut self.title, &mut self.description]);
        for argument in &mut self.arguments {
            redactor.redact_texts([&mut argument.title, &mut argument.description]);
        }
    }

    fn list_local(server: &dyn LocalServer) -> Vec<Self> {
        server.prompts()
    }

    fn key(&self) -> &str {
        &self.name
    }
}
