//! Files that are written whole or not at all: who reads one meanwhile sees what was there before, or
//! all of what is there now.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct WholeFile {
    mode: u32,
    synced: bool,
}

impl WholeFile {
    /// Readable for whoever may, by the process's umask.
    pub const SHARED: Self = Self { mode: 0o666, synced: false };
    /// Readable for its owner alone.
    pub const PRIVATE: Self = Self { mode: 0o600, synced: false };

    /// On the disk before it has its name, so that it is whole also when the machine stops meanwhile.
    pub fn synced(self) -> Self {
        Self { synced: true, ..self }
    }

    /// Puts these bytes, one part after the other, in the place of whatever has this name.
    ///
    /// # Errors
    /// When the system does not let it be written; then the place is as it was.
    pub fn write(self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let temporary = path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), std::process::id()));
        let written = self.write_new(&temporary, parts).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // It may not even be there.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn write_new(self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        // A process that had our number may have died over it.
        let _ = fs::remove_file(path);
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(path)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        if self.synced { file.sync_all() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn what_was_there_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        WholeFile::SHARED.write(&path, &[b"the first, which is longer"]).unwrap();
        WholeFile::SHARED.synced().write(&path, &[b"the ", b"second"]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_replaced_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir_all(path.join("with something in it")).unwrap();
        assert!(WholeFile::SHARED.write(&path, &[b"bytes"]).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_private_file_is_its_owners_also_where_an_open_one_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "open").unwrap();
        WholeFile::PRIVATE.write(&path, &[b"closed"]).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
