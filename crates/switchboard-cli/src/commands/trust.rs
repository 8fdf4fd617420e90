//! `trust`: look at a project's servers, approve or reject them, list and take back what was said.
//!
//! Starts nothing. Invariant: what is recorded is the very entry that was shown, whatever its file says
//! by then.

mod records;
mod review;

use std::time::SystemTime;

use serde::Serialize;
use switchboard_config::{
    Admission, Approval, Approvals, ApprovalsError, ApprovalsFile, Change, ContentHash, Origin,
    Refusal, Scope, ServerEntry, Shown, Standing, Trust, Verdict,
};

use super::find::server_named;
use crate::args::TrustArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::prompt_line;
use crate::render::style::Paint;
use crate::render::{Console, json, print_stderr, utc_date};
use crate::signals::Signals;

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
    // What cannot be read cannot be added to, and is better said before anybody is asked.
    let approvals = file.read().map_err(|error| failure(&error, &file))?;
    let entries = match &args.name {
        Some(name) => {
            let entry = server_named(&servers, name)?;
            if let Some(word) = nothing_to_decide(entry, &servers, &approvals, args)? {
                return say_so(entry, &word, &approvals, &context.console);
            }
            vec![entry]
        }
        None => waiting(&servers, &approvals),
    };
    let is_answered = args.yes || args.reject || context.console.can_ask;
    if !is_answered && !entries.is_empty() {
        for (index, entry) in entries.iter().enumerate() {
            show(index, entry, &approvals, args, &context.console)?;
        }
        return Err(nobody_to_ask(&entries, context));
    }
    let mut decided = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        show(index, entry, &approvals, args, &context.console)?;
        let decision = decide(entry, args, context, signals).await?;
        if let Some(verdict) = decision.verdict() {
            file.record(&[entry], verdict, SystemTime::now())
                .map_err(|error| failure(&error, &file))?;
        }
        if !context.console.is_json() {
            context.console.print(&review::outcome(entry, decision))?;
        }
        decided.push(Decided::new(entry, &approvals, decision));
    }
    finish(&decided, &context.console)
}

fn finish(decided: &[Decided<'_>], console: &Console) -> Result<Exit, Failure> {
    if console.is_json() {
        print_decided(decided, console)?;
    } else if decided.is_empty() {
        console.print("Nothing waits for approval here.")?;
    }
    let is_left = |decided: &Decided<'_>| decided.decision == Decision::Left;
    if decided.iter().any(is_left) {
        Ok(Exit::Unavailable)
    } else {
        Ok(Exit::Ok)
    }
}

/// There is nothing to decide.
fn say_so(
    entry: &ServerEntry,
    word: &str,
    approvals: &Approvals,
    console: &Console,
) -> Result<Exit, Failure> {
    if console.is_json() {
        let decided = [Decided::new(entry, approvals, Decision::Unchanged)];
        print_decided(&decided, console)?;
    } else {
        console.print(word)?;
    }
    Ok(Exit::Ok)
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Decision {
    Approved,
    Rejected,
    /// It waits as before.
    Left,
    /// There was nothing to decide.
    Unchanged,
}

impl Decision {
    fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Approved => Some(Verdict::Approved),
            Self::Rejected => Some(Verdict::Rejected),
            Self::Left | Self::Unchanged => None,
        }
    }
}

/// One entry as data.
#[derive(Serialize)]
struct Decided<'a> {
    name: &'a str,
    decision: Decision,
    origin: &'a Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<&'a ContentHash>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<&'a Shown>,
    /// What is different from what the user was asked about before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
}

impl<'a> Decided<'a> {
    fn new(entry: &'a ServerEntry, approvals: &Approvals, decision: Decision) -> Self {
        Self {
            name: entry.name().as_str(),
            decision,
            origin: entry.origin(),
            hash: entry.content_hash(),
            shown: entry.shown(),
            changes: match approvals.standing(entry) {
                Standing::Changed(before) => changes(entry, before),
                _ => Vec::new(),
            },
        }
    }
}

