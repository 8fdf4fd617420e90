//! Converts the timeouts of other clients to milliseconds.

use serde_json::json;

use super::super::client_format::Unit;
use super::super::clients::Client;
use super::EntryDraft;
use crate::masked_entry::to_json;
use crate::raw::{RawKind, RawMember};
use crate::text::replace_control_chars;

/// Maximum timeout of an entry in milliseconds: 24 hours.
const MAX_MILLIS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;

/// Maximum number that is read as seconds if older versions of the client used milliseconds. A
/// larger number is read as milliseconds.
const MAX_SECONDS: f64 = 3600.0;

impl EntryDraft<'_> {
    /// Reads one timeout for both start and calls, or an object with `startup` and `request`.
    pub(super) fn read_both_timeouts(&mut self, member: &RawMember, unit: Unit) {
        if let RawKind::Object(timeouts) = &member.value.kind {
            for timeout in timeouts {
                match timeout.key.as_str() {
                    "startup" => self.read_timeout("startupTimeout", timeout, unit),
                    "request" => self.read_timeout("timeout", timeout, unit),
                    key => self.ignored_keys.push(format!("{}.{key}", member.key)),
                }
            }
            return;
        }
        self.read_timeout("startupTimeout", member, unit);
        self.read_timeout("timeout", member, unit);
    }

    /// Stores a timeout in milliseconds under `key`.
    pub(super) fn read_timeout(&mut self, key: &str, member: &RawMember, unit: Unit) {
        let number = match &member.value.kind {
            RawKind::Number(digits) => digits.replace('_', "").parse::<f64>().ok(),
            _ => None,
        };
        let Some(number) = number.filter(|number| number.is_finite()) else {
            self.more.insert(key.to_owned(), to_json(&member.value));
            return;
        };
        let original = replace_control_chars(&member.key);
        let millis = match unit {
            Unit::Milliseconds => number,
            Unit::SecondsOrLegacyMillis if number > MAX_SECONDS => {
                let note = format!("`{original}` read as milliseconds (older versions)");
                self.rewriter.note(note);
                number
            }
            Unit::Seconds | Unit::SecondsOrLegacyMillis => number * 1000.0,
        };
        if millis < 1.0 || (self.client == Client::ClaudeCode && millis < 1000.0) {
            let note = format!("ignored `{original}`: too short");
            return self.rewriter.note(note);
        }
        if millis > MAX_MILLIS {
            self.rewriter
                .note(format!("`{original}` limited to 24 hours"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the value is between 1 and the milliseconds of a day"
        )]
        let millis = millis.min(MAX_MILLIS).round() as u64;
        self.more.insert(key.to_owned(), json!(millis));
    }
}
