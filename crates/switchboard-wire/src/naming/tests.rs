use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use switchboard_testkit::repetitions;

use super::*;

fn server(text: &str) -> ServerName {
    ServerName::new(text).unwrap()
}

fn wire(server_name: &str, tool: &str) -> String {
    wire_name(&server(server_name), &tool.into()).to_string()
}

fn pair(server_name: &str, tool: &str) -> (ServerName, ToolName) {
    (server(server_name), tool.into())
}

/// Returns each pair's wire name, or the conflict with the tool that has the name.
fn assign(pairs: &[(ServerName, ToolName)]) -> Vec<Result<WireName, NameClash>> {
    let encoded: Vec<_> = pairs.iter().map(|(s, t)| EncodedName::new(s, t)).collect();
    let names: Vec<_> = encoded.iter().map(|it| (&it.wire, it.is_exact)).collect();
    let owners = assign_wire_names(&names);
    let outcome = |(index, name): (usize, &EncodedName)| {
        let wire = name.wire.clone();
        let (server, tool) = pairs[owners[&wire]].clone();
        let holder = ToolId::new(server, tool);
        (owners[&wire] == index)
            .then(|| wire.clone())
            .ok_or(NameClash { wire, holder })
    };
    encoded.iter().enumerate().map(outcome).collect()
}

#[test]
fn a_plain_pair_is_encoded_as_it_is() {
    let cases = [
        ("fs", "read_file", "mcp__fs__read_file"),
        ("my-server", "x", "mcp__my-server__x"),
        ("a_b", "_private", "mcp__a_b___private"),
        ("a", "b__c", "mcp__a__b__c"),
        ("a", "_", "mcp__a___"),
        ("A", "Tool", "mcp__A__Tool"),
    ];
    for (server, tool, expected) in cases {
        assert_eq!(wire(server, tool), expected);
    }
}

#[test]
fn changed_part_ends_with_hash() {
    // Literal values: names must not change between releases.
    let cases = [
        ("my server", "x", "mcp__my_server_ea10f4f1__x"),
        ("evil__foo", "x", "mcp__evil_foo_56c1bcec__x"),
        ("_a", "x", "mcp__a_e8c02bc3__x"),
        ("a_", "x", "mcp__a_e517dfec__x"),
        ("🦀", "x", "mcp__server_dc1b02ea__x"),
        ("fs", "", "mcp__fs__tool_9b613ab1"),
        ("fs", "a.b", "mcp__fs__a_b_fb51dd2d"),
        ("fs", "🦀", "mcp__fs____712b9666"),
        ("é", "é", "mcp__server_1d9b2f68____d6637e33"),
    ];
    for (server, tool, expected) in cases {
        assert_eq!(wire(server, tool), expected);
    }
}

#[test]
fn shortened_server_name_keeps_its_last_words() {
    let cases = [
        (
            "modelcontextprotocol-server-everything",
            "server-everything_335d1169",
            Some("modelcontextprotocol-se_335d1169"),
        ),
        (
            "@modelcontextprotocol/server-memory",
            "server-memory_1f40eae6",
            Some("modelcontextprotocol_se_1f40eae6"),
        ),
        ("my server", "my_server_ea10f4f1", None),
        ("fs", "fs", None),
    ];
    for (name, part, former) in cases {
        let name = server(name);
        assert_eq!(server_part(&name), part);
        assert_eq!(former_server_part(&name).as_deref(), former);
    }
    let name = server("modelcontextprotocol-server-everything");
    assert_eq!(
        former_wire_name(&name, &"echo".into()).unwrap().as_str(),
        "mcp__modelcontextprotocol-se_335d1169__echo"
    );
    assert_eq!(former_wire_name(&server("fs"), &"echo".into()), None);
}

#[test]
fn long_names_are_truncated_and_distinct() {
    let long = "x".repeat(200);
    let longer = "x".repeat(201);
    let names = [
        wire("fs", &long),
        wire("fs", &longer),
        wire(&long, "t"),
        wire(&longer, "t"),
        wire(&long, &long),
    ];
    for (index, name) in names.iter().enumerate() {
        assert!(name.len() <= MAX_WIRE_CHARS, "{name}");
        assert!(!names[..index].contains(name), "{name} twice");
    }
    assert_eq!(names[0].len(), MAX_WIRE_CHARS);
}

#[test]
fn longest_fitting_name_stays_unchanged() {
    let fits = "t".repeat(MAX_WIRE_CHARS - "mcp__fs__".len());
    assert_eq!(wire("fs", &fits), format!("mcp__fs__{fits}"));
    assert_ne!(wire("fs", &format!("{fits}t")), format!("mcp__fs__{fits}t"));
    let server_fits = "s".repeat(MAX_SERVER_CHARS);
    assert_eq!(server_part(&server(&server_fits)), server_fits);
    assert_eq!(
        server_part(&server(&format!("{server_fits}s"))).len(),
        MAX_SERVER_CHARS
    );
}

#[test]
fn hash_depends_on_name_boundary() {
    assert_ne!(
        short_hash(&["ab", "c"]),
        short_hash(&["a", "bc"]),
        "the pair is hashed, not its concatenation"
    );
    assert_ne!(short_hash(&["a\0", "b"]), short_hash(&["a", "\0b"]));
}

#[test]
fn only_complete_wire_names_split() {
    let cases = [
        ("mcp__fs__read", Some(("fs", "read"))),
        ("mcp__fs___read", Some(("fs", "_read"))),
        ("mcp__fs__a__b", Some(("fs", "a__b"))),
        ("mcp__fs__", None),
        ("mcp__fs", None),
        ("mcp____read", None),
        ("mcp__", None),
        ("fs__read", None),
        ("", None),
    ];
    for (name, expected) in cases {
        assert_eq!(split_wire_name(name), expected, "{name}");
    }
}

