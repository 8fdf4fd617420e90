//! The blocks of a result.

use serde::{Serialize, Serializer};

use super::Json;

/// One block of a tool's answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(MediaContent),
    /// Sound.
    Audio(MediaContent),
    /// A pointer to something that can be read from the same server.
    ResourceLink(ResourceLink),
    /// Something readable, carried along.
    Resource(EmbeddedResource),
    /// A block of a kind we do not know, or a malformed one: kept as sent.
    Unknown(Json),
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            annotations: None,
            meta: None,
        })
    }
}

/// Text.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TextContent {
    /// The text as sent.
    pub text: String,
    /// Audience, priority and the like, carried through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A picture or a sound.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MediaContent {
    /// The bytes in base64, as sent.
    pub data: String,
    /// What the server says the bytes are.
    pub mime_type: String,
    /// Audience, priority and the like, carried through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A pointer to a resource of the same server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceLink {
    /// Where it is; only the server that sent the link can be asked for it.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the server says the bytes are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// How many bytes, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Audience, priority and the like, carried through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// A resource carried inside a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// What it is and what it holds.
    pub resource: ResourceBody,
    /// Audience, priority and the like, carried through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The inside of a resource: text, or bytes in base64.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceBody {
    /// Where it came from.
    pub uri: String,
    /// What the server says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its text, for a textual resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its bytes in base64, for any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ResourceBody {
    /// A text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            text: Some(text.into()),
            blob: None,
            meta: None,
        }
    }

    /// Bytes, in base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            text: None,
            blob: Some(base64.into()),
            meta: None,
        }
    }
}

#[derive(Serialize)]
struct Tagged<'a, T> {
    r#type: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(body) => Tagged {
                r#type: "text",
                body,
            }
            .serialize(serializer),
            Self::Image(body) => Tagged {
                r#type: "image",
                body,
            }
            .serialize(serializer),
            Self::Audio(body) => Tagged {
                r#type: "audio",
                body,
            }
            .serialize(serializer),
            Self::ResourceLink(body) => Tagged {
                r#type: "resource_link",
                body,
            }
            .serialize(serializer),
            Self::Resource(body) => Tagged {
                r#type: "resource",
                body,
            }
            .serialize(serializer),
            Self::Unknown(raw) => raw.serialize(serializer),
        }
    }
}
