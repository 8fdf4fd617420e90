//! `read SERVER URI`: what a resource holds.
//!
//! Only the server that has it is started. Invariant: bytes never reach a terminal, and no file of the
//! user is replaced unless that was asked for.

mod output;

use std::borrow::Cow;
use std::collections::BTreeMap;

use switchboard::{AskError, Completing, TemplateError, UriTemplate, reference};

use super::call::require_usable_settings;
use super::find::{find_server, server_named};
use super::listing::{beginning, complete, with_server};
use crate::args::ReadArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::text;
use crate::render::text::shell_word;
use crate::signals::Signals;
use crate::tool_arguments::parse_text_pairs;
use output::{
    bytes_of, check_free, is_for_pipe, judged, not_one, one_part, print_bytes, show, tell_written,
    write_file,
};

pub(crate) async fn run(
    args: &ReadArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let wanted = Wanted::read(args, &servers)?;
    let entry = find_server(&servers, console, |servers| {
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
    require_usable_settings(&servers)?;
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
