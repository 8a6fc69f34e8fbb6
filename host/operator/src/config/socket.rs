//! The default path of a host's socket: `8080.sock` for a host that listens on port 8080. Several hosts of one
//! user on one machine listen on different ports, so each has a socket of its own.

use std::path::{Path, PathBuf};

use hotshoe_sandbox::compile::cache_dir;

/// The extension of every host's socket.
const EXTENSION: &str = "sock";

/// Returns the directory of the sockets of this user's hosts. A command must find it without the flags of the host, so
/// it depends on environment variables only. In a Pod, only `HOTSHOE_CACHE` is set.
pub fn directory() -> Option<PathBuf> {
    directory_by(|variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn directory_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let of_session = variable("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
    of_session
        .map(|runtime| runtime.join("hotshoe"))
        .or_else(|| Some(variable("HOTSHOE_CACHE").or_else(cache_dir)?.join("sockets")))
}

/// Returns the socket of the host that listens on this port.
pub fn of_port(directory: &Path, port: u16) -> PathBuf {
    directory.join(port.to_string()).with_extension(EXTENSION)
}

/// Returns the sockets in a directory, sorted by name. Sockets of hosts that were killed may be among them.
pub fn sockets_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == EXTENSION)).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_runtime_directory_or_in_the_cache_that_the_environment_names() {
        let by = |known: &[(&str, &str)]| {
            let found = |wanted: &str| known.iter().find(|(name, _)| *name == wanted).map(|(_, path)| path.into());
            directory_by(found)
        };
        let cache = ("HOTSHOE_CACHE", "/cache");
        assert_eq!(by(&[("XDG_RUNTIME_DIR", "/run/user/7"), cache]), Some("/run/user/7/hotshoe".into()));
        assert_eq!(by(&[("XDG_RUNTIME_DIR", "not/absolute"), cache]), Some("/cache/sockets".into()));
        assert_eq!(by(&[]), cache_dir().map(|cache| cache.join("sockets")));
    }

    #[test]
    fn hosts_on_different_ports_have_different_sockets_which_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let sockets = [8080, 8081].map(|port| of_port(dir.path(), port));
        for file in sockets.iter().chain([&dir.path().join("8080.lock")]) {
            std::fs::write(file, "").unwrap();
        }
        assert_eq!(sockets_in(dir.path()), sockets);
        assert!(sockets_in(&dir.path().join("missing")).is_empty());
    }
}
