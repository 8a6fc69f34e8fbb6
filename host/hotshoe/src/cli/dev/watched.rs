//! Which files a component is made of and tested with, and when they were saved.
//!
//! The files are polled. A project has some dozens of them, which takes less than a millisecond; and a poll works
//! everywhere the same: on network volumes, in containers, without a limit of the kernel on watches, and for editors that
//! save a file by putting another one in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::ensure;

use crate::cli::project::{Folder, shown};
use crate::cli::sources::is_apart;

/// How often files are polled. A save is complete once two polls in a row have seen the same.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of files that are polled: a poll of so many takes about 20 ms.
const MAX_FILES: usize = 5_000;
/// How many folders deep files are looked for.
const MAX_DEPTH: usize = 16;
/// The files of a project's root that a build reads.
const OF_ROOT: [&str; 2] = ["Cargo.toml", "rust-toolchain.toml"];
/// Files that tools write beside sources, by their names.
const WRITTEN_BY_TOOLS: [&str; 3] = ["Cargo.lock", "package-lock.json", "uv.lock"];
/// Extensions of files that are no source: products, texts for people, and what editors put beside a file for a while.
const NO_SOURCES: [&str; 11] = ["wasm", "pyc", "md", "log", "swp", "swx", "tmp", "bak", "orig", "rej", "part"];
/// The file by which vim tries whether it can write into a folder.
const PROBE_OF_VIM: &str = "4913";

/// The files of a plugin that are watched, each with what differs between its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files(BTreeMap<PathBuf, Version>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

impl Files {
    /// Finds the files of a plugin as they are now, and those of the crates of this machine that it is built with.
    ///
    /// # Errors
    /// If there are too many.
    pub(super) fn of(folder: &Folder, crates: &[PathBuf]) -> anyhow::Result<Self> {
        let mut files = Self::default();
        for name in OF_ROOT {
            files.add(folder.root().join(name));
        }
        // Cases are checked with these.
        files.add_folder(&folder.crds(), MAX_DEPTH)?;
        files.add_folder(&folder.dir, MAX_DEPTH)?;
        for local in crates {
            files.add_folder(local, MAX_DEPTH)?;
        }
        Ok(files)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the files that are not the same in both: changed, new or removed ones.
    fn differing(&self, other: &Self) -> BTreeSet<PathBuf> {
        let differs = |path: &&PathBuf| self.0.get(*path) != other.0.get(*path);
        self.0.keys().chain(other.0.keys()).filter(differs).cloned().collect()
    }

    fn add(&mut self, path: PathBuf) {
        if let Ok(found) = fs::metadata(&path)
            && found.is_file()
        {
            let version = Version { modified: found.modified().ok(), bytes: found.len(), inode: found.ino() };
            self.0.insert(path, version);
        }
    }

    fn add_folder(&mut self, folder: &Path, depth: usize) -> anyhow::Result<()> {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 && !is_apart(&name) => {
                    self.add_folder(&entry.path(), depth - 1)?;
                }
                Ok(kind) if !kind.is_dir() && counts(&name) => self.add(entry.path()),
                _ => {}
            }
            ensure!(
                self.len() <= MAX_FILES,
                "{} has more than {MAX_FILES} files, which are too many to watch; move what is no source into target/",
                shown(folder).display()
            );
        }
        Ok(())
    }
}

/// Returns whether a file in a plugin's folder is one of which a save counts.
fn counts(name: &str) -> bool {
    let is_of_editor = name.starts_with(['.', '#']) || name.ends_with('~') || name == PROBE_OF_VIM;
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    !is_of_editor && !WRITTEN_BY_TOOLS.contains(&name) && !NO_SOURCES.contains(&extension)
}

/// The saves of files, joined until what was saved has been tried.
#[derive(Debug)]
pub(super) struct Saves {
    seen: Files,
    /// What has changed since the last save that was reported.
    changing: BTreeSet<PathBuf>,
    /// What was reported, and is being tried.
    in_work: BTreeSet<PathBuf>,
}

impl Saves {
    pub(super) fn new(seen: Files) -> Self {
        Self { seen, changing: BTreeSet::new(), in_work: BTreeSet::new() }
    }

    /// Takes what a poll has found. Returns the files to be tried once a save is complete: they have changed, and not
    /// since the poll before. An unfinished trial is of an earlier state, so its files are among them.
    pub(super) fn next(&mut self, found: Files) -> Option<&BTreeSet<PathBuf>> {
        let differing = found.differing(&self.seen);
        let is_complete = differing.is_empty() && !self.changing.is_empty();
        self.changing.extend(differing);
        self.seen = found;
        is_complete.then(|| {
            self.in_work.append(&mut self.changing);
            &self.in_work
        })
    }

    /// Records that what was returned last has been tried.
    pub(super) fn tried(&mut self) {
        self.in_work.clear();
    }

