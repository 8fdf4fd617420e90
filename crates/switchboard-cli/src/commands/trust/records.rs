//! `trust --list` and `trust --revoke`: prints or deletes recorded approvals and rejections.

use serde::Serialize;
use switchboard_config::{ApprovalRecord, ContentHash, ReviewFields, Verdict};

use super::{review, to_failure};
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::utc_timestamp;
use crate::render::{format_count, json, utc_date};

/// An approval or rejection in the output of `trust --list --json`.
#[derive(Serialize)]
struct ApprovalJson<'a> {
    server: &'a str,
    project: String,
    verdict: Verdict,
    at: String,
    hash: &'a ContentHash,
    shown: &'a ReviewFields,
}

impl<'a> From<&'a ApprovalRecord> for ApprovalJson<'a> {
    fn from(approval: &'a ApprovalRecord) -> Self {
        Self {
            server: approval.server.as_str(),
            project: approval.project.to_string_lossy().into_owned(),
            verdict: approval.verdict,
            at: utc_timestamp(approval.decided_at),
            hash: &approval.hash,
            shown: &approval.review,
        }
    }
}

pub(super) fn list(context: &Context) -> Result<Exit, Failure> {
    let file = context.approvals_file();
    let approvals = file.read().map_err(|error| to_failure(&error, &file))?;
    let console = &context.console;
    if console.is_json() {
        let records: Vec<_> = approvals.records().iter().map(ApprovalJson::from).collect();
        console.print(&json::pretty(&serde_json::json!({ "approvals": records })))?;
        return Ok(Exit::Ok);
    }
    if approvals.records().is_empty() {
        console.print("No recorded decisions.")?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(3, Overflow::Wrap);
    let heading = ["  VERDICT", "SERVER", "SINCE", "PROJECT"];
    table.row(heading.map(|name| Cell::new(name).paint(Paint::Dim)).into());
    for record in approvals.records() {
        let (symbol, word, paint) = match record.verdict {
            Verdict::Approved => ("✓", "approved", Paint::Green),
            Verdict::Rejected => ("✗", "rejected", Paint::Red),
        };
        table.row(vec![
            Cell::new(format!("{symbol} {word}")).paint(paint),
            Cell::new(record.server.as_str()).paint(Paint::Bold),
            Cell::new(utc_date(record.decided_at)),
            Cell::new(review::escaped(&record.project.to_string_lossy())),
        ]);
    }
    console.print(&table.render(console.columns, console.style))?;
    Ok(Exit::Ok)
}

pub(super) fn revoke(name: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let file = context.approvals_file();
    let places = context.scope_paths();
    let root = places.project().and_then(|root| root.canonicalize().ok());
    let Some(root) = root else {
        let failure = Failure::usage("not in a project");
        return Err(failure.hint("run `switchboard trust --list` to see decisions of all projects"));
    };
    let is_selected = |record: &ApprovalRecord| {
        record.project == root && name.is_none_or(|name| record.server.as_str() == name)
    };
    let revoked = file
        .revoke(is_selected)
        .map_err(|error| to_failure(&error, &file))?;
    let console = &context.console;
    if console.is_json() {
        let revoked: Vec<_> = revoked.iter().map(ApprovalJson::from).collect();
        console.print(&json::pretty(&serde_json::json!({ "revoked": revoked })))?;
        return Ok(Exit::Ok);
    }
    match (revoked.len(), name) {
        (0, Some(name)) => {
            let message = format!("no recorded decision for server {name:?} in this project");
            let failure = Failure::new(Kind::UnknownServer, message);
            return Err(failure.hint("run `switchboard trust --list` to see all decisions"));
        }
        (0, None) => console.print("No recorded decisions in this project.")?,
        (some, _) => {
            let names: Vec<_> = revoked
                .iter()
                .map(|record| record.server.as_str())
                .collect();
            let names = names.join(", ");
            let decisions = format_count(some, "decision");
            console.print(&format!("Revoked {decisions}: {names}"))?;
        }
    }
    Ok(Exit::Ok)
}
