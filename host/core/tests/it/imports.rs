//! Which source file of a crate imports which, computed from the sources: no compiler prints it.
//!
//! A path counts for the file in which its item is defined, also where a `mod.rs` or a `use` on the way passes it on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::str::FromStr;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The names of a path; those of a module begin at the root of its crate.
type Path = Vec<String>;

/// The contents of a module, without its tests.
#[derive(Default)]
struct Module {
    file: String,
    uses: Vec<Use>,
    /// The paths in its code, each as it is written.
    mentions: Vec<Path>,
}

/// One name that a `use` brings into a module.
struct Use {
    path: Path,
    /// None for all names of a module.
    name: Option<String>,
    is_public: bool,
}

/// The imports of a crate: from each file those that it names, and by which path.
#[derive(Default)]
pub(crate) struct Imports(BTreeMap<String, BTreeMap<String, String>>);

impl Imports {
    /// Computes the imports of a crate from its files, each with its path below `src` and its text.
    pub(crate) fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut sources = Sources::default();
        for (file, text) in files {
            let module = module_of(&file);
            let tokens = TokenStream::from_str(&text).map_err(|error| format!("{file}: {error}")).unwrap();
            sources.read(&file, &module, &tokens.into_iter().collect::<Vec<_>>());
        }
        sources.leave_tests_out();
        sources.imports()
    }

    /// Describes each set of files that import one another, with a shortest cycle through some of them.
    pub(crate) fn cycles(&self) -> Vec<String> {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut found = Vec::new();
        for file in self.0.keys() {
            if seen.contains(file.as_str()) {
                continue;
            }
            let mutual: Vec<_> =
                self.reached_from(file).into_iter().filter(|to| self.way(to, file).is_some()).collect();
            seen.extend(&mutual);
            let shortest = mutual.iter().filter_map(|file| self.way(file, file)).min_by_key(Vec::len);
            found.extend(shortest.map(|way| self.described(&mutual, &way)));
        }
        found
    }

    fn described(&self, mutual: &[&str], way: &[&str]) -> String {
        let steps = way.iter().zip(way.iter().skip(1)).map(|(from, to)| {
            let path = &self.0[*from][*to];
            format!("\n  {from} imports {path} of {to}")
        });
        format!("{} files import one another: {}{}", mutual.len(), mutual.join(", "), steps.collect::<String>())
    }

    fn imported_by(&self, file: &str) -> impl Iterator<Item = &str> {
        self.0.get(file).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }

    fn reached_from(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<_> = self.imported_by(file).collect();
        while let Some(file) = open.pop() {
            if reached.insert(file) {
                open.extend(self.imported_by(file));
            }
        }
        reached
    }

    /// Finds a shortest way of at least one import.
    fn way<'a>(&'a self, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(file) = open.pop_front() {
            for next in self.imported_by(file) {
                if before.contains_key(next) {
                    continue;
                }
                before.insert(next, file);
                if next == to {
                    let mut way = vec![next, file];
                    while way.last().is_some_and(|file| *file != from) {
                        way.push(before[way[way.len() - 1]]);
                    }
                    way.reverse();
                    return Some(way);
                }
                open.push_back(next);
            }
        }
        None
    }
}

