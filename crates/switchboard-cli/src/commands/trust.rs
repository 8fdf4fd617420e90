//! `trust`: shows the project's servers and records approvals and rejections.
//!
//! Starts no server. Invariant: the entry recorded as approved or rejected is the one that was
//! shown, even if the config file changes before the user answers.

mod records;
mod review;

use std::fmt::Write as _;
use std::time::SystemTime;

use serde::Serialize;
use switchboard_config::{
    ApprovalRecord, ApprovalState, Approvals, ApprovalsError, ApprovalsFile, ContentHash,
    LaunchDecision, LaunchRefusal, ReviewChange, ReviewFields, Scope, ServerEntry, SourcePos,
    Trust, Verdict,
};

use super::find::server_named;
use crate::args::TrustArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::prompt_line;
use crate::render::style::Paint;
use crate::render::{Console, json, print_stderr, utc_date};
use crate::signals::Signals;
use switchboard::content::quote_for_shell;

/// How often one question is repeated.
const MAX_QUESTIONS: usize = 5;

pub(crate) async fn run(
    args: &TrustArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    if args.list {
        return records::list(context);
    }
    if args.revoke {
        return records::revoke(args.name.as_deref(), context);
    }
    let servers = context.load_servers()?;
    let file = context.approvals_file();
    // Read the approvals file before asking: if it is invalid, the decision could not be saved.
    let approvals = file.read().map_err(|error| to_failure(&error, &file))?;
    let entries = match &args.name {
        Some(name) => {
            let entry = server_named(&servers, name)?;
            if let Some(reason) = decision_not_needed(entry, &servers, &approvals, args)? {
                return report_nothing_to_do(entry, &reason, &approvals, &context.console);
            }
            vec![entry]
        }
        None => entries_awaiting_approval(&servers, &approvals),
    };
    let is_answered = args.yes || args.reject || context.console.can_ask;
    if !is_answered && !entries.is_empty() {
        for (index, entry) in entries.iter().enumerate() {
            print_review(index, entry, &approvals, args, &context.console)?;
        }
        return Err(no_terminal_error(&entries, context));
    }
    let mut decisions = Vec::new();
    if let Some(decision) = decision_for_all(args) {
        for (index, entry) in entries.iter().enumerate() {
            print_review(index, entry, &approvals, args, &context.console)?;
        }
        // One write for all entries: each write rewrites the whole file.
        record(&entries, decision, &file)?;
        for entry in entries {
            print_outcome(entry, decision, &context.console)?;
            decisions.push(DecisionJson::new(entry, &approvals, decision));
        }
    } else {
        for (index, entry) in entries.into_iter().enumerate() {
            print_review(index, entry, &approvals, args, &context.console)?;
            let decision = ask(entry, context, signals).await?;
            record(&[entry], decision, &file)?;
            print_outcome(entry, decision, &context.console)?;
            decisions.push(DecisionJson::new(entry, &approvals, decision));
        }
    }
    if decisions.is_empty() && !context.console.is_json() {
        context
            .console
            .print(&nothing_waiting(&servers, &approvals))?;
        return Ok(Exit::Ok);
    }
    report_all(&decisions, &context.console)
}

/// The decision that an option makes for every entry. `None` if the user is asked.
fn decision_for_all(args: &TrustArgs) -> Option<TrustDecision> {
    match args {
        TrustArgs { yes: true, .. } => Some(TrustDecision::Approved),
        TrustArgs { reject: true, .. } => Some(TrustDecision::Rejected),
        _ => None,
    }
}

/// Records a decision about entries. Entries whose program cannot be verified are left out, and
/// cause an error after the others were recorded.
fn record(
    entries: &[&ServerEntry],
    decision: TrustDecision,
    file: &ApprovalsFile,
) -> Result<(), Failure> {
    let Some(verdict) = decision.verdict() else {
        return Ok(());
    };
    let (verifiable, others): (Vec<_>, Vec<_>) = entries
        .iter()
        .copied()
        .partition(|entry| entry.content_hash().is_some());
    for entries in [verifiable, others] {
        if !entries.is_empty() {
            file.record(&entries, verdict, SystemTime::now())
                .map_err(|error| to_failure(&error, file))?;
        }
    }
    Ok(())
}

