//! Tests of conditions on the arguments of a call.

use serde_json::json;

use super::*;

/// Returns whether an allow rule with this pattern matches, and whether a deny rule does.
fn matches(pattern: &str, arguments: &Value) -> (bool, bool) {
    let target = Target::new("fs", "read").with(arguments);
    let decide =
        |rule: Rule| target.decide(&Policy::new([rule.argument_pattern(pattern).unwrap()]));
    (
        decide(allow("mcp__fs")).action == Action::Allow,
        decide(deny("mcp__fs")).action == Action::Deny,
    )
}

const BOTH: (bool, bool) = (true, true);
const DENY_ONLY: (bool, bool) = (false, true);
const NEITHER: (bool, bool) = (false, false);

#[test]
fn named_argument_is_compared_completely() {
    let cases = [
        ("path=/srv/*", json!({"path": "/srv/a/b"}), BOTH),
        ("path=/srv/*", json!({"path": "x/srv/a"}), NEITHER),
        ("path=/srv", json!({"path": "/srv/a"}), NEITHER),
        ("path=*.txt", json!({"path": "a/b.txt"}), BOTH),
        ("path=*.txt", json!({"path": "a/b.TXT"}), NEITHER),
        ("path=?", json!({"path": "é"}), BOTH),
        ("path=[a-c]*", json!({"path": "beta"}), BOTH),
        ("path=", json!({"path": ""}), BOTH),
        ("text=a*z", json!({"text": "a\n\"\nz"}), BOTH),
        ("query=a=b", json!({"query": "a=b"}), BOTH),
        ("call=f(x)", json!({"call": "f(x)"}), BOTH),
        ("my arg=x", json!({"my arg": "x"}), BOTH),
        // Only the argument `path` is compared.
        (
            "path=/srv/*",
            json!({"Path": "/srv/a", "to": "/srv/a"}),
            NEITHER,
        ),
        ("path=*", json!({}), NEITHER),
    ];
    for (pattern, arguments, expected) in cases {
        assert_eq!(
            matches(pattern, &arguments),
            expected,
            "{pattern} on {arguments}"
        );
    }
}

