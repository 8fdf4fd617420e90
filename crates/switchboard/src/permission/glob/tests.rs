use proptest::prelude::*;

use super::*;

fn fits(glob: &str, name: &str) -> bool {
    Glob::parse(glob, Dialect::Name).unwrap().matches(name)
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
        assert_eq!(fits(glob, name), expected, "{glob} on {name}");
    }
}

#[test]
fn what_is_not_a_glob_is_refused_in_words() {
    let cases = [
        ("[ab", "a `[` is never closed"),
        ("[]", "a `[` is never closed"),
        ("[!]", "a `[` is never closed"),
        ("[z-a]", "the range `z-a` runs backwards"),
        ("a\\", "it ends in a `\\` that escapes nothing"),
        ("a\u{1b}[31m", "it holds a control character"),
        ("[\u{7}]", "it holds a control character"),
    ];
    for (glob, expected) in cases {
        assert_eq!(
            Glob::parse(glob, Dialect::Name).unwrap_err().to_string(),
            expected
        );
    }
    for reserved in ["{a,b}", "Bash(rm *)"] {
        assert!(matches!(
            Glob::parse(reserved, Dialect::Name),
            Err(GlobError::Reserved(_))
        ));
    }
}

#[test]
fn many_stars_do_not_explode() {
    let name = "a".repeat(2_000);
    assert!(!fits(&format!("{}b", "*a".repeat(50)), &name));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Over ASCII without separators, the path globs of the ecosystem mean the same.
    #[test]
    fn it_agrees_with_path_globs(
        glob in "([ab*?_]|\\[[ab]\\]|\\[!a\\]|\\[a-c\\]){0,8}",
        name in "[abc_]{0,8}",
    ) {
        let other = globset::Glob::new(&glob).unwrap().compile_matcher();
        prop_assert_eq!(fits(&glob, &name), other.is_match(&name));
    }

    #[test]
    fn any_text_is_compiled_or_refused(glob in any::<String>(), name in any::<String>()) {
        if let Ok(glob) = Glob::parse(&glob, Dialect::Name) {
            glob.matches(&name);
        }
    }
}