fn print_outcome(
    entry: &ServerEntry,
    decision: TrustDecision,
    console: &Console,
) -> Result<(), Failure> {
    if console.is_json() {
        return Ok(());
    }
    console.print(&review::outcome(entry, decision))
}

/// Says that no server waits for approval, which servers were rejected, and how to reverse that.
fn nothing_waiting(servers: &LoadedServers, approvals: &Approvals) -> String {
    let entries = servers.loaded.config.servers.iter();
    let rejected =
        entries.filter(|entry| matches!(approvals.state_of(entry), ApprovalState::Rejected(_)));
    let rejected: Vec<_> = rejected.collect();
    let mut text = "No servers are waiting for approval.".to_owned();
    let Some(first) = rejected.first() else {
        return text;
    };
    let names = rejected
        .iter()
        .map(|entry| review::escaped(entry.name().as_str()));
    let names = names.collect::<Vec<_>>().join(", ");
    let first = quote_for_shell(first.name().as_str());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nRejected: {names}\nTo review one again: switchboard trust {first}"
    );
    text
}

fn report_all(decisions: &[DecisionJson<'_>], console: &Console) -> Result<Exit, Failure> {
    if console.is_json() {
        print_json(decisions, console)?;
    }
    let is_pending = |server: &DecisionJson<'_>| server.decision == TrustDecision::Pending;
    if decisions.iter().any(is_pending) {
        Ok(Exit::Unavailable)
    } else {
        Ok(Exit::Ok)
    }
}

fn report_nothing_to_do(
    entry: &ServerEntry,
    reason: &str,
    approvals: &Approvals,
    console: &Console,
) -> Result<Exit, Failure> {
    if console.is_json() {
        let decisions = [DecisionJson::new(
            entry,
            approvals,
            TrustDecision::Unchanged,
        )];
        print_json(&decisions, console)?;
    } else {
        console.print(reason)?;
    }
    Ok(Exit::Ok)
}

/// Outcome of the review of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum TrustDecision {
    Approved,
    Rejected,
    /// The user neither approved nor rejected the entry, which still needs a decision.
    #[serde(rename = "left")]
    Pending,
    /// The entry needed no decision, for example because it was approved before.
    Unchanged,
}

impl TrustDecision {
    fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Approved => Some(Verdict::Approved),
            Self::Rejected => Some(Verdict::Rejected),
            Self::Pending | Self::Unchanged => None,
        }
    }
}

/// One entry in the output of `trust --json`.
#[derive(Serialize)]
struct DecisionJson<'a> {
    name: &'a str,
    decision: TrustDecision,
    origin: &'a SourcePos,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<&'a ContentHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<&'a ReviewFields>,
    /// Differences from the entry with this name that the user approved or rejected last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<ReviewChange>,
}

impl<'a> DecisionJson<'a> {
    fn new(entry: &'a ServerEntry, approvals: &Approvals, decision: TrustDecision) -> Self {
        Self {
            name: entry.name().as_str(),
            decision,
            origin: entry.origin(),
            hash: entry.content_hash(),
            shown: entry.review(),
            changes: match approvals.state_of(entry) {
                ApprovalState::Changed(before) => changes_since(entry, before),
                _ => Vec::new(),
            },
        }
    }
}

fn print_json(decisions: &[DecisionJson<'_>], console: &Console) -> Result<(), Failure> {
    console.print(&json::pretty(&serde_json::json!({ "servers": decisions })))
}

fn changes_since(entry: &ServerEntry, before: &ApprovalRecord) -> Vec<ReviewChange> {
    let shown = entry.review();
    shown.map_or_else(Vec::new, |shown| shown.changes_since(&before.review))
}

/// Returns the entries that need a decision. Ignores `--trust-project`.
fn entries_awaiting_approval<'a>(
    servers: &'a LoadedServers,
    approvals: &Approvals,
) -> Vec<&'a ServerEntry> {
    let trust = Trust::none()
        .with_approvals(approvals.clone())
        .with_policy(servers.trust.policy().clone());
    let entries = servers.loaded.config.servers.iter();
    let is_waiting = |entry: &&ServerEntry| {
        matches!(
            entry.decide_launch(&trust),
            LaunchDecision::AwaitingApproval { .. }
        )
    };
    entries.filter(is_waiting).collect()
}

