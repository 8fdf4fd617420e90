//! Folders that servers may work in.
//!
//! Invariant: only `file://` addresses of this machine leave, and nothing hidden in them.

use std::path::Path;

use serde::Serialize;
use url::Url;

/// A folder that a server may work in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Root {
    /// A `file://` URI. Servers are not told of a root that has another one.
    pub uri: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Root {
    /// A folder by its `file://` URI.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: None,
        }
    }

    /// A folder by its absolute path, named as its last part; `None` for any other path.
    pub fn folder(path: &Path) -> Option<Self> {
        let uri = Url::from_file_path(path).ok()?;
        let name = path.file_name();
        Some(Self {
            uri: uri.into(),
            name: name.map(|name| name.to_string_lossy().into_owned()),
        })
    }

    /// Whether servers may be told of it.
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
    fn only_folders_of_this_machine_are_valid() {
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
        let root = Root::folder(Path::new("/with space/é")).unwrap();
        assert_eq!(root.uri, "file:///with%20space/%C3%A9");
        assert_eq!(root.name.as_deref(), Some("é"));
        assert!(root.is_valid());
        assert_eq!(Root::folder(Path::new("relative")), None);
    }
}