#[test]
fn exact_name_wins_in_any_order() {
    let changed = pair("fs", "a.b");
    let squatter = pair("fs", &tool_part(&changed.0, &changed.1));
    for pairs in [
        vec![changed.clone(), squatter.clone()],
        vec![squatter.clone(), changed.clone()],
    ] {
        for (named, outcome) in pairs.iter().zip(assign(&pairs)) {
            let conflict = NameClash {
                wire: wire_name(&changed.0, &changed.1),
                holder: ToolId::new(squatter.0.clone(), squatter.1.clone()),
            };
            let expected = if *named == squatter {
                Ok(conflict.wire)
            } else {
                Err(conflict)
            };
            assert_eq!(outcome, expected);
        }
    }
}

#[test]
fn duplicate_pair_is_named_once() {
    let outcomes = assign(&[pair("fs", "read"), pair("fs", "read")]);
    assert!(outcomes[0].is_ok());
    assert_eq!(
        outcomes[1].as_ref().unwrap_err().to_string(),
        "the name `mcp__fs__read` already belongs to read of server fs"
    );
}

fn raw_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-cA-C_-]{1,6}",
        "[a-c]{0,2}__[a-c]{0,2}",
        "_{1,4}",
        "[é🦀 ./*]{1,3}",
        "(e\u{301}|é|E|e){1,2}",
        "(u\u{308}|ü|Å|\u{212b}|A\u{30a}|ﬁ|fi){1,3}",
        "[ab]{190,200}",
        "[ab]{190}(é|e\u{301}|_|__|\\.){1,10}",
        "[a-b]{20,60}",
        any::<String>(),
        // Names equal to the encoding of other names.
        ("[ab]\\.[ab]", "[ab]{1,2}")
            .prop_map(|(tool, s)| tool_part(&server(&s), &tool.as_str().into())),
        "[ab]__[ab]".prop_map(|s| server_part(&server(&s))),
    ]
}

fn any_pair() -> impl Strategy<Value = (ServerName, ToolName)> {
    let named = raw_name().prop_filter_map("valid server name", |s| ServerName::new(&s).ok());
    (named, raw_name().prop_map(ToolName::from))
}

/// All pairs in one list, so that each is compared with every other.
#[test]
fn stress_names_never_collide_silently() {
    let mut runner = TestRunner::default();
    let mut make = || any_pair().new_tree(&mut runner).unwrap().current();
    let pairs: Vec<_> = (0..repetitions(5_000)).map(|_| make()).collect();
    let mut named = HashMap::new();
    let mut rejected = Vec::new();
    for (pair, outcome) in pairs.iter().zip(assign(&pairs)) {
        match outcome {
            Ok(name) => assert_eq!(named.insert(name, pair), None, "{pair:?}"),
            Err(conflict) => rejected.push((pair, conflict)),
        }
    }
    for (pair, conflict) in rejected {
        let (server, tool) = named[&conflict.wire];
        let holder = ToolId::new(server.clone(), tool.clone());
        assert_eq!(
            conflict.to_string(),
            format!("the name `{}` already belongs to {holder}", conflict.wire),
            "{pair:?}"
        );
    }
    let distinct: HashSet<_> = pairs.iter().collect();
    assert!(named.len() <= distinct.len());
    // Conflicts between different pairs are rare: squatters, and hash collisions (1 in 2^32).
    assert!(named.len() * 10 > distinct.len() * 9, "{}", named.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn wire_name_is_valid_and_splits_back((server, tool) in any_pair()) {
        let name = wire_name(&server, &tool);
        prop_assert!(name.as_str().len() <= MAX_WIRE_CHARS);
        prop_assert!(name.as_str().chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let (s, t) = (server_part(&server), tool_part(&server, &tool));
        prop_assert!(!s.contains("__") && !s.starts_with('_') && !s.ends_with('_') && !s.is_empty());
        prop_assert_eq!(split_wire_name(name.as_str()), Some((s.as_str(), t.as_str())));
    }

    #[test]
    fn names_of_a_list_are_unique(pairs in vec(any_pair(), 0..40)) {
        let outcomes = assign(&pairs);
        prop_assert_eq!(outcomes.len(), pairs.len());
        let mut owners = HashMap::new();
        for (pair, outcome) in pairs.iter().zip(&outcomes) {
            if let Ok(name) = outcome {
                prop_assert_eq!(name, &wire_name(&pair.0, &pair.1));
                prop_assert!(owners.insert(name, pair).is_none());
            }
        }
        for (pair, outcome) in pairs.iter().zip(&outcomes) {
            if let Err(conflict) = outcome {
                prop_assert_eq!(&conflict.wire, &wire_name(&pair.0, &pair.1));
                let (server, tool) = owners[&conflict.wire];
                prop_assert_eq!(&conflict.holder, &ToolId::new(server.clone(), tool.clone()));
            }
        }
    }

    #[test]
    fn exact_names_do_not_depend_on_order(pairs in vec(any_pair(), 0..20)) {
        let named = |pairs: &[(ServerName, ToolName)]| {
            let mut exact: Vec<_> = assign(pairs)
                .into_iter()
                .zip(pairs)
                .filter(|(name, (s, t))| name.is_ok() && EncodedName::new(s, t).is_exact)
                .map(|(name, _)| name.unwrap())
                .collect();
            exact.sort();
            exact
        };
        let backwards: Vec<_> = pairs.iter().rev().cloned().collect();
        prop_assert_eq!(named(&pairs), named(&backwards));
    }
}