/// Returns the path of the module in a file.
fn module_of(file: &str) -> Path {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let mut module: Path = file.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

/// The modules of a crate.
#[derive(Default)]
struct Sources {
    modules: BTreeMap<Path, Module>,
    /// The modules in files of their own that are compiled only for tests.
    tests: BTreeSet<Path>,
}

impl Sources {
    /// Reads tokens of a module, and of those within it.
    fn read(&mut self, file: &str, module: &Path, tokens: &[TokenTree]) {
        file.clone_into(&mut self.modules.entry(module.clone()).or_default().file);
        let mut at = 0;
        let mut is_public = false;
        while at < tokens.len() {
            let rest = &tokens[at..];
            let is_visibility = word(rest, 0).as_deref() == Some("pub");
            at += match (word(rest, 0).as_deref(), word(rest, 1), rest.get(2)) {
                _ if is_test(rest) => self.skip_test(module, rest),
                (Some("pub"), ..) => 1 + usize::from(is_restriction(rest.get(1))),
                (Some("mod"), Some(name), Some(TokenTree::Group(body))) => {
                    let within = [module.as_slice(), &[name]].concat();
                    self.read(file, &within, &body.stream().into_iter().collect::<Vec<_>>());
                    3
                }
                (Some("use"), ..) => {
                    let end = rest.iter().position(|token| is_punct(Some(token), ';')).unwrap_or(rest.len());
                    let uses = &mut self.modules.entry(module.clone()).or_default().uses;
                    read_use(&[], &rest[1..end], is_public, uses);
                    end
                }
                (Some(_), ..) => {
                    let (path, length) = path(rest);
                    let is_member = at > 0 && is_punct(tokens.get(at - 1), '.');
                    let is_field = is_punct(rest.get(length), ':');
                    if !is_member && !is_field {
                        self.modules.entry(module.clone()).or_default().mentions.push(path);
                    }
                    length
                }
                _ => {
                    if let Some(TokenTree::Group(group)) = rest.first() {
                        self.read(file, module, &group.stream().into_iter().collect::<Vec<_>>());
                    }
                    1
                }
            };
            is_public = is_visibility;
        }
    }

    /// Counts the tokens of an item for tests, with its attribute.
    fn skip_test(&mut self, module: &Path, tokens: &[TokenTree]) -> usize {
        if let Some(at) = tokens.iter().take(6).position(|token| token.to_string() == "mod")
            && is_punct(tokens.get(at + 2), ';')
            && let Some(name) = word(tokens, at + 1)
        {
            self.tests.insert([module.as_slice(), &[name]].concat());
        }
        let is_field = word(tokens, 2).is_some() && is_punct(tokens.get(3), ':');
        let is_end = |token: &TokenTree| match token {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            token => is_punct(Some(token), ';') || is_field && is_punct(Some(token), ','),
        };
        tokens.iter().position(is_end).map_or(tokens.len(), |end| end + 1)
    }

    fn leave_tests_out(&mut self) {
        let tests = &self.tests;
        self.modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::default();
        for (path, module) in &self.modules {
            let imported = imports.0.entry(module.file.clone()).or_default();
            // A module's name is used where something of it is named; and what a module passes on of its children it
            // need not use.
            let uses = module.uses.iter().filter_map(|used| {
                let found = self.resolve(path, &used.path)?;
                let is_passed_on = used.is_public && found.module.starts_with(path);
                let counts = used.name.is_none() || !found.is_whole && !is_passed_on;
                counts.then_some((found, &used.path))
            });
            let mentions = module.mentions.iter().filter_map(|mention| Some((self.resolve(path, mention)?, mention)));
            for (found, written) in uses.chain(mentions) {
                let defining = self.modules.get(&found.module).filter(|to| to.file != module.file && !found.is_whole);
                if let Some(to) = defining {
                    imported.entry(to.file.clone()).or_insert_with(|| written.join("::"));
                }
            }
        }
        imports
    }

    /// Finds the module in which the item of a path is defined, as it is written in a module; none if that is of another
    /// crate or a name of the file's own.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(&[], rest),
            "self" => self.descend(module, rest),
            "super" => {
                let (_, parent) = module.split_last()?;
                match rest.first() {
                    Some(next) if next == "super" => self.resolve(parent, rest),
                    _ => self.descend(parent, rest),
                }
            }
            _ if self.child(module, first).is_some() || self.used(module, first).is_some() => {
                self.descend(module, path)
            }
            _ => None,
        }
    }

    fn descend(&self, module: &[String], path: &[String]) -> Option<Found> {
        let Some((first, rest)) = path.split_first() else {
            return Some(Found { module: module.to_vec(), is_whole: true });
        };
        let used = self.used(module, first);
        if let Some(child) = self.child(module, first)
            && (!rest.is_empty() || used.is_none())
        {
            return self.descend(&child, rest);
        }
        match used {
            // A name may be that of the module from which it comes.
            Some(used) if used.path.first() == Some(first) && used.path.len() > 1 => {
                let child = self.child(module, first)?;
                self.descend(&child, &[&used.path[1..], rest].concat())
            }
            Some(used) if used.path.first() == Some(first) => None,
            Some(used) => self.resolve(module, &[&used.path, rest].concat()),
            None => Some(Found { module: module.to_vec(), is_whole: false }),
        }
    }

    fn child(&self, module: &[String], name: &str) -> Option<Path> {
        let child = [module, &[name.to_owned()]].concat();
        self.modules.contains_key(&child).then_some(child)
    }

    fn used(&self, module: &[String], name: &str) -> Option<&Use> {
        self.modules.get(module)?.uses.iter().find(|used| used.name.as_deref() == Some(name))
    }
}

/// Where a path leads.
struct Found {
    module: Path,
    /// Whether the path names the module itself.
    is_whole: bool,
}