/// Returns a message if the entry needs no decision, and an error if it is invalid or an
/// administrator forbids it.
fn decision_not_needed(
    entry: &ServerEntry,
    servers: &LoadedServers,
    approvals: &Approvals,
    args: &TrustArgs,
) -> Result<Option<String>, Failure> {
    let name = entry.name();
    if entry.scope() != Scope::Project {
        let (scope, origin) = (entry.scope(), entry.origin());
        return Ok(Some(format!(
            "{name} needs no approval: it is not from the project (scope {scope}, {origin})."
        )));
    }
    if let Some(problem) = entry.problem() {
        let message = format!(
            "server {name} has an invalid entry: {problem} ({})",
            entry.origin()
        );
        return Err(Failure::new(Kind::Config, message).maybe_hint(problem.hint.clone()));
    }
    if let LaunchDecision::Refused(refusal @ LaunchRefusal::ByPolicy(_)) =
        entry.decide_launch(&servers.trust)
    {
        let message = format!("server {name} cannot be approved: {refusal}");
        return Err(Failure::new(Kind::Untrusted, message).hint(refusal.hint()));
    }
    Ok(match approvals.state_of(entry) {
        ApprovalState::Approved(record) if !args.reject => Some(format!(
            "{name} is already approved (since {}).",
            utc_date(record.decided_at)
        )),
        ApprovalState::Rejected(record) if args.reject => Some(format!(
            "{name} is already rejected (since {}).",
            utc_date(record.decided_at)
        )),
        _ => None,
    })
}

/// Prints an entry for review: on stdout, or with `--json` on stderr if the user is asked.
fn print_review(
    index: usize,
    entry: &ServerEntry,
    approvals: &Approvals,
    args: &TrustArgs,
    console: &Console,
) -> Result<(), Failure> {
    let is_asked = !args.yes && !args.reject;
    let review = review::render(entry, approvals.state_of(entry), console);
    let review = if index > 0 {
        format!("\n{review}")
    } else {
        review
    };
    match console.is_json() {
        false => console.print(&review),
        true if is_asked && console.can_ask => {
            print_stderr(&review);
            Ok(())
        }
        true => Ok(()),
    }
}

fn no_terminal_error(entries: &[&ServerEntry], context: &Context) -> Failure {
    let names: Vec<_> = entries.iter().map(|entry| entry.name().as_str()).collect();
    let names = names.join(", ");
    let message = format!("cannot ask for approval of {names}: no terminal");
    let rerun = context.rerun_command();
    Failure::new(Kind::Untrusted, message)
        .hint(format!("to approve without a terminal: {rerun} --yes"))
}

/// Asks whether to approve an entry. Asks again after any other answer. The end of the input leaves
/// the decision open.
async fn ask(
    entry: &ServerEntry,
    context: &Context,
    signals: &mut Signals,
) -> Result<TrustDecision, Failure> {
    let question = format!(
        "{}\nApprove it? {} ",
        review::summary(entry),
        context
            .console
            .stderr_style
            .paint(Paint::Dim, "[y/N/never]")
    );
    for _ in 0..MAX_QUESTIONS {
        let question = question.clone();
        let answer = async {
            // Reads the answer on a blocking thread. The thread is abandoned when a signal arrives.
            let answer = tokio::task::spawn_blocking(move || prompt_line(&question)).await;
            Ok(answer.ok().and_then(Result::ok).unwrap_or_default())
        };
        let answer = signals.until_signal(answer).await?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(TrustDecision::Approved),
            "never" => return Ok(TrustDecision::Rejected),
            "" | "n" | "no" => return Ok(TrustDecision::Pending),
            _ => {}
        }
    }
    Ok(TrustDecision::Pending)
}

fn to_failure(error: &ApprovalsError, file: &ApprovalsFile) -> Failure {
    let kind = match error {
        ApprovalsError::Unverifiable(_) => Kind::Untrusted,
        _ => Kind::Config,
    };
    Failure::new(kind, error.to_string()).hint(error.hint(file))
}
