//! Caches protocol era and tool listing per server on disk.
//!
//! One file per server, `servers/<key>.json`. Invariant: an error of the cache never fails a
//! command. An unreadable file counts as empty. A value that could not be written is requested from
//! the server again in the next run.

mod prune;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use switchboard::cache::ServerCache;
use switchboard::mcp::{Era, Json, ToolDefinition};

/// A larger tool listing is not stored. The next run requests it from the server again.
const MAX_LISTING_BYTES: usize = 8 * 1024 * 1024;

/// The server cache of the CLI: a directory with one JSON file per server.
#[derive(Debug)]
pub(crate) struct FileServerCache {
    directory: PathBuf,
}

/// The content of the cache file of one server. Tools are kept as JSON text until they are
/// requested.
#[derive(Default, Serialize, Deserialize)]
struct CachedServer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    era: Option<Era>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Json>,
}

impl FileServerCache {
    /// `directory` need not exist.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// `None` if the key cannot be a file name.
    fn path(&self, key: &str) -> Option<PathBuf> {
        is_plain_key(key).then(|| self.directory.join(format!("{key}.json")))
    }

    fn read(&self, key: &str) -> Option<CachedServer> {
        let text = fs::read(self.path(key)?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Removes everything that is stored about a server.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(path) = self.path(key) {
            // Ignore: nothing is stored.
            fs::remove_file(path).ok();
        }
    }

    /// Updates the cache file of one server. If two processes update the file at the same time, the
    /// later one wins. The lost value is requested from the server again in the next run.
    fn change(&self, key: &str, change: impl FnOnce(&mut CachedServer)) {
        let mut cached = self.read(key).unwrap_or_default();
        change(&mut cached);
        if let Err(error) = self.write(key, &cached) {
            tracing::debug!(%error, directory = %self.directory.display(), "could not write the server cache");
        }
    }

    fn write(&self, key: &str, cached: &CachedServer) -> io::Result<()> {
        let Some(path) = self.path(key) else {
            return Ok(());
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        // Another process may write the same cache file at the same time, so each process uses its
        // own temporary file.
        let temp_path = self
            .directory
            .join(format!(".{key}.{}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temp_path)
            .and_then(|mut file| file.write_all(&serde_json::to_vec(cached)?))
            .and_then(|()| fs::rename(&temp_path, path));
        if written.is_err() {
            fs::remove_file(&temp_path).ok();
        }
        written
    }
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns a lower bound of the size of the listing as JSON.
fn min_listing_bytes(tools: &[ToolDefinition]) -> usize {
    let tool_bytes = |tool: &ToolDefinition| {
        let schemas = tool.input_schema.as_str().len()
            + tool
                .output_schema
                .as_ref()
                .map_or(0, |schema| schema.as_str().len());
        let description = tool.description.as_ref().map_or(0, String::len);
        tool.name.len() + description + schemas
    };
    tools.iter().map(tool_bytes).sum()
}

impl ServerCache for FileServerCache {
    fn era(&self, key: &str) -> Option<Era> {
        self.read(key)?.era
    }

    fn remember_era(&self, key: &str, era: Era) {
        self.change(key, |cached| cached.era = Some(era));
    }

    fn forget_era(&self, key: &str) {
        self.change(key, |cached| cached.era = None);
    }

    fn tools(&self, key: &str) -> Option<Vec<ToolDefinition>> {
        serde_json::from_str(self.read(key)?.tools?.as_str()).ok()
    }

    fn remember_tools(&self, key: &str, tools: &[ToolDefinition]) {
        let known = self.read(key).and_then(|cached| cached.tools);
        let text = (min_listing_bytes(tools) <= MAX_LISTING_BYTES)
            .then(|| serde_json::to_string(tools).ok())
            .flatten()
            .filter(|text| text.len() <= MAX_LISTING_BYTES);
        let listing = text.and_then(|text| Json::parse(&text).ok());
        if known != listing {
            self.change(key, |cached| cached.tools = listing);
        } else if let Some(path) = self.path(key) {
            // Files that were not confirmed for a long time are deleted.
            let file = File::options().write(true).open(path);
            file.and_then(|file| file.set_modified(SystemTime::now()))
                .ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn era_is_stored_in_private_file() {
        let directory = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(directory.path().join("a/servers"));
        assert_eq!(cache.era("k1"), None);
        cache.remember_era("k1", Era::Legacy);
        assert_eq!(cache.era("k1"), Some(Era::Legacy));
        cache.remember_era("k1", Era::Modern);
        assert_eq!(cache.era("k1"), Some(Era::Modern));
        assert_eq!(cache.era("k2"), None);
        cache.forget_era("k1");
        assert_eq!(cache.era("k1"), None);

        let files: Vec<_> = fs::read_dir(directory.path().join("a/servers"))
            .unwrap()
            .collect();
        assert_eq!(files.len(), 1, "no temporary file is left");
        let mode = files[0]
            .as_ref()
            .unwrap()
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn listing_is_stored_beside_era() {
        let directory = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(directory.path().to_owned());
        let schema = Json::parse(r#"{"type":"object"}"#).unwrap();
        let tools = vec![ToolDefinition::new("echo", schema).description("Says it again")];
        cache.remember_era("k", Era::Modern);
        cache.remember_tools("k", &tools);
        assert_eq!(cache.tools("k"), Some(tools));
        assert_eq!(cache.era("k"), Some(Era::Modern));
    }

    fn tool(name: &str, description_bytes: usize) -> ToolDefinition {
        let schema = Json::parse("{}").unwrap();
        ToolDefinition::new(name, schema).description("x".repeat(description_bytes))
    }

    fn total_bytes(directory: &std::path::Path) -> u64 {
        let files = fs::read_dir(directory).unwrap();
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum()
    }

    #[test]
    fn large_listing_is_not_stored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(directory.path().to_owned());
        cache.remember_tools("k", &[tool("small", 10)]);
        let large: Vec<_> = (0..64)
            .map(|index| tool(&format!("t{index}"), 1024 * 1024))
            .collect();
        cache.remember_tools("k", &large);
        assert_eq!(cache.tools("k"), None, "the old listing is outdated");
        assert!(total_bytes(directory.path()) < 1_000);
    }

    #[test]
    fn old_and_excess_files_are_pruned() {
        let directory = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(directory.path().to_owned());
        let day = Duration::from_secs(24 * 60 * 60);
        for index in 0..10_u32 {
            cache.remember_tools(&format!("k{index}"), &[tool("t", 1_000)]);
            let path = directory.path().join(format!("k{index}.json"));
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - day * index).unwrap();
        }
        fs::write(directory.path().join("notes.txt"), "kept").unwrap();
        assert_eq!(cache.prune(day * 6 + day / 2, u64::MAX).unwrap(), 3);
        assert_eq!(cache.prune(day * 100, 4_500).unwrap(), 3);
        let kept: Vec<_> = (0..10)
            .map(|index| cache.tools(&format!("k{index}")).is_some())
            .collect();
        let expected: Vec<_> = (0..10).map(|index| index < 4).collect();
        assert_eq!(kept, expected);
        assert!(directory.path().join("notes.txt").exists());
        cache.remember_tools("k3", &[tool("t", 1_000)]);
        assert_eq!(
            cache.prune(day / 2, u64::MAX).unwrap(),
            2,
            "k3 was confirmed"
        );
    }

    #[test]
    fn unreadable_entry_counts_as_missing() {
        let directory = tempfile::tempdir().unwrap();
        let cache = FileServerCache::new(directory.path().to_owned());
        fs::write(directory.path().join("k.json"), "{\"era\": \"bronze\"}").unwrap();
        assert_eq!(cache.era("k"), None);
        cache.remember_era("../k", Era::Legacy);
        assert_eq!(cache.era("../k"), None);
        assert!(!directory.path().parent().unwrap().join("k.json").exists());
    }
}
