//! Writes the files of a new plugin: either all of them or none.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// The files to write below a folder.
#[derive(Debug, Default)]
pub(super) struct Files {
    new: Vec<(PathBuf, String)>,
    changed: Vec<(PathBuf, String)>,
}

impl Files {
    /// Adds a file that must not exist.
    pub(super) fn add(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.new.push((path.into(), text.into()));
    }

    /// Adds a file, unless it exists.
    pub(super) fn add_missing(&mut self, folder: &Path, path: impl Into<PathBuf>, text: impl Into<String>) {
        let path = path.into();
        if !folder.join(&path).exists() {
            self.add(path, text);
        }
    }

    /// Replaces the text of a file that exists.
    pub(super) fn change(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.changed.push((path.into(), text.into()));
    }

    /// Returns the paths of the new files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.new.iter().map(|(path, _)| path.as_path())
    }

    /// Returns the text of a new file.
    #[cfg(test)]
    pub(super) fn text(&self, path: &str) -> &str {
        self.new.iter().find(|(new, _)| new == Path::new(path)).map_or("", |(_, text)| text)
    }

    /// Writes all of them.
    ///
    /// # Errors
    /// If one exists already or cannot be written. Then nothing is left behind.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        for (path, _) in &self.new {
            ensure!(
                fs::symlink_metadata(folder.join(path)).is_err(),
                "{} is there already; nothing was written. Take another name, kind or group, or remove it",
                path.display()
            );
        }
        let mut written = Written::default();
        for (path, text) in &self.changed {
            written.replace(&folder.join(path), text)?;
        }
        for (path, text) in &self.new {
            written.create(&folder.join(path), text)?;
        }
        written.keep();
        Ok(())
    }
}

/// The changes that were made so far. They are undone on drop, unless they are kept.
#[derive(Default)]
struct Written {
    created: Vec<PathBuf>,
    replaced: Vec<(PathBuf, Vec<u8>)>,
}

impl Written {
    fn replace(&mut self, path: &Path, text: &str) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}; nothing is left behind", path.display());
        self.replaced.push((path.to_owned(), fs::read(path).with_context(failed)?));
        fs::write(path, text).with_context(failed)
    }

    fn create(&mut self, path: &Path, text: &str) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}; nothing is left behind", path.display());
        let missing: Vec<_> = path.ancestors().skip(1).take_while(|folder| !folder.exists()).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder).with_context(failed)?;
            self.created.push(folder.to_owned());
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).with_context(failed)?;
        self.created.push(path.to_owned());
        file.write_all(text.as_bytes()).with_context(failed)
    }

    fn keep(mut self) {
        self.created.clear();
        self.replaced.clear();
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // Undoing fails for the same reason as the change that failed, and that error is reported.
        for path in self.created.drain(..).rev() {
            let _ = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        }
        for (path, bytes) in self.replaced.drain(..) {
            let _ = fs::write(path, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_written_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::write(root.join("Cargo.toml"), "old").unwrap();
        fs::write(root.join("taken"), "a file where a folder is wanted").unwrap();
        let mut files = Files::default();
        files.change("Cargo.toml", "new");
        files.add("a/b/one", "1");
        files.add("taken/two", "2");
        let error = files.write(&root.join("")).unwrap_err().to_string();
        assert!(error.contains("nothing is left behind"), "{error}");
        assert_eq!(fs::read_to_string(root.join("Cargo.toml")).unwrap(), "old");
        assert!(!root.join("a").exists());
        fs::remove_file(root.join("taken")).unwrap();
        files.write(root).unwrap();
        assert_eq!(fs::read_to_string(root.join("Cargo.toml")).unwrap(), "new");
        assert_eq!(fs::read_to_string(root.join("a/b/one")).unwrap(), "1");
        let error = files.write(root).unwrap_err().to_string();
        assert!(error.contains("a/b/one is there already; nothing was written"), "{error}");
    }

    #[test]
    fn a_file_that_is_only_added_if_missing_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("there"), "old").unwrap();
        let mut files = Files::default();
        files.add_missing(dir.path(), "there", "new");
        files.add_missing(dir.path(), "missing", "new");
        files.write(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("there")).unwrap(), "old");
        assert_eq!(fs::read_to_string(dir.path().join("missing")).unwrap(), "new");
    }
}
