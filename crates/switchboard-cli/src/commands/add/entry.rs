//! Builds a server entry from the command line of `add`, or from the JSON of `add-json`.
//!
//! Does not validate keys or values; the config crate does. Invariant: errors never repeat a value
//! of `-e` or `-H`, which may be a secret.

use serde_json::{Map, Value, json};
use switchboard_config::{EntryError, ServerName};

use crate::args::{AddArgs, Transport};
use crate::failure::Failure;
use switchboard::content::quote_for_shell;

/// A server entry without the values that are still to be read from stdin.
#[derive(Debug)]
pub(super) struct EntryDraft {
    entry: Map<String, Value>,
    /// The values to read from stdin: each has a key (`env` or `headers`) and the name of the
    /// variable or header.
    hidden: Vec<(&'static str, String)>,
    /// Warnings about suspicious command-line words, such as options of `add` after `--`.
    pub(super) warnings: Vec<EntryError>,
}

impl EntryDraft {
    pub(super) fn hidden_names(&self) -> Vec<&str> {
        self.hidden.iter().map(|(_, name)| name.as_str()).collect()
    }

    pub(super) fn into_json(mut self, values: Vec<String>) -> Value {
        for ((key, name), value) in self.hidden.into_iter().zip(values) {
            let members = self.entry.entry(key).or_insert_with(|| json!({}));
            if let Some(members) = members.as_object_mut() {
                members.insert(name, value.into());
            }
        }
        Value::Object(self.entry)
    }
}

pub(super) fn build_entry(args: &AddArgs) -> Result<EntryDraft, Failure> {
    let mut entry = Map::new();
    match (args.url.as_slice(), args.command.split_first()) {
        ([], Some((program, rest))) => {
            check_command(args)?;
            entry.insert("command".to_owned(), json!(program));
            if !rest.is_empty() {
                entry.insert("args".to_owned(), json!(rest));
            }
        }
        ([url], None) if url.contains("://") && !url.contains(char::is_whitespace) => {
            check_url(args)?;
            if let Some(transport) = args.transport {
                entry.insert("type".to_owned(), json!(transport.as_str()));
            }
            entry.insert("url".to_owned(), json!(url));
        }
        (words, Some(_)) => {
            let message = format!("unexpected {} before --", shell_line(words));
            return Err(Failure::usage(message).hint("pass either a URL or `-- COMMAND ARGS`"));
        }
        (words, None) => return Err(not_a_url_error(args, words)),
    }
    let given = pairs(&args.env, '=', "-e", "--env-from-stdin")?;
    insert_pairs(&mut entry, "env", given, &args.env_from_stdin)?;
    let given = pairs(&args.header, ':', "-H", "--header-from-stdin")?;
    insert_pairs(&mut entry, "headers", given, &args.header_from_stdin)?;
    let env = args.env_from_stdin.iter().map(|name| ("env", name.clone()));
    let headers = args.header_from_stdin.iter();
    let headers = headers.map(|name| ("headers", name.clone()));
    Ok(EntryDraft {
        entry,
        hidden: env.chain(headers).collect(),
        warnings: options_in_command(args).into_iter().collect(),
    })
}

/// Returns what is wrong with a URL that the transport would reject when it connects. Never
/// repeats the URL, which may contain a password.
pub(super) fn unusable_url(entry: &Value) -> Option<EntryError> {
    let url = entry.get("url")?.as_str()?;
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    if authority.contains("${") {
        return None;
    }
    if authority.contains('@') {
        let problem = EntryError::new("the URL contains a user name or password");
        return Some(problem.hint("remove it, and send credentials with -H 'NAME: VALUE'"));
    }
    let after_host = authority.rsplit(']').next()?;
    let (_, port) = after_host.rsplit_once(':')?;
    let is_port = port.is_empty() || port.parse::<u16>().is_ok();
    let problem = EntryError::new(format!(
        "the port of the URL is not a number up to {}",
        u16::MAX
    ));
    (!is_port).then(|| problem.hint("correct the port"))
}

/// Warns about headers of an `http://` URL. The host does not send headers unencrypted to another
/// machine.
pub(super) fn plain_http_headers_warning(entry: &Value) -> Option<EntryError> {
    let url = entry.get("url")?.as_str()?;
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?.to_ascii_lowercase();
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next()?,
        None => host.split(':').next()?,
    };
    let is_local = name == "localhost"
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    // A URL whose host contains a variable causes no warning: the variable may expand to this
    // machine.
    let is_unencrypted = scheme.eq_ignore_ascii_case("http") && !is_local && !host.contains("${");
    let has_headers = entry
        .get("headers")
        .is_some_and(|headers| headers != &json!({}));
    (is_unencrypted && has_headers).then(|| {
        EntryError::new("headers are only sent over https:// or to localhost")
            .hint("use https://, or remove the headers")
    })
}

