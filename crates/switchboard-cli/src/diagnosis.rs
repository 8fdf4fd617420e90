//! Checks every step from a config entry to a callable tool.
//!
//! `doctor` and `why` print the result. The checks read what the host recorded while it connected
//! to the server; they start nothing. Invariant: after the first failed step, all later steps are
//! `NotReached`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use switchboard::content::sanitize;
use switchboard::status::{ConnectStage, ConnectionStatus, ServerDetails, TransportKind};
use switchboard_config::{
    ApprovalState, Consent, Diagnostic, LaunchDecision, LaunchSpec, PendingReason, ServerEntry,
    Severity, TransportConfig,
};

use crate::context::{Context, LoadedServers};
use crate::render::server_text::{quote_indented, short_field};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, format_duration, text, utc_date};

/// Indent of server text below a step.
const TEXT_INDENT: usize = 4;

/// Maximum columns of the message of a step.
const MAX_MESSAGE_COLUMNS: usize = 1_000;

/// The checks for one server or tool, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Step {
    /// The entry is valid.
    Config,
    /// The entry may run: it was approved, or its scope needs no approval.
    Trust,
    /// The program of a stdio server was found.
    Command,
    /// A TCP connection to the URL's host was opened.
    Connect,
    /// The TLS handshake succeeded and the certificate is valid.
    Tls,
    /// The URL responds as an MCP server does.
    Respond,
    /// The process of a stdio server was still running when the handshake began.
    Process,
    /// Client and server agreed on a protocol version.
    Handshake,
    /// The server accepted the credentials, or asked for none.
    Auth,
    /// The server listed its tools.
    Tools,
    /// The tool has a name that models accept.
    Name,
    /// The permission rules do not deny the call.
    Permission,
    /// The tool is in the catalog, from which models choose.
    Available,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Trust => "trust",
            Self::Command => "command",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Respond => "respond",
            Self::Process => "process",
            Self::Handshake => "handshake",
            Self::Auth => "auth",
            Self::Tools => "tools",
            Self::Name => "name",
            Self::Permission => "permission",
            Self::Available => "available",
        }
    }
}

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Ok,
    /// The step passed, but has a problem that does not block the later steps.
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

/// A step and its outcome.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepResult {
    pub(crate) step: Step,
    pub(crate) outcome: Outcome,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
}

/// The results of the steps that were checked, in order.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Diagnosis {
    steps: Vec<StepResult>,
}

impl Diagnosis {
    /// Checks the steps of the server, from the config entry to the tool listing. Steps of a single
    /// tool are added with [`Self::push`].
    pub(crate) fn for_server(
        entry: &ServerEntry,
        server: &ServerDetails,
        servers: &LoadedServers,
        context: &Context,
    ) -> Self {
        let mut diagnosis = Self::default();
        diagnosis.push_config(entry, &servers.loaded.diagnostics);
        let decision = entry.decide_launch(&servers.trust);
        diagnosis.push_trust(&decision, servers.trust.approvals().state_of(entry));
        let launch = match &decision {
            LaunchDecision::Launch(spec) => Some(spec),
            _ => None,
        };
        diagnosis.push_connection_steps(launch, server, context);
        diagnosis
    }

    /// Adds the result of a step. If a previous step failed or was not reached, `NotReached` is
    /// recorded instead of `outcome`.
    pub(crate) fn push(&mut self, step: Step, outcome: Outcome, message: impl Into<String>) {
        self.push_timed(step, outcome, message, None);
    }

    fn push_timed(
        &mut self,
        step: Step,
        outcome: Outcome,
        message: impl Into<String>,
        elapsed: Option<Duration>,
    ) {
        let result = if self.is_broken() {
            StepResult {
                step,
                outcome: Outcome::NotReached,
                message: String::new(),
                elapsed_ms: None,
            }
        } else {
            StepResult {
                step,
                outcome,
                message: message.into(),
                elapsed_ms: elapsed.and_then(|elapsed| u64::try_from(elapsed.as_millis()).ok()),
            }
        };
        self.steps.push(result);
    }

    /// Whether a step failed or was not reached.
    pub(crate) fn is_broken(&self) -> bool {
        let passed = |result: &StepResult| matches!(result.outcome, Outcome::Ok | Outcome::Warning);
        !self.steps.iter().all(passed)
    }

    /// Counts the steps that passed with a warning.
    pub(crate) fn warnings(&self) -> usize {
        let is_warning = |result: &&StepResult| result.outcome == Outcome::Warning;
        self.steps.iter().filter(is_warning).count()
    }

