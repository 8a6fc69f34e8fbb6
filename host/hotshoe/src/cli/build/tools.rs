//! The tools of a language, which its first build in a project installs.

use std::fs;
use std::io;
use std::path::Path;

/// The file in the folder of the tools that is written when they are complete, with their version.
const INSTALLED: &str = "installed";

/// The tools of a language, in one version.
#[derive(Debug)]
pub(in crate::cli) struct Tools {
    /// Their folder, below the root of the project.
    pub(super) folder: &'static str,
    /// The version, as any text that differs between versions.
    pub(super) version: &'static str,
}

impl Tools {
    /// Returns whether the tools are installed in this version below the root of a project.
    pub(in crate::cli) fn are_installed(&self, root: &Path) -> bool {
        fs::read_to_string(root.join(self.folder).join(INSTALLED)).is_ok_and(|version| version == self.version)
    }

    /// Records that the tools are installed in this version.
    pub(super) fn record(&self, root: &Path) -> io::Result<()> {
        fs::write(root.join(self.folder).join(INSTALLED), self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_another_version_are_not_installed() {
        let root = tempfile::tempdir().unwrap();
        let [old, new] = ["1", "2"].map(|version| Tools { folder: "tools", version });
        assert!(!new.are_installed(root.path()));
        fs::create_dir(root.path().join("tools")).unwrap();
        old.record(root.path()).unwrap();
        assert!(old.are_installed(root.path()) && !new.are_installed(root.path()));
        new.record(root.path()).unwrap();
        assert!(new.are_installed(root.path()));
    }
}
