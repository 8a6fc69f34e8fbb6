//! Where a new plugin is written: into an existing project, or into an empty folder that becomes a project.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::cli::project::shown;
use hotshoe_operator::config::folders;

/// Files that a folder may have and still count as empty: version control makes them, and `hotshoe new` writes none of
/// these names but a LICENSE that is missing.
const IGNORED: [&str; 3] = [".git", ".gitattributes", "LICENSE"];

/// Where a new plugin is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Into the project in this folder.
    Project(PathBuf),
    /// Into this empty or missing folder, which becomes a project.
    Empty(PathBuf),
}

impl Place {
    /// Finds out whether a folder is a project or empty.
    ///
    /// # Errors
    /// If it is neither.
    pub(super) fn of(folder: &Path) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let place = shown(&folder).display();
        if folders::is_project(&folder) {
            return Ok(Self::Project(folder));
        }
        if !folder.exists() {
            return Ok(Self::Empty(folder));
        }
        ensure!(folder.is_dir(), "{place} is no folder; name an empty or a new one with --into");
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {place}"))?;
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>, std::io::Error>>()?;
        match names.iter().find(|name| !IGNORED.iter().any(|ignored| name == ignored)) {
            None => Ok(Self::Empty(folder)),
            Some(other) => bail!(
                "{place} is neither empty (it has {}) nor a project of plugins; name a new folder with --into, or one that \
                 `hotshoe new` made. Nothing was written",
                other.display()
            ),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        match self {
            Self::Project(folder) | Self::Empty(folder) => folder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_project_or_empty_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert_eq!(Place::of(root).unwrap(), Place::Empty(root.to_owned()));
        assert_eq!(Place::of(&root.join("new")).unwrap(), Place::Empty(root.join("new")));
        fs::create_dir(root.join(".git")).unwrap();
        assert_eq!(Place::of(root).unwrap(), Place::Empty(root.to_owned()));
        fs::write(root.join("notes.txt"), "").unwrap();
        let error = Place::of(root).unwrap_err().to_string();
        assert!(error.contains("it has notes.txt") && error.contains("--into"), "{error}");
        assert!(Place::of(&root.join("notes.txt")).unwrap_err().to_string().contains("is no folder"));
        fs::create_dir_all(root.join("plugins")).unwrap();
        fs::create_dir_all(root.join("wit")).unwrap();
        fs::write(root.join("wit/world.wit"), "").unwrap();
        assert_eq!(Place::of(root).unwrap(), Place::Project(root.to_owned()));
    }
}