    /// Returns a hint that says what to do about the failed step. `None` if no step failed or the
    /// server is disabled.
    pub(crate) fn hint(
        &self,
        entry: &ServerEntry,
        server: &ServerDetails,
        servers: &LoadedServers,
    ) -> Option<String> {
        if !self.is_broken() || entry.is_disabled() {
            return None;
        }
        match entry.decide_launch(&servers.trust) {
            LaunchDecision::Invalid(problem) => problem.hint,
            LaunchDecision::AwaitingApproval { hint, .. } => Some(hint),
            LaunchDecision::Refused(refusal) => Some(refusal.hint()),
            LaunchDecision::Launch(spec) => server
                .status
                .detail
                .clone()
                .or_else(|| suggest_manual_start(&spec)),
        }
    }

    fn push_config(&mut self, entry: &ServerEntry, diagnostics: &[Diagnostic]) {
        let origin = entry.origin().to_string();
        let warning = diagnostics.iter().find(|diagnostic| {
            diagnostic.server.as_ref() == Some(entry.name())
                && diagnostic.severity == Severity::Warning
        });
        match (entry.problem(), warning) {
            (Some(problem), _) => {
                let message = format!("{} ({origin})", problem.message);
                self.push(Step::Config, Outcome::Failed, message);
            }
            (None, Some(warning)) => {
                let message = format!("{origin}: {}", warning.message);
                self.push(Step::Config, Outcome::Warning, message);
            }
            (None, None) => {
                let message = format!("{origin} ({})", entry.scope());
                self.push(Step::Config, Outcome::Ok, message);
            }
        }
    }

    fn push_trust(&mut self, decision: &LaunchDecision, state: ApprovalState<'_>) {
        match decision {
            LaunchDecision::Launch(spec) => {
                let message = match state {
                    ApprovalState::Approved(approval) => {
                        format!("approved on {}", utc_date(approval.decided_at))
                    }
                    _ => describe_consent(spec.consent()).to_owned(),
                };
                self.push(Step::Trust, Outcome::Ok, message);
            }
            LaunchDecision::AwaitingApproval { reason, .. } => {
                let message = match reason {
                    PendingReason::New => "project server, not approved",
                    PendingReason::Changed => {
                        "project server, changed since you approved or rejected it"
                    }
                };
                self.push(Step::Trust, Outcome::Failed, message);
            }
            LaunchDecision::Refused(refusal) => {
                self.push(Step::Trust, Outcome::Failed, refusal.to_string());
            }
            // The result of the step `Config` already contains the problem of the entry.
            LaunchDecision::Invalid(_) => self.push(Step::Trust, Outcome::NotReached, ""),
        }
    }

    /// Adds the steps from the program or the URL to the tool listing.
    fn push_connection_steps(
        &mut self,
        launch: Option<&LaunchSpec>,
        server: &ServerDetails,
        context: &Context,
    ) {
        let is_stdio = server.transport == TransportKind::Stdio;
        let is_remote = server.transport.is_remote();
        let attempt = server.attempt.clone().unwrap_or_default();
        let error = server.status.error.as_deref().unwrap_or_default();
        let passed = |stage: ConnectStage| attempt.failed_at.is_none_or(|failed| failed > stage);

        self.push_reach(launch, server, passed(ConnectStage::Open), context);
        if is_stdio {
            if passed(ConnectStage::Alive) {
                self.push_timed(Step::Process, Outcome::Ok, "running", attempt.opening);
            } else {
                self.push(Step::Process, Outcome::Failed, error);
            }
        }
        if is_remote {
            self.push_remote_steps(launch, error, passed);
        }
        if passed(ConnectStage::Handshake) {
            let summary = describe_handshake(server);
            self.push_timed(Step::Handshake, Outcome::Ok, summary, attempt.handshake);
        } else {
            self.push(Step::Handshake, Outcome::Failed, error);
        }
        if !is_remote {
            self.push(Step::Auth, Outcome::Ok, "not required");
        }
        if !passed(ConnectStage::Listing) {
            self.push(Step::Tools, Outcome::Failed, error);
            return;
        }
        let listed = server.status.tools.len();
        let (outcome, message) = match server.notes.first() {
            Some(note) => (Outcome::Warning, format!("{listed} listed; {note}")),
            None => (Outcome::Ok, format!("{listed} listed")),
        };
        self.push_timed(Step::Tools, outcome, message, attempt.listing);
    }

