//! Loading any config does not panic, and every diagnostic points into its text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_config::{ConfigSource, ConfigSources, Diagnostic, Trust, expand, load};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let environment = |name: &str| match name {
        "HOME" => Some("/home/ada".to_owned()),
        "EMPTY" => Some(String::new()),
        "LONG" => Some("x".repeat(10_000)),
        _ => None,
    };
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(text.clone().into_owned())],
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &environment);
    for diagnostic in &loaded.diagnostics {
        check(diagnostic, &text);
    }
    for entry in &loaded.config.servers {
        let _ = entry.decide_launch(&Trust::none());
        let again = loaded.config.servers.iter();
        assert_eq!(
            again.filter(|other| other.name() == entry.name()).count(),
            1
        );
    }
    let _ = expand(&text, &environment);
});

fn check(diagnostic: &Diagnostic, text: &str) {
    let shown = diagnostic.to_string();
    let acts = |letter: char| letter.is_control() && letter != '\n';
    assert!(!shown.chars().any(acts), "{shown:?}");
    let Some(origin) = diagnostic.origin.as_ref().filter(|origin| origin.line > 0) else {
        return;
    };
    let line = text.split('\n').nth(origin.line as usize - 1);
    let length = line.expect("the line exists in the text").chars().count();
    assert!(
        (1..=length + 1).contains(&(origin.column as usize)),
        "{shown}"
    );
    if let Some(snippet) = &diagnostic.snippet {
        let last = (snippet.start_column + snippet.len - 1) as usize;
        assert!(snippet.start_column >= 1 && snippet.len >= 1, "{shown}");
        // Trailing blanks of a line are not printed but may be marked.
        assert!(
            last <= length.max(snippet.line_text.chars().count()) + 1,
            "{shown}"
        );
    }
}
