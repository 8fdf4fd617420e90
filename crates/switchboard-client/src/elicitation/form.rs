//! Forms of form elicitations: flat objects with primitive fields, as the protocol defines them.
//!
//! Any other schema is refused. `pattern` is ignored: evaluating an untrusted regular expression is a
//! risk, and the server validates the values itself.
//!
//! Invariant: every text in a form is sanitized and of limited length, every default value is valid
//! for its field, and the values that [`Form::validate`] returns are valid for the form.

mod parse;
mod sensitive;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::{Map, Number, Value};

pub use validate::InvalidValue;

/// The fields that the user fills in, in the server's order. A form without fields asks only for
/// consent.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Form {
    /// The fields; their names are unique.
    pub fields: Vec<Field>,
}

/// One field of a [`Form`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The name of the value in the response. To display the field, use [`Field::label`].
    pub name: String,
    /// A name to display.
    pub title: Option<String>,
    /// A description by the server: untrusted.
    pub description: Option<String>,
    /// Whether the response must contain a value.
    pub is_required: bool,
    /// The field seems to ask for a secret, which servers must not do in a form. Warn the user and do
    /// not echo the input.
    pub is_sensitive: bool,
    /// The type of the value and its constraints.
    pub kind: FieldKind,
}

/// The type of the value of a [`Field`], its constraints and its default.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text.
    Text {
        /// The required format.
        format: Option<TextFormat>,
        /// Minimum number of characters.
        min_length: Option<u64>,
        /// Maximum number of characters.
        max_length: Option<u64>,
        /// Default value.
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether the number must be an integer.
        is_integer: bool,
        /// Minimum, inclusive.
        minimum: Option<Number>,
        /// Maximum, inclusive.
        maximum: Option<Number>,
        /// Default value.
        default: Option<Number>,
    },
    /// Yes or no.
    Boolean {
        /// Default value.
        default: Option<bool>,
    },
    /// One of several options.
    Choice {
        /// The options, at least one.
        options: Vec<EnumOption>,
        /// Value of the default option.
        default: Option<String>,
    },
    /// Several options.
    MultiChoice {
        /// The options, at least one.
        options: Vec<EnumOption>,
        /// Minimum number of selected options.
        min_items: Option<u64>,
        /// Maximum number of selected options.
        max_items: Option<u64>,
        /// Values of the default options.
        default: Option<Vec<String>>,
    },
}

/// An option of a [`FieldKind::Choice`] or [`FieldKind::MultiChoice`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnumOption {
    /// The value to send.
    pub value: String,
    /// The name to display.
    pub title: String,
}

/// The required format of a text.
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

    /// The default values by field name. Fields without a default are left out.
    pub fn defaults(&self) -> Map<String, Value> {
        let default = |field: &Field| Some((field.name.clone(), field.default_value()?));
        self.fields.iter().filter_map(default).collect()
    }
}

impl Field {
    /// The name to display: the title if there is one, otherwise the name.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The default value that the server suggests.
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
