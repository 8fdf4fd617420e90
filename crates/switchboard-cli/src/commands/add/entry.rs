//! From words on the command line to an entry.

use serde_json::{Map, Value, json};
use switchboard_config::{EntryProblem, ServerName};

use crate::args::{AddArgs, Transport};
use crate::failure::Failure;
use crate::render::text::shell_word;

/// An entry whose hidden values are still missing.
#[derive(Debug)]
pub(super) struct Drawn {
    entry: Map<String, Value>,
    /// Where hidden values go: `env` or `headers`, and the name.
    hidden: Vec<(&'static str, String)>,
    /// What is worth saying about how it was typed.
    pub(super) remarks: Vec<EntryProblem>,
}

impl Drawn {
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

/// The entry that was typed.
pub(super) fn draw(args: &AddArgs) -> Result<Drawn, Failure> {
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
            let message = format!("{} stands before --", shell_line(words));
            return Err(Failure::usage(message)
                .hint("give either a URL, or a command with all of its words behind --"));
        }
        (words, None) => return Err(neither(args, words)),
    }
    let given = pairs(&args.env, '=', "-e", "--env-from-stdin")?;
    put(&mut entry, "env", given, &args.env_from_stdin)?;
    let given = pairs(&args.header, ':', "-H", "--header-from-stdin")?;
    put(&mut entry, "headers", given, &args.header_from_stdin)?;
    let env = args.env_from_stdin.iter().map(|name| ("env", name.clone()));
    let headers = args.header_from_stdin.iter();
    let headers = headers.map(|name| ("headers", name.clone()));
    Ok(Drawn {
        entry,
        hidden: env.chain(headers).collect(),
        remarks: options_in_command(args).into_iter().collect(),
    })
}

/// Headers that would never be sent: anybody on the way could read them.
pub(super) fn in_plain_sight(entry: &Value) -> Option<EntryProblem> {
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
    // One that is filled in later may be anything.
    let is_open = scheme.eq_ignore_ascii_case("http") && !is_local && !host.contains("${");
    let has_headers = entry
        .get("headers")
        .is_some_and(|headers| headers != &json!({}));
    (is_open && has_headers).then(|| {
        EntryProblem::new("headers are not sent over plain http:// to another machine")
            .hint("use https://, or give no headers")
    })
}

