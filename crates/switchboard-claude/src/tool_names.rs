//! Patterns for MCP tools, as the CLI expects them in `--allowedTools` and `--disallowedTools`.

/// Matches every tool of every MCP server.
pub(crate) const ALL_SERVERS_PATTERN: &str = "mcp__*";

/// Returns the pattern that matches every tool of a server: `mcp__<server>`.
///
/// Every character other than an ASCII letter, an ASCII digit, `_` and `-` becomes `_`, as in the
/// tool names that the model uses. The pattern fits [`Options::allowed_tools`] and
/// [`Options::disallowed_tools`].
///
/// ```
/// let pattern = switchboard_claude::server_tools_pattern("my calculator");
/// assert_eq!(pattern, "mcp__my_calculator");
/// ```
///
/// [`Options::allowed_tools`]: crate::Options::allowed_tools
/// [`Options::disallowed_tools`]: crate::Options::disallowed_tools
pub fn server_tools_pattern(server: &str) -> String {
    let chars = server.chars().map(|char| match char {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => char,
        _ => '_',
    });
    format!("mcp__{}", chars.collect::<String>())
}
