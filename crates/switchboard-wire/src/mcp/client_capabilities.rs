//! The capabilities that a client declares: which requests of a server it answers.

/// The requests that a server may send to the client.
///
/// A server only sees the capabilities that are set, and other requests are rejected.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate flag of the protocol"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Questions to the user as forms (`elicitation/create`).
    pub elicitation: bool,
    /// URLs for the user to open (`elicitation/create` in URL mode).
    pub elicitation_url: bool,
    /// Completions by a model (`sampling/createMessage`).
    pub sampling: bool,
    /// Completions in which the model may call tools that the server describes.
    pub sampling_tools: bool,
    /// The folders to work in (`roots/list`).
    pub roots: bool,
}

impl ClientCapabilities {
    /// Adds questions to the user as forms.
    pub fn elicitation(mut self) -> Self {
        self.elicitation = true;
        self
    }

    /// Adds URLs for the user to open. An implementation must show the whole URL and open it only
    /// with the user's consent.
    pub fn elicitation_url(mut self) -> Self {
        self.elicitation_url = true;
        self
    }

    /// Adds completions by a model.
    pub fn sampling(mut self) -> Self {
        self.sampling = true;
        self
    }

    /// Adds completions by a model that may call tools that the server describes.
    pub fn sampling_tools(mut self) -> Self {
        self.sampling = true;
        self.sampling_tools = true;
        self
    }

    /// Adds the list of folders.
    pub fn roots(mut self) -> Self {
        self.roots = true;
        self
    }
}
