//! `call TOOL`: calls one tool and prints the result.
//!
//! Starts only the server that owns the tool. Arguments are parsed before the server is started, so
//! that syntax errors are reported immediately. The arguments are coerced to the tool's schema
//! after the start, when the schema is known.

mod saved_result;

use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard::call::CallOrigin;
use switchboard::catalog::CatalogTool;
use switchboard::permission::Denial;
use switchboard::{CallContext, CallError, Event, Host, Output};
use switchboard_config::{Scope, ServerName, nearest};

use super::find::{find_named_tool, find_tool, require_launchable};
use super::output_file::OutputFile;
use super::run_host::{LazyServers, run_with_host, start_servers};
use crate::always_allow::own_settings_files;
use crate::args::CallArgs;
use crate::context::{Context, LoadedServers};
use crate::engine_settings::{self, CALL_TIMEOUT_VAR, settings_error};
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::PermissionPrompt;
use crate::render::progress::{ProgressLine, log_progress};
use crate::render::server_text::quote_message;
use crate::render::style::Paint;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::{ArgumentInput, coerce, parse, parse_object};
use crate::tool_schema::ToolSchema;

/// Maximum bytes of the arguments on stdin.
const MAX_STDIN_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum number of unknown arguments that an error names.
const MAX_UNKNOWN_ARGUMENTS: usize = 5;

pub(crate) async fn run(
    args: CallArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let (named, words) = find_named_tool(&servers, &context.console, &args.tool, &args.arguments)?;
    let entry = named.entry;
    let input = parse(words)?;
    let file = args.output.as_deref().map(|path| context.absolute(path));
    let file = file.map(|path| OutputFile::new(path, args.force));
    let file = file.transpose()?;
    require_launchable(entry, &servers, context)?;
    require_usable_settings(&servers)?;
    let input = match input {
        ArgumentInput::Stdin => ArgumentInput::Object(signals.until_signal(read_stdin()).await?),
        input => input,
    };
    let console = &context.console;
    let ask = PermissionPrompt::new(
        console,
        args.yes,
        own_settings_files(&context.scope_paths()),
    );
    let entries = vec![entry.clone()];
    let host = context.one_shot_host_with_prompt(&servers, entries.clone(), ask);
    let in_flight = AtomicBool::new(false);
    let outcome = run_with_host(host, signals, context, async |host| {
        start_servers(host, console, LazyServers::Unlisted).await;
        let tool = find_tool(host, &named).await?;
        let arguments = coerce_arguments(input, &ToolSchema::parse(&tool.definition.input_schema))?;
        let given: Vec<String> = arguments.keys().cloned().collect();
        let call = PreparedCall {
            tool: &tool,
            arguments: Value::Object(arguments),
            timeout: args.timeout,
        };
        let outcome = run_call(host, call, console, &in_flight).await;
        let output = outcome.map_err(|error| {
            let unknown = describe_unknown_arguments(&error, &given, &tool);
            let failure = to_failure(error, &tool, host, context);
            let failure = match unknown {
                Some(unknown) => failure.append(&unknown),
                None => failure,
            };
            match args.timeout {
                Some(_) if failure.parts().kind == Kind::TimedOut => {
                    failure.hint("raise --timeout")
                }
                _ => failure,
            }
        })?;
        match file {
            Some(file) if !output.is_error => save_output(&output, &file, context),
            _ => print_output(&output, None, context),
        }
    })
    .await;
    // If a signal arrives after the request was sent, the error says that the tool may have run.
    outcome.map_err(|failure| {
        if in_flight.load(Ordering::Relaxed) {
            failure.during_call()
        } else {
            failure
        }
    })
}

/// Returns an error if an invalid settings file blocks all calls. `call`, `prompt`, `read` and
/// `watch` check this first, so that no server is started for a request that will be denied.
pub(super) fn require_usable_settings(servers: &LoadedServers) -> Result<(), Failure> {
    let Some(blocking) = servers.settings.blocking_errors.first() else {
        return Ok(());
    };
    let reason = settings_error(blocking);
    let origin = blocking.problem.origin.as_ref();
    let place = origin.map(|origin| format!(" ({origin})"));
    let message = format!(
        "all calls are blocked: {reason}{}",
        place.unwrap_or_default()
    );
    let hint = blocking.problem.hint.clone();
    let hint = hint.unwrap_or_else(|| "fix or delete the file".to_owned());
    Err(Failure::new(Kind::Denied, message).hint(hint))
}

pub(super) async fn read_stdin() -> Result<Map<String, Value>, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        let stdin = std::io::stdin().lock();
        stdin
            .take(MAX_STDIN_BYTES + 1)
            .read_to_string(&mut text)
            .map(|_| text)
    });
    let text = read
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    let text = text.map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))?;
    if text.len() as u64 > MAX_STDIN_BYTES {
        return Err(Failure::usage(format!(
            "arguments on stdin exceed {MAX_STDIN_BYTES} bytes"
        )));
    }
    parse_object(&text)
}

/// Converts `key=value` pairs to the types of the tool's schema. Arguments given as one JSON object
/// are not converted.
pub(super) fn coerce_arguments(
    input: ArgumentInput,
    schema: &ToolSchema,
) -> Result<Map<String, Value>, Failure> {
    match input {
        ArgumentInput::Object(arguments) => Ok(arguments),
        ArgumentInput::Pairs(pairs) => coerce(pairs, schema),
        ArgumentInput::Stdin => Ok(Map::new()),
    }
}

/// A call that is ready to be sent.
struct PreparedCall<'a> {
    tool: &'a CatalogTool,
    arguments: Value,
    /// The value of `--timeout`.
    timeout: Option<Duration>,
}

