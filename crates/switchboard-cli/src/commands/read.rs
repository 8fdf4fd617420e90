//! `read SERVER URI`: reads a resource and prints or saves it.
//!
//! Starts only the server that has the resource. Invariant: binary content is never written to a
//! terminal, and an existing file is replaced only with `--force`.

mod output;

use std::borrow::Cow;
use std::collections::BTreeMap;

use switchboard::mention;
use switchboard::query::{CompletionTarget, QueryError};
use switchboard::uri_template::{TemplateError, UriTemplate};

use super::call::require_usable_settings;
use super::find::{find_server, server_named};
use super::listing::{complete, parse_partial, run_with_server};
use super::output_file::OutputFile;
use crate::args::ReadArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::text;
use crate::signals::Signals;
use crate::tool_arguments::parse_text_pairs;
use output::{
    has_valid_content, multi_part_error, print_resource, single_part, write_part, writes_to_pipe,
};
use switchboard::content::quote_for_shell;

pub(crate) async fn run(
    args: &ReadArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let target = ReadTarget::read(args, &servers)?;
    let entry = find_server(&servers, console, |servers| {
        server_named(servers, target.server)
    })?;
    let values = group_by_name(parse_text_pairs(target.values)?);
    let completed = args.complete.as_deref().map(parse_partial).transpose()?;
    let uri = match &completed {
        Some((key, _)) => {
            require_variable(target.uri, key)?;
            Cow::Borrowed(target.uri)
        }
        None => expand_uri(target.uri, &values)?,
    };
    require_usable_settings(&servers)?;
    let output_file = args.output.as_deref().map(|path| context.absolute(path));
    let output_file = output_file.map(|path| OutputFile::new(path, args.force));
    let output_file = output_file.transpose()?;
    run_with_server(entry, &servers, context, signals, async |host| {
        let server = entry.name().as_str();
        if let Some((key, start)) = &completed {
            let known = values
                .iter()
                .map(|(key, items)| (key.clone(), items.join(",")));
            let of = CompletionTarget::ResourceTemplate(target.uri);
            return complete(host, server, of, (key, start), &known.collect(), console).await;
        }
        let line = ProgressLine::start(console, &text::one_line(&uri));
        let result = host.read_resource_raw(server, &uri).await;
        drop(line);
        let result = result.map_err(|error| to_failure(error, server))?;
        match single_part(&result) {
            Some(part) if output_file.is_some() || writes_to_pipe(context) => {
                write_part(part, output_file.as_ref(), context)?;
            }
            _ if output_file.is_some() => return Err(multi_part_error(&result)),
            _ => {
                // The exit code is the same as in a pipe.
                let is_valid = result.contents.iter().all(has_valid_content);
                print_resource(&host.render_resource(result).await, context)?;
                if !is_valid {
                    return Ok(Exit::AnsweredWithError);
                }
            }
        }
        Ok(Exit::Ok)
    })
    .await
}

/// The resource on the command line.
struct ReadTarget<'a> {
    server: &'a str,
    uri: &'a str,
    /// `key=value` words for the variables of a URI template.
    values: &'a [String],
}

impl<'a> ReadTarget<'a> {
    fn read(args: &'a ReadArgs, servers: &LoadedServers) -> Result<Self, Failure> {
        let is_server = servers.loaded.config.server(&args.server).is_some();
        let joined = args.server.strip_prefix('@').filter(|_| !is_server);
        if let Some(joined) = joined {
            let (server, uri) = mention::split(joined).ok_or_else(|| {
                let message = format!("invalid reference {:?}: expected @server:uri", args.server);
                Failure::usage(message).hint("run `switchboard resources` to list resources")
            })?;
            return Ok(Self {
                server,
                uri,
                values: &args.words,
            });
        }
        let (uri, values) = args.words.split_first().ok_or_else(|| {
            let word = quote_for_shell(&args.server);
            if args.server.contains("://") {
                return Failure::usage("missing the name of the server before the URI")
                    .hint(format!("switchboard read SERVER {word}"));
            }
            Failure::usage("missing URI").hint(format!(
                "run `switchboard resources {word}` to list its resources"
            ))
        })?;
        Ok(Self {
            server: &args.server,
            uri,
            values,
        })
    }
}

/// Groups the values by name. A name that occurs several times gets a list of values.
fn group_by_name(pairs: Vec<(String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut named = BTreeMap::<_, Vec<_>>::new();
    for (key, value) in pairs {
        named.entry(key).or_default().push(value);
    }
    named
}

/// Expands a URI template, and returns any other URI unchanged.
fn expand_uri<'a>(
    uri: &'a str,
    values: &BTreeMap<String, Vec<String>>,
) -> Result<Cow<'a, str>, Failure> {
    let template = match UriTemplate::parse(uri) {
        Ok(template) => template,
        // The URI is not a template. The server decides whether it is a valid URI.
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
        Failure::new(kind, error.to_string()).hint(list_variables(&template))
    })
}

fn require_variable(uri: &str, name: &str) -> Result<(), Failure> {
    let template = UriTemplate::parse(uri).map_err(|error| Failure::usage(error.to_string()))?;
    let mut variables = template.variables().into_iter();
    if variables.any(|(known, _)| known == name) {
        return Ok(());
    }
    let error = TemplateError::Unknown(name.to_owned());
    Err(Failure::new(Kind::InvalidArguments, error.to_string()).hint(list_variables(&template)))
}

/// Lists the variables of the template for a hint.
fn list_variables(template: &UriTemplate<'_>) -> String {
    let variables = template.variables();
    if variables.is_empty() {
        return "the URI has no template variables".to_owned();
    }
    let variable = |(name, is_optional): &(&str, bool)| {
        if *is_optional {
            format!("[{name}=…]")
        } else {
            format!("{name}=…")
        }
    };
    let variables: Vec<_> = variables.iter().map(variable).collect();
    format!("template variables: {}", variables.join(" "))
}

fn to_failure(error: QueryError, server: &str) -> Failure {
    let hint = error.is_not_found().then(|| {
        format!(
            "run `switchboard resources {}` to list its resources",
            quote_for_shell(server)
        )
    });
    Failure::from(error).maybe_hint(hint)
}
