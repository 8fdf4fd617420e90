//! The way from an entry in a file to a tool that a model can call, link by link.
//!
//! `doctor` and `why` show it. Invariant: after the first link that does not hold, none is claimed to.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use switchboard::content::for_terminal;
use switchboard::status::{Attempt, ConnectStage, ConnectionStatus, ServerDetails};
use switchboard_config::{
    Admission, Consent, Diagnostic, LaunchSpec, ServerEntry, Severity, Standing, TransportConfig,
    Waiting,
};

use crate::context::{Context, LoadedServers};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, format_duration, text, utc_date};

/// What has to hold, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Step {
    /// The entry makes sense.
    Config,
    /// Somebody consented to it.
    Trust,
    /// Its program is found.
    Command,
    /// Its address is reached.
    Address,
    /// The connection is encrypted, and it is who it says it is.
    Tls,
    /// It answers as a server does.
    Answer,
    /// Its process stays.
    Process,
    /// Both sides agree on a version.
    Handshake,
    /// It lets us in.
    Auth,
    /// Its tools are known.
    Tools,
    /// The tool has a name on the wire.
    Name,
    /// A rule lets it be called.
    Permission,
    /// A model gets to see it.
    Exposed,
}

impl Step {
    fn word(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Trust => "trust",
            Self::Command => "command",
            Self::Address => "address",
            Self::Tls => "tls",
            Self::Answer => "answer",
            Self::Process => "process",
            Self::Handshake => "handshake",
            Self::Auth => "auth",
            Self::Tools => "tools",
            Self::Name => "name",
            Self::Permission => "permission",
            Self::Exposed => "exposed",
        }
    }
}

/// How it is with a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Ok,
    /// It passed, and yet there is something to be said.
    Warning,
    Failed,
    NotReached,
}

impl Outcome {
    pub(crate) fn symbol(self) -> (&'static str, Paint) {
        match self {
            Self::Ok => ("✓", Paint::Green),
            Self::Warning => ("!", Paint::Yellow),
            Self::Failed => ("✗", Paint::Red),
            Self::NotReached => ("·", Paint::Dim),
        }
    }
}

/// One step, and what came of it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepResult {
    pub(crate) step: Step,
    pub(crate) outcome: Outcome,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) words: String,
    #[serde(rename = "elapsedMs", skip_serializing_if = "Option::is_none")]
    took: Option<u64>,
}

/// The steps so far.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Diagnosis {
    steps: Vec<StepResult>,
}

impl Diagnosis {
    /// The steps that a server has to hold for any of its tools.
    pub(crate) fn for_server(
        entry: &ServerEntry,
        server: &ServerDetails,
        servers: &LoadedServers,
        context: &Context,
    ) -> Self {
        let mut chain = Self::default();
        chain.config(entry, &servers.loaded.diagnostics);
        let admission = entry.admit(&servers.trust);
        chain.trust(&admission, servers.trust.approvals().standing(entry));
        let launch = match &admission {
            Admission::Launch(spec) => Some(spec),
            _ => None,
        };
        chain.attempt(launch, server, context);
        chain
    }

    /// Adds a link; it is not reached if one before it does not hold.
    pub(crate) fn push(&mut self, step: Step, outcome: Outcome, words: impl Into<String>) {
        self.push_timed(step, outcome, words, None);
    }

    fn push_timed(
        &mut self,
        step: Step,
        outcome: Outcome,
        words: impl Into<String>,
        took: Option<Duration>,
    ) {
        let link = if self.is_broken() {
            StepResult {
                step,
                outcome: Outcome::NotReached,
                words: String::new(),
                took: None,
            }
        } else {
            StepResult {
                step,
                outcome,
                words: words.into(),
                took: took.and_then(|took| u64::try_from(took.as_millis()).ok()),
            }
        };
        self.steps.push(link);
    }

    /// Whether it ends before the last link: something failed, or was never meant to be tried.
    pub(crate) fn is_broken(&self) -> bool {
        let passed = |link: &StepResult| matches!(link.outcome, Outcome::Ok | Outcome::Warning);
        !self.steps.iter().all(passed)
    }

    /// Counts the steps that passed with a warning.
    pub(crate) fn warnings(&self) -> usize {
        let is_warning = |step: &&StepResult| step.outcome == Outcome::Warning;
        self.steps.iter().filter(is_warning).count()
    }

