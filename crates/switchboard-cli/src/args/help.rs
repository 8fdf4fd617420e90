//! The texts below the options in `--help`: examples, argument syntax, exit codes.
//!
//! Descriptions of commands and options are doc comments on their definitions.

pub(super) const TOP_LEVEL: &str = "\
Examples:
  switchboard demo                              run a demo, no config needed
  switchboard add time -- uvx mcp-server-time   add a server
  switchboard trust                             review and approve this project's servers
  switchboard list                              show all servers and their status
  switchboard tools 'mcp__files__*'             list the tools of one server
  switchboard describe mcp__files__read_file    show one tool and its arguments
  switchboard call mcp__files__read_file path=notes.txt --yes
  echo '{\"a\": 15, \"b\": 27}' | switchboard call mcp__calc__add - --yes

Exit codes:
  0 ok   1 internal error   2 usage   3 config   4 server unavailable or not approved
  5 login needed   6 denied   7 the tool or server returned an error
  8 timeout   9 delivery unknown (the call may have run)   130 interrupted   141 stdout closed";

pub(super) const CALL: &str = "\
Arguments:
  key=value     string, or the type in the tool's schema (a=15 becomes a number)
  key:=json     raw JSON: tags:='[\"a\", \"b\"]'
  '{…}'         all arguments as one JSON object
  -             one JSON object, read from stdin

Repeat a key to pass a list.";

pub(super) const POLICY_ADD: &str = "\
Examples:
  switchboard policy add allow 'mcp__files__read_*'
  switchboard policy add deny mcp__files__write_file --where 'path=/etc/**' -s user
  switchboard policy list
  switchboard policy remove 'mcp__files__read_*'

Scopes: local = you, this project; project = shared in .switchboard/settings.json; user = you, all \
projects. Allow rules of a project apply only to the servers of its .mcp.json.";

pub(super) const COMPLETIONS: &str = "\
Install (takes effect in new shells):
  bash        switchboard completions bash > ~/.local/share/bash-completion/completions/switchboard
  zsh         switchboard completions zsh > ~/.zfunc/_switchboard      (with ~/.zfunc in $fpath)
  fish        switchboard completions fish > ~/.config/fish/completions/switchboard.fish
  elvish      eval (switchboard completions elvish | slurp)            (in rc.elv)
  powershell  switchboard completions powershell | Out-String | Invoke-Expression   (in $PROFILE)

Server and tool names come from the config and the cached tool lists; no server is started.";

pub(super) const MAN: &str = "\
Read:     switchboard man | man -l -
Install:  switchboard man > ~/.local/share/man/man1/switchboard.1";

pub(super) const TRUST: &str = "\
An approval covers exactly the content shown. If the entry changes what it runs, you are asked again.

Examples:
  switchboard trust                 review all servers that need approval
  switchboard trust files --yes     approve one server without asking
  switchboard trust --list          show recorded decisions
  switchboard trust --revoke files  forget the decision";

pub(super) const ADD: &str = "\
Examples:
  switchboard add time -- uvx mcp-server-time
  switchboard add files -s project -- npx -y @modelcontextprotocol/server-filesystem .
  switchboard add hub -e 'TOKEN=${HUB_TOKEN}' -- hub-server   expanded when the server starts
  switchboard add hub --env-from-stdin TOKEN -- hub-server    prompts; stays out of shell history
  switchboard add docs https://example.com/mcp
  switchboard add docs https://example.com/mcp --header-from-stdin Authorization < header.txt

Everything after -- belongs to the command, including words that look like options.
Scopes: local = you, this project; project = .mcp.json, shared; user = you, all projects.";

pub(super) const ADD_JSON: &str = "\
Example:
  switchboard add-json time '{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}'";

pub(super) const IMPORT: &str = "\
Examples:
  switchboard import                    show importable servers and ask
  switchboard import --yes              import without asking
  switchboard import cursor             import only from Cursor
  switchboard import --file ~/backup/.claude.json

User-level servers go to the user scope, project-level ones to the local scope; -s overrides.
Entries found in project files come from the project's authors: they need confirmation, and --yes \
skips them unless --trust-project is given too.";

pub(super) const READ: &str = "\
Prints text; on a terminal, escape sequences are removed. Saves binary content to a file and prints \
its path. A pipe receives the bytes if the resource has no other parts.

Examples:
  switchboard read files file:///notes.txt
  switchboard read @files:file:///notes.txt
  switchboard read shop 'shop://item/{id}' id=7
  switchboard read shop 'shop://item/{id}' --complete id=7
  switchboard read shop shop://logo -o logo.png";

pub(super) const PROMPT: &str = "\
Examples:
  switchboard prompt mcp__team__review language=rust
  switchboard prompt team review language=rust
  switchboard prompt mcp__team__review --complete language=r";

pub(super) const WATCH: &str = "\
Prints a diff for each change until Ctrl-C. Subscribes if the server supports it, else polls every \
5 seconds or every --every TIME. Changes of config and rules take effect at the next start. Tool polls obey your permission rules; you are asked once.

Examples:
  switchboard watch files file:///notes.txt
  switchboard watch files file:///notes.txt --every 30s
  switchboard watch ci --tool build_status branch=main --every 1m --count 1";

#[cfg(test)]
mod tests {
    use super::*;

    /// The parser of the command line wraps help texts. A line break inside a sentence would be a
    /// second break on a narrow terminal.
    #[test]
    fn sentences_have_no_line_breaks() {
        let texts = [
            TOP_LEVEL,
            CALL,
            POLICY_ADD,
            COMPLETIONS,
            MAN,
            TRUST,
            ADD,
            ADD_JSON,
            IMPORT,
            READ,
            PROMPT,
            WATCH,
        ];
        let is_prose = |line: &&str| !line.starts_with(' ') && !line.contains("  ");
        for line in texts.iter().flat_map(|text| text.lines()).filter(is_prose) {
            let ends_sentence = line.is_empty() || line.ends_with(['.', ':', ';']);
            assert!(ends_sentence, "{line:?}");
        }
    }
}