/// Reads the tree of a `use`.
fn read_use(prefix: &[String], tree: &[TokenTree], is_public: bool, uses: &mut Vec<Use>) {
    for branch in tree.split(|token| is_punct(Some(token), ',')) {
        let mut path = prefix.to_vec();
        let mut name = None;
        let mut is_leaf = !branch.is_empty();
        for (at, token) in branch.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) if *ident == "as" => {
                    name = word(branch, at + 1);
                    break;
                }
                TokenTree::Ident(ident) if *ident == "self" && !prefix.is_empty() => name = path.last().cloned(),
                TokenTree::Ident(ident) => {
                    path.push(ident.to_string());
                    name = path.last().cloned();
                }
                TokenTree::Group(group) => {
                    is_leaf = false;
                    read_use(&path, &group.stream().into_iter().collect::<Vec<_>>(), is_public, uses);
                }
                token if is_punct(Some(token), '*') => name = None,
                _ => {}
            }
        }
        if is_leaf {
            uses.push(Use { path, name, is_public });
        }
    }
}

/// Reads the path that begins here, and counts its tokens.
fn path(tokens: &[TokenTree]) -> (Path, usize) {
    let mut path: Path = word(tokens, 0).into_iter().collect();
    let mut length = path.len();
    while is_punct(tokens.get(length), ':') && is_punct(tokens.get(length + 1), ':') {
        let Some(name) = word(tokens, length + 2) else { return (path, length + 2) };
        path.push(name);
        length += 3;
    }
    (path, length)
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Whether tokens begin with `#[cfg(test)]`.
fn is_test(tokens: &[TokenTree]) -> bool {
    is_punct(tokens.first(), '#')
        && matches!(tokens.get(1), Some(TokenTree::Group(group)) if group.stream().to_string() == "cfg (test)")
}

/// Whether a token is what follows `pub` in `pub(crate)`.
fn is_restriction(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else { return false };
    let first = group.stream().into_iter().next().map(|token| token.to_string());
    group.delimiter() == Delimiter::Parenthesis
        && first.is_some_and(|first| ["crate", "super", "self", "in"].contains(&first.as_str()))
}

/// The imports of a crate of these files, written `from -> to`.
fn imports(files: &[(&str, &str)]) -> Vec<String> {
    let imports = Imports::of(files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())));
    imports.0.iter().flat_map(|(from, to)| to.keys().map(move |to| format!("{from} -> {to}"))).collect()
}

#[test]
fn an_import_is_found_however_it_is_written() {
    let target = ("a/b.rs", "pub struct Thing;");
    for text in [
        "use crate::a::b::Thing;",
        "use crate::{a::{b::{self, Thing}}, c};",
        "use crate::a::b as other; fn f() -> other::Thing {}",
        "use crate::a; fn f() -> a::b::Thing {}",
        "fn f() { crate::a::b::Thing::new() }",
        "mod inner { use super::super::a::b::Thing; }",
        "macro!(let text = \"{\"; crate::a::b::Thing);",
        "use super::a::Thing;",
    ] {
        let files = [target, ("a/mod.rs", "mod b; pub use b::Thing;"), ("c.rs", text)];
        assert_eq!(imports(&files), ["c.rs -> a/b.rs"], "{text}");
    }
}

#[test]
fn a_folders_own_code_imports_what_it_uses_and_not_what_it_passes_on() {
    let child = ("a/b.rs", "use super::Kind;");
    let declared = [child, ("a/mod.rs", "pub mod b; pub(crate) use b::Thing; pub enum Kind {}")];
    assert_eq!(imports(&declared), ["a/b.rs -> a/mod.rs"]);
    let used = [child, ("a/mod.rs", "mod b; pub use b::Thing; pub enum Kind { One(Thing) }")];
    assert_eq!(imports(&used), ["a/b.rs -> a/mod.rs", "a/mod.rs -> a/b.rs"]);
}

#[test]
fn tests_import_what_they_like() {
    let text = "#[cfg(test)] mod tests { use crate::b::Thing; } #[cfg(test)] mod more; use crate::c::Thing;";
    let files = [("a/mod.rs", text), ("a/more.rs", "use crate::b::Thing;"), ("b.rs", ""), ("c.rs", "")];
    assert_eq!(imports(&files), ["a/mod.rs -> c.rs"]);
}

#[test]
fn a_cycle_is_printed_with_the_paths_that_make_it() {
    let files = [("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use super::{a::A, d::D};")];
    let imports = Imports::of(files.map(|(file, text)| (file.to_owned(), text.to_owned())));
    let cycle = "3 files import one another: a.rs, b.rs, c.rs\n  a.rs imports crate::b::B of b.rs\n  \
                 b.rs imports crate::c::C of c.rs\n  c.rs imports super::a::A of a.rs";
    assert_eq!(imports.cycles(), [cycle]);
}
