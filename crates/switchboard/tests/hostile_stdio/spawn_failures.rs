//! Commands that cannot be started, or should not be.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use switchboard_config::ServerConfig;
use switchboard_testkit::scripted_server;

use crate::table::{Row, legacy, right, text};

/// Makes a file with this text and these permissions, and the entry that starts it.
fn file(folder: &Path, text: &str, mode: u32) -> ServerConfig {
    let path = folder.join("server");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    ServerConfig::stdio(path.to_str().unwrap(), [""; 0])
}

/// A copy of the scripted server that changes its user when it is started.
fn setuid(folder: &Path) -> ServerConfig {
    let path = folder.join("setuid-server");
    std::fs::copy(scripted_server(), &path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let script = legacy().on("tools/call work", [right()]);
    ServerConfig::stdio(path.to_str().unwrap(), [script.to_json()])
}

fn long_argument(_: &Path) -> ServerConfig {
    ServerConfig::stdio("true", ["x".repeat(200 * 1024)])
}

fn many_arguments(_: &Path) -> ServerConfig {
    ServerConfig::stdio("true", vec!["x".repeat(1024); 200])
}

rows! {
    s46_missing: "is not there" =>
        Row::made(|_| ServerConfig::stdio("no-such-command-anywhere", [""; 0]))
            .does_not_start("command not found: no-such-command-anywhere");
    s46_missing_file: "is not there, by its whole path" =>
        Row::made(|folder| ServerConfig::stdio(folder.join("gone").to_str().unwrap(), [""; 0]))
            .does_not_start("command not found: ");
    s46_not_executable: "is a file that may not be executed" =>
        Row::made(|folder| file(folder, "#!/bin/sh\n", 0o644))
            .does_not_start("no permission (try: chmod +x");
    s46_directory: "is a directory" =>
        Row::made(|folder| ServerConfig::stdio(folder.to_str().unwrap(), [""; 0]))
            .does_not_start("it is a directory");
    s46_setuid: "changes its user when it is started" =>
        Row::made(setuid)
            .sees(text("right"));
    s46_no_first_line: "is a script that does not say which program reads it" =>
        Row::made(|folder| file(folder, "no-such-command-anywhere\n", 0o755))
            .does_not_start("exited with code 127");
    s46_wrong_first_line: "is a script for a program that is not there" =>
        Row::made(|folder| file(folder, "#!/no/such/shell\n", 0o755))
            .does_not_start("the program named in its first line is missing");
    s46_empty_file: "is an empty file" =>
        Row::made(|folder| file(folder, "", 0o755))
            .does_not_start("exited with code 0");
    s46_no_program: "is a file of bytes that are no program" =>
        Row::made(|folder| file(folder, "\u{7f}ELF\0\0\0\0", 0o755))
            .does_not_start("exited with code 127");
    s46_argument_of_200_kib: "is given an argument that no system takes" =>
        Row::made(long_argument)
            .does_not_start("true could not be started: Argument list too long");
    s46_arguments_of_200_kib: "is given 200 KiB of arguments, which is a lot but allowed" =>
        Row::made(many_arguments)
            .does_not_start("the server exited with code 0");
}
