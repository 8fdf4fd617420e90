//! Expansion of `${VAR}` and `${VAR:-default}`, and of text that looks similar.

use std::collections::HashMap;

use switchboard_config::{ExpandError, expand};

#[test]
fn only_two_reference_forms_are_expanded() {
    let environment = HashMap::from(
        [("A", "1"), ("_b2", "2"), ("EMPTY", ""), ("NESTED", "${A}")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    for (text, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "1"),
        ("x${A}y${_b2}z", "x1y2z"),
        ("${A:-no}", "1"),
        ("${NO:-yes}", "yes"),
        ("${NO:-}", ""),
        ("${NO:-a:-b $c {}", "a:-b $c {"),
        ("${EMPTY}", ""),
        ("${EMPTY:-no}", ""),
        ("${NESTED}", "${A}"),
        ("${NO:-${A}}", "${A}"),
        ("$A $$ $ {A}", "$A $$ $ {A}"),
        ("$${A}", "$1"),
        ("${A", "${A"),
        ("${A} ${A:-x", "1 ${A:-x"),
        ("${}", "${}"),
        ("${1A}", "${1A}"),
        ("${A-B}", "${A-B}"),
        ("${A:B}", "${A:B}"),
        ("${ A }", "${ A }"),
        ("${env:A}", "${env:A}"),
        ("${${A}", "${1"),
        ("${ü}", "${ü}"),
    ] {
        assert_eq!(
            expand(text, &environment).as_deref(),
            Ok(expected),
            "{text}"
        );
    }
}

#[test]
fn unset_variable_error_contains_name() {
    let nothing = |_: &str| None;
    assert_eq!(
        expand("a ${FIRST} ${SECOND}", &nothing),
        Err(ExpandError::Unset {
            name: "FIRST".to_owned()
        })
    );
}
