//! In-place edits: what changes, what stays, and what is rejected.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::{Value, json};
use switchboard_config::{EditError, JsonEditor, LockedFileError};
use tempfile::TempDir;

fn file_with(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// The text of a file after an edit.
fn edited(text: &str, edit: impl FnOnce(&mut JsonEditor)) -> String {
    let (_folder, path) = file_with(text);
    let mut file = JsonEditor::open(&path).unwrap();
    edit(&mut file);
    file.save().unwrap();
    fs::read_to_string(&path).unwrap()
}

fn set(text: &str, path: &[&str], value: &Value) -> String {
    edited(text, |file| file.set(path, value).unwrap())
}

fn removed(text: &str, path: &[&str]) -> String {
    edited(text, |file| assert!(file.remove(path).unwrap()))
}

fn append(text: &str, path: &[&str], value: &Value) -> String {
    edited(text, |file| file.append(path, value).unwrap())
}

fn refused(text: &str, edit: impl FnOnce(&mut JsonEditor) -> Result<(), EditError>) -> String {
    let (_folder, path) = file_with(text);
    let error = JsonEditor::open(&path).and_then(|mut file| edit(&mut file));
    let error = error.unwrap_err();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let folder = path.parent().unwrap().to_string_lossy().into_owned();
    let hint = error.hint().map(|hint| format!(" ({hint})"));
    format!("{error}{}", hint.unwrap_or_default()).replace(&folder, "")
}

#[test]
fn new_file_has_default_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/mcp.json");
    let mut file = JsonEditor::open(&path).unwrap();
    let entry = json!({ "command": "npx", "args": ["-y", "x"], "env": { "A": "1" } });
    file.set(&["mcpServers", "files"], &entry).unwrap();
    let origin = file.origin(&["mcpServers", "files"]).unwrap();
    assert_eq!((origin.line, origin.column), (3, 5));
    let preview = file.text().to_owned();
    file.save().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), preview);
    assert_eq!(
        preview,
        r#"{
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "x"],
      "env": {
        "A": "1"
      }
    }
  }
}
"#
    );
}

#[test]
fn new_member_follows_style_of_last() {
    let cases = [
        ("{\"a\":1}", "{\"a\":1,\"b\":2}"),
        ("{ \"a\": 1 }", "{ \"a\": 1, \"b\": 2 }"),
        ("{ \"a\": 1, }", "{ \"a\": 1, \"b\": 2, }"),
        ("{\n\t\"a\": 1\n}", "{\n\t\"a\": 1,\n\t\"b\": 2\n}"),
        (
            "{\r\n  \"a\": 1,\r\n}\r\n",
            "{\r\n  \"a\": 1,\r\n  \"b\": 2,\r\n}\r\n",
        ),
        (
            "{\n    \"a\": 1 // one\n    // the end\n}",
            "{\n    \"a\": 1, // one\n    \"b\": 2\n    // the end\n}",
        ),
        (
            "{\n  \"a\": 1, /* one */ // more\n\n}",
            "{\n  \"a\": 1, /* one */ // more\n  \"b\": 2,\n\n}",
        ),
        ("{ \"a\": 1 /* one */ }", "{ \"a\": 1, /* one */ \"b\": 2 }"),
        (
            "{ \"a\": 1,\n  \"c\": 3 }",
            "{ \"a\": 1,\n  \"c\": 3,\n  \"b\": 2 }",
        ),
        ("{}", "{\n  \"b\": 2\n}"),
        ("{ // none\n}", "{ // none\n  \"b\": 2\n}"),
        ("{ /* none */ }", "{ /* none */\n  \"b\": 2\n}"),
        ("", "{\n  \"b\": 2\n}\n"),
        ("// mine\r\n", "// mine\r\n{\r\n  \"b\": 2\r\n}\r\n"),
        ("\u{feff}{\"a\":1}", "\u{feff}{\"a\":1,\"b\":2}"),
    ];
    for (before, after) in cases {
        assert_eq!(set(before, &["b"], &json!(2)), after, "{before}");
    }
}

#[test]
fn value_is_replaced_in_place() {
    let text = "{\n  // first\n  \"a\" /* why */ : [ 1,\n 2 ] , // then\n  \"z\":0\n}";
    let expected = "{\n  // first\n  \"a\" /* why */ : {\n    \"b\": [\n      { \"c\": 1 }\n    ]\n  } , // then\n  \"z\":0\n}";
    assert_eq!(set(text, &["a"], &json!({ "b": [{ "c": 1 }] })), expected);
}