/// Builds the error for words that are neither a URL nor a command after `--`, and suggests what
/// was probably meant.
fn not_a_url_error(args: &AddArgs, words: &[String]) -> Failure {
    let name = quote_for_shell(&args.name);
    let Some((first, rest)) = words.split_first() else {
        return Failure::usage("missing URL or command").hint(format!(
            "switchboard add {name} https://example.com/mcp, or switchboard add {name} -- npx -y some-server"
        ));
    };
    if rest.is_empty() && looks_like_host(first) {
        let is_local = first.starts_with("localhost") || first.starts_with("127.");
        let scheme = if is_local { "http" } else { "https" };
        let message = format!("{first:?} is not a URL: the scheme is missing");
        let url = quote_for_shell(&format!("{scheme}://{first}"));
        return Failure::usage(message).hint(format!("switchboard add {name} {url}"));
    }
    // A single word is not quoted: it may be a whole command line that the user put in quotes.
    let command = match rest {
        [] => first.clone(),
        _ => shell_line(words),
    };
    Failure::usage(format!(
        "{} is not a URL; a command goes after --",
        shell_line(words)
    ))
    .hint(format!("switchboard add {name} -- {command}"))
}

fn looks_like_host(word: &str) -> bool {
    let host = word.split(['/', '?', ':']).next().unwrap_or_default();
    let is_name = !host.is_empty()
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let has_port = word
        .strip_prefix(host)
        .and_then(|rest| rest.strip_prefix(':'))
        .is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()));
    let has_dot = host.contains('.') && !host.starts_with('.');
    is_name
        && (has_port || host == "localhost" || (has_dot && (word.contains('/') || is_domain(host))))
}

/// Tells `example.com` from a file name such as `server.py`.
fn is_domain(host: &str) -> bool {
    let (_, ending) = host.rsplit_once('.').unwrap_or_default();
    let file_endings = [
        "py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "exe", "jar", "bin",
    ];
    !ending.is_empty() && !file_endings.contains(&ending)
}

fn shell_line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| quote_for_shell(word)).collect();
    words.join(" ")
}

fn check_command(args: &AddArgs) -> Result<(), Failure> {
    // Spaces are common in paths, but not in program names that are searched on the PATH.
    if let Some((program, rest)) = args.command.split_first()
        && let Some((first, _)) = program.split_once(char::is_whitespace)
        && !first.contains(['/', '\\'])
    {
        let rest = rest.iter().map(|word| quote_for_shell(word));
        let words: Vec<_> = [program.clone()].into_iter().chain(rest).collect();
        let name = quote_for_shell(&args.name);
        return Err(Failure::usage(format!(
            "{} contains spaces; pass program and arguments as separate words",
            quote_for_shell(program)
        ))
        .hint(format!("switchboard add {name} -- {}", words.join(" "))));
    }
    if !(args.header.is_empty() && args.header_from_stdin.is_empty()) {
        return Err(
            Failure::usage("--header needs a URL; a command takes no headers")
                .hint("set environment variables with -e NAME=VALUE before --"),
        );
    }
    match args.transport {
        None | Some(Transport::Stdio) => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "--transport {} needs a URL, but a command was given",
            other.as_str()
        ))
        .hint("remove --transport")),
    }
}

