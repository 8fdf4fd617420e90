//! Reads a regular file up to a size limit.
//!
//! Invariant: only regular files of limited size are read, so a pipe or device in place of a config
//! file cannot block the program.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use thiserror::Error;

/// Maximum size of a config source in bytes.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Why a file could not be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("file not found")]
    Missing,
    #[error("not a regular file: {0}")]
    NotRegular(&'static str),
    #[error("the file is larger than {} KiB", .limit / 1024)]
    TooLarge { limit: usize },
    #[error("cannot read the file: {0}")]
    Io(#[source] io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // `NotADirectory`: a parent of the path is a file.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Io(error),
        }
    }
}

impl ReadError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotRegular("a pipe") => Some("pass a file path, or the JSON text in quotes"),
            Self::Missing | Self::NotRegular(_) => Some("pass the path of a file"),
            Self::TooLarge { .. } | Self::Io(_) => None,
        }
    }
}

/// Reads a config file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    read_with_limit(path, MAX_BYTES)
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_with_limit(path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    // Check before opening: opening a pipe blocks until the other end is opened.
    require_regular_file(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    require_regular_file(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(ReadError::TooLarge { limit });
    }
    Ok(bytes)
}

fn require_regular_file(metadata: &Metadata) -> Result<(), ReadError> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(ReadError::NotRegular(kind_of(metadata)))
    }
}

fn kind_of(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() {
        return "a directory";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if metadata.file_type().is_fifo() {
            return "a pipe";
        }
        if metadata.file_type().is_socket() {
            return "a socket";
        }
    }
    "a device"
}
