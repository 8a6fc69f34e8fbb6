//! Finds how much memory the host may use: the value of `--memory`, the limit of its cgroup, or all that the machine
//! has.

use std::fmt;
use std::path::{Path, PathBuf};

use hotshoe_core::model::limits::Size;

/// Where limits of cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The memory that the host may use, and where the limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit.
    pub size: Size,
    /// Where the limit comes from.
    pub source: Source,
}

/// Where a limit of the host's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `--memory`.
    Flag,
    /// The cgroup, usually that of the container.
    Cgroup,
    /// No limit: the memory of the machine.
    Machine,
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            Source::Flag => "--memory",
            Source::Cgroup => "the limit of the container",
            Source::Machine => "all that the machine has",
        };
        write!(f, "{} ({source})", self.size)
    }
}

impl MemoryLimit {
    /// Returns the flag if it is given, or else the smallest limit that applies; none where the system does not tell.
    pub fn find(flag: Option<Size>) -> Option<Self> {
        if let Some(size) = flag {
            return Some(Self { size, source: Source::Flag });
        }
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let cgroups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let machine = read(Path::new("/proc/meminfo")).and_then(|text| of_machine(&text));
        let machine = machine.map(|size| Self { size, source: Source::Machine });
        let cgroup = of_cgroups(&cgroups, &read).map(|size| Self { size, source: Source::Cgroup });
        // A version 1 cgroup without a limit has a very large one.
        cgroup.into_iter().chain(machine).min_by_key(|limit| limit.size.0)
    }
}

/// Returns the smallest limit of a process's cgroups and of those above them, which bind the process as well. In a
/// container the path may be that on the machine, while only the container's own cgroup is mounted, as the root.
fn of_cgroups(cgroups: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<Size> {
    let files = cgroups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_memory = controllers.split(',').any(|one| one == "memory");
        match controllers {
            "" => Some((PathBuf::from(CGROUPS), path, "memory.max")),
            _ if is_memory => Some((Path::new(CGROUPS).join("memory"), path, "memory.limit_in_bytes")),
            _ => None,
        }
    });
    let limits = files.flat_map(|(root, path, file)| {
        let above = Path::new(path.trim_start_matches('/')).ancestors();
        above.filter_map(move |folder| read(&root.join(folder).join(file))).filter_map(|text| bytes(&text))
    });
    limits.min_by_key(|limit| limit.0)
}

/// Parses a limit; `max` is none.
fn bytes(text: &str) -> Option<Size> {
    text.trim().parse().ok().map(Size)
}

fn of_machine(meminfo: &str) -> Option<Size> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Size(kibibytes.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cgroups: &str, files: &[(&str, &str)]) -> Option<Size> {
        let read = |path: &Path| {
            files.iter().find(|(name, _)| Path::new(CGROUPS).join(name) == path).map(|(_, text)| (*text).to_owned())
        };
        of_cgroups(cgroups, &read)
    }

    #[test]
    fn the_limit_of_a_container_is_found_in_both_versions() {
        assert_eq!(found("0::/\n", &[("memory.max", "536870912\n")]), Some(Size(536_870_912)));
        let version_1 = "12:cpu,cpuacct:/kubepods/a\n4:memory:/kubepods/a\n1:name=systemd:/kubepods/a\n0::/\n";
        // A container may see the path on the machine, but only the files of its own cgroup.
        assert_eq!(found(version_1, &[("memory/memory.limit_in_bytes", "1024\n")]), Some(Size(1024)));
        assert_eq!(found(version_1, &[("memory/kubepods/a/memory.limit_in_bytes", "4096\n")]), Some(Size(4096)));
    }

    #[test]
    fn a_limit_of_a_cgroup_above_binds_as_well() {
        let files = [("a/b/memory.max", "max\n"), ("a/memory.max", "2048\n"), ("memory.max", "4096\n")];
        assert_eq!(found("0::/a/b\n", &files), Some(Size(2048)));
    }

    #[test]
    fn no_limit_is_none() {
        for cgroups in ["", "0::/\n", "nonsense", "3:cpu:/a\n"] {
            assert_eq!(found(cgroups, &[("memory.max", "max\n")]), None, "{cgroups:?}");
        }
        assert_eq!(found("0::/../..\n", &[("memory.max", "")]), None);
    }

    #[test]
    fn a_flag_comes_first_and_the_machine_last() {
        let flag = MemoryLimit::find(Some(Size(1 << 20))).map(|limit| limit.to_string());
        assert_eq!(flag.as_deref(), Some("1Mi (--memory)"));
        assert_eq!(of_machine("MemFree: 1 kB\nMemTotal:       24576 kB\n"), Some(Size(24 << 20)));
    }
}
