//! Fails if the top-level modules of a crate depend on each other in a cycle.
//!
//! Reads the sources of every crate in the workspace and builds a graph of its top-level modules
//! from `use` items and paths. Test code and paths in comments or strings do not count. Cycles
//! between crates and inside one top-level module are out of scope: the compiler rejects the
//! former, and the latter are private to their module.

mod graph;
mod references;

use std::fs;
use std::path::{Path, PathBuf};

use crate::steps::{Failure, Steps};
use graph::ModuleGraph;

const STEP: &str = "module cycles";

/// Places printed for one dependency between two modules.
const SHOWN_PLACES: usize = 4;

pub(crate) fn check(steps: &mut Steps) -> Result<(), Failure> {
    let root = steps.root().to_owned();
    steps.run_work(STEP, "crates/*, xtask", || {
        let mut cyclic = Vec::new();
        for directory in crate_directories(&root).map_err(|error| failed(&error))? {
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let graph = read_crate(&root, &directory).map_err(|error| failed(&error))?;
            for cycle in &graph.cycles() {
                cyclic.push(graph.describe(&name, cycle, SHOWN_PLACES));
            }
        }
        if cyclic.is_empty() {
            return Ok(());
        }
        Err(failed(&format!("\n{}", cyclic.join("\n"))))
    })
}

fn failed(reason: &dyn std::fmt::Display) -> Failure {
    Failure::Step {
        step: STEP,
        reason: reason.to_string(),
    }
}

/// The directories of `crates/*` and `xtask`, sorted.
fn crate_directories(root: &Path) -> Result<Vec<PathBuf>, String> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|error| at(&crates, &error))?;
    let mut directories: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("Cargo.toml").is_file())
        .chain([root.join("xtask")])
        .collect();
    directories.sort();
    Ok(directories)
}

/// Reads the library and the main binary of a crate. Files of `src/bin` are not read, because each
/// is a crate of one module.
fn read_crate(root: &Path, directory: &Path) -> Result<ModuleGraph, String> {
    let mut graph = ModuleGraph::default();
    for file in ["lib.rs", "main.rs"] {
        let src = directory.join("src");
        let file = src.join(file);
        if file.is_file() {
            Reader {
                root,
                graph: &mut graph,
            }
            .read_file(&file, &src, &[])?;
        }
    }
    graph.resolve_reexports();
    Ok(graph)
}

/// Follows `mod` items from file to file.
struct Reader<'a> {
    /// Paths in the report are relative to this directory.
    root: &'a Path,
    graph: &'a mut ModuleGraph,
}

impl Reader<'_> {
    /// Reads the file of the module `path` and the files of its child modules, which are in
    /// `children`.
    fn read_file(&mut self, file: &Path, children: &Path, path: &[String]) -> Result<(), String> {
        let text = fs::read_to_string(file).map_err(|error| at(file, &error))?;
        let found = references::of_file(&text, path).map_err(|error| at(file, &error))?;
        let shown = file.strip_prefix(self.root).unwrap_or(file);
        self.graph
            .add_file(path, &shown.display().to_string(), &found);
        for child in &found.child_modules {
            let directory = child
                .inline_parents
                .iter()
                .fold(children.to_owned(), |directory, name| directory.join(name));
            let own_children = directory.join(&child.name);
            let flat = directory.join(format!("{}.rs", child.name));
            let nested = own_children.join("mod.rs");
            let file = if flat.is_file() { flat } else { nested };
            let inner: Vec<String> = path
                .iter()
                .chain(&child.inline_parents)
                .chain([&child.name])
                .cloned()
                .collect();
            self.read_file(&file, &own_children, &inner)?;
        }
        Ok(())
    }
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycle_across_files_is_reported() {
        let directory = std::env::temp_dir().join(format!("module-cycles-{}", std::process::id()));
        let src = directory.join("src");
        fs::create_dir_all(src.join("a")).unwrap();
        for (file, text) in [
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::Thing;\n"),
            ("a.rs", "mod inner;\n#[cfg(test)]\nmod absent;\n"),
            ("a/inner.rs", "\nuse crate::Thing;\n"),
            ("b.rs", "use super::c::C;\npub struct Thing(crate::a::A);\n"),
            ("c.rs", "// crate::b\npub struct C;\n"),
        ] {
            fs::write(src.join(file), text).unwrap();
        }

        let graph = read_crate(&directory, &directory);

        fs::remove_dir_all(&directory).unwrap();
        let graph = graph.unwrap();
        let cycles = graph.cycles();
        assert_eq!(cycles.len(), 1);
        assert_eq!(
            graph.describe("demo", &cycles[0], SHOWN_PLACES),
            "demo: cycle of 2 modules: a, b\n  \
             a -> b (1 place)\n    src/a/inner.rs:2\n  \
             b -> a (1 place)\n    src/b.rs:2\n"
        );
    }
}
