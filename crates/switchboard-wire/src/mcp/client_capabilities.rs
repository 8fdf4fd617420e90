//! Which requests of a server the client answers.

/// What servers may ask for.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own in the protocol"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Questions to the user, as forms.
    pub elicitation: bool,
    /// Addresses for the user to visit.
    pub elicitation_url: bool,
    /// Completions by a model.
    pub sampling: bool,
    /// Completions in which the model may use tools that the server describes.
    pub sampling_tools: bool,
    /// The list of folders to work in.
    pub roots: bool,
}

impl ClientCapabilities {
    /// Offers questions to the user, as forms.
    pub fn elicitation(mut self) -> Self {
        self.elicitation = true;
        self
    }

    /// Offers to show the user addresses to visit. Whoever offers it shows the whole address, and
    /// opens it only with the user's consent.
    pub fn elicitation_url(mut self) -> Self {
        self.elicitation_url = true;
        self
    }

    /// Offers completions by a model.
    pub fn sampling(mut self) -> Self {
        self.sampling = true;
        self
    }

    /// Offers completions by a model that may use tools which the server describes.
    pub fn sampling_tools(mut self) -> Self {
        self.sampling = true;
        self.sampling_tools = true;
        self
    }

    /// Offers the list of folders.
    pub fn roots(mut self) -> Self {
        self.roots = true;
        self
    }
}