    /// Returns how many files are watched.
    pub(super) fn watched(&self) -> usize {
        self.seen.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_and_tools_write_beside_sources_does_not_count() {
        for name in ["lib.rs", "plugin.yaml", "deployment.yaml.j2", "Cargo.toml", "package.json", "Makefile"] {
            assert!(counts(name), "{name}");
        }
        for name in [
            ".lib.rs.swp",
            "lib.rs.swx",
            "lib.rs~",
            "#lib.rs#",
            ".#lib.rs",
            "4913",
            "lib.rs.tmp",
            "Cargo.lock",
            "package-lock.json",
            "demo.wasm",
            "README.md",
            "plugin.pyc",
        ] {
            assert!(!counts(name), "{name}");
        }
    }

    fn project() -> (tempfile::TempDir, Folder) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("plugins/demo/plugin.yaml", "metadata: {name: demo}\nspec: {source: {file: demo.wasm}}\n"),
            ("plugins/demo/src/lib.rs", "1"),
            ("plugins/demo/cases/a.yaml", "1"),
            ("plugins/demo/node_modules/x/index.js", "1"),
            ("plugins/demo/tests/it.rs", "1"),
            ("plugins/demo/__pycache__/a.py", "1"),
            ("plugins/other/src/lib.rs", "1"),
            ("crds/samples/a.yaml", "1"),
            ("wit/world.wit", "1"),
            ("target/guests/a.rs", "1"),
            ("Cargo.toml", "1"),
            ("Cargo.lock", "1"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let folder = Folder::open(&root.path().join("plugins/demo")).unwrap();
        (root, folder)
    }

    #[test]
    fn the_files_of_a_plugin_of_its_project_and_of_the_crates_that_it_is_built_with_are_watched() {
        let (root, folder) = project();
        let files = Files::of(&folder, &[root.path().join("plugins/other")]).unwrap();
        let names: Vec<_> = files.0.keys().map(|path| path.strip_prefix(root.path()).unwrap().to_owned()).collect();
        let expected = [
            "Cargo.toml",
            "crds/samples/a.yaml",
            "plugins/demo/cases/a.yaml",
            "plugins/demo/plugin.yaml",
            "plugins/demo/src/lib.rs",
            "plugins/other/src/lib.rs",
        ];
        assert_eq!(names, expected.map(PathBuf::from));
    }

    #[test]
    fn too_many_files_are_refused_with_what_to_do() {
        let (_root, folder) = project();
        for number in 0..=MAX_FILES {
            fs::write(folder.dir.join(format!("src/{number}.rs")), "").unwrap();
        }
        let error = Files::of(&folder, &[]).unwrap_err().to_string();
        assert!(error.contains("more than 5000 files") && error.contains("target/"), "{error}");
    }

    /// Files of these names, each with a size.
    fn files(sizes: &[(&str, u64)]) -> Files {
        let version = |bytes| Version { modified: None, bytes, inode: 1 };
        Files(sizes.iter().map(|(name, bytes)| (PathBuf::from(name), version(*bytes))).collect())
    }

    fn names(saved: Option<&BTreeSet<PathBuf>>) -> Vec<&str> {
        saved.into_iter().flatten().filter_map(|path| path.to_str()).collect()
    }

    #[test]
    fn a_save_is_reported_once_when_its_files_no_longer_change() {
        let mut saves = Saves::new(files(&[("a", 1), ("b", 1)]));
        assert_eq!(saves.next(files(&[("a", 1), ("b", 1)])), None);
        assert_eq!(saves.next(files(&[("a", 2), ("b", 1)])), None);
        // An editor that saves by renaming: for a moment there is no file.
        assert_eq!(saves.next(files(&[("a", 2)])), None);
        assert_eq!(saves.next(files(&[("a", 2), ("b", 3)])), None);
        assert_eq!(names(saves.next(files(&[("a", 2), ("b", 3)]))), ["a", "b"]);
        saves.tried();
        assert_eq!(saves.next(files(&[("a", 2), ("b", 3)])), None);
        assert_eq!(saves.next(files(&[("a", 2), ("b", 3), ("c", 1)])), None);
        assert_eq!(names(saves.next(files(&[("a", 2), ("b", 3), ("c", 1)]))), ["c"], "a new file");
    }

    #[test]
    fn a_save_while_another_is_tried_is_tried_together_with_it() {
        let mut saves = Saves::new(files(&[("a", 1), ("b", 1)]));
        saves.next(files(&[("a", 2), ("b", 1)]));
        assert_eq!(names(saves.next(files(&[("a", 2), ("b", 1)]))), ["a"]);
        saves.next(files(&[("a", 2), ("b", 2)]));
        assert_eq!(names(saves.next(files(&[("a", 2), ("b", 2)]))), ["a", "b"]);
        saves.tried();
        saves.next(files(&[("a", 2), ("b", 3)]));
        assert_eq!(names(saves.next(files(&[("a", 2), ("b", 3)]))), ["b"]);
    }
}
