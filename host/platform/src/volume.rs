//! The volume of the cache directory: its free space, and the files in a directory with the space that they take.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hotshoe_core::flow::disk_share::{Stored, Volume};

/// The unit in which volumes allocate space, in bytes.
const BLOCK: u64 = 4096;

/// Returns the volume of a directory; none where the system cannot tell.
pub fn of(dir: &Path) -> Option<Volume> {
    let found = rustix::fs::statvfs(dir).ok().filter(|found| found.f_blocks > 0)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Volume { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
}

/// Returns the regular files of a directory with the times of their last use. None is marked as needed.
pub fn files(dir: &Path) -> Vec<Stored<PathBuf, SystemTime>> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let stored = entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let used = metadata.modified().ok()?;
        Some(Stored { file: entry.path(), bytes: on_disk(metadata.len()), used, is_needed: false })
    });
    stored.collect()
}

/// Returns the disk space that a file of this length takes.
pub fn on_disk(length: u64) -> u64 {
    length.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Returns whether a write failed because the volume or the quota is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_disk::Tmpfs;

    #[test]
    fn the_size_and_the_free_space_of_a_volume_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let volume = of(dir.path()).unwrap();
        assert!(volume.total > 0 && volume.free <= volume.total, "{volume:?}");
        assert_eq!(of(&dir.path().join("missing")), None);
        let Some(small) = Tmpfs::mount(1) else { return };
        small.fill(8192);
        assert_eq!(of(small.path()), Some(Volume { total: 1 << 20, free: 8192 }));
        assert!(is_full(&fs::write(small.path().join("more"), [0; 8193]).unwrap_err()));
    }

    #[test]
    fn a_file_takes_whole_blocks() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), [0; 4097]).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        assert_eq!(files(dir.path()).iter().map(|stored| stored.bytes).collect::<Vec<_>>(), [8192]);
        assert!(files(&dir.path().join("missing")).is_empty());
    }
}
