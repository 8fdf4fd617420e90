//! Resources and prompts as a model, or a person, is given them.
//!
//! Reading is the business of [`offerings`](super::offerings); here what was read is made safe.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream;

use super::{Host, QueryError};
use crate::content::{RenderedPrompt, RenderedResource, render_prompt, render_resource};
use crate::mcp::{GetPromptResult, ReadResourceResult};
use crate::mention;
use crate::session::run_blocking;

/// How many mentioned resources are read at a time.
const AT_A_TIME: usize = 8;

/// A resource that was mentioned in a text, and what came of reading it.
#[derive(Debug)]
#[non_exhaustive]
pub struct MentionedResource {
    /// Where in the text it is mentioned.
    pub range: Range<usize>,
    /// Who was asked.
    pub server: String,
    /// For what.
    pub uri: String,
    /// What it holds.
    pub outcome: Result<RenderedResource, QueryError>,
}

impl Host {
    /// Reads a resource, and makes of it what a model is given: texts clean and bounded, bytes in
    /// files.
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
    ) -> Result<RenderedResource, QueryError> {
        let result = self.read_resource_raw(server, uri).await?;
        Ok(self.render_resource(result).await)
    }

    /// Reads every resource that a text mentions as `@server:uri`, each once.
    pub async fn read_mentions(&self, text: &str) -> Vec<MentionedResource> {
        let mut mentions = mention::mentions(text);
        let mut known = std::collections::HashSet::new();
        mentions.retain(|mention| known.insert((mention.server, mention.uri)));
        let reads = mentions.into_iter().map(|mention| async move {
            MentionedResource {
                outcome: self.read_resource(mention.server, mention.uri).await,
                range: mention.range,
                server: mention.server.to_owned(),
                uri: mention.uri.to_owned(),
            }
        });
        stream::iter(reads).buffered(AT_A_TIME).collect().await
    }

    /// Fills in a prompt, and makes of it what a model is given.
    pub async fn get_prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<RenderedPrompt, QueryError> {
        let result = self.get_prompt_raw(server, prompt, arguments).await?;
        Ok(self.render_prompt(result).await)
    }

    /// What a model is given of what [`Host::read_resource_raw`] brought.
    pub async fn render_resource(&self, result: ReadResourceResult) -> RenderedResource {
        let (limits, result_store) = (
            Arc::clone(&self.shared.limits),
            self.shared.result_store.clone(),
        );
        let presented =
            run_blocking(move || render_resource(result, &limits, result_store.as_deref()));
        // It is lost only with the runtime, and then nobody is left to be given anything.
        presented.await.unwrap_or_default()
    }

    /// What a model is given of what [`Host::get_prompt_raw`] brought.
    pub async fn render_prompt(&self, result: GetPromptResult) -> RenderedPrompt {
        let (limits, result_store) = (
            Arc::clone(&self.shared.limits),
            self.shared.result_store.clone(),
        );
        let presented =
            run_blocking(move || render_prompt(result, &limits, result_store.as_deref()));
        presented.await.unwrap_or_default()
    }
}
