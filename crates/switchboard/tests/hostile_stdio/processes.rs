//! What the child does with itself: its end, its streams, its children, its surroundings.

use std::fs::File;

use rustix::io::{FdFlags, fcntl_setfd};
use switchboard_testkit::{Grandchild, Step, count_lines};

use crate::harness::Scene;
use crate::table::{Row, legacy, not_sent, right, text, timed_out, unknown};

/// A server that starts another process before it serves.
fn with_grandchild(grandchild: Grandchild) -> Row {
    Row::of(
        legacy()
            .on_start([Step::SpawnChild(grandchild)])
            .on("tools/call work", [right()]),
    )
    .sees(text("right"))
}

/// A file of the host that is not closed by itself when a program is started.
fn inheritable_file() -> File {
    let file = tempfile::tempfile().unwrap();
    fcntl_setfd(&file, FdFlags::empty()).unwrap();
    file
}

fn ran_three_times(scene: &Scene) {
    assert_eq!(count_lines(scene.folder().join("ran")), 3);
}

rows! {
    s13_exits_at_once: "exits with 0 before it says anything" =>
        Row::starting([Step::Exit(0)])
            .does_not_start("the server exited with code 0");
    s13_fails_at_once: "exits with 3 and says why on stderr" =>
        Row::starting([Step::stderr("fatal: no database"), Step::Exit(3)])
            .does_not_start("the server exited with code 3; its last words on stderr:\nfatal: no database");
    s13_killed_at_once: "is killed before it says anything" =>
        Row::starting([Step::Abort])
            .does_not_start("the server was killed by signal 9");

    s14_exits_in_mid_answer: "exits in the middle of an answer" =>
        Row::working([Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"res"#), Step::Exit(1)])
            .sees(unknown("the server closed the connection in the middle of a message"))
            .comes_back();
    s14_exits_before_the_line_end: "exits with a whole answer and no line end" =>
        Row::working([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}"#),
            Step::Exit(0),
        ])
            .sees(text("right"))
            .comes_back();
    s14_exits_in_mid_handshake: "exits in the middle of its first message" =>
        Row::starting([Step::bytes(r#"{"jsonrpc":"2.0","id":1,"res"#), Step::Exit(1)])
            .does_not_start("the server closed the connection in the middle of a message");

    s15_crashes_on_the_third_call: "crashes on the third call" =>
        Row::working([Step::count("ran"), Step::after(3, [Step::Abort]), right()])
            .sees(text("right"))
            .sees(text("right"))
            .sees(unknown("the server was killed by signal 9"))
            .comes_back()
            .holds(ran_three_times);

    s16_stubborn: "ignores the end of its input and SIGTERM" =>
        Row::of(legacy()
            .on_start([Step::IgnoreTerm])
            .on_eof([Step::Hang])
            .on("tools/call work", [right()]))
            .sees(text("right"));
    s16_stopped: "stops itself in the middle of a call" =>
        Row::working([Step::StopSelf])
            .call_timeout(300)
            .sees(timed_out())
            .gets_stuck();

    s17_grandchild: "leaves a process in its group" =>
        with_grandchild(Grandchild::default());
    s17_grandchild_on_stdout: "leaves a process that holds its stdout open" =>
        with_grandchild(Grandchild { hold_stdout: true, ..Grandchild::default() });
    s17_own_session: "leaves a process in a session of its own" =>
        with_grandchild(Grandchild { setsid: true, ..Grandchild::default() });
    s17_double_fork: "leaves a daemon without a parent" =>
        with_grandchild(Grandchild { double_fork: true, ..Grandchild::default() });
    s17_exits_and_leaves_a_child_on_stdout: "exits while a child of its own holds stdout open" =>
        Row::working([
            Step::SpawnChild(Grandchild { hold_stdout: true, ..Grandchild::default() }),
            Step::Exit(0),
        ])
            .sees(unknown("the server exited with code 0"))
            .comes_back();

    s19_closes_stdout: "closes stdout in the middle of a call, and lives on" =>
        Row::of(legacy()
            .on_eof([Step::Hang])
            .on("tools/call work", [Step::CloseStdout, Step::Hang]))
            .sees(unknown("the server closed the connection"))
            .comes_back();
    s19_closes_stdout_at_once: "closes stdout at once, and lives on" =>
        Row::of(legacy().on_start([Step::CloseStdout]).on_eof([Step::Hang]))
            .does_not_start("the server closed the connection");
    s20_closes_stdin: "closes stdin, and still answers what it had read" =>
        Row::working([Step::CloseStdin, Step::DelayMs(50), right()])
            .sees(text("right"))
            .sees(not_sent("the connection failed"))
            .comes_back();
    s20_closes_stdin_and_chatters: "closes stdin, answers nothing, and keeps writing" =>
        Row::working([
            Step::CloseStdin,
            Step::forever([Step::notify("notifications/message"), Step::DelayMs(20)]),
        ])
            .call_timeout(500)
            .sees(timed_out())
            .comes_back();

    s24_prints_its_environment: "prints its environment to stdout, then the answer" =>
        Row::working([Step::PrintEnv, right()])
            .keeps("TOKEN", "hunter2-hunter2")
            .sees(text("right"));
    s24_prints_its_environment_and_dies: "prints its environment to stdout and dies" =>
        Row::starting([Step::PrintEnv, Step::Exit(1)])
            .keeps("TOKEN", "hunter2-hunter2")
            .does_not_start("the server exited with code 1");
    s24_environment_of_the_host: "looks for secrets of the host in its environment" =>
        Row::of(legacy().tool("env"))
            .holds(|scene| assert!(!scene.said("env").contains("HOST_SECRET")))
            .calls("env", text("PATH"));

    s25_descriptors: "writes to every descriptor above 2 that it finds" => {
        let file = inheritable_file();
        Row::of(legacy().tool("fds").on("tools/call work", [Step::WriteToInheritedFds, right()]))
            .calls("fds", text(""))
            .sees(text("right"))
            .holds(move |scene| {
                assert_eq!(scene.said("fds"), "");
                assert_eq!(file.metadata().unwrap().len(), 0);
            })
    };

    s26_writes_to_its_folders: "writes files to its working directory and its home" =>
        Row::working([
            Step::WriteFile { path: "dropped".into(), text: "here".to_owned() },
            Step::WriteFile { path: "~/.bashrc".into(), text: "there".to_owned() },
            right(),
        ])
            .sees(text("right"))
            .holds(|scene| {
                let read = |path: &str| std::fs::read_to_string(scene.folder().join(path)).unwrap();
                assert_eq!([read("dropped"), read("home/.bashrc")], ["here", "there"]);
                assert!(!std::path::Path::new("dropped").exists(), "it works where the host does");
            });

    s27_fork_bomb: "starts processes that start processes" =>
        Row::working([Step::ForkBomb { generations: 5 }, right()])
            .sees(text("right"));
}
