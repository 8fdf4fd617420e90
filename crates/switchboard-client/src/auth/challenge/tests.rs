use proptest::prelude::*;

use super::*;

fn parse(header: &str) -> Challenge {
    Challenge::parse([header.as_bytes()])
}

fn plainly(challenge: &Challenge) -> Vec<String> {
    let offers = challenge.schemes().iter();
    let plain = offers.map(|offer| {
        let params = offer
            .params
            .iter()
            .map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", offer.scheme, params.collect::<String>())
    });
    plain.collect()
}

#[test]
fn whatever_can_be_understood_is_taken() {
    for (header, understood) in [
        ("", vec![]),
        ("Bearer", vec!["Bearer"]),
        ("Bearer realm=\"x\"", vec!["Bearer realm=x"]),
        (
            "bearer Realm = \"x\" , scope=\"a b\"",
            vec!["bearer realm=x scope=a b"],
        ),
        ("Bearer realm=\"a, b\\\"c\"", vec!["Bearer realm=a, b\"c"]),
        (
            "Basic realm=r, Bearer error=e, scope=s",
            vec!["Basic realm=r", "Bearer error=e scope=s"],
        ),
        ("Negotiate YWJj==, Basic", vec!["Negotiate", "Basic"]),
        ("Negotiate abc, Basic", vec!["Negotiate", "Basic"]),
        // Not quite right, as servers are.
        ("realm=\"nobody's\"", vec![]),
        (
            "Bearer realm=\"never closed, scope=a",
            vec!["Bearer realm=never closed, scope=a"],
        ),
        (",, Bearer ,, realm=x,", vec!["Bearer realm=x"]),
        (
            "Bearer error=\"e\" error_description=\"no comma\"",
            vec!["Bearer error=e"],
        ),
        ("{\"json\": true}", vec![]),
        (
            "Bearer resource_metadata=https://a.example/x?y=z",
            vec!["Bearer resource_metadata=https://a.example/x?y=z"],
        ),
    ] {
        assert_eq!(plainly(&parse(header)), understood, "{header}");
    }
}

#[test]
fn several_headers_are_several_challenges() {
    let values = ["Basic realm=a", "scope=nobodys", "Bearer scope=b"];
    let challenge = Challenge::parse(values.map(str::as_bytes));
    assert_eq!(plainly(&challenge), ["Basic realm=a", "Bearer scope=b"]);
    assert_eq!(challenge.bearer().unwrap().param("SCOPE"), Some("b"));
}

#[test]
fn what_is_too_long_is_cut_and_no_half_value_is_kept() {
    let long = format!(
        "Bearer scope=\"s\", resource_metadata=\"https://{}\"",
        "a".repeat(64 * 1024)
    );
    assert_eq!(plainly(&parse(&long)), ["Bearer scope=s"]);

    let many = "A x=1, ".repeat(9_000);
    let many = parse(&many);
    assert_eq!(many.schemes().len(), MAX_SCHEMES);

    let params = format!("Bearer {}", "x=1, ".repeat(1_000));
    assert_eq!(parse(&params).schemes()[0].params.len(), MAX_PARAMS);

    let headers = vec![b"Bearer realm=0123456789".as_slice(); 10_000];
    assert_eq!(Challenge::parse(headers).schemes().len(), MAX_SCHEMES);
}

#[test]
fn parameters_of_a_scheme_that_is_not_kept_go_to_nobody() {
    let many = format!("{}Evil, realm=evil", "A x=1, ".repeat(MAX_SCHEMES));
    assert!(!plainly(&parse(&many)).concat().contains("evil"));
}

#[test]
fn in_words_it_is_safe_to_print() {
    let header = "Bearer realm=\"a\u{202e}b\", error=\"invalid_token\", error_description=\"It \u{200b}expired\", Basic";
    assert_eq!(
        parse(header).to_string(),
        "Bearer (realm: ab, error: invalid_token, error description: It expired) or Basic"
    );
    assert_eq!(Challenge::default().to_string(), "");
}

proptest! {
    #[test]
    fn nothing_breaks_it(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12)) {
        let challenge = Challenge::parse(values.iter().map(Vec::as_slice));
        prop_assert!(challenge.schemes().len() <= MAX_SCHEMES);
        let size: usize = challenge.schemes().iter().flat_map(|offer| &offer.params).map(|(name, value)| name.len() + value.len()).sum();
        prop_assert!(size <= 3 * MAX_BYTES);
        let breaks = challenge.to_string().contains(['\n', '\x1b']);
        prop_assert!(!breaks);
    }
}
