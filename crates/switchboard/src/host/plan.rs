//! What has to be done to get from the servers that are to the servers that are wanted.
//!
//! Pure. Invariant: a server whose launch did not change is neither removed nor added.

use std::collections::BTreeMap;

use switchboard_config::LaunchSpec;

use crate::id::ServerName;

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) remove: Vec<ServerName>,
    pub(crate) add: Vec<LaunchSpec>,
}

pub(crate) fn between(
    current: &BTreeMap<ServerName, LaunchSpec>,
    wanted: BTreeMap<ServerName, LaunchSpec>,
) -> Plan {
    let stays = |name: &ServerName, spec: &LaunchSpec| {
        wanted
            .get(name)
            .is_some_and(|wanted| wanted.same_launch(spec))
    };
    let (keep, remove): (Vec<_>, Vec<_>) =
        current.iter().partition(|(name, spec)| stays(name, spec));
    let keep: Vec<_> = keep.into_iter().map(|(name, _)| name.clone()).collect();
    let remove = remove.into_iter().map(|(name, _)| name.clone()).collect();
    let add = wanted.into_iter().filter(|(name, _)| !keep.contains(name));
    Plan {
        remove,
        add: add.map(|(_, spec)| spec).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_config::ServerConfig;

    fn servers(entries: &[(&str, &str)]) -> BTreeMap<ServerName, LaunchSpec> {
        entries
            .iter()
            .map(|(name, command)| {
                let name = ServerName::new(name).unwrap();
                let config = ServerConfig::stdio(*command, [""; 0]);
                (name.clone(), LaunchSpec::from_code(name, config))
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
}
