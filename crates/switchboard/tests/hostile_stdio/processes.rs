//! Process behaviour: exits, signals, closed streams, grandchildren, environment, files.

use std::fs::File;

use rustix::io::{FdFlags, fcntl_setfd};
use switchboard_testkit::{Grandchild, Step, count_lines};

use crate::harness::TestHost;
use crate::table::{Case, legacy, not_sent, outcome_unknown, text, timed_out, valid_response};

/// A server that spawns another process at startup.
fn with_grandchild(grandchild: Grandchild) -> Case {
    Case::new(
        legacy()
            .on_start([Step::SpawnChild(grandchild)])
            .on("tools/call work", [valid_response()]),
    )
    .expects(text("right"))
}

/// Opens a file without the close-on-exec flag. No child may inherit it.
fn inheritable_file() -> File {
    let file = tempfile::tempfile().unwrap();
    fcntl_setfd(&file, FdFlags::empty()).unwrap();
    file
}

fn ran_three_times(test_host: &TestHost) {
    assert_eq!(count_lines(test_host.folder().join("ran")), 3);
}

cases! {
    s13_exits_at_once: "exit with code 0 at startup" =>
        Case::on_start([Step::Exit(0)])
            .start_fails("the server exited with code 0");
    s13_fails_at_once: "exit with code 3 and a message on stderr" =>
        Case::on_start([Step::stderr("fatal: no database"), Step::Exit(3)])
            .start_fails("the server exited with code 3; last lines of its stderr:\nfatal: no database");
    s13_killed_at_once: "killed at startup" =>
        Case::on_start([Step::Abort])
            .start_fails("the server was killed by signal 9");

    s14_exits_mid_response: "exit in the middle of a response" =>
        Case::on_work([Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"res"#), Step::Exit(1)])
            .expects(outcome_unknown("the server closed the connection in the middle of a message"))
            .restarts();
    s14_exits_before_line_end: "exit after a complete response without line end" =>
        Case::on_work([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}"#),
            Step::Exit(0),
        ])
            .expects(text("right"))
            .restarts();
    s14_exits_mid_handshake: "exit in the middle of the first message" =>
        Case::on_start([Step::bytes(r#"{"jsonrpc":"2.0","id":1,"res"#), Step::Exit(1)])
            .start_fails("the server closed the connection in the middle of a message");

    s15_crashes_on_third_call: "crash on the third call" =>
        Case::on_work([Step::count("ran"), Step::after(3, [Step::Abort]), valid_response()])
            .expects(text("right"))
            .expects(text("right"))
            .expects(outcome_unknown("the server was killed by signal 9"))
            .restarts()
            .also_checks(ran_three_times);

    s16_ignores_eof_and_sigterm: "ignores EOF on stdin and SIGTERM" =>
        Case::new(legacy()
            .on_start([Step::IgnoreTerm])
            .on_eof([Step::Hang])
            .on("tools/call work", [valid_response()]))
            .expects(text("right"));
    s16_stops_itself: "stops itself (SIGSTOP) during a call" =>
        Case::on_work([Step::StopSelf])
            .call_timeout(300)
            .expects(timed_out())
            .becomes_stuck();

    s17_grandchild: "leaves a process in its process group" =>
        with_grandchild(Grandchild::default());
    s17_grandchild_on_stdout: "leaves a process that holds its stdout open" =>
        with_grandchild(Grandchild { hold_stdout: true, ..Grandchild::default() });
    s17_own_session: "leaves a process in another session" =>
        with_grandchild(Grandchild { setsid: true, ..Grandchild::default() });
    s17_double_fork: "leaves a daemon (double fork)" =>
        with_grandchild(Grandchild { double_fork: true, ..Grandchild::default() });
    s17_exits_while_child_holds_stdout: "exits while its child holds stdout open" =>
        Case::on_work([
            Step::SpawnChild(Grandchild { hold_stdout: true, ..Grandchild::default() }),
            Step::Exit(0),
        ])
            .expects(outcome_unknown("the server exited with code 0"))
            .restarts();

    s19_closes_stdout: "closes stdout during a call and keeps running" =>
        Case::new(legacy()
            .on_eof([Step::Hang])
            .on("tools/call work", [Step::CloseStdout, Step::Hang]))
            .expects(outcome_unknown("the server closed the connection"))
            .restarts();
    s19_closes_stdout_at_once: "closes stdout at startup and keeps running" =>
        Case::new(legacy().on_start([Step::CloseStdout]).on_eof([Step::Hang]))
            .start_fails("the server closed the connection");
    s20_closes_stdin: "closes stdin and answers the pending call" =>
        Case::on_work([Step::CloseStdin, Step::DelayMs(50), valid_response()])
            .expects(text("right"))
            .expects(not_sent("the connection failed"))
            .restarts();
    s20_closes_stdin_and_keeps_writing: "closes stdin, answers nothing and keeps writing" =>
        Case::on_work([
            Step::CloseStdin,
            Step::forever([Step::notify("notifications/message"), Step::DelayMs(20)]),
        ])
            .call_timeout(500)
            .expects(timed_out())
            .restarts();

    s24_prints_environment: "prints its environment to stdout, then the response" =>
        Case::on_work([Step::PrintEnv, valid_response()])
            .has_secret("TOKEN", "hunter2-hunter2")
            .expects(text("right"));
    s24_prints_environment_and_exits: "prints its environment to stdout and exits" =>
        Case::on_start([Step::PrintEnv, Step::Exit(1)])
            .has_secret("TOKEN", "hunter2-hunter2")
            .start_fails("the server exited with code 1");
    s24_host_environment_is_hidden: "looks for the host's secret in its environment" =>
        Case::new(legacy().tool("env"))
            .also_checks(|test_host| assert!(!test_host.last_output("env").contains("HOST_SECRET")))
            .calls("env", text("PATH"));

    s25_inherited_descriptors: "writes to every inherited descriptor above 2" => {
        let file = inheritable_file();
        Case::new(legacy().tool("fds").on("tools/call work", [Step::WriteToInheritedFds, valid_response()]))
            .calls("fds", text(""))
            .expects(text("right"))
            .also_checks(move |test_host| {
                assert_eq!(test_host.last_output("fds"), "");
                assert_eq!(file.metadata().unwrap().len(), 0);
            })
    };

    s26_writes_files: "writes files to its working directory and its home" =>
        Case::on_work([
            Step::WriteFile { path: "dropped".into(), text: "here".to_owned() },
            Step::WriteFile { path: "~/.bashrc".into(), text: "there".to_owned() },
            valid_response(),
        ])
            .expects(text("right"))
            .also_checks(|test_host| {
                let read = |path: &str| std::fs::read_to_string(test_host.folder().join(path)).unwrap();
                assert_eq!([read("dropped"), read("home/.bashrc")], ["here", "there"]);
                assert!(!std::path::Path::new("dropped").exists(), "the child runs in the host's directory");
            });

    s27_fork_bomb: "fork bomb" =>
        Case::on_work([Step::ForkBomb { generations: 5 }, valid_response()])
            .expects(text("right"));
}
