//! Hints for failed connection attempts: a change of the config entry or a command to run.
//!
//! Pure functions, chosen by the type of the error and never by its text.

use switchboard_client::connect::ConnectError;
#[cfg(feature = "stdio")]
use switchboard_process::{SearchedIn, SpawnError};

/// The hint for an `sdk` entry whose server the embedding program does not offer.
pub(super) fn unknown_sdk_server(name: &str) -> String {
    format!(
        "an entry of type `sdk` needs a server of the embedding program: \
         HostBuilder::sdk_server({name:?}, …), or Host::register_sdk_server({name:?}, …) and then Host::reconnect"
    )
}

/// The hint for a child that mentions a variable on stderr that it did not get.
pub(super) fn missing_variable(name: &str) -> String {
    format!(
        "it names {name}, which is set but not passed on: add \"env\": {{\"{name}\": \"${{{name}}}\"}} or \
         \"inheritEnv\": [\"{name}\"] to its entry"
    )
}

/// The hint for an error of the connection attempt.
pub(super) fn client_error(error: &ConnectError) -> Option<String> {
    match error {
        #[cfg(feature = "stdio")]
        ConnectError::Spawn(error) => spawn_error(error),
        ConnectError::NeedsLogin(login) => Some(login.hint.clone()),
        ConnectError::Unreachable(failure) => failure.hint.clone(),
        ConnectError::NotStreamable(_) => Some(
            "check the URL; a server of the older HTTP+SSE transport needs \"type\": \"sse\" in its \
             entry"
                .to_owned(),
        ),
        ConnectError::NoHttpTransport(_) => Some(
            "check the URL: it accepts neither streamable HTTP nor HTTP+SSE requests".to_owned(),
        ),
        // The server reported an error, so more time does not help.
        ConnectError::TimedOut { output, .. } if output.mentions_error() => None,
        ConnectError::TimedOut { .. } => Some(
            "if the server starts slowly, raise `startupTimeout` (milliseconds) in its entry"
                .to_owned(),
        ),
        ConnectError::Connector(_)
        | ConnectError::Defective(_)
        | ConnectError::SessionEnded { .. }
        | ConnectError::Rejected(_) => None,
    }
}

#[cfg(feature = "stdio")]
fn spawn_error(error: &SpawnError) -> Option<String> {
    match error {
        SpawnError::NotFound { command, .. } if command.contains(' ') && !command.contains('/') => {
            Some(split_command(command))
        }
        SpawnError::NotFound { command, searched } => Some(match searched {
            SearchedIn::Path => format!(
                "is `{command}` installed and on the PATH? An absolute path in `command` works too"
            ),
            SearchedIn::DefaultPath => {
                "no PATH was passed in: see HostBuilder::environment".to_owned()
            }
            SearchedIn::AbsolutePath => {
                "the file does not exist: correct the path in `command`, or install the program there"
                    .to_owned()
            }
            SearchedIn::Directory(directory) => format!(
                "a relative path starts from the working directory of the server, {}: correct \
                 `command` or `cwd` in its entry, or use an absolute path",
                directory.display()
            ),
        }),
        SpawnError::Changed { .. } => Some("switchboard trust".to_owned()),
        _ => None,
    }
}

/// The hint for a whole command line in the key `command`.
#[cfg(feature = "stdio")]
fn split_command(line: &str) -> String {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let args: Vec<_> = words.map(|word| format!("{word:?}")).collect();
    format!(
        "put the arguments into `args`: \"command\": {program:?}, \"args\": [{}]",
        args.join(", ")
    )
}
