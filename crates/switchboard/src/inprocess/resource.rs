//! Resources of a server in this process: an address, or a template of addresses, and the function
//! that reads what is there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::error::ToolResult;
use super::misuse;
use crate::interact::BoxFuture;
use crate::mcp::{ReadResourceResult, Resource, ResourceBody, ResourceTemplate};
use switchboard_wire::uri_template::UriMatcher as Pattern;

/// What reading a resource can bring: text, bytes, or a whole result.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a resource holds",
    label = "cannot be what a resource holds",
    note = "return `String` or `&'static str` for text, `Vec<u8>` for bytes, or a `ReadResourceResult`"
)]
pub trait ResourceOutput: 'static {
    #[doc(hidden)]
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult;
}

impl ResourceOutput for String {
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
        single(ResourceBody::text(uri, self), mime_type)
    }
}

impl ResourceOutput for &'static str {
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
        single(ResourceBody::text(uri, self), mime_type)
    }
}

impl ResourceOutput for Vec<u8> {
    fn into_result(self, uri: &str, mime_type: Option<&str>) -> ReadResourceResult {
        single(ResourceBody::bytes(uri, &self), mime_type)
    }
}

impl ResourceOutput for ReadResourceResult {
    fn into_result(self, _: &str, _: Option<&str>) -> ReadResourceResult {
        self
    }
}

fn single(mut body: ResourceBody, mime_type: Option<&str>) -> ReadResourceResult {
    body.mime_type = mime_type.map(str::to_owned);
    ReadResourceResult::new([body])
}

type Reading = BoxFuture<'static, ToolResult<ReadResourceResult>>;
type FilledIn = dyn Fn(&InProcessTemplate, &str, BTreeMap<String, String>) -> Reading + Send + Sync;

/// A resource with everything that can be said of it. Where an address, a name and a function are
/// enough, [`InProcessServer::resource`](super::InProcessServer::resource) is shorter.
pub struct InProcessResource {
    description: Resource,
    read: Box<dyn Fn(&Self) -> Reading + Send + Sync>,
}

impl InProcessResource {
    /// A resource at an address, and the async function that reads it.
    pub fn new<F, Fut, R>(uri: impl Into<String>, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<R>> + Send + 'static,
        R: ResourceOutput,
    {
        let handler = Arc::new(handler);
        let read = move |this: &Self| -> Reading {
            let (handler, uri) = (Arc::clone(&handler), this.description.uri.clone());
            let mime_type = this.description.mime_type.clone();
            Box::pin(async move { Ok(handler().await?.into_result(&uri, mime_type.as_deref())) })
        };
        Self {
            description: Resource::new(uri, name),
            read: Box::new(read),
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.description.title = Some(title.into());
        self
    }

    /// Says what it is.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description.description = Some(text.into());
        self
    }

    /// Says what it is made of.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.description.mime_type = Some(mime_type.into());
        self
    }

    pub(super) fn listed(&self) -> &Resource {
        &self.description
    }

    pub(super) fn read(&self) -> Reading {
        (self.read)(self)
    }
}

impl fmt::Debug for InProcessResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessResource")
            .field(&self.description)
            .finish()
    }
}

/// Resources whose addresses are made by filling something in.
///
/// The template has expressions of the form `{name}`, which stands for one segment of an address, and
/// `{+name}`, which may contain slashes (RFC 6570). The function is given their values as they were
/// before they were filled in. They come from whoever asks: a path in one is no more to be trusted
/// than any other.
pub struct InProcessTemplate {
    description: ResourceTemplate,
    pattern: Pattern,
    read: Box<FilledIn>,
}

impl InProcessTemplate {
    /// A template of addresses, and the async function that reads what is at one.
    ///
    /// # Panics
    ///
    /// If the template has no expressions, or others than `{name}` and `{+name}`.
    #[track_caller]
    pub fn new<F, Fut, R>(template: impl Into<String>, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(BTreeMap<String, String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<R>> + Send + 'static,
        R: ResourceOutput,
    {
        let template = template.into();
        let pattern = match Pattern::parse(&template) {
            Ok(pattern) => pattern,
            Err(why) => misuse(&format!("the template {template} cannot be used: {why}")),
        };
        let handler = Arc::new(handler);
        let read = move |this: &Self, uri: &str, values| -> Reading {
            let (handler, uri) = (Arc::clone(&handler), uri.to_owned());
            let mime_type = this.description.mime_type.clone();
            Box::pin(async move {
                let read = handler(values).await?;
                Ok(read.into_result(&uri, mime_type.as_deref()))
            })
        };
        Self {
            description: ResourceTemplate::new(template, name),
            pattern,
            read: Box::new(read),
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.description.title = Some(title.into());
        self
    }

    /// Says what such resources are.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description.description = Some(text.into());
        self
    }

    /// Says what they are made of, where all of them are alike.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.description.mime_type = Some(mime_type.into());
        self
    }

    pub(super) fn listed(&self) -> &ResourceTemplate {
        &self.description
    }

    /// Reads what is at an address, if it is one of these.
    pub(super) fn read(&self, uri: &str) -> Option<Reading> {
        let values = self.pattern.values(uri)?;
        Some((self.read)(self, uri, values))
    }
}

impl fmt::Debug for InProcessTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessTemplate")
            .field(&self.description)
            .finish()
    }
}
