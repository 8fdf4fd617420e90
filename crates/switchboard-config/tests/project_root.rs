//! Detection of the project root.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::fs;
use std::path::PathBuf;

use switchboard_config::{BaseDirs, ConfigSources, Scope, ScopePaths, find_project_root};
use tempfile::TempDir;

/// A home directory with nested directories.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("home/project/src/deep")).unwrap();
        Self { folder }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("home").join(path)
    }

    fn write(&self, path: &str) {
        fs::write(self.path(path), "{}").unwrap();
    }

    fn root_of(&self, cwd: &str) -> Option<PathBuf> {
        find_project_root(&self.path(cwd), &self.path(""))
    }
}

#[test]
fn nearest_config_or_repository_is_project() {
    let home = Home::new();
    assert_eq!(home.root_of("project/src/deep"), None);
    fs::create_dir(home.path("project/.git")).unwrap();
    assert_eq!(home.root_of("project/src/deep"), Some(home.path("project")));
    assert_eq!(home.root_of("project"), Some(home.path("project")));
    home.write("project/src/.mcp.json");
    assert_eq!(
        home.root_of("project/src/deep"),
        Some(home.path("project/src"))
    );
}

#[test]
fn home_and_its_parents_are_never_project() {
    let home = Home::new();
    home.write(".mcp.json");
    fs::write(home.folder.path().join(".mcp.json"), "{}").unwrap();
    assert_eq!(home.root_of("project/src"), None);
    assert_eq!(home.root_of(""), None);
}

#[cfg(unix)]
#[test]
fn linked_home_is_recognized() {
    let home = Home::new();
    home.write(".mcp.json");
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(home.path(""), &link).unwrap();
    assert_eq!(find_project_root(&home.path("project"), &link), None);
    assert_eq!(
        find_project_root(&link.join("project"), &home.path("")),
        None
    );
}

impl Home {
    fn scope_paths(&self, cwd: &str) -> ScopePaths {
        let folders = BaseDirs {
            home: self.path(""),
            config: self.path("config"),
            state: self.path("state"),
            managed: self.path("etc"),
        };
        ScopePaths::find(&self.path(cwd), folders)
    }
}

#[test]
fn sources_cover_all_scopes() {
    let home = Home::new();
    fs::create_dir(home.path("project/.git")).unwrap();
    let scope_paths = home.scope_paths("project/src");
    assert_eq!(
        scope_paths.sources(),
        ConfigSources {
            command_line: Vec::new(),
            managed: Some(home.path("etc/managed-mcp.json")),
            local: scope_paths.servers_file(Scope::Local),
            project: Some(home.path("project/.mcp.json")),
            user: Some(home.path(".mcp.json")),
            strict: false,
        }
    );
}

#[test]
fn local_files_are_outside_project() {
    let home = Home::new();
    fs::create_dir(home.path("project/.git")).unwrap();
    fs::create_dir_all(home.path("other/project/.git")).unwrap();
    let local = |cwd: &str| home.scope_paths(cwd).servers_file(Scope::Local).unwrap();
    assert!(local("project").starts_with(home.path("config/projects")));
    assert_eq!(local("project"), local("project/src/deep"));
    assert_ne!(local("project"), local("other/project"));
    // Without a project the local scope belongs to the directory.
    assert_ne!(local(""), local("other"));
}

#[cfg(unix)]
#[test]
fn foreign_owned_parent_project_is_ignored() {
    use std::os::unix::fs::{MetadataExt as _, lchown};

    const OTHER_USER: u32 = 54_321;
    let home = Home::new();
    // Only root can change the owner of a file.
    if fs::metadata(home.path("")).unwrap().uid() != 0 {
        return;
    }
    let scope_paths = |cwd: &str| {
        let folders = BaseDirs {
            home: home.path("nowhere"),
            config: home.path("config"),
            state: home.path("state"),
            managed: home.path("managed"),
        };
        ScopePaths::find(&home.path(cwd), folders)
    };
    let give_to_other_user = |path: &str| lchown(home.path(path), Some(OTHER_USER), None).unwrap();
    home.write(".mcp.json");
    home.write("project/.mcp.json");
    assert_eq!(scope_paths("project/src").diagnostic(), None);

    // Like `/tmp`: root owns the directory, another user owns the marker.
    give_to_other_user("project/.mcp.json");
    let found = scope_paths("project/src/deep");
    assert_eq!(found.project(), Some(home.path("").as_path()));
    let diagnostic = found.diagnostic().unwrap().to_string();
    assert!(diagnostic.contains("owned by another user"), "{diagnostic}");
    assert!(diagnostic.contains("project/.mcp.json"), "{diagnostic}");
    // The working directory itself is always accepted.
    assert_eq!(
        scope_paths("project").project(),
        Some(home.path("project").as_path())
    );

    fs::remove_file(home.path("project/.mcp.json")).unwrap();
    home.write("project/.mcp.json");
    give_to_other_user("project");
    assert_eq!(
        scope_paths("project/src").project(),
        Some(home.path("").as_path())
    );
    // The owner of the working directory is trusted.
    give_to_other_user("project/src");
    assert_eq!(
        scope_paths("project/src").project(),
        Some(home.path("project").as_path())
    );
}