#[test]
fn removing_member_keeps_comments() {
    let cases = [
        ("{\"a\":1,\"b\":2}", "b", "{\"a\":1}"),
        ("{\"a\":1,\"b\":2}", "a", "{\"b\":2}"),
        ("{ \"a\": 1, \"b\": 2 }", "b", "{ \"a\": 1 }"),
        ("{ \"a\": 1, \"b\": 2, }", "b", "{ \"a\": 1, }"),
        (
            "{ \"a\": 1, \"b\": 2, \"c\": 3 }",
            "b",
            "{ \"a\": 1, \"c\": 3 }",
        ),
        ("{\n  \"b\": 2\n}\n", "b", "{}\n"),
        (
            "{\n  \"a\": 1, // one\n\n  // two\n  \"b\": {\n    \"x\": 2\n  }\n}",
            "b",
            "{\n  \"a\": 1 // one\n\n  // two\n}",
        ),
        (
            "{\r\n  \"a\": 1,\r\n  \"b\": 2,\r\n  \"c\": 3\r\n}",
            "b",
            "{\r\n  \"a\": 1,\r\n  \"c\": 3\r\n}",
        ),
        (
            "{\n  \"a\": 1,\n  \"b\": 2, // two\n  \"c\": 3\n}",
            "b",
            "{\n  \"a\": 1,\n  // two\n  \"c\": 3\n}",
        ),
        (
            "{\n  \"b\": 2 // two\n  , \"c\": 3\n}",
            "b",
            "{\n  // two\n   \"c\": 3\n}",
        ),
        ("{ /* one */ \"b\": 2 }", "b", "{ /* one */ }"),
    ];
    for (before, key, after) in cases {
        assert_eq!(removed(before, &[key]), after, "{before}");
    }
}

#[test]
fn removing_missing_member_changes_nothing() {
    let text = "{ \"a\": {} , }";
    for path in [&["b"][..], &["a", "b"], &["b", "c"]] {
        let same = edited(text, |file| assert!(!file.remove(path).unwrap()));
        assert_eq!(same, text);
    }
}

#[test]
fn append_adds_one_line() {
    let rule = json!({ "tool": "mcp__files__*", "action": "allow" });
    let text = append("{}", &["permissions"], &rule);
    let line = "    { \"tool\": \"mcp__files__*\", \"action\": \"allow\" }";
    assert_eq!(text, format!("{{\n  \"permissions\": [\n{line}\n  ]\n}}"));
    let text = append(&text, &["permissions"], &rule);
    assert_eq!(
        text,
        format!("{{\n  \"permissions\": [\n{line},\n{line}\n  ]\n}}")
    );
    assert_eq!(append("{\"a\":[1]}", &["a"], &json!(2)), "{\"a\":[1,2]}");
    assert_eq!(append("{\"a\":[]}", &["a"], &json!(2)), "{\"a\":[\n  2\n]}");
}

#[test]
fn existing_values_can_be_read() {
    let (_folder, path) = file_with("{ \"a\": { \"b\": [1, \"x\", null, 1.5e3] } }");
    let file = JsonEditor::open(&path).unwrap();
    assert_eq!(file.value(&["a", "b"]), Some(json!([1, "x", null, 1.5e3])));
    assert_eq!(file.value(&["a", "c"]), None);
}

#[test]
fn unparsable_file_is_not_changed() {
    let add = |file: &mut JsonEditor| file.set(&["mcpServers", "b"], &json!({}));
    let refusals = [
        (
            "{\n  \"mcpServers\": {\n",
            "/mcp.json:2:17 not changed: not valid JSON: unterminated object (close it with `}`)",
        ),
        (
            "[]",
            "/mcp.json:1:1 not changed: the file must contain a JSON object (start it with `{` and end it with `}`)",
        ),
        (
            "{ \"mcpServers\": 1 }",
            "/mcp.json:1:17 not changed: `mcpServers` must be an object (make it an object, or remove it)",
        ),
        (
            "{ \"mcpServers\": {},\n \"mcpServers\": {} }",
            "/mcp.json:2:2 not changed: duplicate key `mcpServers` (remove one of them)",
        ),
        (
            "{ \"mcpServers\": { \"b\": 1, \"b\": 2 } }",
            "/mcp.json:1:27 not changed: duplicate key `b` (remove one of them)",
        ),
    ];
    for (text, message) in refusals {
        assert_eq!(refused(text, add), message);
    }
    let append = |file: &mut JsonEditor| file.append(&["a"], &json!(1));
    assert_eq!(
        refused("{ \"a\": {} }", append),
        "/mcp.json:1:8 not changed: `a` must be a list (make it a list, or remove it)"
    );
}

