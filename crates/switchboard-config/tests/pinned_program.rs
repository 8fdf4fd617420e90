//! Resolution of a project's command to a file, and when its content is hashed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use switchboard_config::{
    ApprovalState, ApprovalsError, ApprovalsFile, ConfigSources, HostConfig, LaunchDecision,
    PinnedProgram, ProgramChanged, ServerEntry, Trust, Verdict, load, load_names_only,
};
use tempfile::TempDir;

/// A repository with a nested project, and a directory outside of both.
struct RepositoryFixture(TempDir);

impl RepositoryFixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("repository/.git")).unwrap();
        fs::create_dir_all(folder.path().join("repository/project")).unwrap();
        Self(folder)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write_program(&self, path: &str, content: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn sources(&self, servers: &Value) -> ConfigSources {
        let file = self.path("repository/project/.mcp.json");
        fs::write(&file, json!({ "mcpServers": servers }).to_string()).unwrap();
        ConfigSources {
            project: Some(file),
            ..ConfigSources::default()
        }
    }

    fn config(&self, servers: &Value) -> HostConfig {
        load(&self.sources(servers), &HashMap::new()).config
    }

    fn entry(&self, entry: &Value) -> ServerEntry {
        let config = self.config(&json!({ "a": entry }));
        config.server("a").unwrap().clone()
    }

    fn approve(&self, entry: &ServerEntry) -> Result<(), ApprovalsError> {
        let file = ApprovalsFile::at(self.path("trust.json"));
        file.record(&[entry], Verdict::Approved, SystemTime::now())
            .map(|_| ())
    }

    /// Approves a server with this command and returns its program.
    fn approved_program(&self, command: &str) -> PinnedProgram {
        let entry = self.entry(&json!({ "command": command }));
        self.approve(&entry).unwrap();
        let approvals = ApprovalsFile::at(self.path("trust.json")).read().unwrap();
        match entry.decide_launch(&Trust::none().with_approvals(approvals)) {
            LaunchDecision::Launch(spec) => spec.pinned_program().unwrap().clone(),
            other => panic!("{other:?}"),
        }
    }

    fn is_approved(&self, entry: &ServerEntry) -> bool {
        let approvals = ApprovalsFile::at(self.path("trust.json")).read().unwrap();
        matches!(approvals.state_of(entry), ApprovalState::Approved(_))
    }
}

#[test]
fn programs_of_project_and_repository_are_pinned() {
    let fixture = RepositoryFixture::new();
    let inside = fixture.path("repository/tools/run");
    for (program, entry) in [
        ("repository/run", json!({ "command": "../run" })),
        (
            "repository/bin/run",
            json!({ "command": "run", "env": { "PATH": "../bin:/usr/bin" } }),
        ),
        ("beside/run", json!({ "command": "../../beside/run" })),
        ("repository/tools/run", json!({ "command": inside })),
    ] {
        fixture.write_program(program, "one");
        fixture.approve(&fixture.entry(&entry)).unwrap();
        assert!(fixture.is_approved(&fixture.entry(&entry)), "{entry}");
        fixture.write_program(program, "two");
        assert!(!fixture.is_approved(&fixture.entry(&entry)), "{entry}");
    }
    let entry = json!({ "command": fixture.write_program("beside/run", "one") });
    fixture.approve(&fixture.entry(&entry)).unwrap();
    fixture.write_program("beside/run", "two");
    assert!(
        fixture.is_approved(&fixture.entry(&entry)),
        "the program is outside of the repository"
    );
}

#[test]
fn program_created_later_needs_approval() {
    let fixture = RepositoryFixture::new();
    let entry = json!({ "command": fixture.path("beside/run") });
    fixture.approve(&fixture.entry(&entry)).unwrap();
    assert!(fixture.is_approved(&fixture.entry(&entry)));
    fixture.write_program("beside/run", "one");
    assert!(!fixture.is_approved(&fixture.entry(&entry)));
}

#[test]
fn per_process_paths_cannot_be_approved() {
    let fixture = RepositoryFixture::new();
    fixture.write_program("repository/project/run", "one");
    let link = fixture.path("repository/project/link");
    symlink("/proc/self/cwd", &link).unwrap();
    for entry in [
        json!({ "command": "/proc/self/cwd/run" }),
        json!({ "command": "/usr/../proc/self/cwd/run" }),
        json!({ "command": "/dev/fd/3" }),
        json!({ "command": "run", "env": { "PATH": "/proc/self/cwd:/usr/bin" } }),
        json!({ "command": "./link/Cargo.toml" }),
    ] {
        let outcome = fixture.approve(&fixture.entry(&entry));
        let is_refused = matches!(outcome, Err(ApprovalsError::Unverifiable(_)));
        assert!(is_refused, "{entry}: {outcome:?}");
    }
}

