//! Which folder counts as the project.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::fs;
use std::path::PathBuf;

use switchboard_config::{Sources, find_project_root};
use tempfile::TempDir;

/// A home folder with a nested folder in it.
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

    fn put(&self, path: &str) {
        fs::write(self.path(path), "{}").unwrap();
    }

    fn root_of(&self, cwd: &str) -> Option<PathBuf> {
        find_project_root(&self.path(cwd), &self.path(""))
    }
}

#[test]
fn the_nearest_folder_with_a_config_or_a_repository_is_the_project() {
    let home = Home::new();
    assert_eq!(home.root_of("project/src/deep"), None);
    fs::create_dir(home.path("project/.git")).unwrap();
    assert_eq!(home.root_of("project/src/deep"), Some(home.path("project")));
    assert_eq!(home.root_of("project"), Some(home.path("project")));
    home.put("project/src/.mcp.json");
    assert_eq!(
        home.root_of("project/src/deep"),
        Some(home.path("project/src"))
    );
}

#[test]
fn the_home_folder_and_what_is_above_it_are_never_the_project() {
    let home = Home::new();
    home.put(".mcp.json");
    fs::write(home.folder.path().join(".mcp.json"), "{}").unwrap();
    assert_eq!(home.root_of("project/src"), None);
    assert_eq!(home.root_of(""), None);
}

#[cfg(unix)]
#[test]
fn a_home_folder_behind_a_link_is_still_the_home_folder() {
    let home = Home::new();
    home.put(".mcp.json");
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(home.path(""), &link).unwrap();
    assert_eq!(find_project_root(&home.path("project"), &link), None);
    assert_eq!(
        find_project_root(&link.join("project"), &home.path("")),
        None
    );
}

#[test]
fn the_sources_of_a_folder_are_those_of_its_project_and_of_the_user() {
    let home = Home::new();
    fs::create_dir(home.path("project/.git")).unwrap();
    assert_eq!(
        Sources::of_directory(&home.path("project/src"), &home.path("")),
        Sources {
            command_line: Vec::new(),
            project: Some(home.path("project/.mcp.json")),
            user: Some(home.path(".mcp.json")),
            strict: false,
        }
    );
}