    /// The one thing to do next, where the chain is broken. Whoever switched a server off needs none.
    pub(crate) fn hint(
        &self,
        entry: &ServerEntry,
        server: &ServerDetails,
        servers: &LoadedServers,
    ) -> Option<String> {
        if !self.is_broken() || entry.is_disabled() {
            return None;
        }
        match entry.admit(&servers.trust) {
            Admission::Invalid(problem) => problem.hint,
            Admission::AwaitingApproval { hint, .. } => Some(hint),
            Admission::Refused(refusal) => Some(refusal.hint()),
            Admission::Launch(spec) => server
                .status
                .detail
                .clone()
                .or_else(|| manual_command(&spec)),
        }
    }

    fn config(&mut self, entry: &ServerEntry, diagnostics: &[Diagnostic]) {
        let place = entry.origin().to_string();
        let noted = diagnostics.iter().find(|diagnostic| {
            diagnostic.server.as_ref() == Some(entry.name())
                && diagnostic.severity == Severity::Warning
        });
        match (entry.problem(), noted) {
            (Some(problem), _) => {
                let words = format!("{} ({place})", problem.message);
                self.push(Step::Config, Outcome::Failed, words);
            }
            (None, Some(noted)) => {
                let words = format!("{place}: {}", noted.message);
                self.push(Step::Config, Outcome::Warning, words);
            }
            (None, None) => {
                let words = format!("{place} ({})", entry.scope());
                self.push(Step::Config, Outcome::Ok, words);
            }
        }
    }

    fn trust(&mut self, admission: &Admission, standing: Standing<'_>) {
        match admission {
            Admission::Launch(spec) => {
                let words = match standing {
                    Standing::Approved(approval) => {
                        format!("approved on {}", utc_date(approval.at))
                    }
                    _ => consent(spec.consent()).to_owned(),
                };
                self.push(Step::Trust, Outcome::Ok, words);
            }
            Admission::AwaitingApproval { waiting, .. } => {
                let words = match waiting {
                    Waiting::New => "comes with the project and is not approved",
                    Waiting::Changed => "has changed since you were asked about it",
                };
                self.push(Step::Trust, Outcome::Failed, words);
            }
            Admission::Refused(refusal) => {
                self.push(Step::Trust, Outcome::Failed, refusal.to_string());
            }
            // Told by the link before.
            Admission::Invalid(_) => self.push(Step::Trust, Outcome::NotReached, ""),
        }
    }

    /// From the program, or the address, to the listing.
    fn attempt(&mut self, launch: Option<&LaunchSpec>, server: &ServerDetails, context: &Context) {
        let is_stdio = server.transport == "stdio";
        let is_remote = matches!(server.transport, "http" | "sse" | "claudeai-proxy");
        let found = if is_remote {
            Step::Address
        } else {
            Step::Command
        };
        let nothing = Attempt::default();
        let attempt = server.attempt.as_ref().unwrap_or(&nothing);
        let failed_at = attempt.failed_at;
        let error = server.status.error.as_deref().unwrap_or_default();
        let is_off = server.status.status == ConnectionStatus::Disabled;
        let passed = |stage: ConnectStage| failed_at.is_none_or(|failed| failed > stage);

        if is_off || server.attempt.is_none() {
            let words = server.status.detail.as_deref().unwrap_or("not started");
            self.push(found, Outcome::NotReached, words);
        } else if passed(ConnectStage::Open) {
            let words = launch
                .map(|spec| target_of(spec, context))
                .unwrap_or_default();
            self.push(found, Outcome::Ok, words);
        } else {
            self.push(found, Outcome::Failed, error);
        }
        if is_stdio {
            if passed(ConnectStage::Alive) {
                self.push_timed(Step::Process, Outcome::Ok, "runs", attempt.opening);
            } else {
                self.push(Step::Process, Outcome::Failed, error);
            }
        }
        if is_remote {
            self.check_remote(launch, server, passed);
        }
        if passed(ConnectStage::Handshake) {
            self.push_timed(
                Step::Handshake,
                Outcome::Ok,
                handshake_summary(server),
                attempt.handshake,
            );
        } else {
            self.push(Step::Handshake, Outcome::Failed, error);
        }
        if !is_remote {
            self.push(Step::Auth, Outcome::Ok, "none needed");
        }
        if !passed(ConnectStage::Listing) {
            self.push(Step::Tools, Outcome::Failed, error);
            return;
        }
        let listed = server.status.tools.len();
        let (outcome, words) = match server.notes.first() {
            Some(note) => (Outcome::Warning, format!("{listed} listed; {note}")),
            None => (Outcome::Ok, format!("{listed} listed")),
        };
        self.push_timed(Step::Tools, outcome, words, attempt.listing);
    }

