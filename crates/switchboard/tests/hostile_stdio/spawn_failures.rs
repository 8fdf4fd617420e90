//! Commands that cannot be started, or behave unexpectedly when started.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use switchboard_config::ServerConfig;
use switchboard_testkit::scripted_server;

use crate::table::{Case, legacy, text, valid_response};

/// Writes a file with this content and mode, and returns the config entry that runs it.
fn file(folder: &Path, text: &str, mode: u32) -> ServerConfig {
    let path = folder.join("server");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    ServerConfig::stdio(path.to_str().unwrap(), [""; 0])
}

/// Copies the scripted server, sets the setuid bit of the copy, and returns the config entry that
/// runs it.
fn setuid(folder: &Path) -> ServerConfig {
    let path = folder.join("setuid-server");
    std::fs::copy(scripted_server(), &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let script = legacy().on("tools/call work", [valid_response()]);
    ServerConfig::stdio(path.to_str().unwrap(), [script.to_json()])
}

fn long_argument(_: &Path) -> ServerConfig {
    ServerConfig::stdio("true", ["x".repeat(200 * 1024)])
}

fn many_arguments(_: &Path) -> ServerConfig {
    ServerConfig::stdio("true", vec!["x".repeat(1024); 200])
}

cases! {
    s46_missing: "command does not exist" =>
        Case::with_command(|_| ServerConfig::stdio("no-such-command-anywhere", [""; 0]))
            .start_fails("command not found: no-such-command-anywhere");
    s46_missing_file: "absolute path does not exist" =>
        Case::with_command(|folder| ServerConfig::stdio(folder.join("gone").to_str().unwrap(), [""; 0]))
            .start_fails("command not found: ");
    s46_not_executable: "file is not executable" =>
        Case::with_command(|folder| file(folder, "#!/bin/sh\n", 0o644))
            .start_fails("no permission (try: chmod +x");
    s46_directory: "command is a directory" =>
        Case::with_command(|folder| ServerConfig::stdio(folder.to_str().unwrap(), [""; 0]))
            .start_fails("it is a directory");
    s46_setuid: "setuid program" =>
        Case::with_command(setuid)
            .expects(text("right"));
    s46_no_shebang: "script without a shebang line" =>
        Case::with_command(|folder| file(folder, "no-such-command-anywhere\n", 0o755))
            .start_fails("exited with code 127");
    s46_missing_interpreter: "script whose interpreter does not exist" =>
        Case::with_command(|folder| file(folder, "#!/no/such/shell\n", 0o755))
            .start_fails("the program named in its first line is missing");
    s46_empty_file: "empty file" =>
        Case::with_command(|folder| file(folder, "", 0o755))
            .start_fails("exited with code 0");
    s46_invalid_elf: "file that is not a valid program" =>
        Case::with_command(|folder| file(folder, "\u{7f}ELF\0\0\0\0", 0o755))
            .start_fails("exited with code 127");
    s46_argument_of_200_kib: "argument longer than the system allows" =>
        Case::with_command(long_argument)
            .start_fails("true could not be started: Argument list too long");
    s46_arguments_of_200_kib: "200 KiB of arguments, which the system allows" =>
        Case::with_command(many_arguments)
            .start_fails("the server exited with code 0");
}
