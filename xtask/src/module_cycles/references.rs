//! Finds in one source file the child modules and the references to top-level modules.
//!
//! A reference is the first segment below the crate root of a path that begins with `crate`, `self`
//! or `super`: in `use` items, expressions, types, patterns, and the arguments of macros and
//! attributes. Items behind `#[cfg(test)]` are skipped.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ImplItem, Item, ItemMod, ItemUse, Macro, Meta, MetaList, UseTree};

/// What one file refers to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileReferences {
    /// Modules in other files: `mod name;`.
    pub(super) child_modules: Vec<ChildModule>,
    /// Top-level modules with a body: `mod name { … }`. Only found in the crate root.
    pub(super) inline_modules: Vec<String>,
    /// Imported name and the top-level module it comes from. Only found in the crate root.
    pub(super) root_imports: BTreeMap<String, String>,
    /// Top-level modules of which the crate root imports everything: `pub use a::*`.
    pub(super) root_globs: Vec<String>,
    /// Names that the file's module defines or imports, without those of inner modules.
    pub(super) names: BTreeSet<String>,
    pub(super) references: Vec<Reference>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChildModule {
    pub(super) name: String,
    /// The inline modules around the `mod` item, outermost first.
    pub(super) inline_parents: Vec<String>,
}

/// A reference from one top-level module to another, or to an item of the crate root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) source: String,
    pub(super) target: String,
    /// The line of the path.
    pub(super) line: usize,
}

/// Reads the file of the module `path`; an empty path is the crate root.
pub(super) fn of_file(text: &str, path: &[String]) -> syn::Result<FileReferences> {
    let file = syn::parse_file(text)?;
    let mut visitor = Visitor {
        module: path.to_vec(),
        file_depth: path.len(),
        found: FileReferences::default(),
    };
    visitor.visit_file(&file);
    Ok(visitor.found)
}

struct Visitor {
    /// Path of the innermost module around the visited item.
    module: Vec<String>,
    /// Length of the path of the file's module.
    file_depth: usize,
    found: FileReferences,
}

impl Visitor {
    /// Records the target of a path that begins with `crate`, `self` or `super`, unless the path is
    /// in the crate root. Any other path begins with a name that a `use` item or a `mod` item
    /// introduced, or with an external crate.
    fn add_path(&mut self, segments: &[String], span: Span) {
        let target = self
            .resolve(segments)
            .and_then(|path| path.into_iter().next());
        if let (Some(source), Some(target)) = (self.module.first(), target) {
            self.found.references.push(Reference {
                source: source.clone(),
                target,
                line: span.start().line,
            });
        }
    }

    /// The path from the crate root, or `None` if the path does not begin with `crate`, `self` or
    /// `super`.
    fn resolve(&self, segments: &[String]) -> Option<Vec<String>> {
        let (first, _) = segments.split_first()?;
        let mut path = match first.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            _ => return None,
        };
        for segment in segments {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => {
                    path.pop();
                }
                _ => path.push(segment.clone()),
            }
        }
        Some(path)
    }

    fn add_use(&mut self, tree: &UseTree, prefix: &[String], span: Option<Span>) {
        let with = |ident: &Ident| {
            let mut segments = prefix.to_vec();
            segments.push(ident.unraw().to_string());
            segments
        };
        match tree {
            UseTree::Path(path) => {
                let span = span.unwrap_or_else(|| path.ident.span());
                self.add_use(&path.tree, &with(&path.ident), Some(span));
            }
            UseTree::Name(name) => {
                self.add_import(&with(&name.ident), &name.ident, name.ident.span());
            }
            UseTree::Rename(rename) => {
                self.add_import(&with(&rename.ident), &rename.rename, rename.ident.span());
            }
            UseTree::Glob(glob) => {
                self.add_path(prefix, glob.star_token.spans[0]);
                if self.module.is_empty() {
                    let path = self.resolve(prefix).unwrap_or_else(|| prefix.to_vec());
                    self.found.root_globs.extend(path.into_iter().next());
                }
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(tree, prefix, span);
                }
            }
        }
    }

    fn add_import(&mut self, segments: &[String], name: &Ident, span: Span) {
        self.add_path(segments, span);
        self.add_name(name);
        if self.module.is_empty() {
            let path = self.resolve(segments).unwrap_or_else(|| segments.to_vec());
            if let [module, _, ..] = path.as_slice() {
                let imports = &mut self.found.root_imports;
                imports.insert(name.unraw().to_string(), module.clone());
            }
        }
    }

    /// Records a name that the module of the file defines or imports.
    fn add_name(&mut self, name: &Ident) {
        if self.module.len() == self.file_depth {
            self.found.names.insert(name.unraw().to_string());
        }
    }

    /// Finds paths in the arguments of a macro or an attribute, which syn does not parse.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut start = Span::call_site();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_path(&path, start);
                        path.clear();
                        start = ident.span();
                    }
                    path.push(ident.unraw().to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.add_path(&path, start);
                    path.clear();
                    colons = 0;
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.add_path(&path, start);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.add_path(&path, start);
    }

    fn add_module(&mut self, item: &ItemMod) {
        let name = item.ident.unraw().to_string();
        if item.content.is_none() {
            let inline_parents = self.module.get(self.file_depth..).unwrap_or_default();
            self.found.child_modules.push(ChildModule {
                name,
                inline_parents: inline_parents.to_vec(),
            });
            return;
        }
        if self.module.is_empty() {
            self.found.inline_modules.push(name.clone());
        }
        self.module.push(name);
        visit::visit_item_mod(self, item);
        self.module.pop();
    }
}

