//! [`Delivery`]: what is known about whether a request reached its server. Every decision to send a
//! request again depends on the delivery of the request.

/// What is known about a request that ended without a usable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// The server responded, with an error or with a response that cannot be used.
    Answered,
    /// The server did not execute the request: no byte of the request was sent, or the server
    /// rejected the session or the credential. The caller can repeat the request.
    NotSent,
    /// The server may or may not have executed the request: no response arrived, or only an HTTP
    /// error such as 502.
    Unknown,
}
