//! What servers and the engine can ask of this program, and who answers.
//!
//! Servers are told that they may ask only where a person can be asked; `--yes` answers none of their
//! questions. Invariant: what is on this machine is told to servers on this machine only.

use std::collections::BTreeSet;

use switchboard::{
    BoxFuture, ElicitAnswer, Elicitation, Interaction, Offers, PermissionAnswer,
    PermissionQuestion, Root,
};
use switchboard_config::ServerName;

use crate::elicit::ElicitPrompt;
use crate::permission_prompt::PermissionPrompt;

/// Answers for the person at the command line.
#[derive(Debug)]
pub(crate) struct CliInteraction {
    /// Who is asked for permission.
    pub(crate) ask: Option<PermissionPrompt>,
    /// Who puts questions of servers to the person, where there is one.
    pub(crate) elicit: Option<ElicitPrompt>,
    /// The project.
    pub(crate) roots: Vec<Root>,
    /// The servers that run on this machine.
    pub(crate) local_servers: BTreeSet<ServerName>,
}

impl CliInteraction {
    /// The same, and servers are not told that they may ask.
    pub(crate) fn without_elicitation(mut self) -> Self {
        self.elicit = None;
        self
    }
}

impl Interaction for CliInteraction {
    fn offers_to(&self, server: &ServerName) -> Offers {
        let mut offers = Offers::default();
        if self.elicit.is_some() {
            offers = offers.elicitation().elicitation_url();
        }
        if self.local_servers.contains(server) && !self.roots.is_empty() {
            offers = offers.roots();
        }
        offers
    }

    fn permit<'a>(&'a self, question: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
        Box::pin(async move {
            match &self.ask {
                Some(ask) => ask.ask_permission(&question).await,
                None => PermissionAnswer::NobodyToAsk,
            }
        })
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            match &self.elicit {
                Some(elicit) => elicit.ask(&question).await,
                None => ElicitAnswer::Decline,
            }
        })
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }
}
