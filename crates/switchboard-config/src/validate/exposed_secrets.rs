//! Warns about literal secrets in a project's file, which everybody with access to the project can
//! read.
//!
//! A warning, not an error: the entry works. The warning never contains the value.

use super::fields::EntryFields;
use crate::raw::{RawKind, RawMember, RawValue, Span};
use crate::secret_detection;
use crate::text::replace_control_chars;

pub(super) fn warn_exposed_secrets(fields: &mut EntryFields<'_>) {
    let raw = fields.raw;
    for key in ["env", "headers"] {
        for member in raw
            .member(key)
            .map_or(&[][..], |member| member.value.members())
        {
            if let RawKind::Text(value) = &member.value.kind
                && secret_detection::is_secret_value(&member.key, value)
            {
                let name = replace_control_chars(&member.key);
                let message = format!("`{name}` in `{key}` looks like a secret; {READERS_NOTE}");
                let reference = reference(fields, key, member, value);
                let instead = format!("\"{reference}\" instead");
                warn(fields, member.value.span, message, &instead);
            }
        }
    }
    for key in ["command", "args", "url", "headersHelper"] {
        for span in raw
            .member(key)
            .map_or_else(Vec::new, |member| spans(&member.value))
        {
            let message = format!("`{key}` seems to contain a secret; {READERS_NOTE}");
            let instead = format!("${{{}}} in place of the secret", suggested_variable(fields));
            warn(fields, span, message, &instead);
        }
    }
}

const READERS_NOTE: &str = "everyone with the project can read it";

fn warn(fields: &mut EntryFields<'_>, span: Span, message: String, instead: &str) {
    let hint = format!("write {instead} and set the variable in your environment");
    fields.warn_with_hint(span, message, Some(hint));
}

/// The reference to write instead of the value.
fn reference(fields: &EntryFields<'_>, key: &str, member: &RawMember, value: &str) -> String {
    if key == "env" {
        return format!("${{{}}}", replace_control_chars(&member.key));
    }
    let scheme = ["Bearer ", "Basic "]
        .into_iter()
        .find(|scheme| value.starts_with(scheme));
    format!(
        "{}${{{}}}",
        scheme.unwrap_or_default(),
        suggested_variable(fields)
    )
}

/// A variable name made from the server name.
fn suggested_variable(fields: &EntryFields<'_>) -> String {
    let name = fields.context.name.as_str();
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
        _ => '_',
    });
    let name: String = letters.collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_digit() => format!("_{name}_TOKEN"),
        _ => format!("{name}_TOKEN"),
    }
}

/// The spans of strings that look like they contain a secret.
fn spans(value: &RawValue) -> Vec<Span> {
    match &value.kind {
        RawKind::Text(text) if !secret_detection::find_in_text(text).is_empty() => vec![value.span],
        RawKind::List(items) => {
            let words = items.iter().map(|item| match &item.kind {
                RawKind::Text(text) => text.as_str(),
                _ => "",
            });
            let parts = secret_detection::find_in_arguments(&words.collect::<Vec<_>>());
            let found = items
                .iter()
                .zip(parts)
                .filter(|(_, parts)| !parts.is_empty());
            found.map(|(item, _)| item.span).collect()
        }
        _ => Vec::new(),
    }
}