fn check_url(args: &AddArgs) -> Result<(), Failure> {
    if !(args.env.is_empty() && args.env_from_stdin.is_empty()) {
        return Err(
            Failure::usage("--env needs a command; a URL takes no variables")
                .hint("send headers with -H 'NAME: VALUE'"),
        );
    }
    match args.transport {
        Some(Transport::Stdio) => Err(Failure::usage(
            "--transport stdio needs a command, but a URL was given",
        )
        .hint("remove --transport")),
        _ => Ok(()),
    }
}

/// Splits `NAME=VALUE` or `NAME: VALUE`.
fn pairs(
    typed: &[String],
    separator: char,
    flag: &str,
    hidden: &str,
) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| {
        let parts = text.split_once(separator);
        let parts = parts.filter(|(name, _)| !name.trim().is_empty());
        let (name, value) = parts.ok_or_else(|| {
            let form = if separator == '=' {
                "NAME=VALUE"
            } else {
                "'NAME: VALUE'"
            };
            Failure::usage(format!("invalid value for {flag}: expected {form}")).hint(format!(
                "{flag} {form}, or {hidden} NAME to read a secret value"
            ))
        })?;
        let value = if separator == ':' {
            value.trim()
        } else {
            value
        };
        Ok((name.trim().to_owned(), value.to_owned()))
    };
    typed.iter().map(pair).collect()
}

/// Inserts `given` under `key`. Rejects a name that occurs more than once in `given` and `hidden`
/// together.
fn insert_pairs(
    entry: &mut Map<String, Value>,
    key: &str,
    given: Vec<(String, String)>,
    hidden: &[String],
) -> Result<(), Failure> {
    let names = given.iter().map(|(name, _)| name).chain(hidden);
    let mut names: Vec<_> = names.collect();
    names.sort();
    if let Some([twice, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
        let message = format!("{twice} was given more than once");
        return Err(Failure::usage(message).hint("pass it once"));
    }
    if !given.is_empty() {
        let members = given.into_iter().map(|(name, value)| (name, value.into()));
        entry.insert(key.to_owned(), Value::Object(members.collect()));
    }
    Ok(())
}

/// Warns about options of `add` after `--`, where they become arguments of the command. Does not
/// warn about programs that are known to have options with the same names.
fn options_in_command(args: &AddArgs) -> Option<EntryError> {
    let (program, words) = args.command.split_first()?;
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    if ["docker", "podman", "nerdctl"].contains(&program) {
        return None;
    }
    let is_ours = |pair: &&[String]| match pair {
        [flag, value] => match flag.as_str() {
            "-e" | "--env" => value.contains('='),
            "-s" | "--scope" => ["local", "project", "user"].contains(&value.as_str()),
            "-H" | "--header" => value.contains(':') && program != "mcp-remote" && program != "npx",
            "--env-from-stdin" | "--header-from-stdin" => true,
            _ => false,
        },
        _ => false,
    };
    let [flag, _] = words.windows(2).find(is_ours)? else {
        return None;
    };
    Some(
        EntryError::new(format!(
            "{flag} comes after --, so it is passed to the command"
        ))
        .hint(format!(
            "if {flag} is meant for switchboard, put it before -- and add --force"
        )),
    )
}

/// Parses the JSON of `add-json`. Rejects an object in which the entry is nested under the name of
/// the server or under `mcpServers`.
pub(super) fn parse(name: &ServerName, text: &str) -> Result<Value, Failure> {
    let entry: Value = serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("the entry is not valid JSON: {error}"))
            .hint(r#"put it in single quotes: '{"command": "npx", "args": ["-y", "some-server"]}'"#)
    })?;
    let wrapped = ["mcpServers", name.as_str()]
        .into_iter()
        .find(|key| entry.get(key).is_some_and(Value::is_object));
    if let Some(key) = wrapped.filter(|_| entry.get("command").or(entry.get("url")).is_none()) {
        return Err(Failure::usage(format!("the entry is wrapped in {key:?}"))
            .hint("pass only the server's own object"));
    }
    Ok(entry)
}
