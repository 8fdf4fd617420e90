//! How a connection to the CLI ended.

use std::sync::Arc;

use crate::error::{Error, LastWords, Loss};

/// Known to everybody who still waits for something.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// As this program wanted.
    Closed,
    Lost(Arc<Lost>),
}

#[derive(Debug)]
pub(super) struct Lost {
    pub(super) loss: Loss,
    pub(super) words: LastWords,
}

impl Outcome {
    pub(super) fn during(&self, doing: &str) -> Error {
        match self {
            Self::Lost(lost) => lost.during(doing),
            Self::Closed => Error::Closed {
                doing: doing.to_owned(),
            },
        }
    }
}

impl Lost {
    pub(super) fn during(&self, doing: &str) -> Error {
        Error::Lost {
            doing: doing.to_owned(),
            loss: self.loss.clone(),
            words: self.words.clone(),
        }
    }
}
