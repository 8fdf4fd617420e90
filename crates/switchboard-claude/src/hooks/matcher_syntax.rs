//! Checks the syntax of hook matchers: regular expressions of JavaScript without flags.
//!
//! JavaScript accepts more than most engines, such as a lone `]` or `{`. The check finds the errors
//! that make `new RegExp` throw, except invalid names of groups. It never rejects a valid
//! expression.

/// Returns why the pattern is not a regular expression. `*` alone matches every tool.
pub(crate) fn check_matcher(pattern: &str) -> Result<(), &'static str> {
    if pattern == "*" {
        return Ok(());
    }
    Parser {
        rest: pattern.chars().collect::<Vec<_>>().into_iter().peekable(),
        open_groups: 0,
        can_repeat: false,
    }
    .run()
}

struct Parser {
    rest: std::iter::Peekable<std::vec::IntoIter<char>>,
    open_groups: usize,
    /// Whether a quantifier may follow.
    can_repeat: bool,
}

impl Parser {
    fn run(mut self) -> Result<(), &'static str> {
        while let Some(letter) = self.rest.next() {
            match letter {
                '\\' => {
                    self.rest.next().ok_or("it ends with a backslash")?;
                    self.can_repeat = true;
                }
                '[' => self.skip_class()?,
                '(' => self.open_group()?,
                ')' => {
                    let open = self.open_groups.checked_sub(1);
                    self.open_groups = open.ok_or("`)` without `(`")?;
                    self.can_repeat = true;
                }
                '*' | '+' | '?' => {
                    if !self.can_repeat {
                        return Err("there is nothing to repeat");
                    }
                    self.rest.next_if_eq(&'?');
                    self.can_repeat = false;
                }
                '|' | '^' | '$' => self.can_repeat = false,
                _ => self.can_repeat = true,
            }
        }
        match self.open_groups {
            0 => Ok(()),
            _ => Err("`(` without `)`"),
        }
    }

    fn open_group(&mut self) -> Result<(), &'static str> {
        self.open_groups += 1;
        self.can_repeat = false;
        if self.rest.next_if_eq(&'?').is_some() {
            let kind = self.rest.next();
            if !matches!(kind, Some(':' | '=' | '!' | '<')) {
                // Modifiers such as `(?i:` exist in recent versions only.
                let is_modifier = matches!(kind, Some('i' | 'm' | 's' | '-'));
                return if is_modifier {
                    Ok(())
                } else {
                    Err("invalid group")
                };
            }
        }
        Ok(())
    }

    /// Skips a class such as `[a-z]`.
    fn skip_class(&mut self) -> Result<(), &'static str> {
        loop {
            match self.rest.next().ok_or("`[` without `]`")? {
                ']' => break,
                '\\' => drop(self.rest.next()),
                _ => {}
            }
        }
        self.can_repeat = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_expressions_are_found() {
        let cases = [
            ("(", "`(` without `)`"),
            ("a)", "`)` without `(`"),
            ("[a", "`[` without `]`"),
            ("a\\", "it ends with a backslash"),
            ("*a", "there is nothing to repeat"),
            ("a|*", "there is nothing to repeat"),
            ("a**", "there is nothing to repeat"),
            ("(?", "invalid group"),
            ("(?x)", "invalid group"),
        ];
        for (pattern, problem) in cases {
            assert_eq!(check_matcher(pattern), Err(problem), "{pattern}");
        }
    }

    #[test]
    fn valid_expressions_are_accepted() {
        for pattern in [
            "",
            "*",
            "Bash",
            "Edit|Write",
            "mcp__.*",
            "^mcp__[a-z_-]+__(read|list)$",
            "a*?b+?c??",
            "(?:a)(?=b)(?!c)(?<name>d)(?<=e)",
            "a{2}",
            "{",
            "]",
            "[]]",
            "[\\]]",
            "\\(",
            "a{1,2}?",
        ] {
            assert_eq!(check_matcher(pattern), Ok(()), "{pattern}");
        }
    }
}