#[test]
fn concurrent_change_is_detected() {
    let (_folder, path) = file_with("{ \"a\": 1 }");
    for theirs in [Some("{ \"theirs\": 1 }"), None] {
        let mut file = JsonEditor::open(&path).unwrap();
        file.set(&["b"], &json!(2)).unwrap();
        match theirs {
            Some(text) => fs::write(&path, text).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = file.save().unwrap_err();
        assert!(
            matches!(
                error,
                EditError::File(LockedFileError::ConcurrentChange { .. })
            ),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), theirs);
    }
    assert_eq!(names_in(path.parent().unwrap()), Vec::<String>::new());
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn concurrent_edits_are_atomic_and_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/mcp.json");
    let edit = &|writer: usize| {
        for edit in 0..20 {
            let mut file = JsonEditor::open(&path).unwrap();
            file.set(&["mcpServers", &format!("{writer}-{edit}")], &json!({}))
                .unwrap();
            file.save().unwrap();
        }
    };
    thread::scope(|threads| {
        let writers: Vec<_> = (0..4)
            .map(|writer| threads.spawn(move || edit(writer)))
            .collect();
        let path = &path;
        threads.spawn(move || {
            while !writers.iter().all(thread::ScopedJoinHandle::is_finished) {
                if let Ok(text) = fs::read_to_string(path) {
                    serde_json::from_str::<Value>(&text).unwrap();
                }
                thread::yield_now();
            }
        });
    });
    let text = fs::read_to_string(&path).unwrap();
    let servers: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(servers["mcpServers"].as_object().unwrap().len(), 80);
    assert_eq!(names_in(path.parent().unwrap()), ["mcp.json"]);
}

#[cfg(unix)]
mod on_unix {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_and_save(file: JsonEditor) -> Result<(), EditError> {
        let mut file = file;
        file.set(&["b"], &json!(2))?;
        file.save()
    }

    #[test]
    fn new_file_is_private_by_default() {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join("private.json");
        set_and_save(JsonEditor::open(&private).unwrap()).unwrap();
        assert_eq!(mode(&private), 0o600);
        let shared = folder.path().join("shared.json");
        set_and_save(JsonEditor::open(&shared).unwrap().readable_by_others()).unwrap();
        let usual = folder.path().join("usual");
        fs::write(&usual, "").unwrap();
        assert_eq!(mode(&shared), mode(&usual));

        fs::write(&private, "{}").unwrap();
        fs::set_permissions(&private, fs::Permissions::from_mode(0o640)).unwrap();
        set_and_save(JsonEditor::open(&private).unwrap()).unwrap();
        assert_eq!(mode(&private), 0o640);
    }

    #[test]
    fn read_only_file_is_not_changed() {
        let (_folder, path) = file_with("{}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let error = set_and_save(JsonEditor::open(&path).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot write {}: it is read-only", path.display())
        );
        assert_eq!(
            error.hint(),
            Some(format!("make it writable: chmod u+w {}", path.display()))
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
    }

    #[test]
    fn edit_follows_links_to_missing_target() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let first = folder.path().join("first.json");
        let second = folder.path().join("second.json");
        symlink("second.json", &first).unwrap();
        symlink(elsewhere.join("target.json"), &second).unwrap();
        for value in [1, 2] {
            let mut file = JsonEditor::open(&first).unwrap();
            assert_eq!(file.path(), elsewhere.join("target.json"));
            file.set(&["b"], &json!(value)).unwrap();
            file.save().unwrap();
            assert!(fs::symlink_metadata(&first).unwrap().is_symlink());
            assert_eq!(
                fs::read_to_string(&first).unwrap(),
                format!("{{\n  \"b\": {value}\n}}\n")
            );
        }
        symlink("loop.json", folder.path().join("loop.json")).unwrap();
        let error = JsonEditor::open(&folder.path().join("loop.json")).unwrap_err();
        assert!(
            matches!(error, EditError::File(LockedFileError::Unwritable { .. })),
            "{error}"
        );
    }
}
