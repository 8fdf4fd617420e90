//! `get NAME`: starts one server and prints its status, entry, handshake, number of tools, notes
//! and stderr.

use serde_json::{Map, Value};
use switchboard::naming;
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard_config::{MaskedEntry, ServerEntry};

use super::find::{find_server, server_named};
use super::list::symbol;
use super::run_host::{run_with_host, wait_until_started};
use crate::args::GetArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::render::server_text::{quote_indented, quote_message, short_field};
use crate::render::style::Paint;
use crate::render::{Console, format_duration, json, text};
use crate::signals::Signals;

/// The column in which the values start, to the right of their labels.
const VALUE_COLUMN: usize = 16;

/// Maximum columns of the name and of the version that the server declares.
const MAX_NAME_COLUMNS: usize = 200;

/// Maximum number of notes printed.
const MAX_NOTES: usize = 50;

pub(crate) async fn run(
    args: &GetArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entry = find_server(&servers, &context.console, |servers| {
        server_named(servers, &args.name)
    })?;
    let host = context.one_shot_host(&servers, vec![entry.clone()]);
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, &context.console).await;
        // A lazy server is started too. An error is ignored here, because the printed status
        // contains it.
        let _ = host.start_server(entry.name().as_str()).await;
        let server = host
            .server_details(entry.name().as_str())
            .map_err(|error| Failure::internal(error.to_string()))?;
        context
            .console
            .print(&render(entry, &server, &context.console))?;
        Ok(exit_code(entry, server.status.status))
    })
    .await
}

fn exit_code(entry: &ServerEntry, status: ConnectionStatus) -> Exit {
    match status {
        ConnectionStatus::Connected => Exit::Ok,
        ConnectionStatus::NeedsAuth => Exit::LoginNeeded,
        _ if entry.problem().is_some() => Exit::Config,
        _ => Exit::Unavailable,
    }
}

fn render(entry: &ServerEntry, server: &ServerDetails, console: &Console) -> String {
    if console.is_json() {
        let origin = entry.origin();
        let details = server;
        return json::pretty(&json::ServerJson { details, origin });
    }
    let mut view = DetailView::new(console);
    view.heading(server.status.name.as_str());
    describe_status(&mut view, server);
    describe_entry(&mut view, entry);
    describe_handshake(&mut view, server);
    describe_tools(&mut view, server);
    for (at, note) in server.notes.iter().take(MAX_NOTES).enumerate() {
        view.message(if at == 0 { "notes" } else { "" }, note);
    }
    if server.notes.len() > MAX_NOTES {
        let more = server.notes.len() - MAX_NOTES;
        view.field("", &format!("{more} more notes (--json prints all)"));
    }
    view.quoted("stderr", server.stderr.as_deref().unwrap_or_default());
    view.text
}

fn describe_status(view: &mut DetailView<'_>, server: &ServerDetails) {
    let status = server.status.status;
    let (symbol, paint) = symbol(status);
    let took = server
        .connect_time
        .filter(|_| status == ConnectionStatus::Connected);
    let took = took
        .map(|took| format!(" in {}", format_duration(took)))
        .unwrap_or_default();
    view.painted("status", &format!("{symbol} {status}{took}"), paint);
    view.message("reason", server.status.error.as_deref().unwrap_or_default());
    let hint = server.status.detail.as_deref();
    view.painted("", hint.unwrap_or_default(), Paint::Cyan);
}

fn describe_entry(view: &mut DetailView<'_>, entry: &ServerEntry) {
    view.field("scope", entry.scope().as_str());
    view.field("origin", &entry.origin().to_string());
    let masked = entry.masked_entry();
    view.field("command", &text::format_command_line(masked));
    view.field(
        "url",
        masked
            .as_object()
            .get("url")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    );
    for key in ["env", "headers"] {
        view.field(key, &env_or_header_lines(masked, key));
    }
}

/// Renders the members of `env` or `headers` as lines of `name=value`.
pub(super) fn env_or_header_lines(masked: &MaskedEntry, key: &str) -> String {
    let members = masked.as_object().get(key).and_then(Value::as_object);
    let members = members.into_iter().flat_map(Map::iter);
    let lines = members.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn describe_handshake(view: &mut DetailView<'_>, server: &ServerDetails) {
    let Some(handshake) = &server.handshake else {
        return;
    };
    let version = handshake.version;
    view.field("protocol", &format!("{version} ({} era)", version.era()));
    if let Some(info) = &handshake.server_info {
        view.field(
            "server",
            &format!(
                "{} {}",
                short_field(&info.name, MAX_NAME_COLUMNS),
                short_field(&info.version, MAX_NAME_COLUMNS)
            ),
        );
    }
    let capabilities = [
        (handshake.capabilities.tools, "tools"),
        (handshake.capabilities.resources, "resources"),
        (handshake.capabilities.prompts, "prompts"),
        (handshake.capabilities.logging, "logging"),
        (handshake.capabilities.completions, "completions"),
    ];
    let names = capabilities.into_iter().filter(|(declared, _)| *declared);
    view.field(
        "capabilities",
        &names.map(|(_, name)| name).collect::<Vec<_>>().join(", "),
    );
    view.quoted(
        "instructions",
        handshake.instructions.as_deref().unwrap_or_default(),
    );
}

fn describe_tools(view: &mut DetailView<'_>, server: &ServerDetails) {
    if server.status.status == ConnectionStatus::Connected {
        let part = naming::server_part(&server.status.name);
        let tools = server.status.tools.len();
        view.field(
            "tools",
            &format!("{tools}: switchboard tools mcp__{part}__"),
        );
    }
}

/// The output of `get`: labels on the left, values on the right.
struct DetailView<'a> {
    console: &'a Console,
    text: String,
}

impl<'a> DetailView<'a> {
    fn new(console: &'a Console) -> Self {
        let text = String::new();
        Self { console, text }
    }

    fn heading(&mut self, name: &str) {
        self.text
            .push_str(&self.console.style.paint(Paint::Bold, name));
        self.text.push('\n');
    }

    fn field(&mut self, label: &str, value: &str) {
        self.painted(label, value, Paint::Plain);
    }

    /// Adds a label and a message that may contain text of the server.
    fn message(&mut self, label: &str, value: &str) {
        let columns = self.console.prose_columns();
        self.block(
            label,
            &quote_message(value, VALUE_COLUMN, columns),
            Paint::Plain,
        );
    }

    /// Adds a label and text of the server.
    fn quoted(&mut self, label: &str, value: &str) {
        let columns = self.console.prose_columns();
        self.block(
            label,
            &quote_indented(value, VALUE_COLUMN, columns),
            Paint::Plain,
        );
    }

    fn painted(&mut self, label: &str, value: &str, paint: Paint) {
        let block = text::wrap_and_indent(value, VALUE_COLUMN, self.console.prose_columns());
        self.block(label, &block, paint);
    }

    /// Adds a label and its value, unless the value is empty. The value is indented by
    /// [`VALUE_COLUMN`].
    fn block(&mut self, label: &str, block: &str, paint: Paint) {
        let Some(value) = block.get(VALUE_COLUMN..).filter(|value| !value.is_empty()) else {
            return;
        };
        let style = self.console.style;
        let label_columns = VALUE_COLUMN - 2;
        let label = style.paint(Paint::Dim, &format!("{label:label_columns$}"));
        let value = style.paint(paint, value);
        self.text.extend(["  ", &label, &value, "\n"]);
    }
}
