//! Resources and resource templates.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Json, ResourceBody};

/// A resource as its server lists it. All text in it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// The URI. Only the server that lists it can resolve it.
    pub uri: String,
    /// The name, or the URI if the server gives no name.
    #[serde(default)]
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The MIME type, as the server declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size in bytes, if known.
    #[serde(
        default,
        deserialize_with = "lenient_u64",
        skip_serializing_if = "Option::is_none"
    )]
    pub size: Option<u64>,
    /// Annotations such as audience and priority, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data (`_meta`), as sent.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl Resource {
    /// Creates a resource from a URI and a name.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            meta: None,
        }
    }
}

/// Reads anything but an unsigned integer as `None`.
fn lenient_u64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_u64())
}

/// A URI template (RFC 6570) of resources. All text in it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template.
    pub uri_template: String,
    /// The name, or the template if the server gives no name.
    #[serde(default)]
    pub name: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The MIME type, if all matching resources have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Annotations such as audience and priority, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data (`_meta`), as sent.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ResourceTemplate {
    /// Creates a template from its text and a name.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            annotations: None,
            meta: None,
        }
    }
}

/// The contents of a resource as the server sent them: neither sanitised nor truncated.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The parts, in order. An empty list is an empty resource, not a missing one.
    pub contents: Vec<ResourceBody>,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// How many parts beyond [`Limits::content_blocks`] were dropped.
    ///
    /// [`Limits::content_blocks`]: crate::Limits::content_blocks
    #[serde(skip)]
    pub left_out: usize,
    /// The URI that was requested. `None` if the result was not read by a host. The server may have
    /// returned parts with other URIs.
    #[serde(skip)]
    pub requested_uri: Option<String>,
}

impl ReadResourceResult {
    /// Creates a result from parts.
    pub fn new(contents: impl IntoIterator<Item = ResourceBody>) -> Self {
        Self {
            contents: contents.into_iter().collect(),
            ..Self::default()
        }
    }
}
