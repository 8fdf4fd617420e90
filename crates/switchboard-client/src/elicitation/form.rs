//! Forms that servers want filled in: flat, of plain fields, as the protocol allows them.
//!
//! A schema that is more than that is refused. A `pattern` is not applied: nobody runs a stranger's
//! expression here, and the server checks what it gets.
//!
//! Invariant: every text in a form is clean and not too long, every default fits its field, and what
//! [`Form::complete`] returns fits the form.

mod parse;
mod sensitive;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::{Map, Number, Value};

pub use validate::Misfit;

/// The fields that a server wants filled in, in its order. There may be none: then it asks for a yes.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Form {
    /// The fields, no name twice.
    pub fields: Vec<Field>,
}

/// One field of a [`Form`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// Under which name the value is sent; see [`Field::label`] for what to show.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What the server says about it: untrusted.
    pub description: Option<String>,
    /// Whether there must be a value.
    pub is_required: bool,
    /// It looks as if a secret were asked for, which servers must not do in a form. It is not to be
    /// echoed, and the user is to be warned.
    pub is_sensitive: bool,
    /// Which values fit.
    pub kind: FieldKind,
}

/// Which values fit a [`Field`], and which one is proposed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text.
    Text {
        /// What it has to look like.
        format: Option<TextFormat>,
        /// The fewest characters.
        min_length: Option<u64>,
        /// The most characters.
        max_length: Option<u64>,
        /// What is proposed.
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Only whole ones fit.
        is_integer: bool,
        /// The least.
        minimum: Option<Number>,
        /// The greatest.
        maximum: Option<Number>,
        /// What is proposed.
        default: Option<Number>,
    },
    /// Yes or no.
    Boolean {
        /// What is proposed.
        default: Option<bool>,
    },
    /// One of several.
    Choice {
        /// What can be chosen, at least one.
        options: Vec<Choice>,
        /// The value that is proposed.
        default: Option<String>,
    },
    /// Any of several.
    Choices {
        /// What can be chosen, at least one.
        options: Vec<Choice>,
        /// The fewest.
        min_items: Option<u64>,
        /// The most.
        max_items: Option<u64>,
        /// The values that are proposed.
        default: Option<Vec<String>>,
    },
}

/// Something that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// What is sent.
    pub value: String,
    /// What is shown.
    pub title: String,
}

/// What a text has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextFormat {
    /// An address for mail.
    Email,
    /// A URI.
    Uri,
    /// A day, as `2026-07-28`.
    Date,
    /// A moment, as `2026-07-28T12:00:00Z`.
    DateTime,
}

impl Form {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// What the server proposes, by the names of the fields.
    pub fn defaults(&self) -> Map<String, Value> {
        let proposed = |field: &Field| Some((field.name.clone(), field.default_value()?));
        self.fields.iter().filter_map(proposed).collect()
    }
}

impl Field {
    /// What to show as the name of the field.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// What the server proposes.
    pub fn default_value(&self) -> Option<Value> {
        match &self.kind {
            FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => {
                default.clone().map(Value::from)
            }
            FieldKind::Number { default, .. } => default.clone().map(Value::from),
            FieldKind::Boolean { default } => default.map(Value::from),
            FieldKind::Choices { default, .. } => default.clone().map(Value::from),
        }
    }

    fn forget_default(&mut self) {
        match &mut self.kind {
            FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => *default = None,
            FieldKind::Number { default, .. } => *default = None,
            FieldKind::Boolean { default } => *default = None,
            FieldKind::Choices { default, .. } => *default = None,
        }
    }
}