    /// Adds the first connection step: the program was found, or the host of the URL was reached.
    fn push_reach(
        &mut self,
        launch: Option<&LaunchSpec>,
        server: &ServerDetails,
        is_open: bool,
        context: &Context,
    ) {
        let step = if server.transport.is_remote() {
            Step::Connect
        } else {
            Step::Command
        };
        let is_disabled = server.status.status == ConnectionStatus::Disabled;
        if is_disabled || server.attempt.is_none() {
            let message = server.status.detail.as_deref().unwrap_or("not started");
            self.push(step, Outcome::NotReached, message);
        } else if is_open {
            let target = launch.map(|spec| describe_target(spec, context));
            self.push(step, Outcome::Ok, target.unwrap_or_default());
        } else {
            let error = server.status.error.as_deref().unwrap_or_default();
            self.push(step, Outcome::Failed, error);
        }
    }

    /// Adds the steps that only a remote server has, from TLS to authorization.
    fn push_remote_steps(
        &mut self,
        launch: Option<&LaunchSpec>,
        error: &str,
        passed: impl Fn(ConnectStage) -> bool,
    ) {
        let url = launch.and_then(|spec| spec.config().transport.url());
        let is_https = url.is_some_and(|url| {
            url.get(..8)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
        });
        let mut check = |step: Step, stage: ConnectStage, message: &str| {
            if passed(stage) {
                self.push(step, Outcome::Ok, message);
            } else {
                self.push(step, Outcome::Failed, error);
            }
        };
        if is_https {
            check(Step::Tls, ConnectStage::Secure, "encrypted");
        }
        check(Step::Respond, ConnectStage::Alive, "reachable");
        check(Step::Auth, ConnectStage::Login, "authorized");
    }

    pub(crate) fn render(&self, console: &Console) -> String {
        let mut table = Table::new(2, Overflow::Wrap).indent(2);
        for result in self.steps.iter().filter(|result| !result.is_skipped()) {
            let (symbol, paint) = result.outcome.symbol();
            let elapsed = result.elapsed_ms.map(Duration::from_millis);
            let message = match elapsed.map(format_duration) {
                Some(elapsed) => format!("{} ({elapsed})", result.message),
                None => result.message.clone(),
            };
            // Further lines are text of the server, for example the end of its stderr.
            let message = sanitize(&message);
            let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
            table.row(vec![
                Cell::new(symbol).paint(paint),
                Cell::new(result.step.name()),
                Cell::new(short_field(first, MAX_MESSAGE_COLUMNS)),
            ]);
            table.text(quote_indented(rest, TEXT_INDENT, console.columns));
        }
        let skipped = self.steps.iter().filter(|result| result.is_skipped());
        let skipped: Vec<_> = skipped.map(|result| result.step.name()).collect();
        if !skipped.is_empty() {
            let (symbol, paint) = Outcome::NotReached.symbol();
            table.row(vec![
                Cell::new(symbol).paint(paint),
                Cell::new("not reached").paint(paint),
                Cell::new(skipped.join(", ")).paint(paint),
            ]);
        }
        table.render(console.columns, console.style)
    }
}

impl StepResult {
    /// Whether the step was not reached and has no message; such steps share one row.
    fn is_skipped(&self) -> bool {
        self.outcome == Outcome::NotReached && self.message.is_empty()
    }
}

/// The command line that starts a stdio server without this program.
fn suggest_manual_start(spec: &LaunchSpec) -> Option<String> {
    let TransportConfig::Stdio(_) = &spec.config().transport else {
        return None;
    };
    Some(format!(
        "to run it manually: {}",
        text::format_command_line(spec.masked_entry())
    ))
}

/// Describes why the entry may run.
fn describe_consent(consent: Consent) -> &'static str {
    match consent {
        Consent::Administrator => "the administrator's file",
        Consent::CommandLine => "from the command line",
        Consent::UserFile => "your own file",
        Consent::TrustProjectFlag => "approved for this run by --trust-project",
        _ => "approved",
    }
}

/// The path of the program, or the URL.
fn describe_target(spec: &LaunchSpec, context: &Context) -> String {
    match &spec.config().transport {
        TransportConfig::Stdio(stdio) => {
            let found = context.program(&stdio.command, stdio.cwd.as_deref());
            let path = found.unwrap_or_else(|| PathBuf::from(&stdio.command));
            path.display().to_string()
        }
        // Show the URL with variables unexpanded, because their values may be secret.
        _ => match spec.masked_entry().as_object().get("url") {
            Some(Value::String(url)) => url.clone(),
            _ => String::new(),
        },
    }
}

fn describe_handshake(server: &ServerDetails) -> String {
    let Some(handshake) = &server.handshake else {
        return String::new();
    };
    let version = handshake.version;
    let version = format!("{version} ({} era)", version.era());
    match &handshake.server_info {
        Some(info) => format!("{version}, {} {}", info.name, info.version),
        None => version,
    }
}
