//! `call TOOL`: one call through the whole pipeline.
//!
//! Only the server that owns the tool is started. What was typed is understood before that, and made
//! to fit the tool's schema after.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use switchboard::content::sanitize;
use switchboard::{CallContext, CallError, CallOrigin, CatalogTool, Denial, Event, Host, Output};
use switchboard_config::{Scope, ServerName};

use super::{check_usable, choose, find_tool, on_host, server_of_tool, settle_tools};
use crate::always_allow::rule_files;
use crate::args::CallArgs;
use crate::context::{Context, LoadedServers};
use crate::engine_settings::{self, CALL_TIMEOUT_VAR, settings_error};
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::PermissionPrompt;
use crate::render::progress::{ProgressLine, log_progress};
use crate::render::style::Paint;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::{ArgumentInput, coerce, parse, parse_object};
use crate::tool_schema::ToolSchema;

/// More than this is no set of arguments: the engine would not send it.
const STDIN_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) async fn run(
    args: CallArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let given = parse(&args.arguments)?;
    let servers = context.load_servers()?;
    let entry = choose(&servers, &context.console, |servers| {
        server_of_tool(servers, &args.tool)
    })?;
    check_usable(entry, &servers, context)?;
    check_open(&servers)?;
    let given = match given {
        ArgumentInput::Stdin => ArgumentInput::Object(signals.until_signal(read_stdin()).await?),
        given => given,
    };
    let console = &context.console;
    let ask = PermissionPrompt::new(console, args.yes, rule_files(&context.places()));
    let entries = vec![entry.clone()];
    let host = context.one_shot_host_with_prompt(&servers, entries.clone(), ask);
    let is_under_way = AtomicBool::new(false);
    let outcome = on_host(host, signals, context, async |host| {
        settle_tools(host, console).await;
        let tool = find_tool(host, entry, &args.tool).await?;
        let arguments = fit(given, &ToolSchema::parse(&tool.definition.input_schema))?;
        let outcome = make(
            host,
            &tool,
            Value::Object(arguments),
            console,
            &is_under_way,
        )
        .await;
        let output = outcome.map_err(|error| explain(error, &tool, host, context))?;
        show(&output, context)
    })
    .await;
    outcome.map_err(|failure| {
        if is_under_way.load(Ordering::Relaxed) {
            failure.during_call()
        } else {
            failure
        }
    })
}

/// Where the settings cannot be used nothing may be called, and then nothing need be started.
pub(super) fn check_open(servers: &LoadedServers) -> Result<(), Failure> {
    let Some(closed) = servers.settings.closed.first() else {
        return Ok(());
    };
    let why = settings_error(closed);
    let origin = closed.problem.origin.as_ref();
    let place = origin.map(|origin| format!(" ({origin})"));
    let message = format!("nothing can be called: {why}{}", place.unwrap_or_default());
    let hint = closed.problem.hint.clone();
    let hint = hint.unwrap_or_else(|| "mend the file, or remove it".to_owned());
    Err(Failure::new(Kind::Denied, message).hint(hint))
}

pub(super) async fn read_stdin() -> Result<Map<String, Value>, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        let stdin = std::io::stdin().lock();
        stdin
            .take(STDIN_BYTES + 1)
            .read_to_string(&mut text)
            .map(|_| text)
    });
    let text = read
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    let text = text.map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))?;
    if text.len() as u64 > STDIN_BYTES {
        return Err(Failure::usage(format!(
            "the arguments on stdin are longer than {STDIN_BYTES} bytes"
        )));
    }
    parse_object(&text)
}

/// Makes of what was given what the tool's schema wants.
pub(super) fn fit(
    given: ArgumentInput,
    schema: &ToolSchema,
) -> Result<Map<String, Value>, Failure> {
    match given {
        ArgumentInput::Object(arguments) => Ok(arguments),
        ArgumentInput::Pairs(pairs) => coerce(pairs, schema),
        ArgumentInput::Stdin => Ok(Map::new()),
    }
}

