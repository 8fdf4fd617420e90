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

use crate::ask::Ask;
use crate::interview::Interviewer;

/// Answers for the person at the command line.
#[derive(Debug)]
pub(crate) struct Front {
    /// Who is asked for permission.
    pub(crate) ask: Option<Ask>,
    /// Who puts questions of servers to the person, where there is one.
    pub(crate) interviewer: Option<Interviewer>,
    /// The project.
    pub(crate) roots: Vec<Root>,
    /// The servers that run on this machine.
    pub(crate) at_home: BTreeSet<ServerName>,
}

impl Front {
    /// The same, and servers are not told that they may ask.
    pub(crate) fn without_questions(mut self) -> Self {
        self.interviewer = None;
        self
    }
}

impl Interaction for Front {
    fn offers_to(&self, server: &ServerName) -> Offers {
        let mut offers = Offers::default();
        if self.interviewer.is_some() {
            offers = offers.elicitation().elicitation_url();
        }
        if self.at_home.contains(server) && !self.roots.is_empty() {
            offers = offers.roots();
        }
        offers
    }

    fn permit<'a>(&'a self, question: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
        Box::pin(async move {
            match &self.ask {
                Some(ask) => ask.permit(&question).await,
                None => PermissionAnswer::NobodyToAsk,
            }
        })
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            match &self.interviewer {
                Some(interviewer) => interviewer.ask(&question).await,
                None => ElicitAnswer::Decline,
            }
        })
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }
}
