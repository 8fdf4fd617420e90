//! `--allow`, `--ask` and `--deny`, in the order in which they were given.
//!
//! Implements clap's traits by hand: derived arguments would be three separate lists, and the order
//! in which the flags were mixed would be lost.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use switchboard::permission::Action;

/// The action (`--allow`, `--ask` or `--deny`) and the pattern of one flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleArg {
    pub(crate) action: Action,
    pub(crate) pattern: String,
}

/// The rules of all `--allow`, `--ask` and `--deny` flags, in command-line order.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleArgs(pub(crate) Vec<RuleArg>);

const FLAGS: [(Action, &str, &str); 3] = [
    (
        Action::Allow,
        "allow",
        "Allow matching tools without asking (mcp__server__tool, globs allowed)",
    ),
    (Action::Ask, "ask", "Ask before calling matching tools"),
    (
        Action::Deny,
        "deny",
        "Deny matching tools; overrides every allow",
    ),
];

impl Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        FLAGS.into_iter().fold(command, |command, (_, name, help)| {
            command.arg(
                Arg::new(name)
                    .long(name)
                    .value_name("PATTERN")
                    .help(help)
                    .action(ArgAction::Append),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut rules = Vec::new();
        for (action, name, _) in FLAGS {
            let positions = matches.indices_of(name).into_iter().flatten();
            let patterns = matches.get_many::<String>(name).into_iter().flatten();
            rules.extend(positions.zip(patterns).map(|(position, pattern)| {
                let pattern = pattern.clone();
                (position, RuleArg { action, pattern })
            }));
        }
        rules.sort_by_key(|(position, _)| *position);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