fn print_decided(decided: &[Decided<'_>], console: &Console) -> Result<(), Failure> {
    console.print(&json::pretty(&serde_json::json!({ "servers": decided })))
}

fn changes(entry: &ServerEntry, before: &Approval) -> Vec<Change> {
    let shown = entry.shown();
    shown.map_or_else(Vec::new, |shown| shown.changes_since(&before.shown))
}

/// The entries that wait, whatever `--trust-project` says of this run.
fn waiting<'a>(servers: &'a LoadedServers, approvals: &Approvals) -> Vec<&'a ServerEntry> {
    let trust = Trust::none()
        .with_approvals(approvals.clone())
        .with_policy(servers.trust.policy().clone());
    let entries = servers.loaded.config.servers.iter();
    let waits =
        |entry: &&ServerEntry| matches!(entry.admit(&trust), Admission::AwaitingApproval { .. });
    entries.filter(waits).collect()
}

/// Says so if there is nothing to be asked about an entry; an error if nothing can come of it.
fn nothing_to_decide(
    entry: &ServerEntry,
    servers: &LoadedServers,
    approvals: &Approvals,
    args: &TrustArgs,
) -> Result<Option<String>, Failure> {
    let name = entry.name();
    if entry.scope() != Scope::Project {
        let (scope, origin) = (entry.scope(), entry.origin());
        return Ok(Some(format!(
            "{name} is not the project's (scope {scope}, {origin}): it needs no approval."
        )));
    }
    if let Some(problem) = entry.problem() {
        let message = format!(
            "server {name} cannot be used: {problem} ({})",
            entry.origin()
        );
        return Err(Failure::new(Kind::Config, message).maybe_hint(problem.hint.clone()));
    }
    if let Admission::Refused(refusal @ Refusal::ByPolicy(_)) = entry.admit(&servers.trust) {
        let message = format!("server {name} cannot be approved: {refusal}");
        return Err(Failure::new(Kind::Untrusted, message).hint(refusal.hint()));
    }
    Ok(match approvals.standing(entry) {
        Standing::Approved(record) if !args.reject => Some(format!(
            "{name} is approved, exactly as it is, since {}.",
            utc_date(record.at)
        )),
        Standing::Rejected(record) if args.reject => Some(format!(
            "{name} is rejected, exactly as it is, since {}.",
            utc_date(record.at)
        )),
        _ => None,
    })
}

/// Shows an entry: as the result, or beside it if that is to be data.
fn show(
    index: usize,
    entry: &ServerEntry,
    approvals: &Approvals,
    args: &TrustArgs,
    console: &Console,
) -> Result<(), Failure> {
    let is_asked = !args.yes && !args.reject;
    let page = review::render(entry, approvals.standing(entry), console);
    let page = if index > 0 { format!("\n{page}") } else { page };
    match console.is_json() {
        false => console.print(&page),
        true if is_asked && console.can_ask => {
            print_stderr(&page);
            Ok(())
        }
        true => Ok(()),
    }
}

fn nobody_to_ask(entries: &[&ServerEntry], context: &Context) -> Failure {
    let names: Vec<_> = entries.iter().map(|entry| entry.name().as_str()).collect();
    let names = names.join(", ");
    let message = format!("not approved: {names}; there is nobody to ask");
    let again = context.rerun_command();
    Failure::new(Kind::Untrusted, message).hint(format!("if that may run: {again} --yes"))
}

async fn decide(
    entry: &ServerEntry,
    args: &TrustArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Decision, Failure> {
    if args.yes {
        return Ok(Decision::Approved);
    }
    if args.reject {
        return Ok(Decision::Rejected);
    }
    let question = format!(
        "{}\nApprove it? {} ",
        review::summary(entry),
        context
            .console
            .stderr_style
            .paint(Paint::Dim, "[y/N/never]")
    );
    let answer = async {
        // Reading a line blocks; a thread may, and is left behind if somebody interrupts.
        let answer = tokio::task::spawn_blocking(move || prompt_line(&question)).await;
        Ok(answer.ok().and_then(Result::ok).unwrap_or_default())
    };
    let answer = signals.until_signal(answer).await?;
    Ok(match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Decision::Approved,
        "never" => Decision::Rejected,
        _ => Decision::Left,
    })
}

fn failure(error: &ApprovalsError, file: &ApprovalsFile) -> Failure {
    let kind = match error {
        ApprovalsError::Unverifiable(_) => Kind::Untrusted,
        _ => Kind::Config,
    };
    Failure::new(kind, error.to_string()).hint(error.hint(file))
}
