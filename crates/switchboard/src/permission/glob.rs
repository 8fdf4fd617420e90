//! Globs over names and values: `*`, `?` and `[…]`, anchored at both ends, case-sensitive.
//!
//! Not over paths: `*` crosses every separator, and `?` and classes see whole characters. (Path
//! globs compare bytes, and would let a name with an `é` slip past a `?`.) What looks like a richer
//! grammar (`{a,b}`, `Tool(argument)`) is an error where it cannot be meant literally, because a deny
//! that is quietly taken for a literal name would never hold.
//!
//! Invariant: matching allocates nothing and takes at most pattern × name steps.

use memchr::memmem::Finder;

#[cfg(test)]
mod tests;

/// What is wrong with the text of a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GlobError {
    #[error("a `[` is never closed")]
    OpenClass,
    #[error("the range `{0}-{1}` runs backwards")]
    BackwardRange(char, char),
    #[error("it ends in a `\\` that escapes nothing")]
    DanglingEscape,
    #[error(
        "`{0}` has no meaning here: alternatives need a rule each, and arguments are matched by the \
         `pattern` of a rule in settings.json; write `[{0}]` for the character itself"
    )]
    Reserved(char),
    #[error("it holds a control character")]
    Control,
}

/// What a glob is held against, which decides what may stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Names of servers and tools: `{}` and `()` mean nothing.
    Name,
    /// The value of an argument: `{}` means nothing.
    Value,
    /// JSON, which is full of both.
    Json,
}

impl Dialect {
    fn reserves(self, letter: char) -> bool {
        match self {
            Self::Name => matches!(letter, '{' | '}' | '(' | ')'),
            Self::Value => matches!(letter, '{' | '}'),
            Self::Json => false,
        }
    }
}

/// A compiled glob. Globs of nothing but stars and letters, the usual ones, are compared as strings.
#[derive(Clone, Debug)]
pub(super) enum Glob {
    Exactly(Box<str>),
    Stars {
        /// What stands before the first star.
        head: Box<str>,
        /// What stands between two stars, in order.
        middle: Box<[Finder<'static>]>,
        /// What stands after the last star.
        tail: Box<str>,
    },
    Steps {
        /// The letters before the first wildcard, which most names do not begin with.
        head: Box<str>,
        all: Box<[Step]>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Literal(char),
    AnyChar,
    AnyRun,
    OneOf {
        negated: bool,
        ranges: Box<[(char, char)]>,
    },
}

impl Glob {
    pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Self, GlobError> {
        let steps = parse_steps(text, dialect)?;
        let pieces: Vec<&[Step]> = steps.split(|step| *step == Step::AnyRun).collect();
        let literals: Option<Vec<String>> = pieces.iter().map(|piece| literal(piece)).collect();
        Ok(match literals.as_deref() {
            Some([only]) => Self::Exactly(only.as_str().into()),
            Some([head, middle @ .., tail]) => Self::Stars {
                head: head.as_str().into(),
                middle: middle
                    .iter()
                    .map(|piece| Finder::new(piece).into_owned())
                    .collect(),
                tail: tail.as_str().into(),
            },
            _ => {
                let is_wild = |step: &Step| !matches!(step, Step::Literal(_));
                let head = steps.split(is_wild).next().and_then(literal);
                Self::Steps {
                    head: head.unwrap_or_default().into(),
                    all: steps.into(),
                }
            }
        })
    }

    /// Whether it fits every name.
    pub(super) fn is_everything(&self) -> bool {
        matches!(self, Self::Stars { head, middle, tail }
            if head.is_empty() && middle.is_empty() && tail.is_empty())
    }

    pub(super) fn is_literal(&self) -> bool {
        matches!(self, Self::Exactly(_))
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exactly(text) => **text == *name,
            Self::Stars { head, middle, tail } => without_head(name, head)
                .and_then(|rest| without_tail(rest, tail))
                .is_some_and(|rest| holds_in_order(middle, rest)),
            Self::Steps { head, all } => without_head(name, head).is_some() && walk(all, name),
        }
    }
}

/// What follows the head. An empty one is not compared: it has no memory of its own, and a comparison
/// of no bytes at an address that is none cost more than all else that a rule is asked (200 ns where
/// `memcmp` is made of masked loads).
fn without_head<'a>(name: &'a str, head: &str) -> Option<&'a str> {
    if head.is_empty() {
        return Some(name);
    }
    name.strip_prefix(head)
}

