//! Roots: directories that a server may work in (`roots/list`).
//!
//! Invariant: servers receive only local `file://` URIs without query and fragment.

use std::path::Path;

use serde::Serialize;
use url::Url;

/// A directory that a server may work in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Root {
    /// A local `file://` URI without query and fragment. A root with any other URI is not sent to
    /// servers.
    pub uri: String,
    /// A name to show to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Root {
    /// Creates a root without a name from a `file://` URI.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: None,
        }
    }

    /// Creates a root from an absolute path, named after the last component. Returns `None` for a
    /// relative path.
    pub fn from_path(path: &Path) -> Option<Self> {
        let uri = Url::from_file_path(path).ok()?;
        let name = path.file_name();
        Some(Self {
            uri: uri.into(),
            name: name.map(|name| name.to_string_lossy().into_owned()),
        })
    }

    /// Whether the URI is a local `file://` URI without query and fragment. Other roots are not
    /// sent to servers.
    pub(crate) fn is_valid(&self) -> bool {
        Url::parse(&self.uri).is_ok_and(|uri| {
            uri.scheme() == "file"
                && uri.host_str().is_none_or(|host| host == "localhost")
                && uri.to_file_path().is_ok()
                && uri.query().is_none()
                && uri.fragment().is_none()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_file_uris_are_valid() {
        for (uri, is_valid) in [
            ("file:///project", true),
            ("file:///with%20space", true),
            ("file://localhost/project", true),
            ("file://elsewhere/project", false),
            ("file:///project?x", false),
            ("file:///project#x", false),
            ("https://example.com/", false),
            ("/project", false),
            ("", false),
        ] {
            assert_eq!(Root::new(uri).is_valid(), is_valid, "{uri}");
        }
        let root = Root::from_path(Path::new("/with space/é")).unwrap();
        assert_eq!(root.uri, "file:///with%20space/%C3%A9");
        assert_eq!(root.name.as_deref(), Some("é"));
        assert!(root.is_valid());
        assert_eq!(Root::from_path(Path::new("relative")), None);
    }
}
