//! Plays a stand-in for the Claude CLI, whose script is in `SWITCHBOARD_FAKE_CLAUDE`.

fn main() {
    std::process::exit(switchboard_testkit::fake_claude::player::run())
}
