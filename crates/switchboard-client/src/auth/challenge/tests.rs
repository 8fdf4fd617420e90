use proptest::prelude::*;

use super::*;

fn parse(header: &str) -> Challenge {
    Challenge::parse([header.as_bytes()])
}

/// Formats each scheme as `Scheme name=value name=value`.
fn format_schemes(challenge: &Challenge) -> Vec<String> {
    let schemes = challenge.schemes().iter();
    let texts = schemes.map(|scheme| {
        let params = scheme
            .params
            .iter()
            .map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", scheme.scheme, params.collect::<String>())
    });
    texts.collect()
}

#[test]
fn valid_parts_of_headers_are_kept() {
    for (header, expected) in [
        ("", vec![]),
        ("Bearer", vec!["Bearer"]),
        ("Bearer realm=\"x\"", vec!["Bearer realm=x"]),
        ("Bearer realm=\"\", scope=s", vec!["Bearer realm= scope=s"]),
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
        // These malformed headers were sent by real servers.
        ("realm=\"no scheme\"", vec![]),
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
        assert_eq!(format_schemes(&parse(header)), expected, "{header}");
    }
}

#[test]
fn several_headers_are_combined() {
    let values = ["Basic realm=a", "scope=no-scheme", "Bearer scope=b"];
    let challenge = Challenge::parse(values.map(str::as_bytes));
    assert_eq!(
        format_schemes(&challenge),
        ["Basic realm=a", "Bearer scope=b"]
    );
    assert_eq!(challenge.bearer().unwrap().param("SCOPE"), Some("b"));
}

#[test]
fn oversized_headers_are_cut_between_values() {
    let long = format!(
        "Bearer scope=\"s\", resource_metadata=\"https://{}\"",
        "a".repeat(64 * 1024)
    );
    assert_eq!(format_schemes(&parse(&long)), ["Bearer scope=s"]);

    let many = "A x=1, ".repeat(9_000);
    let many = parse(&many);
    assert_eq!(many.schemes().len(), MAX_SCHEMES);

    let params = format!("Bearer {}", "x=1, ".repeat(1_000));
    assert_eq!(parse(&params).schemes()[0].params.len(), MAX_PARAMS);

    let headers = vec![b"Bearer realm=0123456789".as_slice(); 10_000];
    assert_eq!(Challenge::parse(headers).schemes().len(), MAX_SCHEMES);
}

#[test]
fn parameters_of_dropped_scheme_are_dropped() {
    let many = format!("{}Evil, realm=evil", "A x=1, ".repeat(MAX_SCHEMES));
    assert!(!format_schemes(&parse(&many)).concat().contains("evil"));
}

#[test]
fn display_is_sanitized() {
    let header = "Bearer realm=\"a\u{202e}b\", error=\"invalid_token\", error_description=\"It \u{200b}expired\", Basic";
    assert_eq!(
        parse(header).to_string(),
        "Bearer (realm: ab, error: invalid_token, error description: It expired) or Basic"
    );
    assert_eq!(Challenge::default().to_string(), "");
}

proptest! {
    #[test]
    fn any_input_stays_within_limits(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12)) {
        let challenge = Challenge::parse(values.iter().map(Vec::as_slice));
        prop_assert!(challenge.schemes().len() <= MAX_SCHEMES);
        let size: usize = challenge.schemes().iter().flat_map(|scheme| &scheme.params).map(|(name, value)| name.len() + value.len()).sum();
        prop_assert!(size <= 3 * MAX_BYTES);
        let has_controls = challenge.to_string().contains(['\n', '\x1b']);
        prop_assert!(!has_controls);
    }
}
