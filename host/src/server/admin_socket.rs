//! The Unix socket on which a host answers an administrator's commands. Its directory is open to the host's user alone:
//! who may enter it may command the host, wherever else an address of this machine is forwarded or proxied from.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use axum::serve::Listener;
use tokio::net::{UnixListener, UnixStream};

use crate::rollout::host_lock::{HostLock, LockError};
use crate::sandbox::safe_file;

const ROOT: u32 = 0;

/// The socket of a host, as long as it runs.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Held for as long as the socket is there: the kernel frees it however the process ends, so a socket without it is
    /// that of a dead host.
    _lock: HostLock,
}

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another host has it.
    #[error("another host (process {owner}) answers on {path}; stop it, or name another socket with --socket", path = .path.display())]
    InUse {
        /// Its process id, as it wrote it.
        owner: String,
        /// The socket.
        path: PathBuf,
    },
    /// Its place has another file, which is left alone.
    #[error("{path} is no socket of a dead host; remove it, or name another socket with --socket", path = .path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be made.
    #[error("cannot listen on {path}: {source}; name another socket with --socket", path = .path.display())]
    Unusable {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl AdminSocket {
    /// Listens on a socket, in the place of one that a dead host left. A directory that is missing is made.
    ///
    /// # Errors
    /// When another host listens there, others may enter the directory, or it cannot be written.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let path = path.to_owned();
        let unusable = |source| SocketError::Unusable { path: path.clone(), source };
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        safe_file::require_private_dir(directory.unwrap_or(Path::new("."))).map_err(unusable)?;
        let lock = HostLock::acquire(&path.with_extension("lock")).map_err(|error| match error {
            LockError::Locked { owner, .. } => SocketError::InUse { owner, path: path.clone() },
            LockError::Unusable { source, .. } => unusable(source),
        })?;
        remove_stale(&path)?;
        let listener = UnixListener::bind(&path).map_err(unusable)?;
        fs::set_permissions(&path, Permissions::from_mode(safe_file::PRIVATE)).map_err(unusable)?;
        Ok(Self { listener, path, _lock: lock })
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the socket of a dead host: nobody has its lock, and nobody answers.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() && StdUnixStream::connect(path).is_err() => {
            fs::remove_file(path).map_err(|source| SocketError::Unusable { path: path.to_owned(), source })
        }
        Ok(_) => Err(SocketError::Taken { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

impl Listener for AdminSocket {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (UnixStream, ()) {
        loop {
            let (stream, _) = Listener::accept(&mut self.listener).await;
            let user = stream.peer_cred().ok().map(|peer| peer.uid());
            if user.is_some_and(|user| may_command(user, rustix::process::geteuid().as_raw())) {
                return (stream, ());
            }
            tracing::warn!("a command of the user {user:?} is refused; run it as the user of the host");
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a user may command a host. The directory keeps others out already, unless the host's user opened it.
fn may_command(user: u32, user_of_host: u32) -> bool {
    user == user_of_host || user == ROOT
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Where it stays, the next host replaces it.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_of_a_dead_host_is_replaced_and_that_of_a_live_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("closed/8080.sock");
        let live = AdminSocket::bind(&path).unwrap();
        let refused = AdminSocket::bind(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        assert!(refused.contains("8080.sock") && refused.contains("--socket"), "{refused}");
        StdUnixStream::connect(&path).unwrap();
        drop(live);
        assert!(!path.exists(), "a host that ends takes its socket along");
        // What a host that is killed leaves behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && StdUnixStream::connect(&path).is_err());
        let next = AdminSocket::bind(&path).unwrap();
        StdUnixStream::connect(next.path()).unwrap();
    }

    #[tokio::test]
    async fn only_the_hosts_user_may_enter_where_its_socket_is() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let socket = AdminSocket::bind(&dir.path().join("closed/host.sock")).unwrap();
        assert_eq!((mode(&dir.path().join("closed")), mode(socket.path())), (0o700, 0o600));
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        let refused = AdminSocket::bind(&open.join("host.sock")).unwrap_err().to_string();
        assert!(refused.contains("other users may enter"), "{refused}");
        assert!(fs::read_dir(&open).unwrap().next().is_none(), "nothing is left there");
    }

    #[tokio::test]
    async fn what_is_no_dead_hosts_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let [file, other] = ["file.sock", "other.sock"].map(|name| dir.path().join(name));
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        fs::write(&file, "mine").unwrap();
        let _answers = std::os::unix::net::UnixListener::bind(&other).unwrap();
        for path in [&file, &other] {
            let refused = AdminSocket::bind(path).unwrap_err();
            assert!(matches!(refused, SocketError::Taken { .. }), "{refused}");
            assert!(path.exists());
        }
    }

    #[test]
    fn only_the_hosts_own_user_and_root_may_command_it() {
        assert!(may_command(1000, 1000) && may_command(ROOT, 1000));
        assert!(!may_command(1001, 1000) && !may_command(1000, ROOT));
    }
}
