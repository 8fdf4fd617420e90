//! Resources of an [`InProcessServer`](super::InProcessServer). Each consists of a URI or a URI
//! template, and the function that reads the resource.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::{ReadResourceResult, Resource, ResourceBody, ResourceTemplate};
use switchboard_wire::uri_template::UriMatcher;

use super::error::ToolResult;
use super::registration_panic;

/// What the function that reads a resource can return: text, bytes, or a complete result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the content of a resource",
    label = "cannot be the content of a resource",
    note = "return `String` or `&'static str` for text, `Vec<u8>` for bytes, or a `ReadResourceResult`"
)]
pub trait ResourceOutput: 'static {
    #[doc(hidden)]
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult;
}

impl ResourceOutput for String {
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
        single_content(ResourceBody::text(uri, self), mime_type)
    }
}

impl ResourceOutput for &'static str {
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
        single_content(ResourceBody::text(uri, self), mime_type)
    }
}

impl ResourceOutput for Vec<u8> {
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
        single_content(ResourceBody::bytes(uri, &self), mime_type)
    }
}

impl ResourceOutput for ReadResourceResult {
    fn into_result(self, _: &str, _: Option<&str>) -> ReadResourceResult {
        self
    }
}

fn single_content(mut body: ResourceBody, mime_type: Option<&str>) -> ReadResourceResult {
    body.mime_type = mime_type.map(str::to_owned);
    ReadResourceResult::new([body])
}

type ReadFuture = BoxFuture<'static, ToolResult<ReadResourceResult>>;
type ReadFn = dyn Fn(&InProcessResource) -> ReadFuture + Send + Sync;
/// Reads a resource that matches a template. Takes the template, the requested URI, and the values
/// that the template's variables have in this URI.
type TemplateReadFn =
    dyn Fn(&InProcessTemplate, &str, BTreeMap<String, String>) -> ReadFuture + Send + Sync;

/// A resource that can have a title, a description and a MIME type. If URI, name and function are
/// enough, use [`InProcessServer::resource`](super::InProcessServer::resource).
pub struct InProcessResource {
    definition: Resource,
    read: Box<ReadFn>,
}

impl InProcessResource {
    /// Creates a resource with this URI. `handler` is the async function that reads the resource.
    ///
    /// # Panics
    ///
    /// If the URI is empty.
    #[track_caller]
    pub fn new<F, Fut, R>(uri: impl Into<String>, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<R>> + Send + 'static,
        R: ResourceOutput,
    {
        let definition = Resource::new(uri, name);
        if definition.uri.is_empty() {
            let name = &definition.name;
            registration_panic(&format!(
                "cannot register resource {name}: its URI is empty"
            ));
        }
        let handler = Arc::new(handler);
        let read = move |this: &Self| -> ReadFuture {
            let (handler, uri) = (Arc::clone(&handler), this.definition.uri.clone());
            let mime_type = this.definition.mime_type.clone();
            Box::pin(async move { Ok(handler().await?.into_result(&uri, mime_type.as_deref())) })
        };
        Self {
            definition,
            read: Box::new(read),
        }
    }

    /// Sets the `title`, which clients display instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.definition.description = Some(text.into());
        self
    }

    /// Sets the MIME type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    pub(super) fn definition(&self) -> &Resource {
        &self.definition
    }

    pub(super) fn read(&self) -> ReadFuture {
        (self.read)(self)
    }
}

impl fmt::Debug for InProcessResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessResource")
            .field(&self.definition)
            .finish()
    }
}

/// All resources whose URIs match a URI template.
///
/// The template has expressions of the form `{name}`, which matches one segment of a URI, and
/// `{+name}`, which also matches slashes (RFC 6570). The handler gets the percent-decoded values by
/// name. The values come from the client: treat them as untrusted input, above all in paths.
pub struct InProcessTemplate {
    definition: ResourceTemplate,
    matcher: UriMatcher,
    read: Box<TemplateReadFn>,
}

impl InProcessTemplate {
    /// Creates a resource template. `handler` is the async function that reads the resource with a
    /// matching URI.
    ///
    /// # Panics
    ///
    /// If the template has no expression, or an expression other than `{name}` and `{+name}`.
    #[track_caller]
    pub fn new<F, Fut, R>(template: impl Into<String>, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(BTreeMap<String, String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<R>> + Send + 'static,
        R: ResourceOutput,
    {
        let template = template.into();
        let matcher = match UriMatcher::parse(&template) {
            Ok(matcher) => matcher,
            Err(why) => registration_panic(&format!("cannot register template {template}: {why}")),
        };
        let handler = Arc::new(handler);
        let read = move |this: &Self, uri: &str, values| -> ReadFuture {
            let (handler, uri) = (Arc::clone(&handler), uri.to_owned());
            let mime_type = this.definition.mime_type.clone();
            Box::pin(async move {
                let content = handler(values).await?;
                Ok(content.into_result(&uri, mime_type.as_deref()))
            })
        };
        Self {
            definition: ResourceTemplate::new(template, name),
            matcher,
            read: Box::new(read),
        }
    }

    /// Sets the `title`, which clients display instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.definition.description = Some(text.into());
        self
    }

    /// Sets the MIME type of all matching resources.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    pub(super) fn definition(&self) -> &ResourceTemplate {
        &self.definition
    }

    /// Reads the resource with this URI. Returns `None` if the URI does not match the template.
    pub(super) fn read(&self, uri: &str) -> Option<ReadFuture> {
        let values = self.matcher.match_uri(uri)?;
        Some((self.read)(self, uri, values))
    }
}

impl fmt::Debug for InProcessTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessTemplate")
            .field(&self.definition)
            .finish()
    }
}
