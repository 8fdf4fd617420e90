//! A home folder with files of other programs.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use switchboard_config::Scope;
use switchboard_config::import::{Client, Found, Imported, Platform, Whereabouts, import};
use tempfile::TempDir;

/// A home folder and a project in it.
pub(crate) struct Desk {
    pub(crate) home: TempDir,
    pub(crate) variables: HashMap<String, String>,
    pub(crate) platform: Platform,
    pub(crate) scope: Option<Scope>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            variables: HashMap::new(),
            platform: Platform::Linux,
            scope: None,
        }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.home.path().join("work")
    }

    /// Writes a file, by its path from the home folder.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn import(&self, client: Client) -> Imported {
        self.with(|whereabouts| import(&[client], whereabouts))
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&Whereabouts<'_>) -> T) -> T {
        work(&Whereabouts {
            platform: self.platform,
            home: self.home.path(),
            here: &self.project(),
            environment: &self.variables,
            scope: self.scope,
        })
    }

    /// The single server that a client has.
    pub(crate) fn only(&self, client: Client) -> Found {
        let imported = self.import(client);
        assert_eq!(imported.diagnostics, []);
        let mut found = imported.files.into_iter().flat_map(|file| file.found);
        let only = found.next().unwrap();
        assert_eq!(found.next(), None);
        only
    }
}

pub(crate) fn entry(found: &Found) -> Value {
    Value::Object(found.entry().clone())
}

/// Name, scope and entry of everything that was found.
pub(crate) fn entries(imported: &Imported) -> Vec<(String, Scope, Value)> {
    let found = imported.files.iter().flat_map(|file| &file.found);
    found
        .map(|found| (found.name.to_string(), found.scope, entry(found)))
        .collect()
}
