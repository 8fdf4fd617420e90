//! A home directory with config files of other clients.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use switchboard_config::Scope;
use switchboard_config::import::{
    Client, ImportContext, Imported, ImportedServer, Platform, import,
};
use tempfile::TempDir;

/// A home directory with a project in it.
pub(crate) struct ImportFixture {
    pub(crate) home: TempDir,
    pub(crate) variables: HashMap<String, String>,
    pub(crate) platform: Platform,
    pub(crate) scope: Option<Scope>,
}

impl ImportFixture {
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

    /// Writes a file; `path` is relative to the home directory.
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
        self.with(|context| import(&[client], context))
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&ImportContext<'_>) -> T) -> T {
        work(&ImportContext {
            platform: self.platform,
            home: self.home.path(),
            project_dir: &self.project(),
            environment: &self.variables,
            scope: self.scope,
        })
    }

    /// Imports the only server of a client.
    pub(crate) fn only(&self, client: Client) -> ImportedServer {
        let imported = self.import(client);
        assert_eq!(imported.diagnostics, []);
        let mut found = imported.files.into_iter().flat_map(|file| file.servers);
        let only = found.next().unwrap();
        assert_eq!(found.next(), None);
        only
    }
}

pub(crate) fn entry(found: &ImportedServer) -> Value {
    Value::Object(found.entry().clone())
}

/// Name, scope and entry of every imported server.
pub(crate) fn entries(imported: &Imported) -> Vec<(String, Scope, Value)> {
    let found = imported.files.iter().flat_map(|file| &file.servers);
    found
        .map(|found| (found.name.to_string(), found.scope, entry(found)))
        .collect()
}
