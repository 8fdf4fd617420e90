use proptest::prelude::*;

use super::*;

fn matches(glob: &str, name: &str) -> bool {
    Glob::parse(glob, GlobContext::Name).unwrap().matches(name)
}

#[test]
fn globs_match_whole_names() {
    let cases = [
        ("read", "read", true),
        ("read", "reader", false),
        ("read", "Read", false),
        ("*", "", true),
        ("*", "a/b\nc", true),
        ("read_*", "read_", true),
        ("read_*", "read_a/b", true),
        ("*_file", "read_file", true),
        ("*_file", "read_files", false),
        ("*a*", "bab", true),
        ("*a*b", "abab", true),
        ("*a*b", "aba", false),
        ("a*b*c", "a__b_bc", true),
        ("a*a", "a", false),
        ("ab*b", "ab", false),
        ("*ab*ab*", "aab", false),
        ("*ab*ab*", "xabab", true),
        ("**", "anything", true),
        ("a**b", "ab", true),
        ("?", "é", true),
        ("?", "🦀", true),
        ("?", "", false),
        ("caf?", "café", true),
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("[^a-c]x", "dx", true),
        ("[]]", "]", true),
        ("[a-]", "-", true),
        ("[é]", "é", true),
        ("[é]", "e", false),
        ("[*]", "*", true),
        ("[*]", "a", false),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("[{]", "{", true),
        ("", "", true),
    ];
    for (glob, name, expected) in cases {
        assert_eq!(matches(glob, name), expected, "{glob} on {name}");
    }
}

#[test]
fn invalid_globs_are_rejected_with_reason() {
    let cases = [
        ("[ab", "a `[` is never closed"),
        ("[]", "a `[` is never closed"),
        ("[!]", "a `[` is never closed"),
        ("[z-a]", "the range `z-a` is reversed"),
        ("a\\", "it ends with a `\\` that escapes nothing"),
        ("a\u{1b}[31m", "it contains a control character"),
        ("[\u{7}]", "it contains a control character"),
    ];
    for (glob, expected) in cases {
        assert_eq!(
            Glob::parse(glob, GlobContext::Name)
                .unwrap_err()
                .to_string(),
            expected
        );
    }
    for reserved in ["{a,b}", "Bash(rm *)"] {
        assert!(matches!(
            Glob::parse(reserved, GlobContext::Name),
            Err(GlobError::Reserved(_))
        ));
    }
}

#[test]
fn many_stars_match_in_bounded_time() {
    let name = "a".repeat(2_000);
    assert!(!matches(&format!("{}b", "*a".repeat(50)), &name));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The `globset` crate matches path globs. For ASCII names without `/` it must give the same
    /// result.
    #[test]
    fn matching_agrees_with_globset(
        glob in "([ab*?_]|\\[[ab]\\]|\\[!a\\]|\\[a-c\\]){0,8}",
        name in "[abc_]{0,8}",
    ) {
        let other = globset::Glob::new(&glob).unwrap().compile_matcher();
        prop_assert_eq!(matches(&glob, &name), other.is_match(&name));
    }

    #[test]
    fn any_text_compiles_or_is_rejected(glob in any::<String>(), name in any::<String>()) {
        if let Ok(glob) = Glob::parse(&glob, GlobContext::Name) {
            glob.matches(&name);
        }
    }
}
