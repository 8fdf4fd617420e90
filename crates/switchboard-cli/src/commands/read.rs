//! `read SERVER URI`: what a resource holds.
//!
//! Only the server that has it is started. Invariant: bytes never reach a terminal, and no file of the
//! user is replaced unless that was asked for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use switchboard::content::{FileType, PresentedPart, PresentedResource, decode_blob, sanitize};
use switchboard::mcp::{ReadResourceResult, ResourceBody};
use switchboard::{AskError, Completing, TemplateError, UriTemplate, reference};

use super::call::check_open;
use super::offers::{beginning, complete, with_server};
use super::{choose, server_named};
use crate::args::ReadArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::text::shell_word;
use crate::render::{json, text};
use crate::signals::Signals;
use crate::tool_arguments::parse_text_pairs;

pub(crate) async fn run(
    args: &ReadArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let wanted = Wanted::read(args, &servers)?;
    let entry = choose(&servers, console, |servers| {
        server_named(servers, wanted.server)
    })?;
    let values = by_name(parse_text_pairs(wanted.values)?);
    let completed = args.complete.as_deref().map(beginning).transpose()?;
    let uri = match &completed {
        Some((key, _)) => {
            check_variable(wanted.uri, key)?;
            Cow::Borrowed(wanted.uri)
        }
        None => address(wanted.uri, &values)?,
    };
    check_open(&servers)?;
    let target = args.output.as_deref().map(|path| context.absolute(path));
    if let Some(path) = &target {
        // Before anything is started; and once more when it is written.
        check_free(path, args.force)?;
    }
    with_server(entry, &servers, context, signals, async |host| {
        let server = entry.name().as_str();
        if let Some((key, start)) = &completed {
            let known = values
                .iter()
                .map(|(key, items)| (key.clone(), items.join(",")));
            let of = Completing::Template(wanted.uri);
            return complete(host, server, of, (key, start), &known.collect(), console).await;
        }
        let line = ProgressLine::start(console, &text::one_line(&uri));
        let result = host.read_resource(server, &uri).await;
        drop(line);
        let result = result.map_err(|error| explain(error, server))?;
        match one_part(&result) {
            Some(part) if target.is_some() || is_for_pipe(context) => {
                let bytes = bytes_of(part)?;
                let (mime_type, lie) = judged(part, &bytes);
                if let Some(lie) = &lie {
                    console.note(&format!("note: {lie}"));
                }
                match target {
                    Some(path) => {
                        write_file(&path, &bytes, args.force)?;
                        tell_written(part, mime_type, path, lie.as_ref(), context)?;
                    }
                    None => print_bytes(&bytes)?,
                }
            }
            _ if target.is_some() => return Err(not_one(&result)),
            _ => show(&host.present_resource(result).await, context)?,
        }
        Ok(Exit::Ok)
    })
    .await
}

/// What was typed.
struct Wanted<'a> {
    server: &'a str,
    uri: &'a str,
    /// For the variables of a template.
    values: &'a [String],
}

impl<'a> Wanted<'a> {
    fn read(args: &'a ReadArgs, servers: &LoadedServers) -> Result<Self, Failure> {
        let is_server = servers.loaded.config.server(&args.server).is_some();
        let joined = args.server.strip_prefix('@').filter(|_| !is_server);
        if let Some(joined) = joined {
            let (server, uri) = reference::split(joined).ok_or_else(|| {
                let message = format!("{:?} is not of the form @server:uri", args.server);
                Failure::usage(message).hint("switchboard resources shows what can be read")
            })?;
            return Ok(Self {
                server,
                uri,
                values: &args.words,
            });
        }
        let (uri, values) = args.words.split_first().ok_or_else(|| {
            let name = shell_word(&args.server);
            Failure::usage("an address is missing").hint(format!(
                "switchboard resources {name} shows what can be read"
            ))
        })?;
        Ok(Self {
            server: &args.server,
            uri,
            values,
        })
    }
}

/// A key that is given more than once is a list.
fn by_name(pairs: Vec<(String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut named = BTreeMap::<_, Vec<_>>::new();
    for (key, value) in pairs {
        named.entry(key).or_default().push(value);
    }
    named
}

/// The address itself, or what becomes of a template.
fn address<'a>(
    uri: &'a str,
    values: &BTreeMap<String, Vec<String>>,
) -> Result<Cow<'a, str>, Failure> {
    let template = match UriTemplate::parse(uri) {
        Ok(template) => template,
        // Whatever it is, it is for the server to judge.
        Err(_) if values.is_empty() => return Ok(Cow::Borrowed(uri)),
        Err(error) => return Err(Failure::usage(error.to_string())),
    };
    if template.variables().is_empty() && values.is_empty() {
        return Ok(Cow::Borrowed(uri));
    }
    let expanded = template.expand(values);
    expanded.map(Cow::Owned).map_err(|error| {
        let kind = match error {
            TemplateError::TooLong => Kind::Usage,
            _ => Kind::InvalidArguments,
        };
        Failure::new(kind, error.to_string()).hint(variables(&template))
    })
}

fn check_variable(uri: &str, name: &str) -> Result<(), Failure> {
    let template = UriTemplate::parse(uri).map_err(|error| Failure::usage(error.to_string()))?;
    let mut variables = template.variables().into_iter();
    if variables.any(|(known, _)| known == name) {
        return Ok(());
    }
    let error = TemplateError::Unknown(name.to_owned());
    Err(Failure::new(Kind::InvalidArguments, error.to_string()).hint(self::variables(&template)))
}

