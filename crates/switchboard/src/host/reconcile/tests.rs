use super::*;
use switchboard_config::{ConfigSource, ConfigSources, ServerConfig, load};

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

fn names(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
    let removed = plan.remove.iter().map(ServerName::as_str).collect();
    (
        removed,
        plan.add.iter().map(|spec| spec.name().as_str()).collect(),
    )
}

#[test]
fn only_what_changed_is_touched() {
    let current = servers(&[("same", "a"), ("gone", "b"), ("changed", "c")]);
    let plan = between(
        &current,
        servers(&[("same", "a"), ("changed", "d"), ("new", "e")]),
    );
    assert_eq!(
        names(&plan),
        (vec!["changed", "gone"], vec!["changed", "new"])
    );
}

#[test]
fn the_same_servers_need_no_plan() {
    let current = servers(&[("a", "x"), ("b", "y")]);
    assert_eq!(names(&between(&current, current.clone())), (vec![], vec![]));
}

/// Entries with these names and commands; one without a command is invalid.
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

fn filed(written: &[(&str, &str)]) -> BTreeMap<ServerName, Filed> {
    let filed = entries(written).into_iter().map(|entry| {
        let admission = entry.decide_launch(&Trust::none());
        (entry.name().clone(), Filed::from(admission))
    });
    filed.collect()
}

fn order(names: &[&str]) -> Vec<ServerName> {
    let names = names.iter();
    names.map(|name| ServerName::new(name).unwrap()).collect()
}

#[test]
fn a_reload_has_a_step_for_each_entry_and_keeps_what_is_the_same() {
    let current = filed(&[
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
    let reload = reload(&current, &known, wanted, &Trust::none());
    let steps: Vec<_> = reload
        .changes
        .iter()
        .map(|change| (change.entry.name().as_str(), change.step))
        .collect();
    assert_eq!(
        steps,
        [
            ("new", Step::Add),
            ("same", Step::Keep),
            ("changed", Step::Replace),
            ("broken", Step::Renew),
            ("mended", Step::Replace),
            ("spoilt", Step::Replace),
            ("code", Step::Refuse),
        ]
    );
    assert_eq!(reload.remove, order(&["gone"]));
    let expected = [
        "new", "same", "changed", "broken", "mended", "spoilt", "code",
    ];
    assert_eq!(reload.order, order(&expected));
}

#[test]
fn what_did_not_come_from_files_stays_where_it_stands() {
    let is_filed = |name: &ServerName| name.as_str().starts_with('f');
    let arranged = |current: &[&str], wanted: &[&str]| {
        let names = arrange(&order(current), is_filed, order(wanted));
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let current = ["a", "f1", "b", "f2", "c"];
    assert_eq!(arranged(&current, &["f1", "f2"]), current);
    assert_eq!(
        arranged(&current, &["f2", "f1"]),
        ["a", "f2", "b", "f1", "c"]
    );
    assert_eq!(arranged(&current, &["f2"]), ["a", "f2", "b", "c"]);
    assert_eq!(arranged(&current, &[]), ["a", "b", "c"]);
    assert_eq!(
        arranged(&current, &["f0", "f1", "f2", "f3"]),
        ["a", "f0", "b", "f1", "f2", "f3", "c"]
    );
    assert_eq!(arranged(&["a"], &["f1", "f2"]), ["a", "f1", "f2"]);
}
