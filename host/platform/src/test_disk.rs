//! What tests do to a disk: fill it, and plant files of others there.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, mknodat};
use tempfile::TempDir;

use hotshoe_platform::volume;

/// Plants what must not be read in place of a file: a pipe without a writer, a device without an end, a file that
/// is larger than any memory, and a directory.
pub(crate) const FOREIGN: [fn(&Path); 4] = [
    |path| mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap(),
    |path| symlink("/dev/zero", path).unwrap(),
    |path| File::create(path).unwrap().set_len(60 << 30).unwrap(),
    |path| symlink("/", path).unwrap(),
];

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
