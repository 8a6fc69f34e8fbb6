//! Confines the process that compiles: it computes, reads and writes the streams that it has, and ends.
//!
//! What is compiled was written by an attacker, and a mistake of the compiler might be theirs to use. That process has
//! the host's user and its network, and so its token, its key and its history, were it not for this:
//!
//! | barrier | what it closes |
//! |---|---|
//! | no new file descriptors | files, sockets and pipes, on any kernel |
//! | Landlock, since Linux 5.13 | files, by path; later also TCP, abstract sockets and signals to others |
//! | seccomp | every system call but the few that computing needs; no memory becomes code |
//!
//! A call that the C library makes to find its way, such as one that opens a file, fails; any other ends the process.

use std::collections::BTreeMap;
use std::fmt;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The newest Landlock whose rights are known here. An older kernel has fewer, and what it has is in force.
pub const LANDLOCK: ABI = ABI::V6;

/// What of a process's confinement is not in force, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    missing: Vec<String>,
}

impl fmt::Display for Confinement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.missing.join("; "))
    }
}

impl Confinement {
    /// Returns whether all of it is in force.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
    }

    /// Notes `what` as missing, if it could not be set.
    pub fn note<E: fmt::Display>(&mut self, what: &str, set: Result<(), E>) {
        if let Err(error) = set {
            self.missing.push(format!("{what}: {error}"));
        }
    }
}

/// Confines this process for good, as far as the kernel can, and says what it cannot.
pub fn confine() -> Confinement {
    let mut confinement = Confinement::default();
    // Its rules are a file while they are made.
    confinement.note("Landlock", close_files());
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    confinement.note("no new file descriptors", setrlimit(Resource::Nofile, none));
    confinement.note("seccomp", close_system_calls());
    confinement
}

/// Why Landlock is not in force.
#[derive(Debug, thiserror::Error)]
pub enum NoLandlock {
    /// The kernel has none.
    #[error(
        "this kernel has none, or it is not enabled (Linux 5.13 or newer has it, with `landlock` in the parameter lsm)"
    )]
    NotThere,
    /// Its rules cannot be made.
    #[error("{0}")]
    Rules(#[from] RulesetError),
}

/// Allows no access to any file, TCP port, abstract socket or other process. It has no rule: what is handled is closed.
fn close_files() -> Result<(), NoLandlock> {
    let RestrictionStatus { ruleset, .. } = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(AccessNet::from_all(LANDLOCK))?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .restrict_self()?;
    if ruleset == RulesetStatus::NotEnforced { Err(NoLandlock::NotThere) } else { Ok(()) }
}

/// Two filters, of which the kernel obeys the stricter one: it knows one answer for what a filter lists, and here are two.
fn close_system_calls() -> Result<(), seccompiler::Error> {
    let refused = filter(rules(REFUSED), SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    let needed = rules(NEEDED).into_iter().chain(no_new_code()?).chain(names_of_memory()?);
    let known = rules(REFUSED).into_iter().chain(needed).collect();
    let others = filter(known, SeccompAction::KillProcess, SeccompAction::Allow)?;
    // In this order: setting a filter is a system call, too.
    seccompiler::apply_filter_all_threads(&refused)?;
    seccompiler::apply_filter_all_threads(&others)
}

/// System calls, each with what their arguments must be; any of a call's rules is enough, and without one all are meant.
pub type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Builds a filter that does `listed` to the calls that have a rule, and `others` to all others.
///
/// # Errors
/// If a rule cannot be expressed, or this architecture is unknown.
pub fn filter(rules: Rules, others: SeccompAction, listed: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
    let filter = SeccompFilter::new(rules, others, listed, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// Returns rules for these calls, whatever their arguments are.
pub fn rules(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Returns rules for memory, unless it could be run: what is compiled here is run elsewhere.
///
/// # Errors
/// Never, for this rule can be expressed.
pub fn no_new_code() -> Result<Rules, seccompiler::Error> {
    let is_no_code = || {
        let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        SeccompRule::new(vec![SeccompCondition::new(2, SeccompCmpArgLen::Dword, executable, 0)?])
    };
    [libc::SYS_mmap, libc::SYS_mprotect].into_iter().map(|call| Ok((call, vec![is_no_code()?]))).collect()
}

/// Returns the rule for one of the many things that `prctl` does: the allocator names what memory it takes, and for a large
/// component it takes more than it has at the start.
fn names_of_memory() -> Result<Rules, seccompiler::Error> {
    let names = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::PR_SET_VMA as u64)?;
    Ok(Rules::from([(libc::SYS_prctl, vec![SeccompRule::new(vec![names])?])]))
}

/// What computing, the allocator, a panic and an end need.
pub const NEEDED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    // After it was stopped for a while, or where a signal came.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // A panic says in which thread.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What the C library, the allocator and the standard library ask of the system and do without.
const REFUSED: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_getcwd,
    libc::SYS_sched_getaffinity,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // The older names of some, which newer architectures never had.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_architecture_that_is_shipped_has_its_filters() {
        for arch in ["x86_64", "aarch64"] {
            let rules = rules(NEEDED).into_iter().chain(no_new_code().unwrap()).collect();
            let filter =
                SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch.try_into().unwrap());
            assert!(!BpfProgram::try_from(filter.unwrap()).unwrap().is_empty(), "{arch}");
        }
    }

    #[test]
    fn nothing_that_is_needed_is_refused_nor_can_it_reach_beyond_the_process() {
        let needed: Vec<i64> = NEEDED.iter().copied().chain(no_new_code().unwrap().into_keys()).collect();
        assert!(REFUSED.iter().all(|call| !needed.contains(call)));
        for beyond in [
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_sendto,
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_clone,
            libc::SYS_execve,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_io_uring_setup,
            libc::SYS_bpf,
        ] {
            assert!(!needed.contains(&beyond) && !REFUSED.contains(&beyond), "{beyond}");
        }
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut confinement = Confinement::default();
        confinement.note("seccomp", Ok::<(), String>(()));
        assert!(confinement.is_whole());
        confinement.note("Landlock", Err(NoLandlock::NotThere));
        assert!(!confinement.is_whole());
        assert!(confinement.to_string().starts_with("Landlock: this kernel has none"), "{confinement}");
    }
}