/// What was typed is neither a URL nor behind `--`. What it most likely is?
fn neither(args: &AddArgs, words: &[String]) -> Failure {
    let name = shell_word(&args.name);
    let Some((first, rest)) = words.split_first() else {
        return Failure::usage("neither a URL nor a command is given").hint(format!(
            "switchboard add {name} https://example.com/mcp, or switchboard add {name} -- npx -y some-server"
        ));
    };
    if rest.is_empty() && looks_like_host(first) {
        let is_here = first.starts_with("localhost") || first.starts_with("127.");
        let scheme = if is_here { "http" } else { "https" };
        let message = format!("{first:?} is not a URL: it does not say how to get there");
        let url = shell_word(&format!("{scheme}://{first}"));
        return Failure::usage(message).hint(format!("switchboard add {name} {url}"));
    }
    // One word that holds blanks was meant as several.
    let command = match rest {
        [] => first.clone(),
        _ => shell_line(words),
    };
    Failure::usage(format!(
        "{} is not a URL; a command stands behind --",
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

/// `example.com` is one, `server.py` is not.
fn is_domain(host: &str) -> bool {
    let (_, end) = host.rsplit_once('.').unwrap_or_default();
    let is_script = [
        "py", "js", "mjs", "cjs", "ts", "sh", "rb", "pl", "exe", "jar", "bin",
    ];
    !end.is_empty() && !is_script.contains(&end)
}

fn shell_line(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

fn check_command(args: &AddArgs) -> Result<(), Failure> {
    // A path may hold blanks; what is looked for on the PATH does not.
    if let Some((program, rest)) = args.command.split_first()
        && let Some((first, _)) = program.split_once(char::is_whitespace)
        && !first.contains(['/', '\\'])
    {
        let rest = rest.iter().map(|word| shell_word(word));
        let words: Vec<_> = [program.clone()].into_iter().chain(rest).collect();
        let name = shell_word(&args.name);
        return Err(Failure::usage(format!(
            "{} is one word, and no program is called that",
            shell_word(program)
        ))
        .hint(format!(
            "write the words apart: switchboard add {name} -- {}",
            words.join(" ")
        )));
    }
    if !(args.header.is_empty() && args.header_from_stdin.is_empty()) {
        return Err(Failure::usage("a command is sent no headers")
            .hint("set variables for it with -e NAME=VALUE, before --"));
    }
    match args.transport {
        None | Some(Transport::Stdio) => Ok(()),
        Some(other) => Err(Failure::usage(format!(
            "--transport {} needs a URL, and a command is given",
            other.as_str()
        ))
        .hint("leave --transport out")),
    }
}

fn check_url(args: &AddArgs) -> Result<(), Failure> {
    if !(args.env.is_empty() && args.env_from_stdin.is_empty()) {
        return Err(Failure::usage("a URL is given no variables")
            .hint("send headers with -H 'NAME: VALUE'"));
    }
    match args.transport {
        Some(Transport::Stdio) => Err(Failure::usage(
            "--transport stdio needs a command, and a URL is given",
        )
        .hint("leave --transport out")),
        _ => Ok(()),
    }
}

/// Splits `NAME=VALUE` or `NAME: VALUE`. What was typed is not repeated: it may be a secret.
fn pairs(
    typed: &[String],
    mark: char,
    flag: &str,
    hidden: &str,
) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| {
        let parts = text.split_once(mark);
        let parts = parts.filter(|(name, _)| !name.trim().is_empty());
        let (name, value) = parts.ok_or_else(|| {
            let form = if mark == '=' {
                "NAME=VALUE"
            } else {
                "'NAME: VALUE'"
            };
            Failure::usage(format!("what follows {flag} is not {form}")).hint(format!(
                "{flag} {form}, or {hidden} NAME for what nobody should see"
            ))
        })?;
        let value = if mark == ':' { value.trim() } else { value };
        Ok((name.trim().to_owned(), value.to_owned()))
    };
    typed.iter().map(pair).collect()
}

fn put(
    entry: &mut Map<String, Value>,
    key: &str,
    given: Vec<(String, String)>,
    hidden: &[String],
) -> Result<(), Failure> {
    let names = given.iter().map(|(name, _)| name).chain(hidden);
    let mut names: Vec<_> = names.collect();
    names.sort();
    if let Some([twice, _]) = names.windows(2).find(|pair| pair.first() == pair.last()) {
        return Err(Failure::usage(format!("{twice} is given twice")).hint("give it once"));
    }
    if !given.is_empty() {
        let members = given.into_iter().map(|(name, value)| (name, value.into()));
        entry.insert(key.to_owned(), Value::Object(members.collect()));
    }
    Ok(())
}

/// Options of ours that ended up in the command. Some commands have such options themselves.
fn options_in_command(args: &AddArgs) -> Option<EntryProblem> {
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
        EntryProblem::new(format!(
            "{flag} stands behind --, so the command gets it as an argument"
        ))
        .hint(format!(
            "if it was meant for switchboard, put {flag} before -- and add --force"
        )),
    )
}

/// The entry that a text holds.
pub(super) fn parse(name: &ServerName, text: &str) -> Result<Value, Failure> {
    let entry: Value = serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!("the entry is not valid JSON: {error}"))
            .hint(r#"put it in single quotes: '{"command": "npx", "args": ["-y", "some-server"]}'"#)
    })?;
    let wrapped = ["mcpServers", name.as_str()]
        .into_iter()
        .find(|key| entry.get(key).is_some_and(Value::is_object));
    if let Some(key) = wrapped.filter(|_| entry.get("command").or(entry.get("url")).is_none()) {
        return Err(
            Failure::usage(format!("the entry stands inside of {key:?}"))
                .hint("give only what stands behind the server's name"),
        );
    }
    Ok(entry)
}
