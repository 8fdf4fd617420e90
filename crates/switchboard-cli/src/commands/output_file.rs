//! Writes content to the file that `-o` names. An existing file is replaced only with `--force`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::render::text;

/// The file that `-o` names.
#[derive(Debug)]
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    is_forced: bool,
}

impl OutputFile {
    /// Checks that the file does not exist, so that an error is reported before a server is
    /// started. [`Self::write`] checks again.
    pub(super) fn new(path: PathBuf, is_forced: bool) -> Result<Self, Failure> {
        if !is_forced && path.symlink_metadata().is_ok() {
            return Err(already_exists(&path));
        }
        Ok(Self { path, is_forced })
    }

    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut options = OpenOptions::new();
        options.write(true);
        if self.is_forced {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        let written = options
            .open(&self.path)
            .and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => already_exists(&self.path),
            _ => Failure::usage(format!(
                "cannot write {}: {error}",
                text::path_on_one_line(&self.path)
            ))
            .hint("choose another file"),
        })
    }
}

fn already_exists(path: &Path) -> Failure {
    let message = format!("{} already exists", text::path_on_one_line(path));
    Failure::usage(message).hint("choose another file, or pass --force to overwrite it")
}
