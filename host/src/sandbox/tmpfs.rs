//! A small volume for tests of a full disk.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::sandbox::volume;

/// A small volume, which is unmounted when this is dropped.
pub(crate) struct Tmpfs(TempDir);

impl Tmpfs {
    /// Mounts a volume of so many MiB; none where the test may not mount.
    pub(crate) fn mount(mib: usize) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(dir.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the volume until so many bytes are free.
    pub(crate) fn fill(&self, left: u64) {
        let free = volume::of(self.path()).unwrap().free;
        fs::write(self.path().join("others"), vec![1; usize::try_from(free - left).unwrap()]).unwrap();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
