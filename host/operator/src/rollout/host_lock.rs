//! Makes sure that each plugin has one host: two would undo each other's work and overwrite each other's history. Where
//! hosts share the work by [Leases](hotshoe_cluster::lease), the lock protects the history alone.
//!
//! A host locks a file for each plugin, cluster and set of watched namespaces in the cache directory. Another host with
//! the same cache directory waits until the lock is free: the kernel frees it when the process ends, however that
//! ends. The lock is no protection from hosts on other machines or with other cache directories, or where one host
//! watches some of the namespaces of another one.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use hotshoe_core::model::digest::Digest;
use hotshoe_platform::safe_file;

/// The maximum length of the process id that is read from another host's lock file, in bytes.
const MAX_OWNER_BYTES: u64 = 64;

/// The right to be the plugin's only host, until this is dropped.
#[derive(Debug)]
pub struct HostLock {
    _file: File,
}

/// Why a lock cannot be acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another host holds the lock.
    #[error(
        "another host (process {owner}) runs this plugin in this cluster, so this one waits until it ends; stop one of the two (the lock is {path})",
        path = .path.display()
    )]
    Locked {
        /// The process id of that host, as it wrote it.
        owner: String,
        /// The lock file.
        path: PathBuf,
    },
    /// The file cannot be locked.
    #[error("{path}: {source}; give the host a --cache directory that it can write and lock", path = .path.display())]
    Unusable {
        /// The lock file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Returns the path of a plugin's lock file.
pub fn path(base: &Path, plugin: &str, cluster: &[u8], namespaces: Option<&str>) -> PathBuf {
    let place = Digest::of(&[cluster, namespaces.unwrap_or_default().as_bytes()].join(&0));
    base.join("hosts").join(format!("{plugin}-{}.lock", place.digits(8)))
}

impl HostLock {
    /// Locks a file, and creates it where it is missing.
    ///
    /// # Errors
    /// When another process has locked the file, or it cannot be locked at all.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let unusable = |source| LockError::Unusable { path: path.to_owned(), source };
        let mut file = open(path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {
                // For the report of a host that waits. The lock holds even if this write fails.
                drop(file.set_len(0).and_then(|()| write!(file, "{}", std::process::id())));
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => Err(LockError::Locked { owner: owner(file), path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }
}

/// Opens the lock file, but no symbolic link: the user who made the link would choose what is locked. The system
/// refuses it, because a check before would let the link be made after it.
fn open(path: &Path) -> io::Result<File> {
    path.parent().map_or(Ok(()), safe_file::make_private_dir)?;
    // Not blocking, or the thread would wait for the other end of a pipe.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

fn owner(file: File) -> String {
    let mut text = String::new();
    let read = file.take(MAX_OWNER_BYTES).read_to_string(&mut text);
    let is_id = read.is_ok() && !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if is_id { text } else { "unknown".to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_second_host_learns_which_process_is_the_first_until_that_ends() {
        let base = tempfile::tempdir().unwrap();
        let path = path(base.path(), "demo", b"cluster", None);
        let first = HostLock::acquire(&path).unwrap();
        let second = HostLock::acquire(&path).unwrap_err().to_string();
        let process = format!("(process {})", std::process::id());
        assert!(second.contains(&process) && second.contains("stop one of the two"), "{second}");
        drop(first);
        HostLock::acquire(&path).unwrap();
    }

    #[test]
    fn other_plugins_clusters_and_namespaces_have_other_locks() {
        let lock = |plugin, cluster: &[u8], namespace| path(Path::new("/base"), plugin, cluster, namespace);
        let paths = [lock("a", b"c", None), lock("b", b"c", None), lock("a", b"d", None), lock("a", b"c", Some("n"))];
        let distinct: std::collections::BTreeSet<_> = paths.iter().collect();
        assert_eq!(distinct.len(), paths.len());
    }

    #[test]
    fn a_foreign_file_in_place_of_a_lock_is_neither_followed_nor_shown() {
        let base = tempfile::tempdir().unwrap();
        let path = path(base.path(), "demo", b"cluster", None);
        safe_file::make_private_dir(path.parent().unwrap()).unwrap();
        let target = base.path().join("chosen");
        let plants: [&dyn Fn(); 3] = [
            &|| std::os::unix::fs::symlink("/etc/hostname", &path).unwrap(),
            &|| std::os::unix::fs::symlink(&target, &path).unwrap(),
            &|| rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap(),
        ];
        for plant in plants {
            plant();
            assert!(matches!(HostLock::acquire(&path), Err(LockError::Unusable { .. })));
            fs::remove_file(&path).unwrap();
        }
        assert!(!target.exists(), "nothing is created through a link");
        let first = HostLock::acquire(&path).unwrap();
        fs::write(&path, "1\n\u{1b}[2J forged").unwrap();
        assert!(HostLock::acquire(&path).unwrap_err().to_string().contains("process unknown"));
        drop(first);
    }
}
