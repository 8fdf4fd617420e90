//! Content blocks of results and prompt messages.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};

use super::Json;
use crate::text::{for_terminal, sanitize};

/// One content block of a tool result or a prompt message.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(MediaContent),
    /// Audio.
    Audio(MediaContent),
    /// A link to a resource of the same server.
    ResourceLink(ResourceLink),
    /// A resource with its contents.
    Resource(EmbeddedResource),
    /// A block of an unknown type, or a malformed block, as sent.
    Unknown(Json),
}

impl ContentBlock {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            annotations: None,
            meta: None,
        })
    }

    /// Creates an image block from bytes and their MIME type, such as `image/png`.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(MediaContent::new(bytes, mime_type))
    }

    /// Creates an audio block from bytes and their MIME type, such as `audio/wav`.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(MediaContent::new(bytes, mime_type))
    }

    /// Creates a link to a resource of the same server.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self::ResourceLink(ResourceLink::new(uri, name))
    }

    /// Creates a block that embeds a resource.
    pub fn resource(resource: ResourceBody) -> Self {
        Self::Resource(EmbeddedResource {
            resource,
            annotations: None,
            meta: None,
        })
    }
}

/// A text block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TextContent {
    /// The text as sent.
    pub text: String,
    /// Annotations such as audience and priority, as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// An image or audio block.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MediaContent {
    /// The bytes in base64, as sent.
    pub data: String,
    /// The MIME type, as the server declares it.
    pub mime_type: String,
    /// Annotations such as audience and priority, as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl MediaContent {
    /// Encodes bytes of this MIME type.
    pub fn new(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::from_base64(BASE64_STANDARD.encode(bytes), mime_type)
    }

    /// Creates a block from bytes in base64, which are not validated.
    pub fn from_base64(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self {
            data: data.into(),
            mime_type: mime_type.into(),
            annotations: None,
            meta: None,
        }
    }
}

/// A link to a resource of the server that sent it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceLink {
    /// The URI. Only the server that sent the link can resolve it.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The MIME type, as the server declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The size in bytes, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Annotations such as audience and priority, as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ResourceLink {
    /// Creates a link from a URI and a name.
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

impl ResourceLink {
    /// Returns the link for display: all texts are sanitized. The URI can then differ from the URI
    /// that the server knows.
    pub fn sanitized(&self) -> Self {
        let line = |text: &String| for_terminal(text).into_owned();
        Self {
            uri: line(&self.uri),
            name: line(&self.name),
            title: self.title.as_ref().map(line),
            description: (self.description.as_ref()).map(|text| sanitize(text).into_owned()),
            mime_type: self.mime_type.as_ref().map(line),
            size: self.size,
            annotations: self.annotations.as_ref().map(Json::sanitized),
            meta: self.meta.as_ref().map(Json::sanitized),
        }
    }
}

/// A resource embedded in a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The URI and contents.
    pub resource: ResourceBody,
    /// Annotations such as audience and priority, as sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Json>,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

/// The contents of a resource: text, or bytes in base64.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceBody {
    /// The URI.
    pub uri: String,
    /// The MIME type, as the server declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The text, if the resource is textual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes in base64, if the resource is binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ResourceBody {
    /// Creates textual contents.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            text: Some(text.into()),
            blob: None,
            meta: None,
        }
    }

    /// Creates binary contents.
    pub fn bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            text: None,
            blob: Some(BASE64_STANDARD.encode(bytes)),
            meta: None,
        }
    }

    /// Sets the MIME type.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// A block with its `type`, for serialization.
#[derive(Serialize)]
struct TaggedBlock<'a, T> {
    r#type: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(body) => TaggedBlock {
                r#type: "text",
                body,
            }
            .serialize(serializer),
            Self::Image(body) => TaggedBlock {
                r#type: "image",
                body,
            }
            .serialize(serializer),
            Self::Audio(body) => TaggedBlock {
                r#type: "audio",
                body,
            }
            .serialize(serializer),
            Self::ResourceLink(body) => TaggedBlock {
                r#type: "resource_link",
                body,
            }
            .serialize(serializer),
            Self::Resource(body) => TaggedBlock {
                r#type: "resource",
                body,
            }
            .serialize(serializer),
            Self::Unknown(raw) => raw.serialize(serializer),
        }
    }
}
