//! Format tables of Claude Code and Claude Desktop.

use std::path::Path;

use super::super::client_format::{
    BaseDir, ClientFormat, File, KeyMeaning, Remote, Section, Unit, VariableSyntax, names,
};
use super::super::{ImportContext, is_same_dir};
use crate::raw::{RawMember, RawValue, Syntax};
use crate::text::replace_control_chars;

/// Claude Code. Its `.mcp.json` needs no import: Switchboard reads the same file.
pub(super) static CODE: ClientFormat = ClientFormat {
    files: &[File::new(
        BaseDir::FromVariable {
            variable: "CLAUDE_CONFIG_DIR",
            default: "",
        },
        ".claude.json",
    )],
    syntax: Syntax::Json,
    sections: code_sections,
    keys: &[
        ("timeout", KeyMeaning::CallTimeout(Unit::Milliseconds)),
        (
            "request_timeout_ms",
            KeyMeaning::CallTimeout(Unit::Milliseconds),
        ),
        ("headersHelper", KeyMeaning::Unchanged),
        ("oauth", KeyMeaning::Unchanged),
        ("auth", KeyMeaning::Unchanged),
        ("alwaysLoad", KeyMeaning::Unchanged),
        ("tools", KeyMeaning::Unchanged),
        ("id", KeyMeaning::Unchanged),
        ("name", KeyMeaning::Unchanged),
    ],
    variable_syntax: VariableSyntax::Native,
    url: Remote::Negotiated,
};

pub(super) static DESKTOP: ClientFormat = ClientFormat {
    files: &[File::new(
        BaseDir::Applications,
        "Claude/claude_desktop_config.json",
    )],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcpServers").map(Section::new));
    },
    keys: &[],
    variable_syntax: VariableSyntax::None,
    url: Remote::Negotiated,
};

/// Finds the section with the servers for all projects and the section of the current project.
fn code_sections<'a>(
    root: &'a RawValue,
    context: &ImportContext<'_>,
    sections: &mut Vec<Section<'a>>,
    notes: &mut Vec<String>,
) {
    let projects = root.member("projects").map(|projects| &projects.value);
    let is_current =
        |project: &&RawMember| is_same_dir(Path::new(&project.key), context.project_dir);
    let mut all = projects.into_iter().flat_map(RawValue::members);
    let current = all.find(is_current);
    let disabled = current.and_then(|project| project.value.member("disabledMcpServers"));
    sections.extend(root.member("mcpServers").map(|servers| Section {
        disabled_in_project: names(disabled),
        ..Section::new(servers)
    }));
    let mut other_projects = Vec::new();
    for project in projects.into_iter().flat_map(RawValue::members) {
        let Some(servers) = project.value.member("mcpServers") else {
            continue;
        };
        if servers.value.members().is_empty() {
            continue;
        }
        if is_current(&project) {
            sections.push(Section {
                is_project_scoped: true,
                disabled: names(project.value.member("disabledMcpServers")),
                ..Section::new(servers)
            });
        } else {
            other_projects.push(project.key.as_str());
        }
    }
    if let Some(first) = other_projects.first() {
        let projects = match other_projects.len() {
            1 => "another project".to_owned(),
            number => format!("{number} other projects"),
        };
        notes.push(format!(
            "servers of {projects} not imported; to import them, run the command there, first in {}",
            replace_control_chars(first)
        ));
    }
}
