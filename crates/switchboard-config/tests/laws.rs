//! Property tests of loading and expansion.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};
use switchboard_config::{
    ConfigSource, ConfigSources, LaunchDecision, LaunchSpec, LoadedConfig, Trust, expand, load,
};

fn load_inline(texts: &[String]) -> LoadedConfig {
    let sources = ConfigSources {
        command_line: texts.iter().cloned().map(ConfigSource::Inline).collect(),
        ..ConfigSources::default()
    };
    load(&sources, &HashMap::new())
}

fn launch(text: String) -> LaunchSpec {
    match load_inline(&[text])
        .config
        .server("a")
        .unwrap()
        .decide_launch(&Trust::none())
    {
        LaunchDecision::Launch(spec) => spec,
        other => panic!("{other:?}"),
    }
}

/// Random text with many syntax characters.
fn syntax_fragments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("${".to_owned()),
        Just("}".to_owned()),
        Just(":-".to_owned()),
        Just("A".to_owned()),
        Just("\"mcpServers\": {".to_owned()),
        Just("\"env\": {".to_owned()),
        Just("\"command\": \"x\",".to_owned()),
        Just("\n".to_owned()),
        "\\PC{0,4}",
        "[{}\\[\\]\":,/*\\\\]{0,3}",
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// An entry with a random subset of keys.
fn entry() -> impl Strategy<Value = BTreeMap<String, Value>> {
    let optional = prop_oneof![
        Just(("args", json!(["-y", "x"]))),
        Just(("env", json!({ "A": "1", "B": "${HOME:-/}" }))),
        Just(("cwd", json!("/srv"))),
        Just(("timeout", json!(5000))),
        Just(("lazy", json!(true))),
        Just(("reconnect", json!({ "maxAttempts": 3 }))),
        Just(("tools", json!([]))),
    ];
    proptest::collection::vec(optional, 0..7).prop_map(|keys| {
        let keys = keys.into_iter().chain([("command", json!("npx"))]);
        keys.map(|(key, value)| (key.to_owned(), value)).collect()
    })
}

/// The same entry with another key order, comments, spaces and trailing commas.
fn reformat(members: &[(String, Value)], comment: &str) -> String {
    let mut text = format!("/* {comment} */ {{ \"mcpServers\": {{\n\"a\": {{");
    for (key, value) in members {
        write!(text, "\n\t// {comment}\n\"{key}\" /**/ : {value:#} ,").unwrap();
    }
    text + "}, }, }"
}

proptest! {
    #[test]
    fn expansion_never_panics(text in syntax_fragments()) {
        let _ = expand(&text, &HashMap::from([("A".to_owned(), "${A}".to_owned())]));
    }

    #[test]
    fn text_without_references_is_unchanged(text in "\\PC*") {
        prop_assume!(!text.contains("${"));
        let everything = |_: &str| Some("replaced".to_owned());
        prop_assert_eq!(expand(&text, &everything), Ok(text));
    }

    #[test]
    fn loading_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".mcp.json");
        fs::write(&path, bytes).unwrap();
        let sources = ConfigSources { project: Some(path), ..ConfigSources::default() };
        for diagnostic in load(&sources, &HashMap::new()).diagnostics {
            prop_assert!(!diagnostic.to_string().chars().any(|c| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn loading_any_text_never_panics(text in syntax_fragments()) {
        for diagnostic in load_inline(&[text]).diagnostics {
            prop_assert!(!diagnostic.to_string().is_empty());
        }
    }

    #[test]
    fn secret_in_damaged_file_is_redacted(
        at in any::<prop::sample::Index>(),
        damage in "[{}\\[\\]\":,]{1,2}",
    ) {
        let mut text = String::from(
            "{\"mcpServers\":{\"a\":{\"command\":\"x\",\n\"env\":{\"TOKEN\":\"hush\"\n,\"KEY\":\"hush\"}}}}",
        );
        text.insert_str(at.index(text.len()), &damage);
        for diagnostic in load_inline(&[text]).diagnostics {
            prop_assert!(!diagnostic.to_string().contains("hush"), "{}", diagnostic);
        }
    }

    #[test]
    fn merging_takes_whole_entries_by_name(
        scopes in proptest::collection::vec(
            proptest::collection::btree_map("[a-e]", "[v-z]{1,3}", 0..5),
            0..5,
        ),
    ) {
        let texts: Vec<String> = scopes
            .iter()
            .map(|scope| {
                let entries: BTreeMap<_, _> = scope
                    .iter()
                    .map(|(name, command)| (name, json!({ "command": command })))
                    .collect();
                json!({ "mcpServers": entries }).to_string()
            })
            .collect();
        let expected: BTreeMap<String, String> = scopes.into_iter().flatten().collect();
        let merged = load_inline(&texts).config.servers;
        prop_assert_eq!(merged.len(), expected.len());
        let merged: BTreeMap<String, String> = merged
            .iter()
            .map(|entry| {
                let command = &entry.masked_entry().as_object()["command"];
                (entry.name().to_string(), command.as_str().unwrap().to_owned())
            })
            .collect();
        prop_assert_eq!(merged, expected);
    }

    #[test]
    fn cosmetic_changes_launch_the_same(
        (entry, shuffled) in entry().prop_flat_map(|entry| {
            let members: Vec<_> = entry.clone().into_iter().collect();
            (Just(entry), Just(members).prop_shuffle())
        }),
        comment in "[a-z \"{}:,]{0,10}",
    ) {
        let plain = launch(json!({ "mcpServers": { "a": entry } }).to_string());
        let reformatted = launch(reformat(&shuffled, &comment));
        prop_assert!(plain.is_same_launch(&reformatted));
    }
}
