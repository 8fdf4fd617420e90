//! Folders that servers may work in.
//!
//! Invariant: only `file://` addresses of this machine leave, and nothing hidden in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::{BoxFuture, ElicitAnswer, Elicitation, Interaction, Offers, Sampling};
use crate::id::ServerName;
use crate::mcp::ErrorObject;
use crate::permission::{PermissionRequest, PermissionResponse};

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

/// Somebody who also offers servers a fixed set of folders. What else is asked is passed on.
pub(crate) struct WithFolders {
    roots: Vec<Root>,
    rest: Arc<dyn Interaction>,
}

impl WithFolders {
    /// Relative paths are left out: nobody else knows relative to what.
    pub(crate) fn new(folders: &[PathBuf], rest: Arc<dyn Interaction>) -> Self {
        let root = |path: &PathBuf| {
            let root = Root::folder(path);
            if root.is_none() {
                tracing::warn!(path = %path.display(), "not an absolute path: not offered as a root");
            }
            root
        };
        Self {
            roots: folders.iter().filter_map(root).collect(),
            rest,
        }
    }
}

impl Interaction for WithFolders {
    fn offers(&self) -> Offers {
        self.rest.offers().roots()
    }

    fn offers_to(&self, server: &ServerName) -> Offers {
        self.rest.offers_to(server).roots()
    }

    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.rest.can_use_tool(request)
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        self.rest.elicit(question)
    }

    fn sample<'a>(&'a self, request: Sampling<'a>) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        self.rest.sample(request)
    }

    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(async move {
            let mut roots = self.roots.clone();
            if self.rest.offers_to(server).roots {
                roots.extend(self.rest.roots(server).await);
            }
            roots
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
