//! Resources and prompts as a model, or a person, is given them.
//!
//! Reading is the business of [`offerings`](super::offerings); here what was read is made safe.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{AskError, Host};
use crate::content::{PresentedPrompt, PresentedResource, present_prompt, present_resource};
use crate::mcp::{GetPromptResult, ReadResourceResult};
use crate::reference;
use crate::session::run_blocking;

/// How many mentioned resources are read at a time.
const AT_A_TIME: usize = 8;

/// A resource that was mentioned in a text, and what came of reading it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attachment {
    /// Where in the text it is mentioned.
    pub range: Range<usize>,
    /// Who was asked.
    pub server: String,
    /// For what.
    pub uri: String,
    /// What it holds.
    pub outcome: Result<PresentedResource, AskError>,
}

impl Host {
    /// Reads a resource, and makes of it what a model is given: texts clean and bounded, bytes in
    /// files.
    pub async fn read(&self, server: &str, uri: &str) -> Result<PresentedResource, AskError> {
        let result = self.read_resource(server, uri).await?;
        Ok(self.present_resource(result).await)
    }

    /// Reads every resource that a text mentions as `@server:uri`, each once.
    pub async fn attach(&self, text: &str) -> Vec<Attachment> {
        let mut mentions = reference::mentions(text);
        let mut known = std::collections::HashSet::new();
        mentions.retain(|mention| known.insert((mention.server, mention.uri)));
        let reads = mentions.into_iter().map(|mention| async move {
            Attachment {
                outcome: self.read(mention.server, mention.uri).await,
                range: mention.range,
                server: mention.server.to_owned(),
                uri: mention.uri.to_owned(),
            }
        });
        stream::iter(reads).buffered(AT_A_TIME).collect().await
    }

    /// Fills in a prompt, and makes of it what a model is given.
    pub async fn fill_in(
        &self,
        server: &str,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<PresentedPrompt, AskError> {
        let result = self.prompt(server, prompt, arguments).await?;
        Ok(self.present_prompt(result).await)
    }

    /// What a model is given of what [`Host::read_resource`] brought.
    pub async fn present_resource(&self, result: ReadResourceResult) -> PresentedResource {
        let (limits, spill) = (Arc::clone(&self.shared.limits), self.shared.spill.clone());
        let presented = run_blocking(move || present_resource(result, &limits, spill.as_deref()));
        // It is lost only with the runtime, and then nobody is left to be given anything.
        presented.await.unwrap_or_default()
    }

    /// What a model is given of what [`Host::prompt`] brought.
    pub async fn present_prompt(&self, result: GetPromptResult) -> PresentedPrompt {
        let (limits, spill) = (Arc::clone(&self.shared.limits), self.shared.spill.clone());
        let presented = run_blocking(move || present_prompt(result, &limits, spill.as_deref()));
        presented.await.unwrap_or_default()
    }
}
