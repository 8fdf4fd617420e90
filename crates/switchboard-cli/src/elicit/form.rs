//! A form: field by field, then all of it again before anything is sent.

use serde_json::{Map, Value};
use switchboard::{ElicitAnswer, Field, Form};

use super::field::{self, FieldAnswer};
use super::{Closed, Conversation};
use crate::render::text::{one_line, truncate, width};

/// A longer name of a field is truncate where its value stands beside it.
const LABEL_COLUMNS: usize = 32;

/// What becomes of a form that is filled in.
#[derive(Debug, PartialEq, Eq)]
enum FormDecision {
    Send,
    Decline,
    Cancel,
    /// One field again, if it was said which.
    Edit(Option<usize>),
}

pub(super) async fn fill_in(
    talk: &mut Conversation,
    message: &str,
    form: &Form,
) -> Result<ElicitAnswer, Closed> {
    if form.fields.is_empty() {
        talk.introduce("asks for your consent", message)?;
        return Ok(if talk.is_agreed("Do you agree?").await? {
            ElicitAnswer::Accept(Map::new())
        } else {
            ElicitAnswer::Decline
        });
    }
    talk.introduce("asks you to fill in a form", message)?;
    talk.note("Ctrl-C closes it, and nothing is sent")?;
    let mut values = Map::new();
    for number in 1..=form.fields.len() {
        if ask_for(talk, form, number, &mut values).await?.is_none() {
            return Ok(ElicitAnswer::Decline);
        }
    }
    loop {
        review(talk, form, &values)?;
        match decide(talk, form.fields.len()).await? {
            FormDecision::Send => return Ok(ElicitAnswer::Accept(values)),
            FormDecision::Decline => return Ok(ElicitAnswer::Decline),
            FormDecision::Cancel => return Ok(ElicitAnswer::Cancel),
            FormDecision::Edit(number) => {
                let number = match number {
                    Some(number) => number,
                    None => which(talk, form.fields.len()).await?,
                };
                if ask_for(talk, form, number, &mut values).await?.is_none() {
                    return Ok(ElicitAnswer::Decline);
                }
            }
        }
    }
}

/// Asks for the value of one field, counted from 1. `None`: the person will not give what must be given.
async fn ask_for(
    talk: &mut Conversation,
    form: &Form,
    number: usize,
    values: &mut Map<String, Value>,
) -> Result<Option<()>, Closed> {
    let Some(field) = form.fields.get(number - 1) else {
        return Ok(Some(()));
    };
    let place = format!("{number} of {}", form.fields.len());
    match field::ask(talk, &place, field).await? {
        FieldAnswer::With(value) => drop(values.insert(field.name.clone(), value)),
        FieldAnswer::LeftOut => drop(values.remove(&field.name)),
        FieldAnswer::Refused => return Ok(None),
    }
    Ok(Some(()))
}

/// Shows what would be sent.
fn review(talk: &Conversation, form: &Form, values: &Map<String, Value>) -> Result<(), Closed> {
    talk.show(&format!("\nThis would be sent to {}:", talk.server))?;
    let labels: Vec<_> = form.fields.iter().map(label).collect();
    let widest = labels.iter().map(|label| width(label)).max();
    for (number, (field, label)) in (1..).zip(form.fields.iter().zip(&labels)) {
        let value = match values.get(&field.name) {
            Some(value) => field::review_value(field, value),
            None => "–".to_owned(),
        };
        let gap = " ".repeat(widest.unwrap_or_default().saturating_sub(width(label)));
        talk.quote(&format!("{number:>4}  {label}{gap}  {value}"))?;
    }
    Ok(())
}

/// A field in one line, with room for its value beside it.
fn label(field: &Field) -> String {
    truncate(&one_line(field.label()), LABEL_COLUMNS).into_owned()
}

async fn decide(talk: &mut Conversation, fields: usize) -> Result<FormDecision, Closed> {
    let more = match fields {
        1 => String::new(),
        _ => talk.dim("(e 2 edits the second) "),
    };
    let question = format!("[s]end, [e]dit, [d]ecline, [c]ancel {more}");
    loop {
        // What was pasted into the fields is no answer to what comes after them.
        talk.turn.discard_input();
        let answer = talk.ask(&question).await?;
        match decision(&answer, fields) {
            Some(decision) => return Ok(decision),
            None => talk.say("type s, e, d or c")?,
        }
    }
}

fn decision(answer: &str, fields: usize) -> Option<FormDecision> {
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

async fn which(talk: &mut Conversation, fields: usize) -> Result<usize, Closed> {
    loop {
        let answer = talk.ask(&format!("Which one, 1 to {fields}? ")).await?;
        match field_number(&answer, fields) {
            Some(number) => return Ok(number),
            None => talk.say("type the number that stands before it")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_word_decides() {
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
            assert_eq!(decision(typed, 3), decided, "{typed:?}");
        }
        assert_eq!(decision("e", 1), Some(FormDecision::Edit(Some(1))));
    }
}
