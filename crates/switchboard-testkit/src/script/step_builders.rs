//! Constructors for steps whose variants are verbose to write.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::step::{Grandchild, HexBytes, ServerRequest, Step};

impl Step {
    /// Responds with a tool result of one text block.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Responds with a JSON-RPC error without data.
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error {
            code,
            message: message.to_owned(),
            data: None,
        }
    }

    /// Writes a line verbatim to the client.
    pub fn raw(line: &str) -> Self {
        Self::Raw(line.to_owned())
    }

    /// Writes text without a line feed to the client.
    pub fn bytes(text: &str) -> Self {
        Self::repeated_bytes(text, 1)
    }

    /// Writes text without a line feed to the client, `repeat` times.
    pub fn repeated_bytes(text: &str, repeat: u64) -> Self {
        Self::Bytes {
            text: text.to_owned(),
            repeat,
        }
    }

    /// Writes bytes without a line feed to the client.
    pub fn binary(data: &[u8]) -> Self {
        Self::Hex {
            data: HexBytes(data.to_vec()),
            repeat: 1,
        }
    }

    /// Writes a line to stderr.
    pub fn stderr(line: &str) -> Self {
        Self::Stderr(line.to_owned())
    }

    /// Waits for this long, on the clock of the runtime.
    pub fn delay(time: Duration) -> Self {
        Self::DelayMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// Sends a notification without parameters.
    pub fn notify(method: &str) -> Self {
        Self::Notify {
            method: method.to_owned(),
            params: None,
        }
    }

    /// Sends `notifications/tools/list_changed` as [`Step::Publish`] does.
    pub fn tools_changed() -> Self {
        Self::publish("notifications/tools/list_changed", None)
    }

    /// Sends `notifications/resources/list_changed` as [`Step::Publish`] does.
    pub fn resources_changed() -> Self {
        Self::publish("notifications/resources/list_changed", None)
    }

    /// Sends `notifications/prompts/list_changed` as [`Step::Publish`] does.
    pub fn prompts_changed() -> Self {
        Self::publish("notifications/prompts/list_changed", None)
    }

    /// Sends `notifications/resources/updated` for this URI to the subscribers of the resource.
    pub fn resource_updated(uri: &str) -> Self {
        Self::publish("notifications/resources/updated", Some(json!({"uri": uri})))
    }

    /// Changes the content of a resource and notifies its subscribers.
    pub fn set_resource(uri: &str, text: &str) -> Self {
        Self::SetResource {
            uri: uri.to_owned(),
            text: text.to_owned(),
        }
    }

    fn publish(method: &str, params: Option<Value>) -> Self {
        Self::Publish {
            method: method.to_owned(),
            params,
        }
    }

    /// Sends a progress notification without `total` and `message`.
    pub fn progress(progress: impl Into<Value>) -> Self {
        Self::Progress {
            progress: progress.into(),
            total: None,
            message: None,
        }
    }

    /// Sends a request to the client and waits for the response.
    pub fn request(method: &str, params: Value) -> Self {
        Self::Request(ServerRequest {
            id: None,
            method: method.to_owned(),
            params: Some(params),
            wait: true,
        })
    }

    /// Runs steps `times` times.
    pub fn repeat(times: u64, steps: impl IntoIterator<Item = Self>) -> Self {
        Self::Repeat {
            times: Some(times),
            steps: steps.into_iter().collect(),
        }
    }

    /// Runs steps forever.
    pub fn forever(steps: impl IntoIterator<Item = Self>) -> Self {
        Self::Repeat {
            times: None,
            steps: steps.into_iter().collect(),
        }
    }

    /// Runs steps concurrently with the steps that follow.
    pub fn background(steps: impl IntoIterator<Item = Self>) -> Self {
        Self::Background(steps.into_iter().collect())
    }

    /// Runs `steps` only from the n-th message on, see [`Step::After`].
    pub fn after(n: u64, steps: impl IntoIterator<Item = Self>) -> Self {
        Self::After {
            n,
            steps: steps.into_iter().collect(),
        }
    }

    /// Runs `steps` only up to the n-th message, see [`Step::Until`].
    pub fn until(n: u64, steps: impl IntoIterator<Item = Self>) -> Self {
        Self::Until {
            n,
            steps: steps.into_iter().collect(),
        }
    }

    /// Runs `steps` once across all processes that share the marker file, see [`Step::Once`].
    pub fn once(marker: impl Into<PathBuf>, steps: impl IntoIterator<Item = Self>) -> Self {
        Self::Once {
            marker: marker.into(),
            steps: steps.into_iter().collect(),
        }
    }

    /// In a process, appends one line to the file of this name. In memory and over HTTP, increments
    /// the counter of this name.
    pub fn count(name: impl AsRef<Path>) -> Self {
        Self::Count(name.as_ref().to_string_lossy().into_owned())
    }

    /// Starts a sleeping process that stays in the server's process group.
    pub fn spawn_in_group() -> Self {
        Self::SpawnChild(Grandchild::default())
    }

    /// Starts a sleeping process in its own session.
    pub fn spawn_in_own_session() -> Self {
        Self::SpawnChild(Grandchild {
            setsid: true,
            ..Grandchild::default()
        })
    }
}
