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

/// Each pair's name, or who has it instead.
fn assign(pairs: &[(ServerName, ToolName)]) -> Vec<Result<WireName, NameClash>> {
    let spelled: Vec<_> = pairs.iter().map(|(s, t)| Spelled::new(s, t)).collect();
    let names: Vec<_> = spelled.iter().map(|it| (&it.wire, it.is_exact)).collect();
    let holders = holders(&names);
    let settle = |(place, name): (usize, &Spelled)| {
        let wire = name.wire.clone();
        let (server, tool) = pairs[holders[&wire]].clone();
        let holder = ToolId::new(server, tool);
        (holders[&wire] == place)
            .then(|| wire.clone())
            .ok_or(NameClash { wire, holder })
    };
    spelled.iter().enumerate().map(settle).collect()
}

#[test]
fn a_plain_pair_is_spelled_as_it_is() {
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
fn a_changed_part_carries_a_hash_of_the_raw_name() {
    // Written out, because a name must not change from one release to the next.
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
fn long_names_are_cut_and_told_apart() {
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
        assert!(name.len() <= WIRE_CHARS, "{name}");
        assert!(!names[..index].contains(name), "{name} twice");
    }
    assert_eq!(names[0].len(), WIRE_CHARS);
}

#[test]
fn a_name_is_kept_whole_up_to_the_last_character_that_fits() {
    let fits = "t".repeat(WIRE_CHARS - "mcp__fs__".len());
    assert_eq!(wire("fs", &fits), format!("mcp__fs__{fits}"));
    assert_ne!(wire("fs", &format!("{fits}t")), format!("mcp__fs__{fits}t"));
    let server_fits = "s".repeat(SERVER_CHARS);
    assert_eq!(server_part(&server(&server_fits)), server_fits);
    assert_eq!(
        server_part(&server(&format!("{server_fits}s"))).len(),
        SERVER_CHARS
    );
}

#[test]
fn moving_a_boundary_between_the_names_changes_the_hash() {
    assert_ne!(
        digest(&["ab", "c"]),
        digest(&["a", "bc"]),
        "the pair is hashed, not its concatenation"
    );
    assert_ne!(digest(&["a\0", "b"]), digest(&["a", "\0b"]));
}

#[test]
fn only_whole_wire_names_split() {
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
fn the_unchanged_name_wins_over_the_changed_one_wherever_it_stands() {
    let changed = pair("fs", "a.b");
    let squatter = pair("fs", &tool_part(&changed.0, &changed.1));
    for pairs in [
        vec![changed.clone(), squatter.clone()],
        vec![squatter.clone(), changed.clone()],
    ] {
        for (named, outcome) in pairs.iter().zip(assign(&pairs)) {
            let clash = NameClash {
                wire: wire_name(&changed.0, &changed.1),
                holder: ToolId::new(squatter.0.clone(), squatter.1.clone()),
            };
            let expected = if *named == squatter {
                Ok(clash.wire)
            } else {
                Err(clash)
            };
            assert_eq!(outcome, expected);
        }
    }
}

#[test]
fn a_pair_listed_twice_is_named_once() {
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
        // Names that look like what somebody else's would become.
        ("[ab]\\.[ab]", "[ab]{1,2}")
            .prop_map(|(tool, s)| tool_part(&server(&s), &tool.as_str().into())),
        "[ab]__[ab]".prop_map(|s| server_part(&server(&s))),
    ]
}

fn a_pair() -> impl Strategy<Value = (ServerName, ToolName)> {
    let named = raw_name().prop_filter_map("a server has a name", |s| ServerName::new(&s).ok());
    (named, raw_name().prop_map(ToolName::from))
}

/// All in one list, so that each is held against every other.
#[test]
fn whole_names_never_collide_or_the_tool_is_refused_with_a_reason() {
    let mut runner = TestRunner::default();
    let mut make = || a_pair().new_tree(&mut runner).unwrap().current();
    let pairs: Vec<_> = (0..repetitions(5_000)).map(|_| make()).collect();
    let mut named = HashMap::new();
    let mut refused = Vec::new();
    for (pair, outcome) in pairs.iter().zip(assign(&pairs)) {
        match outcome {
            Ok(name) => assert_eq!(named.insert(name, pair), None, "{pair:?}"),
            Err(clash) => refused.push((pair, clash)),
        }
    }
    for (pair, clash) in refused {
        let (server, tool) = named[&clash.wire];
        let holder = ToolId::new(server.clone(), tool.clone());
        assert_eq!(
            clash.to_string(),
            format!("the name `{}` already belongs to {holder}", clash.wire),
            "{pair:?}"
        );
    }
    let distinct: HashSet<_> = pairs.iter().collect();
    assert!(named.len() <= distinct.len());
    // Clashes between different pairs are rare: squatters, and one hash of four thousand million.
    assert!(named.len() * 10 > distinct.len() * 9, "{}", named.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_name_is_short_plain_and_splits_back((server, tool) in a_pair()) {
        let name = wire_name(&server, &tool);
        prop_assert!(name.as_str().len() <= WIRE_CHARS);
        prop_assert!(name.as_str().chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
        let (s, t) = (server_part(&server), tool_part(&server, &tool));
        prop_assert!(!s.contains("__") && !s.starts_with('_') && !s.ends_with('_') && !s.is_empty());
        prop_assert_eq!(split_wire_name(name.as_str()), Some((s.as_str(), t.as_str())));
    }

    #[test]
    fn a_list_is_named_injectively_and_each_by_its_own_name(pairs in vec(a_pair(), 0..40)) {
        let outcomes = assign(&pairs);
        prop_assert_eq!(outcomes.len(), pairs.len());
        let mut holders = HashMap::new();
        for (pair, outcome) in pairs.iter().zip(&outcomes) {
            if let Ok(name) = outcome {
                prop_assert_eq!(name, &wire_name(&pair.0, &pair.1));
                prop_assert!(holders.insert(name, pair).is_none());
            }
        }
        for (pair, outcome) in pairs.iter().zip(&outcomes) {
            if let Err(clash) = outcome {
                prop_assert_eq!(&clash.wire, &wire_name(&pair.0, &pair.1));
                let (server, tool) = holders[&clash.wire];
                prop_assert_eq!(&clash.holder, &ToolId::new(server.clone(), tool.clone()));
            }
        }
    }

    #[test]
    fn who_is_named_exactly_does_not_depend_on_the_order(pairs in vec(a_pair(), 0..20)) {
        let named = |pairs: &[(ServerName, ToolName)]| {
            let mut exact: Vec<_> = assign(pairs)
                .into_iter()
                .zip(pairs)
                .filter(|(name, (s, t))| name.is_ok() && Spelled::new(s, t).is_exact)
                .map(|(name, _)| name.unwrap())
                .collect();
            exact.sort();
            exact
        };
        let backwards: Vec<_> = pairs.iter().rev().cloned().collect();
        prop_assert_eq!(named(&pairs), named(&backwards));
    }
}