    /// From the address of a remote server to being let in.
    fn check_remote(
        &mut self,
        launch: Option<&LaunchSpec>,
        server: &ServerDetails,
        passed: impl Fn(ConnectStage) -> bool,
    ) {
        let error = server.status.error.as_deref().unwrap_or_default();
        let url = launch.and_then(|spec| spec.config().transport.url());
        let is_encrypted = url.is_some_and(|url| {
            url.get(..8)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
        });
        let mut step = |step: Step, stage: ConnectStage, words: &str| {
            if passed(stage) {
                self.push(step, Outcome::Ok, words);
            } else {
                self.push(step, Outcome::Failed, error);
            }
        };
        if is_encrypted {
            step(Step::Tls, ConnectStage::Secure, "encrypted");
        }
        step(Step::Answer, ConnectStage::Alive, "it answers");
        step(Step::Auth, ConnectStage::Login, "lets us in");
    }

    pub(crate) fn render(&self, console: &Console) -> String {
        let mut table = Table::new(2, Overflow::Wrap).indent(2);
        for link in self.steps.iter().filter(|link| !link.is_skipped()) {
            let (symbol, paint) = link.outcome.symbol();
            let took = link.took.map(Duration::from_millis).map(format_duration);
            let words = match took {
                Some(took) => format!("{} ({took})", link.words),
                None => link.words.clone(),
            };
            table.row(vec![
                Cell::new(symbol).paint(paint),
                Cell::new(link.step.word()),
                Cell::new(for_terminal(&words)),
            ]);
        }
        let silent = self.steps.iter().filter(|link| link.is_skipped());
        let silent: Vec<_> = silent.map(|link| link.step.word()).collect();
        if !silent.is_empty() {
            let (symbol, paint) = Outcome::NotReached.symbol();
            table.row(vec![
                Cell::new(symbol).paint(paint),
                Cell::new("not reached").paint(paint),
                Cell::new(silent.join(", ")).paint(paint),
            ]);
        }
        table.render(console.columns, console.style)
    }
}

impl StepResult {
    /// There is nothing to be said of it.
    fn is_skipped(&self) -> bool {
        self.outcome == Outcome::NotReached && self.words.is_empty()
    }
}

/// How to start a server by hand, to see what it says.
fn manual_command(spec: &LaunchSpec) -> Option<String> {
    let TransportConfig::Stdio(_) = &spec.config().transport else {
        return None;
    };
    Some(format!(
        "to see for yourself: {}",
        text::command_line(spec.written())
    ))
}

/// By what act somebody consented, in words.
fn consent(consent: Consent) -> &'static str {
    match consent {
        Consent::Administrator => "the administrator's own file",
        Consent::CommandLine => "named on the command line",
        Consent::UserFile => "the user's own file",
        Consent::TrustProjectFlag => "approved for this run by --trust-project",
        _ => "approved",
    }
}

/// Where the program lies, or the address.
fn target_of(spec: &LaunchSpec, context: &Context) -> String {
    match &spec.config().transport {
        TransportConfig::Stdio(stdio) => {
            let found = context.program(&stdio.command, stdio.cwd.as_deref());
            let path = found.unwrap_or_else(|| PathBuf::from(&stdio.command));
            path.display().to_string()
        }
        // As written: variables in it may be secrets.
        _ => match spec.written().as_object().get("url") {
            Some(Value::String(url)) => url.clone(),
            _ => String::new(),
        },
    }
}

fn handshake_summary(server: &ServerDetails) -> String {
    let Some(hello) = &server.hello else {
        return String::new();
    };
    let version = format!("{} ({} era)", hello.version, hello.version.era());
    match &hello.server_info {
        Some(info) => format!("{version}, {} {}", info.name, info.version),
        None => version,
    }
}
