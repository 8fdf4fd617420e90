//! Names of servers that the CLI and the model can tell apart.

use std::collections::BTreeMap;

use crate::tool_names::server_tools_pattern;

/// Whether every server has a name of its own, as the tools of the model spell it; else what to do.
pub(crate) fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let mut spelled = BTreeMap::new();
    for name in names {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(format!(
                "{name:?} cannot be the name of a server: give it one of letters, digits, `-` and `_`"
            ));
        }
        let spelling = server_tools_pattern(name);
        if let Some(other) = spelled.insert(spelling.clone(), name) {
            return Err(format!(
                "the tools of the servers {other:?} and {name:?} would both be called \
                 `{spelling}__…`: rename one of them"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_model_could_not_tell_apart_are_refused() {
        assert_eq!(check_names(["calc", "my calc", "Calc"]), Ok(()));
        let refused = check_names(["my calc", "my_calc"]).unwrap_err();
        assert!(refused.contains("mcp__my_calc__…"), "{refused}");
        assert!(check_names([""]).is_err());
        assert!(check_names(["a\nb"]).is_err());
    }
}
