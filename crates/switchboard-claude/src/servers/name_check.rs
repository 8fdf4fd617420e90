//! Rejects server names for which the tools of two servers would have the same names.

use std::collections::BTreeMap;

use crate::tool_names::server_tools_pattern;

/// Checks that each name is valid and that no two servers get the same tool prefix. The error says
/// which name to change.
pub(crate) fn check_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let mut prefixes = BTreeMap::new();
    for name in names {
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(format!(
                "invalid server name {name:?}; use letters, digits, `-` and `_`"
            ));
        }
        let prefix = server_tools_pattern(name);
        if let Some(other) = prefixes.insert(prefix.clone(), name) {
            return Err(format!(
                "servers {other:?} and {name:?} would share the tool prefix `{prefix}__`; rename one"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colliding_names_are_rejected() {
        assert_eq!(check_names(["calc", "my calc", "Calc"]), Ok(()));
        let error = check_names(["my calc", "my_calc"]).unwrap_err();
        assert!(error.contains("`mcp__my_calc__`"), "{error}");
        assert!(check_names([""]).is_err());
        assert!(check_names(["a\nb"]).is_err());
    }
}