/// Calls the tool and shows its progress. Sets `in_flight` when the request was sent.
async fn run_call(
    host: &Host,
    call: PreparedCall<'_>,
    console: &Console,
    in_flight: &AtomicBool,
) -> Result<Output, CallError> {
    let PreparedCall {
        tool,
        arguments,
        timeout,
    } = call;
    let origin = CallContext::default().origin(CallOrigin::User);
    let call_context = match timeout {
        Some(timeout) => origin.timeout(timeout),
        None => origin,
    };
    let mut events = host.events();
    // A `Mutex`, because the progress callback has to be `Sync`. The lock is never contended: the
    // call and the loop below run in one task.
    let line = Mutex::new(None);
    let line = || line.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || ProgressLine::start(console, tool.definition.display_name());
    let call = host
        .call(tool.wire_name.as_str(), arguments)
        .context(call_context)
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
                in_flight.store(true, Ordering::Relaxed);
                line().get_or_insert_with(begin);
            }
        }
    }
}

fn to_failure(error: CallError, tool: &CatalogTool, host: &Host, context: &Context) -> Failure {
    let hint = match &error {
        CallError::Denied {
            denial: Denial::NoInteraction,
            ..
        } => Some(format!("pass --yes, or --allow {}", tool.wire_name)),
        CallError::InvalidArguments { .. } => {
            Some(format!("switchboard describe {}", tool.wire_name))
        }
        error => limit_hint(error, context),
    };
    let stderr_tail = match &error {
        CallError::TimedOut { tool, .. } => stderr_tail(host, &tool.server),
        _ => None,
    };
    let failure = Failure::from(error).maybe_hint(hint);
    match stderr_tail {
        Some(words) => failure.append(&words),
        None => failure,
    }
}

/// Names the given arguments that the tool does not have. They are often the reason why another
/// argument is missing.
fn describe_unknown_arguments(
    error: &CallError,
    given: &[String],
    tool: &CatalogTool,
) -> Option<String> {
    if !matches!(error, CallError::InvalidArguments { .. }) {
        return None;
    }
    let schema = ToolSchema::parse(&tool.definition.input_schema);
    let parameters = schema.parameters();
    let known: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
    let unknown = given.iter().filter(|name| !known.contains(&name.as_str()));
    let unknown: Vec<_> = unknown
        .take(MAX_UNKNOWN_ARGUMENTS)
        .map(|name| match nearest(name, &known) {
            Some(nearest) => format!("`{name}` (did you mean `{}`?)", text::one_line(nearest)),
            None => format!("`{name}`"),
        })
        .collect();
    (!unknown.is_empty()).then(|| format!("the tool has no argument {}", unknown.join(", ")))
}

/// Returns the end of the server's stderr, which often shows why a call timed out.
fn stderr_tail(host: &Host, server: &ServerName) -> Option<String> {
    let stderr = host.server_details(server.as_str()).ok()?.stderr?;
    (!stderr.is_empty()).then(|| format!("last lines on stderr:\n{stderr}"))
}

/// Names the setting that raises the limit or deadline which the call exceeded. `None` for other
/// errors.
fn limit_hint(error: &CallError, context: &Context) -> Option<String> {
    let limit = error.limit()?;
    if let CallError::TimedOut { tool, .. } = error
        && context.nonempty_variable(CALL_TIMEOUT_VAR).is_some()
    {
        let server = &tool.server;
        return Some(format!(
            "raise {CALL_TIMEOUT_VAR}, or \"timeout\" in the entry of {server} (milliseconds)"
        ));
    }
    let file = context.scope_paths().settings_file(Scope::User)?;
    let hint = engine_settings::raise_hint(limit, &file)?;
    Some(match error {
        CallError::TimedOut { tool, .. } => {
            format!("{hint}, or \"timeout\" in the entry of {}", tool.server)
        }
        _ => hint,
    })
}

/// Saves the result to the file and prints what is not saved.
fn save_output(output: &Output, file: &OutputFile, context: &Context) -> Result<Exit, Failure> {
    match saved_result::save(output, file) {
        Ok(rest) => {
            let exit = print_output(&rest, Some(&file.path), context)?;
            if !context.console.is_json() {
                let path = text::path_on_one_line(&file.path);
                context.console.note(&format!("saved to {path}"));
            }
            Ok(exit)
        }
        Err(failure) => {
            // The tool has run, so the result is printed. With `--json` the error is the output.
            if !context.console.is_json() {
                print_output(output, None, context)?;
            }
            Err(failure)
        }
    }
}

/// Prints the result. `saved_to` is the file to which a part of it was saved.
fn print_output(
    output: &Output,
    saved_to: Option<&Path>,
    context: &Context,
) -> Result<Exit, Failure> {
    let console = &context.console;
    let full_result_file = output
        .stored
        .as_ref()
        .map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        console.print(&json::pretty(&json::CallResultJson::new(
            output,
            full_result_file,
            saved_to,
        )))?;
    } else {
        let text = output.to_text();
        console.print_content(&text)?;
        if text.is_empty() && saved_to.is_none() {
            console.note("note: the result is empty");
        }
        for note in &output.notes {
            console.note(&quote_message(
                &format!("note: {note}"),
                0,
                console.stderr_columns,
            ));
        }
        if let Some(file) = full_result_file {
            console.note(&format!(
                "note: full result saved to {}",
                text::path_on_one_line(&file)
            ));
        }
    }
    if !output.is_error {
        return Ok(Exit::Ok);
    }
    let message = "the tool returned an error";
    console.note(&console.stderr_style.paint(Paint::Red, message));
    Ok(Exit::AnsweredWithError)
}
