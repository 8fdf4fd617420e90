//! Plays a stand-in for the Claude CLI, whose script is in `SWITCHBOARD_STAND_IN`.

fn main() {
    std::process::exit(switchboard_testkit::standin::play::run())
}
