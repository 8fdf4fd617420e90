//! `get NAME`: everything there is to know of one server.

use serde_json::{Map, Value};
use switchboard::content::for_terminal;
use switchboard::naming;
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard_config::{ServerEntry, WrittenEntry};

use super::find::{find_server, server_named};
use super::list::symbol;
use super::run_host::{run_with_host, wait_until_started};
use crate::args::GetArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::{Console, format_duration, json, text};
use crate::signals::Signals;

/// How far values stand in.
const INDENT: usize = 16;

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
        // Whoever looks into a server wants to see it alive; what comes of it is in the status.
        let _ = host.wake(entry.name().as_str()).await;
        let server = host
            .server_details(entry.name().as_str())
            .map_err(|error| Failure::internal(error.to_string()))?;
        context
            .console
            .print(&render(entry, &server, &context.console))?;
        Ok(exit(entry, server.status.status))
    })
    .await
}

fn exit(entry: &ServerEntry, status: ConnectionStatus) -> Exit {
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
        let inspection = server;
        return json::pretty(&json::ServerJson { inspection, origin });
    }
    let mut page = Page::new(console);
    page.heading(server.status.name.as_str());
    describe_status(&mut page, server);
    describe_entry(&mut page, entry);
    describe_hello(&mut page, server);
    describe_tools(&mut page, server);
    page.field("notes", &server.notes.join("\n"));
    page.field("stderr", server.stderr.as_deref().unwrap_or_default());
    page.text
}

fn describe_status(page: &mut Page<'_>, server: &ServerDetails) {
    let status = server.status.status;
    let (symbol, paint) = symbol(status);
    let took = server
        .connect_time
        .filter(|_| status == ConnectionStatus::Connected);
    let took = took
        .map(|took| format!(" in {}", format_duration(took)))
        .unwrap_or_default();
    page.painted("status", &format!("{symbol} {status}{took}"), paint);
    page.field("reason", server.status.error.as_deref().unwrap_or_default());
    let hint = server.status.detail.as_deref();
    page.painted("", hint.unwrap_or_default(), Paint::Cyan);
}

fn describe_entry(page: &mut Page<'_>, entry: &ServerEntry) {
    page.field("scope", entry.scope().as_str());
    page.field("origin", &entry.origin().to_string());
    let written = entry.written();
    page.field("command", &text::command_line(written));
    page.field(
        "url",
        written
            .as_object()
            .get("url")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    );
    for key in ["env", "headers"] {
        page.field(key, &members(written, key));
    }
}

pub(super) fn members(written: &WrittenEntry, key: &str) -> String {
    let members = written.as_object().get(key).and_then(Value::as_object);
    let members = members.into_iter().flat_map(Map::iter);
    let members = members.map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    members.collect::<Vec<_>>().join("\n")
}

fn describe_hello(page: &mut Page<'_>, server: &ServerDetails) {
    let Some(hello) = &server.hello else { return };
    let version = hello.version;
    page.field("protocol", &format!("{version} ({} era)", version.era()));
    if let Some(info) = &hello.server_info {
        page.field(
            "server",
            &format!(
                "{} {}",
                for_terminal(&info.name),
                for_terminal(&info.version)
            ),
        );
    }
    let offers = [
        (hello.capabilities.tools, "tools"),
        (hello.capabilities.resources, "resources"),
        (hello.capabilities.prompts, "prompts"),
        (hello.capabilities.logging, "logging"),
        (hello.capabilities.completions, "completions"),
    ];
    let offers = offers.into_iter().filter(|(offered, _)| *offered);
    page.field(
        "offers",
        &offers.map(|(_, name)| name).collect::<Vec<_>>().join(", "),
    );
    page.field(
        "instructions",
        hello.instructions.as_deref().unwrap_or_default(),
    );
}

fn describe_tools(page: &mut Page<'_>, server: &ServerDetails) {
    if server.status.status == ConnectionStatus::Connected {
        let part = naming::server_part(&server.status.name);
        let tools = server.status.tools.len();
        page.field(
            "tools",
            &format!("{tools}: switchboard tools mcp__{part}__"),
        );
    }
}

/// Labels on the left, values on the right.
struct Page<'a> {
    console: &'a Console,
    text: String,
}

impl<'a> Page<'a> {
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

    /// Nothing is shown of an empty value.
    fn painted(&mut self, label: &str, value: &str, paint: Paint) {
        let block = text::block(value, INDENT, self.console.prose_columns());
        let Some(value) = block.get(INDENT..).filter(|value| !value.is_empty()) else {
            return;
        };
        let style = self.console.style;
        let room = INDENT - 2;
        let label = style.paint(Paint::Dim, &format!("{label:room$}"));
        let value = style.paint(paint, value);
        self.text.extend(["  ", &label, &value, "\n"]);
    }
}