/// What stands before the tail; as for the head.
fn without_tail<'a>(name: &'a str, tail: &str) -> Option<&'a str> {
    if tail.is_empty() {
        return Some(name);
    }
    name.strip_suffix(tail)
}

fn literal(steps: &[Step]) -> Option<String> {
    let letters = steps.iter().map(|step| match step {
        Step::Literal(letter) => Some(*letter),
        _ => None,
    });
    letters.collect()
}

/// Whether the pieces stand one after another; taking each as early as possible misses nothing.
fn holds_in_order(pieces: &[Finder<'static>], text: &str) -> bool {
    let mut rest = text.as_bytes();
    pieces.iter().all(|piece| {
        let end = piece.find(rest).map(|at| at + piece.needle().len());
        rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
        end.is_some()
    })
}

/// Greedy with one point of return: when what follows the last `*` does not fit, that `*` takes one
/// character more. Earlier ones never need to be reconsidered.
fn walk(steps: &[Step], name: &str) -> bool {
    let (mut pattern, mut rest) = (steps, name);
    let mut last_run: Option<(&[Step], &str)> = None;
    loop {
        if let [Step::AnyRun, after @ ..] = pattern {
            last_run = Some((after, rest));
            pattern = after;
            continue;
        }
        let mut letters = rest.chars();
        match (pattern, letters.next()) {
            ([], None) => return true,
            ([step, after @ ..], Some(letter)) if step.takes(letter) => {
                (pattern, rest) = (after, letters.as_str());
            }
            _ => {
                let Some((after, from)) = last_run else {
                    return false;
                };
                let mut letters = from.chars();
                if letters.next().is_none() {
                    return false;
                }
                last_run = Some((after, letters.as_str()));
                (pattern, rest) = (after, letters.as_str());
            }
        }
    }
}

impl Step {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Literal(own) => *own == letter,
            Self::AnyChar | Self::AnyRun => true,
            Self::OneOf { negated, ranges } => {
                let listed = ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&letter));
                listed != *negated
            }
        }
    }
}

fn parse_steps(text: &str, dialect: Dialect) -> Result<Vec<Step>, GlobError> {
    let mut steps = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' if steps.last() == Some(&Step::AnyRun) => {}
            '*' => steps.push(Step::AnyRun),
            '?' => steps.push(Step::AnyChar),
            '[' => steps.push(parse_class(&mut letters)?),
            '\\' => {
                let escaped = letters.next().ok_or(GlobError::DanglingEscape)?;
                steps.push(Step::Literal(escaped));
            }
            _ if dialect.reserves(letter) => return Err(GlobError::Reserved(letter)),
            _ if letter.is_control() => return Err(GlobError::Control),
            _ => steps.push(Step::Literal(letter)),
        }
    }
    Ok(steps)
}

/// Reads a class up to its `]`; one that comes first stands for itself.
fn parse_class(letters: &mut std::str::Chars<'_>) -> Result<Step, GlobError> {
    let body = letters.as_str();
    let negated = body.starts_with(['!', '^']);
    if negated {
        letters.next();
    }
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let low = letters.next().ok_or(GlobError::OpenClass)?;
        if low == ']' && !ranges.is_empty() {
            let ranges = ranges.into();
            return Ok(Step::OneOf { negated, ranges });
        }
        let mut ahead = letters.clone();
        let high = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) if high != ']' => {
                *letters = ahead;
                high
            }
            _ => low,
        };
        if low.is_control() || high.is_control() {
            return Err(GlobError::Control);
        }
        if low > high {
            return Err(GlobError::BackwardRange(low, high));
        }
        ranges.push((low, high));
    }
}
