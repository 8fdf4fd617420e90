//! Resources: what a server lets one read.

use serde::{Deserialize, Deserializer, Serialize};

use super::{Json, ResourceBody};

/// A resource as its server describes it. Everything in it is untrusted text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Where it is; only its own server can be asked for it.
    pub uri: String,
    /// Its name; the address where the server gives none.
    #[serde(default)]
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the server says it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many bytes, when known.
    #[serde(
        default,
        deserialize_with = "a_count",
        skip_serializing_if = "Option::is_none"
    )]
    pub size: Option<u64>,
    /// Audience, priority and the like, carried through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, carried through.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl Resource {
    /// A resource by its address and name.
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

/// A size that makes no sense is not known.
fn a_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let written = serde_json::Value::deserialize(deserializer)?;
    Ok(written.as_u64())
}

/// Addresses that are made by filling something in (RFC 6570). Everything in it is untrusted text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// The address, with variables in braces.
    pub uri_template: String,
    /// Its name; the template where the server gives none.
    #[serde(default)]
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What such resources are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the server says they are made of, where all of them are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Audience, priority and the like, carried through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, carried through.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ResourceTemplate {
    /// A template by its text and name.
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

/// What reading a resource brought, as the server sent it: not yet sanitised, not yet cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadResourceResult {
    /// The parts, in order; none at all is an empty resource, not a missing one.
    pub contents: Vec<ResourceBody>,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// How many more parts there were than are taken ([`Limits::content_blocks`]).
    ///
    /// [`Limits::content_blocks`]: crate::Limits::content_blocks
    #[serde(skip)]
    pub left_out: usize,
}

impl ReadResourceResult {
    /// A resource of these parts.
    pub fn new(contents: impl IntoIterator<Item = ResourceBody>) -> Self {
        Self {
            contents: contents.into_iter().collect(),
            ..Self::default()
        }
    }
}
