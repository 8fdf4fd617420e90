//! Asks for the fields of a form one by one, and shows all values for confirmation before they are
//! sent.
//!
//! Invariant: the values sent are those shown in the last review.

use serde_json::{Map, Value};
use switchboard::elicitation::{ElicitResponse, Field, Form};

use super::field::{self, FieldAnswer};
use super::{OpenQuestion, QuestionCancelled};
use crate::render::text::{one_line, truncate, width};

/// Maximum width of a field's label in the summary that is shown before the form is sent.
const LABEL_COLUMNS: usize = 32;

/// What to do with a filled-in form.
#[derive(Debug, PartialEq, Eq)]
enum FormDecision {
    Send,
    Decline,
    Cancel,
    /// Edit a field; without a number, ask which one.
    Edit(Option<usize>),
}

pub(super) async fn ask(
    question: &mut OpenQuestion,
    message: &str,
    form: &Form,
) -> Result<ElicitResponse, QuestionCancelled> {
    if form.fields.is_empty() {
        question.introduce("asks for your consent", message)?;
        return Ok(if question.confirm("Do you agree?").await? {
            ElicitResponse::Accept(Map::new())
        } else {
            ElicitResponse::Decline
        });
    }
    question.introduce("asks you to fill in a form", message)?;
    question.print_dimmed("Ctrl-C cancels; nothing is sent")?;
    let mut values = Map::new();
    for number in 1..=form.fields.len() {
        if ask_for(question, form, number, &mut values)
            .await?
            .is_none()
        {
            return Ok(ElicitResponse::Decline);
        }
    }
    loop {
        review(question, form, &values)?;
        match ask_decision(question, form.fields.len()).await? {
            FormDecision::Send => return Ok(ElicitResponse::Accept(values)),
            FormDecision::Decline => return Ok(ElicitResponse::Decline),
            FormDecision::Cancel => return Ok(ElicitResponse::Cancel),
            FormDecision::Edit(number) => {
                let number = match number {
                    Some(number) => number,
                    None => ask_field_number(question, form.fields.len()).await?,
                };
                if ask_for(question, form, number, &mut values)
                    .await?
                    .is_none()
                {
                    return Ok(ElicitResponse::Decline);
                }
            }
        }
    }
}

/// Asks for the field with this number, counted from 1. Returns `None` if the user refuses to fill
/// in a required field.
async fn ask_for(
    question: &mut OpenQuestion,
    form: &Form,
    number: usize,
    values: &mut Map<String, Value>,
) -> Result<Option<()>, QuestionCancelled> {
    let Some(field) = form.fields.get(number - 1) else {
        return Ok(Some(()));
    };
    let position = format!("{number} of {}", form.fields.len());
    match field::ask(question, &position, field).await? {
        FieldAnswer::Value(value) => drop(values.insert(field.name.clone(), value)),
        FieldAnswer::Omitted => drop(values.remove(&field.name)),
        FieldAnswer::Refused => return Ok(None),
    }
    Ok(Some(()))
}

/// Prints the values before they are sent.
fn review(
    question: &OpenQuestion,
    form: &Form,
    values: &Map<String, Value>,
) -> Result<(), QuestionCancelled> {
    question.print_line(&format!("\nReady to send to {}:", question.server))?;
    let labels: Vec<_> = form.fields.iter().map(label).collect();
    let widest = labels.iter().map(|label| width(label)).max();
    for (number, (field, label)) in (1..).zip(form.fields.iter().zip(&labels)) {
        let value = match values.get(&field.name) {
            Some(value) => field::review_value(field, value),
            None => "–".to_owned(),
        };
        let gap = " ".repeat(widest.unwrap_or_default().saturating_sub(width(label)));
        question.print_quoted(&format!("{number:>4}  {label}{gap}  {value}"))?;
    }
    Ok(())
}

/// The field's label on one line, truncated.
fn label(field: &Field) -> String {
    truncate(&one_line(field.label()), LABEL_COLUMNS).into_owned()
}

async fn ask_decision(
    question: &mut OpenQuestion,
    fields: usize,
) -> Result<FormDecision, QuestionCancelled> {
    let more = match fields {
        1 => String::new(),
        _ => question.dim("(e 2 edits the second) "),
    };
    let prompt = format!("[s]end, [e]dit, [d]ecline, [c]ancel {more}");
    loop {
        // Discard the rest of a multi-line paste: only a line typed after this question may answer
        // it.
        question.guard.discard_input();
        let answer = question.ask(&prompt).await?;
        match parse_decision(&answer, fields) {
            Some(decision) => return Ok(decision),
            None => question.print_text("type s, e, d or c")?,
        }
    }
}

fn parse_decision(answer: &str, fields: usize) -> Option<FormDecision> {
    let answer = answer.to_ascii_lowercase();
    let (word, number) = match answer.split_once(' ') {
        Some((word, number)) => (word, Some(field_number(number, fields)?)),
        None => (answer.as_str(), None),
    };
    match (word, number) {
        ("s" | "send", None) => Some(FormDecision::Send),
        ("d" | "decline", None) => Some(FormDecision::Decline),
        ("c" | "cancel", None) => Some(FormDecision::Cancel),
        ("e" | "edit", None) if fields == 1 => Some(FormDecision::Edit(Some(1))),
        ("e" | "edit", number) => Some(FormDecision::Edit(number)),
        _ => None,
    }
}

fn field_number(text: &str, fields: usize) -> Option<usize> {
    let number = text.trim().parse().ok()?;
    (1..=fields).contains(&number).then_some(number)
}

async fn ask_field_number(
    question: &mut OpenQuestion,
    fields: usize,
) -> Result<usize, QuestionCancelled> {
    loop {
        let answer = question.ask(&format!("Which one, 1 to {fields}? ")).await?;
        match field_number(&answer, fields) {
            Some(number) => return Ok(number),
            None => question.print_text("enter the field's number")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_answers_decide() {
        for (typed, decided) in [
            ("s", Some(FormDecision::Send)),
            ("Send", Some(FormDecision::Send)),
            ("d", Some(FormDecision::Decline)),
            ("cancel", Some(FormDecision::Cancel)),
            ("e", Some(FormDecision::Edit(None))),
            ("e 3", Some(FormDecision::Edit(Some(3)))),
            ("e 4", None),
            ("s 1", None),
            ("", None),
            ("y", None),
        ] {
            assert_eq!(parse_decision(typed, 3), decided, "{typed:?}");
        }
        assert_eq!(parse_decision("e", 1), Some(FormDecision::Edit(Some(1))));
    }
}
