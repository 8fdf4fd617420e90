//! The dependency graph of one crate's top-level modules, and its cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::references::FileReferences;

/// Top-level modules and the places where one refers to another.
#[derive(Debug, Default)]
pub(super) struct ModuleGraph {
    modules: BTreeSet<String>,
    /// Names that the crate root imports from a module, with that module: `pub use a::Thing`.
    reexports: BTreeMap<String, String>,
    /// Modules of which the crate root imports everything: `pub use a::*`.
    globs: BTreeSet<String>,
    /// Names that the crate root defines or imports, without those imported by a glob.
    root_names: BTreeSet<String>,
    /// Names that each top-level module defines or imports, without those imported by a glob.
    names: BTreeMap<String, BTreeSet<String>>,
    /// From module, to module or root item, the places as `file:line`.
    references: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl ModuleGraph {
    /// Adds the references of the file of the module `path`; an empty path is the crate root.
    pub(super) fn add_file(&mut self, path: &[String], file: &str, found: &FileReferences) {
        match path {
            [] => {
                let top = found.child_modules.iter();
                let top =
                    top.filter_map(|child| child.inline_parents.first().or(Some(&child.name)));
                self.modules.extend(top.cloned());
                self.modules.extend(found.inline_modules.iter().cloned());
                self.reexports.extend(found.root_imports.clone());
                self.globs.extend(found.root_globs.iter().cloned());
                self.root_names.extend(found.names.iter().cloned());
            }
            [module] => {
                self.names.insert(module.clone(), found.names.clone());
            }
            _ => {}
        }
        for reference in &found.references {
            let references = self.references.entry(reference.source.clone()).or_default();
            let places = references.entry(reference.target.clone()).or_default();
            places.push(format!("{file}:{}", reference.line));
        }
    }

    /// Replaces references to root re-exports by references to the module that defines the item.
    /// Drops references to items that the root itself defines. Call once, after all files were
    /// added.
    pub(super) fn resolve_reexports(&mut self) {
        let mut references = std::mem::take(&mut self.references);
        for (module, targets) in &mut references {
            for (target, places) in std::mem::take(targets) {
                for origin in self.origins(&target) {
                    if self.modules.contains(&origin) && origin != *module {
                        let known = targets.entry(origin).or_default();
                        known.extend(places.iter().cloned());
                    }
                }
            }
        }
        self.references = references;
    }

    /// The modules that `target`, a name in the crate root, may come from. More than one only if
    /// the root imports everything from several modules and none of them defines the name itself.
    fn origins(&self, target: &str) -> Vec<String> {
        if self.modules.contains(target) {
            return vec![target.to_owned()];
        }
        if let Some(origin) = self.reexports.get(target) {
            return vec![origin.clone()];
        }
        if self.root_names.contains(target) {
            return Vec::new();
        }
        let defines = |module: &&String| {
            let names = self.names.get(*module);
            names.is_some_and(|names| names.contains(target))
        };
        match self.globs.iter().find(defines) {
            Some(module) => vec![module.clone()],
            None => self.globs.iter().cloned().collect(),
        }
    }

    /// The strongly connected components with more than one module, sorted.
    pub(super) fn cycles(&self) -> Vec<Vec<String>> {
        let reachable: BTreeMap<&str, BTreeSet<&str>> = self
            .modules
            .iter()
            .map(|module| (module.as_str(), self.reachable_from(module)))
            .collect();
        let reaches = |from: &str, to: &str| {
            let targets = reachable.get(from);
            targets.is_some_and(|targets| targets.contains(to))
        };
        let mut cycles = Vec::new();
        let mut seen = BTreeSet::new();
        for module in self.modules.iter().map(String::as_str) {
            if seen.contains(module) || !reaches(module, module) {
                continue;
            }
            let members: Vec<String> = self
                .modules
                .iter()
                .filter(|other| reaches(module, other) && reaches(other, module))
                .cloned()
                .collect();
            seen.extend(
                self.modules
                    .iter()
                    .filter(|name| members.contains(name))
                    .map(String::as_str),
            );
            cycles.push(members);
        }
        cycles
    }

    /// All modules that a path of one or more references leads to.
    fn reachable_from(&self, module: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![module];
        while let Some(module) = open.pop() {
            for target in self.references.get(module).into_iter().flatten() {
                if reached.insert(target.0.as_str()) {
                    open.push(target.0);
                }
            }
        }
        reached
    }

    /// The modules of a cycle and the places of each reference between them, fewest places first.
    pub(super) fn describe(&self, name: &str, cycle: &[String], shown: usize) -> String {
        let mut edges: Vec<(&String, &String, &Vec<String>)> = Vec::new();
        for module in cycle {
            for (target, places) in self.references.get(module).into_iter().flatten() {
                if cycle.contains(target) {
                    edges.push((module, target, places));
                }
            }
        }
        edges.sort_by_key(|(_, _, places)| places.len());
        let mut text = format!(
            "{name}: cycle of {} modules: {}\n",
            cycle.len(),
            cycle.join(", ")
        );
        for (from, to, places) in edges {
            let count = places.len();
            let plural = if count == 1 { "" } else { "s" };
            let _ = writeln!(text, "  {from} -> {to} ({count} place{plural})");
            for place in places.iter().take(shown) {
                let _ = writeln!(text, "    {place}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module_cycles::references;

    /// A crate of a root and of top-level modules without children.
    fn graph(root: &str, modules: &[(&str, &str)]) -> ModuleGraph {
        let mut graph = ModuleGraph::default();
        graph.add_file(&[], "lib.rs", &references::of_file(root, &[]).unwrap());
        for (name, text) in modules {
            let path = [(*name).to_owned()];
            let found = references::of_file(text, &path).unwrap();
            graph.add_file(&path, &format!("{name}.rs"), &found);
        }
        graph.resolve_reexports();
        graph
    }

    #[test]
    fn tree_has_no_cycle() {
        let graph = graph(
            "mod a; mod b; mod c;",
            &[
                ("a", "use crate::{b::B, c::C};"),
                ("b", "use crate::c::C;"),
                ("c", "use std::fmt;"),
            ],
        );
        assert_eq!(graph.cycles(), Vec::<Vec<String>>::new());
    }

    #[test]
    fn separate_cycles_are_separate() {
        let graph = graph(
            "mod a; mod b; mod c; mod d; mod e;",
            &[
                ("a", "use crate::b::B;"),
                ("b", "use crate::{a::A, c::C};"),
                ("c", "use crate::d::D;"),
                ("d", "use crate::e::E;"),
                ("e", "use crate::c::C;"),
            ],
        );
        assert_eq!(graph.cycles(), [vec!["a", "b"], vec!["c", "d", "e"]]);
    }

    #[test]
    fn root_reexport_counts_as_its_module() {
        let root = "mod a; mod b; pub use b::{Thing, deep::Other as Renamed}; pub struct Own;";
        let modules = |name: &str| {
            let user = format!("use crate::{name};");
            graph(root, &[("a", &user), ("b", "use crate::a::A;")]).cycles()
        };
        assert_eq!(modules("Thing"), [vec!["a", "b"]]);
        assert_eq!(modules("Renamed"), [vec!["a", "b"]]);
        assert_eq!(modules("Own"), Vec::<Vec<String>>::new());
    }

    #[test]
    fn root_glob_counts_as_module_with_the_name() {
        let root = "mod a; mod b; mod c; pub use b::*; pub use self::c::*; pub struct Own;";
        let cycles = |name: &str| {
            let user = format!("use super::{name};");
            let users = [
                ("a", user.as_str()),
                ("b", "use crate::a::A; pub struct Thing;"),
                ("c", "pub struct Other;"),
            ];
            graph(root, &users).cycles()
        };
        assert_eq!(cycles("Thing"), [vec!["a", "b"]]);
        assert_eq!(cycles("Other"), Vec::<Vec<String>>::new());
        assert_eq!(cycles("Own"), Vec::<Vec<String>>::new());
        assert_eq!(cycles("unknown"), [vec!["a", "b"]]);
    }

    #[test]
    fn inline_module_of_the_root_takes_part_in_cycles() {
        let root = "mod a; mod text { pub use crate::b::B; } mod b;";
        let graph = graph(
            root,
            &[("a", "use crate::text::B;"), ("b", "use crate::text::B;")],
        );
        assert_eq!(graph.cycles(), [vec!["b", "text"]]);
    }

    #[test]
    fn reexport_through_another_module_is_followed() {
        let graph = graph(
            "mod a; mod facade; mod c;",
            &[
                ("a", "use crate::facade::C;"),
                ("facade", "pub use super::c::C;"),
                ("c", "fn f() -> super::a::A {}"),
            ],
        );
        assert_eq!(graph.cycles(), [vec!["a", "c", "facade"]]);
    }

    #[test]
    fn super_chain_out_of_nested_module_closes_a_cycle() {
        let mut graph = ModuleGraph::default();
        let root = references::of_file("mod a; mod b;", &[]).unwrap();
        graph.add_file(&[], "lib.rs", &root);
        for (module, text) in [
            (["a", "inner"], "use super::super::b::B;"),
            (
                ["b", "inner"],
                "mod deep { use super::super::super::a::A; }",
            ),
        ] {
            let path = module.map(str::to_owned);
            let found = references::of_file(text, &path).unwrap();
            graph.add_file(&path, "inner.rs", &found);
        }
        graph.resolve_reexports();
        assert_eq!(graph.cycles(), [vec!["a", "b"]]);
    }
}
