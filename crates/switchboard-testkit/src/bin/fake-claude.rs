//! Plays a fake Claude CLI; its script is in `SWITCHBOARD_FAKE_CLAUDE`.

fn main() {
    std::process::exit(switchboard_testkit::fake_claude::player::run())
}
