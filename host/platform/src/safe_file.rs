//! Files and directories that the host relies on although other users may write near them. Only regular files of
//! bounded size are read, files are replaced as a whole, and private ones belong to the host's user alone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use hotshoe_core::model::limits::Size;

/// The mode of a file that others may read, as far as the umask allows.
pub const SHARED: u32 = 0o666;
/// The mode of a file for its owner alone.
pub const PRIVATE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;

/// Opens a regular file. Refuses anything else, such as a device without an end or a pipe without a writer.
///
/// # Errors
/// If it is no regular file, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    // Not blocking, or the thread would wait for the writer of a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// Reads a regular file; returns nothing if it is larger than `most`.
///
/// # Errors
/// As [`open`], or if it cannot be read.
pub fn read_whole(path: &Path, most: Size) -> io::Result<Option<Vec<u8>>> {
    let file = open(path)?;
    // The metadata of the open file, because the path may lead to another file by now.
    if file.metadata()?.len() > most.0 {
        return Ok(None);
    }
    // One byte more, to notice a file that grows while it is read.
    let bytes = read_up_to(&file, Size(most.0.saturating_add(1)))?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= most.0))
}

/// Reads at most `cap` bytes. Reserves as many as the file claims to have, because a buffer that grows needs three
/// times as much.
///
/// # Errors
/// If the file cannot be read.
pub fn read_up_to(file: &File, cap: Size) -> io::Result<Vec<u8>> {
    let claimed = file.metadata()?.len().min(cap.0);
    let mut bytes = Vec::with_capacity(usize::try_from(claimed).unwrap_or(0));
    file.take(cap.0).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces a file by the concatenation of `parts`. A reader gets either the old content or all of the new one.
///
/// # Errors
/// If the file cannot be written. The old content is still there then.
pub fn replace(path: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = write_beside(path, mode, parts)?;
    temporary.persist(path).map(drop).map_err(|error| error.error)
}

/// Replaces a file as [`replace`] does, and returns only when the new content would survive a crash of the machine.
///
/// # Errors
/// As [`replace`].
pub fn replace_durably(path: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = write_beside(path, mode, parts)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    File::open(folder(path))?.sync_all()
}

/// Creates a file, unless it exists by now: an existing file stays as it is.
///
/// # Errors
/// If the file cannot be written.
pub fn create(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    match write_beside(path, mode, &[bytes])?.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn write_beside(path: &Path, mode: u32, parts: &[&[u8]]) -> io::Result<tempfile::NamedTempFile> {
    let permissions = Permissions::from_mode(mode);
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder(path))?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    Ok(file)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a directory whose content is trusted, and missing directories above it, which may be shared. A directory
/// that exists must belong to the host's user; loose permissions of it are tightened.
///
/// # Errors
/// If the directory cannot be created, or another user may have chosen its content.
pub fn make_private_dir(dir: &Path) -> io::Result<()> {
    if mode_of_own_dir(dir)? != PRIVATE_DIR {
        fs::set_permissions(dir, Permissions::from_mode(PRIVATE_DIR))?;
    }
    Ok(())
}

/// Makes a directory that an administrator named, as [`make_private_dir`] does. Loose permissions are not
/// tightened, because the directory may be `/tmp`: it is refused.
///
/// # Errors
/// As [`make_private_dir`], or if others may enter it.
pub fn require_private_dir(dir: &Path) -> io::Result<()> {
    match mode_of_own_dir(dir)? {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => Err(io::Error::other(format!(
            "other users may enter {} (its mode is {mode:o}); name a directory that is closed to them, or one that is not there yet",
            dir.display()
        ))),
    }
}

/// Creates a directory where it is missing, and returns its mode.
fn mode_of_own_dir(dir: &Path) -> io::Result<u32> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(dir)?;
    // The metadata of a link itself and not of its target, which the creator of the link chose.
    let metadata = fs::symlink_metadata(dir)?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "{} is no directory, or belongs to another user; remove it, or name another directory",
            dir.display()
        )));
    }
    Ok(metadata.mode() & 0o777)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::test_disk::FOREIGN;

    #[test]
    fn a_file_is_read_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("whole"), b"12345").unwrap();
        let read = |name: &str, most| read_whole(&dir.path().join(name), Size(most)).ok();
        assert_eq!(read("whole", 5), Some(Some(b"12345".to_vec())));
        assert_eq!(read("whole", 4), Some(None));
        for (number, plant) in FOREIGN.iter().enumerate() {
            let name = number.to_string();
            plant(&dir.path().join(&name));
            assert_eq!(read(&name, 100).flatten(), None, "{name}");
        }
    }

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.json");
        replace(&path, SHARED, &[b"the first, which is longer"]).unwrap();
        replace_durably(&path, SHARED, &[b"the ", b"second"]).unwrap();
        create(&path, SHARED, b"the third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"the second");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_cannot_be_replaced_stays_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir_all(path.join("with something in it")).unwrap();
        for replaced in [replace(&path, SHARED, &[b"bytes"]), replace_durably(&path, SHARED, &[b"bytes"])] {
            assert!(replaced.is_err());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_private_file_is_private_even_if_it_replaces_one_that_was_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "open").unwrap();
        replace(&path, PRIVATE, &[b"closed"]).unwrap();
        assert_eq!(mode(&path), PRIVATE);
        replace(&path, SHARED, &[b"open"]).unwrap();
        assert_ne!(mode(&path), PRIVATE, "as far as the umask allows");
    }

    fn mode(dir: &Path) -> u32 {
        fs::metadata(dir).unwrap().mode() & 0o777
    }

    #[test]
    fn a_missing_directory_is_created_and_one_that_others_may_enter_is_closed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/b");
        make_private_dir(&dir).unwrap();
        assert_eq!(mode(&dir), PRIVATE_DIR);
        for loose in [0o777, 0o750, 0o600] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(loose)).unwrap();
            make_private_dir(&dir).unwrap();
            assert_eq!(mode(&dir), PRIVATE_DIR, "{loose:o}");
        }
    }

    #[test]
    fn a_named_directory_that_others_may_enter_is_refused_and_stays_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/b");
        require_private_dir(&dir).unwrap();
        assert_eq!(mode(&dir), PRIVATE_DIR);
        for loose in [0o777, 0o710, 0o701] {
            fs::set_permissions(&dir, fs::Permissions::from_mode(loose)).unwrap();
            let refused = require_private_dir(&dir).unwrap_err().to_string();
            assert!(refused.contains("other users may enter") && refused.contains("a/b"), "{refused}");
            assert_eq!(mode(&dir), loose);
        }
    }

    #[test]
    fn a_link_or_a_file_in_place_of_the_directory_is_refused_by_name() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let link = base.path().join("link");
        symlink(elsewhere.path(), &link).unwrap();
        let refused = make_private_dir(&link).unwrap_err().to_string();
        assert!(refused.contains(&*link.to_string_lossy()) && refused.contains("another user"), "{refused}");
        assert_eq!(mode(elsewhere.path()), 0o755, "what is not ours stays as it is");
        let file = base.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(make_private_dir(&file).is_err());
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("theirs");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(65_534), None).unwrap();
        assert!(make_private_dir(&dir).unwrap_err().to_string().contains("another user"));
    }
}