#[test]
fn program_reads_are_cached_and_limited() {
    let fixture = RepositoryFixture::new();
    let large = |name: &str, length: u64| {
        let path = fixture.write_program(&format!("repository/project/{name}"), "");
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(length).unwrap();
    };
    large("run", 8 << 20);
    let entries = (0..100).map(|index| (format!("s{index}"), json!({ "command": "./run" })));
    let servers: Value = Value::Object(entries.collect());
    let config = fixture.config(&servers);
    let hashes: Vec<_> = config
        .servers
        .iter()
        .map(ServerEntry::content_hash)
        .collect();
    assert!(
        hashes.iter().all(Option::is_some),
        "the program is read once for all entries"
    );

    for name in ["a", "b", "c"] {
        large(name, 1 << 30);
    }
    let servers = json!({ "a": { "command": "./a" }, "run": { "command": "./run" } });
    let config = fixture.config(&servers);
    let hash = |name| config.server(name).unwrap().content_hash().is_some();
    assert_eq!((hash("a"), hash("run")), (false, true));

    let names = load_names_only(&fixture.sources(&servers), &HashMap::new()).config;
    let entry = names.server("run").unwrap();
    assert!(entry.content_hash().is_none() && entry.review().is_none());
}

fn flock(path: &Path) -> fs::File {
    let lock = fs::File::create(path).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}

#[test]
fn waiting_for_lock_times_out() {
    let fixture = RepositoryFixture::new();
    let _lock = flock(&fixture.path("trust.json.lock"));
    let started = Instant::now();
    let outcome = fixture.approve(&fixture.entry(&json!({ "command": "x" })));
    assert!(
        matches!(outcome, Err(ApprovalsError::Locked)),
        "{outcome:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn link_to_approvals_file_is_kept() {
    let fixture = RepositoryFixture::new();
    fs::create_dir(fixture.path("synced")).unwrap();
    symlink("synced/target.json", fixture.path("trust.json")).unwrap();
    let entry = fixture.entry(&json!({ "command": "x" }));
    fixture.approve(&entry).unwrap();
    assert!(fixture.path("trust.json").is_symlink());
    assert!(fixture.path("synced/target.json").is_file());
    assert!(fixture.is_approved(&entry));
}

const BINARY: &str = "\x7fELF one";

#[cfg(target_os = "linux")]
#[test]
fn verified_binary_is_the_file_that_was_hashed() {
    let fixture = RepositoryFixture::new();
    let run = fixture.write_program("repository/project/run", BINARY);
    let program = fixture.approved_program("./run");
    let verified = program.verify().unwrap().unwrap();
    let evil = fixture.write_program("repository/project/evil", "\x7fELF two");
    fs::rename(evil, &run).unwrap();
    let mut binary = verified.binary().unwrap();
    std::io::Seek::rewind(&mut binary).unwrap();
    let mut content = String::new();
    binary.read_to_string(&mut content).unwrap();
    assert_eq!(content, BINARY);
    // The open file is executed, so the file at the path does not matter.
    assert_eq!(verified.recheck(), Ok(()));
    assert_eq!(program.verify().unwrap_err(), ProgramChanged);
}

#[cfg(target_os = "linux")]
#[test]
fn recheck_finds_binary_that_was_overwritten() {
    let fixture = RepositoryFixture::new();
    let run = fixture.write_program("repository/project/run", BINARY);
    let verified = fixture.approved_program("./run").verify().unwrap().unwrap();
    fs::write(&run, "\x7fELF two").unwrap();
    assert_eq!(verified.recheck(), Err(ProgramChanged));
}

#[test]
fn script_is_executed_by_path() {
    let fixture = RepositoryFixture::new();
    let run = fixture.write_program("repository/project/run", "#!/bin/sh\n");
    let verified = fixture.approved_program("./run").verify().unwrap().unwrap();
    assert!(verified.binary().is_none());
    assert_eq!(
        fs::canonicalize(verified.path()).unwrap(),
        fs::canonicalize(run).unwrap()
    );
    assert_eq!(verified.recheck(), Ok(()));
}

/// Each change puts the approved content back before the recheck.
#[test]
fn recheck_finds_script_that_was_changed_for_a_moment() {
    let overwrite: fn(&RepositoryFixture) = |fixture| {
        fixture.write_program("repository/project/run", "two");
        fixture.write_program("repository/project/run", "one");
    };
    let swap: fn(&RepositoryFixture) = |fixture| {
        let path = |name: &str| fixture.path(&format!("repository/project/{name}"));
        fs::rename(path("run"), path("aside")).unwrap();
        fixture.write_program("repository/project/run", "two");
        fs::rename(path("aside"), path("run")).unwrap();
    };
    let replace: fn(&RepositoryFixture) = |fixture| {
        let copy = fixture.write_program("repository/project/copy", "one");
        fs::rename(copy, fixture.path("repository/project/run")).unwrap();
    };
    for change in [overwrite, swap, replace] {
        let fixture = RepositoryFixture::new();
        fixture.write_program("repository/project/run", "one");
        let program = fixture.approved_program("./run");
        let verified = program.verify().unwrap().unwrap();
        change(&fixture);
        assert_eq!(verified.recheck(), Err(ProgramChanged));
        // The next start verifies the program again.
        assert!(program.verify().is_ok());
    }
}

#[test]
fn recheck_finds_link_that_was_changed_for_a_moment() {
    let fixture = RepositoryFixture::new();
    fixture.write_program("repository/project/one", "one");
    fixture.write_program("repository/project/two", "two");
    let link = fixture.path("repository/project/run");
    symlink("one", &link).unwrap();
    let verified = fixture.approved_program("./run").verify().unwrap().unwrap();
    for target in ["two", "one"] {
        fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
    }
    assert_eq!(verified.recheck(), Err(ProgramChanged));
}