impl<'ast> Visit<'ast> for Visitor {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(item_attributes(item)) {
            return;
        }
        if let Some(name) = item_name(item) {
            self.add_name(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        if !is_test_only(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.add_module(item);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.add_use(&item.tree, &[], None);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let idents = path.segments.iter();
        let segments: Vec<String> = idents.map(|it| it.ident.unraw().to_string()).collect();
        if let Some(first) = path.segments.first()
            && path.leading_colon.is_none()
        {
            self.add_path(&segments, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.add_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_meta_list(&mut self, list: &'ast MetaList) {
        self.add_tokens(list.tokens.clone());
        visit::visit_meta_list(self, list);
    }
}

fn item_name(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Mod(item) => Some(&item.ident),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether the attributes contain `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Meta::List(list) = &attribute.meta else {
            return false;
        };
        let words: Vec<String> = flatten(list.tokens.clone());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        list.path.is_ident("cfg") && matches!(words.as_slice(), ["test"] | ["all", "test", ..])
    })
}

/// The identifiers of a token stream, groups included.
fn flatten(tokens: TokenStream) -> Vec<String> {
    let identifiers = |token| match token {
        TokenTree::Ident(ident) => vec![ident.to_string()],
        TokenTree::Group(group) => flatten(group.stream()),
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(identifiers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The targets of the references in the file of the module `path`, as `target:line`.
    fn targets(path: &str, text: &str) -> Vec<String> {
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        let found = of_file(text, &path).unwrap();
        let shown = |reference: &Reference| format!("{}:{}", reference.target, reference.line);
        found.references.iter().map(shown).collect()
    }

    #[test]
    fn nested_groups_are_followed() {
        let text = "use crate::{\n    a::{self, x::Y},\n    b::*,\n    c as d,\n};";
        assert_eq!(targets("m", text), ["a:2", "a:2", "b:3", "c:4"]);
    }

    #[test]
    fn super_chains_reach_the_root() {
        assert_eq!(targets("m", "use super::a::X;"), ["a:1"]);
        assert_eq!(targets("m::n", "use super::super::a::X;"), ["a:1"]);
        assert_eq!(targets("m::n", "use super::a::X;"), ["m:1"]);
        assert_eq!(targets("m", "use self::a::X;"), ["m:1"]);
        assert_eq!(targets("m", "mod n { use super::super::a::X; }"), ["a:1"]);
        assert_eq!(
            targets("m::n", "use super::{super::a::X, o};"),
            ["a:1", "m:1"]
        );
        assert_eq!(targets("m::n::o", "super::super::super::a::f!();"), ["a:1"]);
        assert_eq!(targets("m::n", "fn f() -> super::super::a::X {}"), ["a:1"]);
    }

    #[test]
    fn paths_in_expressions_and_types_count() {
        let text = "\
fn f(x: &crate::a::X) -> Vec<super::b::Y> {
    crate::c::call(|| <crate::d::Z as Default>::default());
    matches!(x, crate::e::X { .. } if format!(\"{}\", super::f::N) == \"crate::no\")
}
impl crate::g::Trait for T {}
";
        let expected = ["a:1", "b:1", "c:2", "d:2", "e:3", "f:3", "g:5"];
        assert_eq!(targets("m", text), expected);
    }

    #[test]
    fn macro_definitions_and_attributes_count() {
        let text = "macro_rules! m { () => { $crate::a::call() }; }";
        assert_eq!(targets("m", text), ["a:1"]);
        let text = "#[error(\"{}\", crate::b::text(.0))] struct E(u8);";
        assert_eq!(targets("m", text), ["b:1"]);
    }

    #[test]
    fn comments_strings_and_tests_do_not_count() {
        let text = "\
//! [`crate::a`]
/// [`crate::b`]
// crate::c
const X: &str = \"crate::d\";
pub(crate) struct S;
#[cfg(test)]
mod tests { use crate::e::E; }
#[cfg(all(test, unix))]
use crate::f::F;
impl S {
    #[cfg(test)]
    fn g() { crate::g::call() }
}
#[cfg(unix)]
use crate::h::H;
use other::a::X;
";
        assert_eq!(targets("m", text), ["h:15"]);
    }

    #[test]
    fn root_lists_modules_and_imports() {
        let text = "\
mod a;
mod b { mod c; }
#[cfg(test)]
mod tests;
pub use a::{X, deep::Y as Z};
pub use crate::b::c::W;
pub use {self::a::*, b::c::*};
use std::fmt;
";
        let found = of_file(text, &[]).unwrap();
        let child = |name: &str, parents: &[&str]| ChildModule {
            name: name.to_owned(),
            inline_parents: parents.iter().map(|&it| it.to_owned()).collect(),
        };
        assert_eq!(found.child_modules, [child("a", &[]), child("c", &["b"])]);
        assert_eq!(found.inline_modules, ["b"]);
        let imports = found.root_imports.iter();
        let imports: Vec<_> = imports
            .map(|(name, module)| format!("{name}={module}"))
            .collect();
        assert_eq!(imports, ["W=b", "X=a", "Z=a", "fmt=std"]);
        assert_eq!(found.root_globs, ["a", "b"]);
        let names: Vec<_> = found.names.iter().map(String::as_str).collect();
        assert_eq!(names, ["W", "X", "Z", "a", "b", "fmt"]);
    }
}
