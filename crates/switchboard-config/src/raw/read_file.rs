//! Reading the bytes of a source, with limits.
//!
//! Invariant: nothing but a regular file of bounded size is ever read, so that a pipe or a device in
//! the place of a config cannot make a program hang.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use thiserror::Error;

/// The largest source that servers are loaded from.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// Why a file could not be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("there is no such file")]
    Missing,
    #[error("this is {0}, not a file")]
    NotRegular(&'static str),
    #[error("the file is larger than {} KiB", .limit / 1024)]
    TooLarge { limit: usize },
    #[error("cannot read the file: {0}")]
    Io(#[source] io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // `NotADirectory`: something on the way to the file is itself a file.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Io(error),
        }
    }
}

impl ReadError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotRegular("a pipe") => {
                Some("give the path of a file, or the JSON text itself in quotes")
            }
            Self::Missing | Self::NotRegular(_) => Some("give the path of a file"),
            Self::TooLarge { .. } | Self::Io(_) => None,
        }
    }
}

/// The whole content of the file at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    read_up_to(path, MAX_BYTES)
}

/// The same of a file that may be of another size.
pub(crate) fn read_up_to(path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    // Opening a pipe waits for its other end, so what it is must be known before.
    refuse_irregular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    refuse_irregular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(ReadError::TooLarge { limit });
    }
    Ok(bytes)
}

fn refuse_irregular(metadata: &Metadata) -> Result<(), ReadError> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(ReadError::NotRegular(kind_of(metadata)))
    }
}

fn kind_of(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() {
        return "a folder";
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