/// Makes the call, and shows how far it has come once it is on its way.
async fn make(
    host: &Host,
    tool: &CatalogTool,
    arguments: Value,
    console: &Console,
    is_under_way: &AtomicBool,
) -> Result<Output, CallError> {
    let mut events = host.events();
    // Both the call and this loop touch it, one after the other; the engine wants it shareable.
    let line = Mutex::new(None);
    let line = || line.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || ProgressLine::start(console, tool.definition.display_name());
    let call = host
        .call(tool.wire_name.as_str(), arguments)
        .context(CallContext::default().origin(CallOrigin::Person))
        .on_progress(|note| {
            log_progress(console, &note);
            line().get_or_insert_with(begin).set_progress(&note);
        })
        .into_future();
    tokio::pin!(call);
    loop {
        tokio::select! {
            biased;
            outcome = &mut call => return outcome,
            event = events.next() => if let Some(Event::CallStarted { .. }) = event {
                is_under_way.store(true, Ordering::Relaxed);
                line().get_or_insert_with(begin);
            }
        }
    }
}

fn explain(error: CallError, tool: &CatalogTool, host: &Host, context: &Context) -> Failure {
    let hint = match &error {
        CallError::Denied {
            denial: Denial::NobodyToAsk,
            ..
        } => Some(format!("pass --yes, or --allow {}", tool.wire_name)),
        CallError::InvalidArguments { .. } => {
            Some(format!("switchboard describe {}", tool.wire_name))
        }
        error => raise_hint(error, context),
    };
    let last_words = match &error {
        CallError::TimedOut { tool, .. } => last_words(host, &tool.server),
        _ => None,
    };
    let failure = Failure::from(error).maybe_hint(hint);
    match last_words {
        Some(words) => failure.append(&words),
        None => failure,
    }
}

/// What a server that does not answer said last: often it is what it waits for.
fn last_words(host: &Host, server: &ServerName) -> Option<String> {
    let stderr = host.inspect(server.as_str()).ok()?.stderr?;
    (!stderr.is_empty()).then(|| format!("its last words on stderr:\n{stderr}"))
}

/// Which setting raises the limit that stood in the way.
fn raise_hint(error: &CallError, context: &Context) -> Option<String> {
    let limit = error.limit()?;
    if let CallError::TimedOut { tool, .. } = error
        && context.nonempty_variable(CALL_TIMEOUT_VAR).is_some()
    {
        let server = &tool.server;
        return Some(format!(
            "raise {CALL_TIMEOUT_VAR}, or \"timeout\" in the entry of {server} (milliseconds)"
        ));
    }
    let file = context.places().settings_file(Scope::User)?;
    let hint = engine_settings::raise_hint(limit, &file)?;
    Some(match error {
        CallError::TimedOut { tool, .. } => {
            format!("{hint}, or by \"timeout\" in the entry of {}", tool.server)
        }
        _ => hint,
    })
}

fn show(output: &Output, context: &Context) -> Result<Exit, Failure> {
    let console = &context.console;
    let whole = output
        .whole
        .as_ref()
        .map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        console.print(&json::pretty(&json::CallResultJson::new(output, whole)))?;
    } else {
        let text = output.to_text();
        console.print(&text)?;
        if text.is_empty() {
            console.note("note: the result is empty");
        }
        for note in &output.notes {
            console.note(&format!("note: {}", sanitize(note)));
        }
        if let Some(whole) = whole {
            console.note(&format!(
                "note: the whole result is in {}",
                text::path(&whole)
            ));
        }
    }
    if !output.is_error {
        return Ok(Exit::Ok);
    }
    console.note(
        &console
            .stderr_style
            .paint(Paint::Red, "the tool reports an error"),
    );
    Ok(Exit::AnsweredWithError)
}
