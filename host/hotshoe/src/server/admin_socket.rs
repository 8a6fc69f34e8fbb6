//! The Unix socket on which a host answers an administrator's commands. Only the host's user may enter its directory,
//! and a process that may enter it may command the host. A TCP port would also be open to everyone to whom an address
//! of this machine is forwarded or proxied.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use axum::serve::Listener;
use tokio::net::{UnixListener, UnixStream};

use hotshoe_operator::rollout::host_lock::{HostLock, LockError};
use hotshoe_platform::safe_file;

const ROOT: u32 = 0;

/// The socket of a running host.
#[derive(Debug)]
pub struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Held for as long as the socket exists. The kernel releases the lock however the process ends, so a socket
    /// without a locked file belongs to a dead host.
    _lock: HostLock,
}

/// Why a host cannot listen on a socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another host listens on it.
    #[error("another host (process {owner}) answers on {path}; stop it, or name another socket with --socket", path = .path.display())]
    InUse {
        /// The process id of the other host, as it wrote it.
        owner: String,
        /// The socket.
        path: PathBuf,
    },
    /// There is another file at the path, which is left alone.
    #[error("{path} is no socket of a dead host; remove it, or name another socket with --socket", path = .path.display())]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// The socket cannot be created.
    #[error("cannot listen on {path}: {source}; name another socket with --socket", path = .path.display())]
    Unusable {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl AdminSocket {
    /// Listens on a socket, and replaces one that a dead host left. Creates a missing directory.
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

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the socket of a dead host. The caller holds the lock, and no process answers on the socket.
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
            let user = user.map_or_else(|| "unknown".to_owned(), |user| user.to_string());
            tracing::warn!(user, "a command is refused; run it as the user of the host");
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns whether a user may command a host. The directory keeps other users out already, unless the host's user
/// opened it.
fn may_command(user: u32, user_of_host: u32) -> bool {
    user == user_of_host || user == ROOT
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // If this fails, the next host replaces the socket.
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
        assert!(!path.exists(), "a host that ends removes its socket");
        // A host that is killed leaves its socket behind.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists() && StdUnixStream::connect(&path).is_err());
        let next = AdminSocket::bind(&path).unwrap();
        StdUnixStream::connect(next.path()).unwrap();
    }

    #[tokio::test]
    async fn only_the_hosts_user_may_enter_the_directory_of_its_socket() {
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
    async fn a_file_that_is_no_socket_of_a_dead_host_stays() {
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
