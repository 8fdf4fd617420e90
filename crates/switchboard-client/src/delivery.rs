//! Whether a request reached its server: the base of every decision to send it again.

/// What is known about a request that ended without a usable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// The server responded.
    Answered,
    /// No byte of the request reached the server. Sending it again is safe.
    NotSent,
    /// The server may or may not have executed the request.
    Unknown,
}
