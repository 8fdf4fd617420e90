use super::*;

fn allows(pattern: &str, url: &str) -> bool {
    let url = CanonicalUrl::parse(url);
    let pattern = UrlPattern::parse(pattern).unwrap();
    url.is_some_and(|url| pattern.matches_allow(&url))
}

fn denies(pattern: &str, url: &str) -> bool {
    let url = CanonicalUrl::parse(url);
    let pattern = UrlPattern::parse(pattern).unwrap();
    // `ServerPolicy::check` refuses an ambiguous URL if any list contains a URL pattern.
    url.is_none_or(|url| pattern.matches_deny(&url))
}

#[test]
fn allow_pattern_matches_only_its_own_host() {
    let pattern = "https://mcp.example.com/*";
    for url in [
        "https://mcp.example.com/",
        "https://mcp.example.com",
        "https://mcp.example.com/a/b?c=d",
        "HTTPS://MCP.Example.COM/a",
        "https://mcp.example.com./a",
        "https://mcp.example.com:443/a",
        "https://mcp.example.com:/a",
        "https://mcp.example.com/a#b",
    ] {
        assert!(allows(pattern, url), "{url}");
    }
    for url in [
        "http://mcp.example.com/",
        "https://mcp.example.com:8443/",
        "https://mcp.example.com.evil.org/",
        "https://mcp.example.com@evil.org/",
        "https://evil.org/https://mcp.example.com/",
        "https://evil.org#@mcp.example.com/",
        "https://evil.org?@mcp.example.com/",
        "https://evil.org\\@mcp.example.com/",
        "https://mcp.example.com\\@evil.org/",
        "https://mcp.example.com%2eevil.org/",
        "https://mcp.example.com%00.evil.org/",
        "https://mcp\u{3002}example.com/",
        "https://mcp.ex\u{430}mple.com/",
        "https://mcp.example.com../",
        "https://mcp.example.com:443:80/",
        "ftp://mcp.example.com/",
        "https:///mcp.example.com/",
    ] {
        assert!(!allows(pattern, url), "{url}");
    }
}

#[test]
fn wildcards_match_within_one_part() {
    assert!(allows(
        "https://*.example.com/*",
        "https://a.b.example.com/x"
    ));
    assert!(!allows("https://*.example.com/*", "https://example.com/x"));
    assert!(!allows(
        "https://*.example.com/*",
        "https://evil.org/.example.com/x"
    ));
    assert!(!allows(
        "https://*.example.com/*",
        "https://evil.org/x?.example.com/"
    ));
    assert!(allows(
        "http://localhost:*/mcp",
        "http://localhost:8080/mcp"
    ));
    assert!(!allows(
        "http://localhost:*/mcp",
        "http://localhost:8080/mcp2"
    ));
    assert!(!allows(
        "http://localhost:*/*",
        "http://localhost.evil.org:80/"
    ));
    assert!(allows("*://example.com", "http://example.com/any/path"));
    assert!(allows(
        "https://example.com/a*b*c",
        "https://example.com/a1b2c"
    ));
    assert!(!allows(
        "https://example.com/a*b*c",
        "https://example.com/a1c2b"
    ));
    assert!(!allows(
        "https://example.com/ab*ba",
        "https://example.com/aba"
    ));
}

#[test]
fn dot_segments_cannot_leave_allowed_path() {
    let pattern = "https://example.com/team/*";
    assert!(allows(pattern, "https://example.com/team/x"));
    for url in [
        "https://example.com/team/../admin",
        "https://example.com/team/%2e%2e/admin",
        "https://example.com/team/.%2E/admin",
        "https://example.com/team/..%2fadmin",
        "https://example.com/team/..\\admin",
        "https://example.com/team%2f..%2fadmin",
        "https://example.com/team/%252e%252e/admin",
        "https://example.com/Team/x",
    ] {
        assert!(!allows(pattern, url), "{url}");
    }
}

#[test]
fn deny_pattern_matches_every_spelling() {
    let pattern = "https://evil.org/mcp";
    for url in [
        "https://evil.org/mcp",
        "http://evil.org/mcp",
        "https://EVIL.org./mcp",
        "https://evil.org:8443/mcp",
        "https://evil.org/MCP",
        "https://evil.org/%6dcp",
        "https://evil.org/mcp?x=1",
        "https://evil.org/mcp#x",
        "https://user@evil.org/mcp",
        "https://evil.org/x/../mcp",
        "https://\u{ff45}vil.org/mcp",
    ] {
        assert!(denies(pattern, url), "{url}");
    }
    assert!(!denies(pattern, "https://evil.org/other"));
    assert!(!denies(pattern, "https://notevil.org/mcp"));
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::ffff:127.0.0.1]/",
        "http://127.0.0.1.:80/",
    ] {
        assert!(denies("http://127.0.0.1", url), "{url}");
    }
    assert!(denies("http://[::1]", "http://[0:0::1]:9/x"));
}

#[test]
fn invalid_patterns_are_rejected() {
    for pattern in [
        "",
        "example.com",
        "https://",
        "https://a@b/",
        "ftp://a/",
        "https://a:b/",
        "https://a b/",
    ] {
        assert!(UrlPattern::parse(pattern).is_none(), "{pattern}");
    }
}