#[test]
fn other_values_are_compared_as_json() {
    let cases = [
        ("n=7", json!({"n": 7}), BOTH),
        ("n=7", json!({"n": "7"}), BOTH),
        ("n=7", json!({"n": 7.0}), DENY_ONLY),
        ("n=7.5", json!({"n": 7.5}), BOTH),
        ("n=-*", json!({"n": -3}), BOTH),
        ("force=true", json!({"force": true}), BOTH),
        ("force=null", json!({"force": null}), BOTH),
        (
            r#"o=\{"a":1,"b":\[2]\}"#,
            json!({"o": {"b": [2], "a": 1}}),
            BOTH,
        ),
        (r#"l=\["a",*]"#, json!({"l": ["a", "b"]}), BOTH),
    ];
    for (pattern, arguments, expected) in cases {
        assert_eq!(
            matches(pattern, &arguments),
            expected,
            "{pattern} on {arguments}"
        );
    }
}

#[test]
fn pointer_selects_nested_value() {
    let arguments = json!({"a": {"b": [{"c": "x"}], "d/e": "y", "~": "z"}, "/f": "w"});
    let cases = [
        ("/a/b/0/c=x", BOTH),
        ("/a/b/1/c=x", NEITHER),
        ("/a/b/00/c=x", NEITHER),
        ("/a/d~1e=y", BOTH),
        ("/a/~0=z", BOTH),
        ("/~1f=w", BOTH),
        ("/a/b/0/c/d=*", NEITHER),
        ("a.b=*", NEITHER),
    ];
    for (pattern, expected) in cases {
        assert_eq!(matches(pattern, &arguments), expected, "{pattern}");
    }
}

#[test]
fn all_arguments_are_sorted_json() {
    let cases = [
        (r#"{"a":1,"b":"x"}"#, json!({"b": "x", "a": 1}), BOTH),
        (r#"*"b":"x"*"#, json!({"b": "x", "a": 1}), BOTH),
        ("*rm -rf*", json!({"cmd": "rm -rf /"}), BOTH),
        ("*rm -rf*", json!({"cmd": ["rm", "-rf"]}), NEITHER),
        ("{}", json!({}), BOTH),
        ("*", json!({}), BOTH),
        (r"*line\\nend*", json!({"t": "line\nend"}), BOTH),
    ];
    for (pattern, arguments, expected) in cases {
        assert_eq!(
            matches(pattern, &arguments),
            expected,
            "{pattern} on {arguments}"
        );
    }
}

#[test]
fn allow_rejects_path_escapes() {
    let escaping = [
        "/srv/../etc/passwd",
        "/srv/..",
        r"/srv/..\..\etc",
        "/srv/%2e%2E/etc",
        "/srv/.%2e%2fetc",
        "/srv/a%5c..%5cb",
        "/srv/x?to=../y",
        "/srv/a ../b",
        "/srv/secret\0.txt",
        "/srv/.\t./etc",
        "/srv/.\n./etc",
        "/srv/.%09./etc",
        "/srv/.\u{200b}./etc",
        "/srv/%252e%252e/etc",
        "/srv/%25%32%65%252e/etc",
        "/srv/..%00/etc",
        "/srv/secret%00.txt",
        "/srv/%c0%ae%c0%ae/etc",
        "/srv/%C0%AF",
        "/srv/\u{ff0e}\u{ff0e}/etc",
        "/srv/%ef%bc%8e%ef%bc%8e/etc",
        "/srv/..\u{ff0f}etc",
    ];
    for path in escaping {
        let arguments = json!({ "path": path });
        assert_eq!(matches("path=/srv/*", &arguments), DENY_ONLY, "{path:?}");
        assert_eq!(matches("*/srv/*", &arguments), DENY_ONLY, "{path:?}");
    }
    for path in [
        "/srv/a..b",
        "/srv/...",
        "/srv/v1..v2",
        "/srv/100%",
        "/srv/%41",
        "/srv/100%25",
        "/srv/caf%C3%A9",
        "/srv/two\nlines",
    ] {
        let arguments = json!({ "path": path });
        assert_eq!(matches("path=/srv/*", &arguments), BOTH, "{path:?}");
    }
    // An allow rule also searches lists, objects and keys for path escapes.
    for arguments in [
        json!({"path": ["/srv/a", "../b"]}),
        json!({"path": {"../a": 1}}),
    ] {
        assert_eq!(matches("path=*", &arguments), DENY_ONLY, "{arguments}");
    }
    assert_eq!(matches("*", &json!({"../a": 1})), DENY_ONLY);
    // In both modes, a pattern without a wildcard matches the value that it spells out, even `..`.
    assert_eq!(matches("path=../a", &json!({"path": "../a"})), BOTH);
}

#[test]
fn deny_matches_every_form_of_a_value() {
    let cases = [
        json!("/srv/../etc/passwd"),
        json!("//etc//passwd"),
        json!("/./etc/passwd"),
        json!("/../etc/passwd"),
        json!("/srv/%2e%2e/etc/passwd"),
        json!(["/srv/a", "/etc/passwd"]),
        json!({"from": {"here": "/etc/passwd"}}),
        json!({"/etc/passwd": true}),
        json!([{"a": {"/srv/../etc/passwd": 1}}]),
        json!(r"\etc\passwd"),
        json!(r"/srv\..\..\etc/passwd"),
        json!("file:///etc/passwd"),
        json!("FILE://localhost/etc/passwd"),
        json!("file:/etc/passwd"),
        json!("/%65tc/passwd"),
        json!("%2Fetc%2Fpasswd"),
        json!("file:///srv/%2e%2e/%65tc/passwd"),
        json!("  /etc/passwd\n"),
        json!("%20/etc/passwd"),
    ];
    for path in cases {
        let arguments = json!({ "path": path });
        assert_eq!(matches("path=/etc/*", &arguments), DENY_ONLY, "{arguments}");
    }
    assert_eq!(
        matches("path=/etc/*", &json!({"path": "/etcetera/x"})),
        NEITHER
    );
}

#[test]
fn oversized_values_match_deny_only() {
    let long = json!({"a": "x".repeat(2 * 1024 * 1024), "b": "x"});
    assert_eq!(matches("a=y", &long), DENY_ONLY);
    assert_eq!(matches("*", &long), DENY_ONLY);
    assert_eq!(matches("b=x", &long), BOTH);
    let deep = (0..200).fold(json!("x"), |inner, _| json!([inner]));
    assert_eq!(matches("a=y", &json!({ "a": deep })), DENY_ONLY);
    let unknown = Target {
        arguments: None,
        ..Target::new("fs", "read")
    };
    for (rule, expected) in [
        (allow("*"), Action::Ask),
        (deny("*"), Action::Deny),
        (ask("*"), Action::Ask),
    ] {
        let rules = [rule.argument_pattern("a=x").unwrap()];
        assert_eq!(unknown.decide(&Policy::new(rules)).action, expected);
    }
}

#[test]
fn all_patterns_must_match() {
    let both = |rule: Rule| {
        rule.argument_pattern("a=x")
            .unwrap()
            .argument_pattern("b=y")
            .unwrap()
    };
    for (arguments, fit) in [
        (json!({"a": "x", "b": "y"}), true),
        (json!({"a": "x", "b": "n"}), false),
        (json!({"a": "x"}), false),
    ] {
        let target = Target::new("fs", "read").with(&arguments);
        let decided = |rule| target.decide(&Policy::new([both(rule)])).action;
        assert_eq!(decided(allow("*")) == Action::Allow, fit, "{arguments}");
        assert_eq!(decided(deny("*")) == Action::Deny, fit, "{arguments}");
    }
}

#[test]
fn decision_text_shows_patterns_and_origin() {
    let rules = [
        allow("mcp__fs"),
        deny("mcp__fs__*").argument_pattern("path=/etc/*").unwrap(),
        ask("mcp__*").argument_pattern("a=x").unwrap(),
        deny("*")
            .reason("the settings cannot be used")
            .scope(RuleScope::User),
    ];
    let policy = Policy::new(rules);
    let target = Target::new("fs", "read").with(&json!({"path": "/etc/passwd"}));
    let wire = wire_name(&target.tool.server, &target.tool.tool);
    let input = target.input(&wire);
    assert_eq!(
        policy.decide(&input).to_string(),
        "denied by rule `mcp__fs__*` where `path=/etc/*` (program)"
    );
    let matching: Vec<_> = policy.matching_rules(&input);
    let matching: Vec<_> = matching.iter().map(ToString::to_string).collect();
    assert_eq!(
        matching,
        [
            "rule `mcp__fs` (program)",
            "rule `mcp__fs__*` where `path=/etc/*` (program)",
            "the settings cannot be used (user)",
        ]
    );
}

#[test]
fn conditions_apply_to_local_tools() {
    let arguments = json!({"cmd": "ls"}).as_object().unwrap().clone();
    let rule = allow("Bash").argument_pattern("cmd=ls").unwrap();
    let policy = Policy::new([rule]);
    assert_eq!(
        policy.decide_local("Bash", &arguments).action,
        Action::Allow
    );
    assert_eq!(policy.decide_local("Bash", &Map::new()).action, Action::Ask);
}

#[test]
fn invalid_conditions_are_rejected_with_reason() {
    let cases = [
        (
            "",
            "it is empty; for example, `path=/srv/*` matches the argument `path`",
        ),
        (
            "path",
            "it has no `=`; write `name=glob` for the value of an argument, or begin with `*` or `{` \
             for the JSON of all arguments",
        ),
        (
            "=x",
            "no argument is named before the `=`; write `name=glob` without spaces around the name",
        ),
        (
            "path = x",
            "no argument is named before the `=`; write `name=glob` without spaces around the name",
        ),
        (
            "*=x",
            "`*=` names no argument; `*text*` matches the JSON of all arguments",
        ),
        ("path=[a", "a `[` is never closed"),
    ];
    for (pattern, problem) in cases {
        assert_eq!(
            allow("*")
                .argument_pattern(pattern)
                .unwrap_err()
                .to_string(),
            format!("the pattern {pattern:?} is not valid: {problem}")
        );
    }
    assert!(allow("*").argument_pattern("path={a,b}").is_err());
}
