//! Forms of form elicitations: flat objects with primitive fields, as the protocol defines them.
//!
//! Any other schema is refused. The keyword `pattern` is ignored: evaluating an untrusted regular
//! expression is a risk, and the server validates the values itself.
//!
//! Invariant: every text in a form is of limited length and, except for option values, safe to
//! print. Every default is valid for its field, and the values that [`Form::validate`] returns are
//! valid for the form.

mod parse;
mod sensitive;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::{Map, Number, Value};

pub use validate::InvalidValue;

/// The fields that the user fills in, in the server's order. A form without fields only asks the
/// user to agree.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Form {
    /// The fields in the server's order. Their names are unique.
    pub fields: Vec<Field>,
}

/// One field of a [`Form`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The name under which the value is sent to the server. To show the field to the user, use
    /// [`Field::label`].
    pub name: String,
    /// The title, if the server sent one. Show it instead of the name.
    pub title: Option<String>,
    /// A description of the field, if the server sent one. Untrusted, because the server wrote it.
    pub description: Option<String>,
    /// Whether the response must contain a value for this field.
    pub is_required: bool,
    /// Whether the field seems to ask for a secret, which the protocol forbids in a form. Warn the
    /// user and do not echo the input.
    pub is_sensitive: bool,
    /// The type of the value and its constraints.
    pub kind: FieldKind,
}

/// The type of the value of a [`Field`], its constraints and its default.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A text.
    Text {
        /// The format that the text must have; `None` for any text.
        format: Option<TextFormat>,
        /// Minimum number of characters, inclusive.
        min_length: Option<u64>,
        /// Maximum number of characters, inclusive.
        max_length: Option<u64>,
        /// The text to use if the user enters none.
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether only integers are valid.
        is_integer: bool,
        /// The smallest valid number.
        minimum: Option<Number>,
        /// The largest valid number.
        maximum: Option<Number>,
        /// The number to use if the user enters none.
        default: Option<Number>,
    },
    /// Yes or no.
    Boolean {
        /// The answer to use if the user chooses none.
        default: Option<bool>,
    },
    /// Exactly one of several options.
    Choice {
        /// The options; there is at least one.
        options: Vec<EnumOption>,
        /// Value of the option that is chosen if the user chooses none.
        default: Option<String>,
    },
    /// Any number of the options.
    MultiChoice {
        /// The options; there is at least one.
        options: Vec<EnumOption>,
        /// Minimum number of chosen options, inclusive.
        min_items: Option<u64>,
        /// Maximum number of chosen options, inclusive.
        max_items: Option<u64>,
        /// Values of the options that are chosen if the user chooses none.
        default: Option<Vec<String>>,
    },
}

/// An option of a [`FieldKind::Choice`] or [`FieldKind::MultiChoice`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnumOption {
    /// The value that is sent to the server if the option is chosen.
    pub value: String,
    /// The name of the option to show to the user.
    pub title: String,
}

/// A format that a text field requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextFormat {
    /// An e-mail address.
    Email,
    /// A URI.
    Uri,
    /// A date such as `2026-07-28`.
    Date,
    /// A date and time such as `2026-07-28T12:00:00Z`.
    DateTime,
}

impl Form {
    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The defaults of all fields that have one, by field name.
    pub fn defaults(&self) -> Map<String, Value> {
        let default = |field: &Field| Some((field.name.clone(), field.default_value()?));
        self.fields.iter().filter_map(default).collect()
    }
}

impl Field {
    /// The text that names the field to the user: its title, or its name if it has no title.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The default of the field, which the server suggests; `None` if it suggests none.
    pub fn default_value(&self) -> Option<Value> {
        match &self.kind {
            FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => {
                default.clone().map(Value::from)
            }
            FieldKind::Number { default, .. } => default.clone().map(Value::from),
            FieldKind::Boolean { default } => default.map(Value::from),
            FieldKind::MultiChoice { default, .. } => default.clone().map(Value::from),
        }
    }

    fn clear_default(&mut self) {
        match &mut self.kind {
            FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => *default = None,
            FieldKind::Number { default, .. } => *default = None,
            FieldKind::Boolean { default } => *default = None,
            FieldKind::MultiChoice { default, .. } => *default = None,
        }
    }
}