/// What can be filled in.
fn variables(template: &UriTemplate<'_>) -> String {
    let variables = template.variables();
    if variables.is_empty() {
        return "the address has no variables in braces".to_owned();
    }
    let variable = |(name, is_optional): &(&str, bool)| {
        if *is_optional {
            format!("[{name}=…]")
        } else {
            format!("{name}=…")
        }
    };
    let variables: Vec<_> = variables.iter().map(variable).collect();
    format!("the address takes {}", variables.join(" "))
}

fn explain(error: AskError, server: &str) -> Failure {
    let hint = error.is_not_found().then(|| {
        format!(
            "switchboard resources {} shows what can be read",
            shell_word(server)
        )
    });
    Failure::from(error).maybe_hint(hint)
}

/// Whether what is printed goes to a program, which wants it as it is.
fn is_for_pipe(context: &Context) -> bool {
    !context.console.is_json() && !io::stdout().is_terminal()
}

fn one_part(result: &ReadResourceResult) -> Option<&ResourceBody> {
    match result.contents.as_slice() {
        [part] if result.left_out == 0 => Some(part),
        _ => None,
    }
}

fn not_one(result: &ReadResourceResult) -> Failure {
    let parts = result.contents.len() + result.left_out;
    let message = format!("the resource has {parts} parts, and a file holds one");
    Failure::new(Kind::UnusableAnswer, message)
        .hint("without -o they are printed, and bytes are saved")
}

fn bytes_of(part: &ResourceBody) -> Result<Cow<'_, [u8]>, Failure> {
    match (&part.text, &part.blob) {
        (Some(text), _) => Ok(Cow::Borrowed(text.as_bytes())),
        (None, Some(blob)) => decode_blob(blob).map(Cow::Owned).ok_or_else(|| {
            let message = "what the server sent as binary data is not base64";
            Failure::new(Kind::UnusableAnswer, message).hint("tell whoever makes the server")
        }),
        (None, None) => Ok(Cow::Borrowed(&[])),
    }
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Kind::OutputClosed, "nobody reads the result"),
        _ => Failure::internal(format!("cannot write the result: {error}")),
    })
}

fn check_free(path: &Path, is_forced: bool) -> Result<(), Failure> {
    if is_forced || path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(exists(path))
}

fn exists(path: &Path) -> Failure {
    let message = format!("{} exists already", text::path(path));
    Failure::usage(message).hint("name another file, or pass --force to replace it")
}

fn write_file(path: &Path, bytes: &[u8], is_forced: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    if is_forced {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::usage(format!("cannot write {}: {error}", text::path(path)))
            .hint("name another file"),
    })
}

/// What a part is made of, and what was wrong with what its server says of that.
fn judged(part: &ResourceBody, bytes: &[u8]) -> (Option<String>, Option<String>) {
    if part.blob.is_none() {
        return (part.mime_type.clone(), None);
    }
    match FileType::of(bytes, part.mime_type.as_deref()) {
        (file_type, Some(lie)) => {
            let lie = sanitize(&lie).into_owned();
            (Some(file_type.mime_type().to_owned()), Some(lie))
        }
        (_, None) => (part.mime_type.clone(), None),
    }
}

fn tell_written(
    part: &ResourceBody,
    mime_type: Option<String>,
    path: PathBuf,
    lie: Option<&String>,
    context: &Context,
) -> Result<(), Failure> {
    let console = &context.console;
    if !console.is_json() {
        console.note(&format!("written to {}", text::path(&path)));
        return Ok(());
    }
    let mut told = PresentedPart::default();
    told.uri.clone_from(&part.uri);
    told.mime_type = mime_type;
    told.blob_saved_to = Some(path);
    console.print(&json::pretty(&Written {
        contents: &[told],
        notes: lie.map(std::slice::from_ref).unwrap_or_default(),
        whole: None,
    }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    contents: &'a [PresentedPart],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<PathBuf>,
}

fn show(resource: &PresentedResource, context: &Context) -> Result<(), Failure> {
    let console = &context.console;
    let whole = (resource.whole.as_ref()).map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        return console.print(&json::pretty(&Written {
            contents: &resource.contents,
            notes: &resource.notes,
            whole,
        }));
    }
    let parts: Vec<_> = resource.contents.iter().map(render).collect();
    console.print(&parts.join("\n"))?;
    if resource.contents.iter().all(is_empty) {
        console.note("note: the resource is empty");
    }
    for note in &resource.notes {
        console.note(&format!("note: {}", sanitize(note)));
    }
    if let Some(whole) = whole {
        console.note(&format!("note: the whole is in {}", text::path(&whole)));
    }
    Ok(())
}

fn is_empty(part: &PresentedPart) -> bool {
    part.blob_saved_to.is_none() && part.text.as_deref().unwrap_or_default().is_empty()
}

fn render(part: &PresentedPart) -> Cow<'_, str> {
    match &part.blob_saved_to {
        Some(path) => {
            let mime = part.mime_type.as_deref().unwrap_or("of unknown type");
            Cow::Owned(format!("[{mime}, saved to {}]", text::path(path)))
        }
        None => Cow::Borrowed(part.text.as_deref().unwrap_or_default()),
    }
}
