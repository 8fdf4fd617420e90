use switchboard_config::{ConfigSource, ConfigSources, ServerConfig, load};

use super::*;

fn servers(entries: &[(&str, &str)]) -> BTreeMap<ServerName, LaunchSpec> {
    entries
        .iter()
        .map(|(name, command)| {
            let name = ServerName::new(name).unwrap();
            let config = ServerConfig::stdio(*command, [""; 0]);
            (name.clone(), LaunchSpec::trusted(name, config))
        })
        .collect()
}

fn names(diff: &ServerDiff) -> (Vec<&str>, Vec<&str>) {
    let removed = diff.remove.iter().map(ServerName::as_str).collect();
    (
        removed,
        diff.add.iter().map(|spec| spec.name().as_str()).collect(),
    )
}

#[test]
fn only_changed_servers_are_replaced() {
    let current = servers(&[("same", "a"), ("gone", "b"), ("changed", "c")]);
    let diff = diff_servers(
        &current,
        servers(&[("same", "a"), ("changed", "d"), ("new", "e")]),
    );
    assert_eq!(
        names(&diff),
        (vec!["changed", "gone"], vec!["changed", "new"])
    );
}

#[test]
fn same_servers_have_no_diff() {
    let current = servers(&[("a", "x"), ("b", "y")]);
    assert_eq!(
        names(&diff_servers(&current, current.clone())),
        (vec![], vec![])
    );
}

/// Creates config entries from pairs of name and command. An empty command makes an invalid entry.
fn entries(written: &[(&str, &str)]) -> Vec<ServerEntry> {
    let member = |(name, command): &(&str, &str)| match *command {
        "" => format!("{name:?}: {{}}"),
        command => format!("{name:?}: {{\"command\": {command:?}}}"),
    };
    let members: Vec<_> = written.iter().map(member).collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", members.join(", "));
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(text)],
        ..ConfigSources::default()
    };
    load(&sources, &|_: &str| None).config.servers
}

fn file_entries(written: &[(&str, &str)]) -> BTreeMap<ServerName, FileEntry> {
    let entries = entries(written).into_iter().map(|entry| {
        let decision = entry.decide_launch(&Trust::none());
        (entry.name().clone(), FileEntry::from(decision))
    });
    entries.collect()
}

fn order(names: &[&str]) -> Vec<ServerName> {
    let names = names.iter();
    names.map(|name| ServerName::new(name).unwrap()).collect()
}

#[test]
fn reload_plans_one_action_per_entry() {
    let current = file_entries(&[
        ("same", "a"),
        ("gone", "b"),
        ("changed", "c"),
        ("broken", ""),
        ("mended", ""),
        ("spoilt", "d"),
    ]);
    let known = order(&[
        "same", "gone", "changed", "broken", "mended", "spoilt", "code",
    ]);
    let wanted = entries(&[
        ("new", "n"),
        ("same", "a"),
        ("changed", "other"),
        ("broken", ""),
        ("mended", "m"),
        ("spoilt", ""),
        ("code", "k"),
    ]);
    let plan = plan_reload(&current, &known, wanted, &Trust::none());
    let actions: Vec<_> = plan
        .changes
        .iter()
        .map(|change| (change.entry.name().as_str(), change.action))
        .collect();
    assert_eq!(
        actions,
        [
            ("new", EntryAction::Add),
            ("same", EntryAction::Keep),
            ("changed", EntryAction::Replace),
            ("broken", EntryAction::UpdateReason),
            ("mended", EntryAction::Replace),
            ("spoilt", EntryAction::Replace),
            ("code", EntryAction::NameTaken),
        ]
    );
    assert_eq!(plan.remove, order(&["gone"]));
    let expected = [
        "new", "same", "changed", "broken", "mended", "spoilt", "code",
    ];
    assert_eq!(plan.order, order(&expected));
}

#[test]
fn program_servers_keep_their_positions() {
    let is_from_file = |name: &ServerName| name.as_str().starts_with('f');
    let merged = |current: &[&str], wanted: &[&str]| {
        let names = merge_order(&order(current), is_from_file, order(wanted));
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let current = ["a", "f1", "b", "f2", "c"];
    assert_eq!(merged(&current, &["f1", "f2"]), current);
    assert_eq!(merged(&current, &["f2", "f1"]), ["a", "f2", "b", "f1", "c"]);
    assert_eq!(merged(&current, &["f2"]), ["a", "f2", "b", "c"]);
    assert_eq!(merged(&current, &[]), ["a", "b", "c"]);
    assert_eq!(
        merged(&current, &["f0", "f1", "f2", "f3"]),
        ["a", "f0", "b", "f1", "f2", "f3", "c"]
    );
    assert_eq!(merged(&["a"], &["f1", "f2"]), ["a", "f1", "f2"]);
}
