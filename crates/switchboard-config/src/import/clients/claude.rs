//! The programs of Anthropic: Claude Code and Claude Desktop.

use std::path::Path;

use super::super::client_format::{
    Base, ClientFormat, File, Key, Notation, Remote, Section, Unit, names,
};
use super::super::{Whereabouts, is_same_place};
use crate::raw::{RawMember, RawValue, Syntax};
use crate::text::replace_control_chars;

/// Its `.mcp.json` needs no translation: it is read as it is.
pub(super) static CODE: ClientFormat = ClientFormat {
    files: &[File::new(
        Base::Named {
            variable: "CLAUDE_CONFIG_DIR",
            otherwise: "",
        },
        ".claude.json",
    )],
    syntax: Syntax::Json,
    sections: code_sections,
    keys: &[
        ("timeout", Key::CallTimeout(Unit::Milliseconds)),
        ("request_timeout_ms", Key::CallTimeout(Unit::Milliseconds)),
        ("headersHelper", Key::Same),
        ("oauth", Key::Same),
        ("auth", Key::Same),
        ("alwaysLoad", Key::Same),
        ("tools", Key::Same),
        ("id", Key::Same),
        ("name", Key::Same),
    ],
    notation: Notation::Ours,
    url: Remote::Negotiated,
};

pub(super) static DESKTOP: ClientFormat = ClientFormat {
    files: &[File::new(
        Base::Applications,
        "Claude/claude_desktop_config.json",
    )],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcpServers").map(Section::of));
    },
    keys: &[],
    notation: Notation::None,
    url: Remote::Negotiated,
};

/// Its own servers, and those that it keeps for the project at hand.
fn code_sections<'a>(
    root: &'a RawValue,
    whereabouts: &Whereabouts<'_>,
    sections: &mut Vec<Section<'a>>,
    notes: &mut Vec<String>,
) {
    let projects = root.member("projects").map(|projects| &projects.value);
    let is_here = |project: &&RawMember| is_same_place(Path::new(&project.key), whereabouts.here);
    let mut all = projects.into_iter().flat_map(RawValue::members);
    let here = all.find(is_here);
    let off = here.and_then(|project| project.value.member("disabledMcpServers"));
    sections.extend(root.member("mcpServers").map(|servers| Section {
        disabled_here: names(off),
        ..Section::of(servers)
    }));
    let mut elsewhere = Vec::new();
    for project in projects.into_iter().flat_map(RawValue::members) {
        let Some(servers) = project.value.member("mcpServers") else {
            continue;
        };
        if servers.value.members().is_empty() {
            continue;
        }
        if is_here(&project) {
            sections.push(Section {
                is_of_project: true,
                disabled: names(project.value.member("disabledMcpServers")),
                ..Section::of(servers)
            });
        } else {
            elsewhere.push(project.key.as_str());
        }
    }
    if let Some(first) = elsewhere.first() {
        notes.push(format!(
            "the servers of {} are left out: import them there, first in {}",
            match elsewhere.len() {
                1 => "another project".to_owned(),
                number => format!("{number} other projects"),
            },
            replace_control_chars(first)
        ));
    }
}
