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
use crate::always::shelves;
use crate::args::CallArgs;
use crate::arguments::{Given, coerce, parse, parse_object};
use crate::ask::Ask;
use crate::context::{Context, Servers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::{Line, tell};
use crate::render::style::Paint;
use crate::render::{Screen, json, text};
use crate::schema::Schema;
use crate::settings::{self, CALL_LIMIT, why_closed};
use crate::signals::Signals;

/// More than this is no set of arguments: the engine would not send it.
const STDIN_BYTES: u64 = 16 * 1024 * 1024;

pub(crate) async fn run(
    args: CallArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let given = parse(&args.arguments)?;
    let servers = context.load_servers()?;
    let entry = choose(&servers, &context.screen, |servers| {
        server_of_tool(servers, &args.tool)
    })?;
    check_usable(entry, &servers, context)?;
    check_open(&servers)?;
    let given = match given {
        Given::OnStdin => Given::Object(signals.interrupting(read_stdin()).await?),
        given => given,
    };
    let screen = &context.screen;
    let ask = Ask::new(screen, args.yes, shelves(&context.places()));
    let entries = vec![entry.clone()];
    let host = context.host_with(&servers, entries.clone(), ask);
    let is_under_way = AtomicBool::new(false);
    let outcome = on_host(host, signals, context, async |host| {
        settle_tools(host, screen).await;
        let tool = find_tool(host, entry, &args.tool).await?;
        let arguments = fit(given, &Schema::read(&tool.definition.input_schema))?;
        let outcome = make(host, &tool, Value::Object(arguments), screen, &is_under_way).await;
        let output = outcome.map_err(|error| explain(error, &tool, host, context))?;
        show(&output, context)
    })
    .await;
    outcome.map_err(|failure| {
        if is_under_way.load(Ordering::Relaxed) {
            failure.in_mid_call()
        } else {
            failure
        }
    })
}

/// Where the settings cannot be used nothing may be called, and then nothing need be started.
pub(super) fn check_open(servers: &Servers) -> Result<(), Failure> {
    let Some(closed) = servers.settings.closed.first() else {
        return Ok(());
    };
    let why = why_closed(closed);
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
pub(super) fn fit(given: Given, schema: &Schema) -> Result<Map<String, Value>, Failure> {
    match given {
        Given::Object(arguments) => Ok(arguments),
        Given::Pairs(pairs) => coerce(pairs, schema),
        Given::OnStdin => Ok(Map::new()),
    }
}

/// Makes the call, and shows how far it has come once it is on its way.
async fn make(
    host: &Host,
    tool: &CatalogTool,
    arguments: Value,
    screen: &Screen,
    is_under_way: &AtomicBool,
) -> Result<Output, CallError> {
    let mut events = host.events();
    // Both the call and this loop touch it, one after the other; the engine wants it shareable.
    let line = Mutex::new(None);
    let line = || line.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || Line::start(screen, tool.definition.display_name());
    let call = host
        .call(tool.wire_name.as_str(), arguments)
        .context(CallContext::default().origin(CallOrigin::Person))
        .on_progress(|note| {
            tell(screen, &note);
            line().get_or_insert_with(begin).show(&note);
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
        error => how_to_raise(error, context),
    };
    let last_words = match &error {
        CallError::TimedOut { tool, .. } => last_words(host, &tool.server),
        _ => None,
    };
    let failure = Failure::from(error).hint_if_known(hint);
    match last_words {
        Some(words) => failure.adding(&words),
        None => failure,
    }
}

/// What a server that does not answer said last: often it is what it waits for.
fn last_words(host: &Host, server: &ServerName) -> Option<String> {
    let stderr = host.inspect(server.as_str()).ok()?.stderr?;
    (!stderr.is_empty()).then(|| format!("its last words on stderr:\n{stderr}"))
}

/// Which setting raises the limit that stood in the way.
fn how_to_raise(error: &CallError, context: &Context) -> Option<String> {
    let limit = error.limit()?;
    if let CallError::TimedOut { tool, .. } = error
        && context.variable_with_text(CALL_LIMIT).is_some()
    {
        let server = &tool.server;
        return Some(format!(
            "raise {CALL_LIMIT}, or \"timeout\" in the entry of {server} (milliseconds)"
        ));
    }
    let file = context.places().settings_file(Scope::User)?;
    let hint = settings::how_to_raise(limit, &file)?;
    Some(match error {
        CallError::TimedOut { tool, .. } => {
            format!("{hint}, or by \"timeout\" in the entry of {}", tool.server)
        }
        _ => hint,
    })
}

fn show(output: &Output, context: &Context) -> Result<Exit, Failure> {
    let screen = &context.screen;
    let whole = output
        .whole
        .as_ref()
        .map(|handle| context.kept_result(handle));
    if screen.is_json() {
        screen.print(&json::pretty(&json::Answer::new(output, whole)))?;
    } else {
        let text = output.to_text();
        screen.print(&text)?;
        if text.is_empty() {
            screen.say("note: the result is empty");
        }
        for note in &output.notes {
            screen.say(&format!("note: {}", sanitize(note)));
        }
        if let Some(whole) = whole {
            screen.say(&format!(
                "note: the whole result is in {}",
                text::path(&whole)
            ));
        }
    }
    if !output.is_error {
        return Ok(Exit::Ok);
    }
    screen.say(
        &screen
            .side_style
            .paint(Paint::Red, "the tool reports an error"),
    );
    Ok(Exit::AnsweredWithError)
}
