//! Confines the process that compiles: it can compute, read and write the streams that it has, and end.
//!
//! The adversary wrote what is compiled, and may exploit a bug of the compiler. The process runs as the host's user and
//! in the host's network, so that without these barriers it could reach the host's token, key and history:
//!
//! | barrier | what it closes |
//! |---|---|
//! | no new file descriptors | files, sockets and pipes, on any kernel |
//! | Landlock, since Linux 5.13 | files, by path; on newer kernels also TCP, abstract sockets and signals to other processes |
//! | seccomp | every system call but the few that computing needs; no memory becomes code |
//!
//! A forbidden system call that the C library makes by itself, such as opening a file, fails. Any other one ends the
//! process.

use std::collections::BTreeMap;
use std::fmt;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetError, RulesetStatus, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The newest version of Landlock whose rights are known here. On an older kernel, those that it knows are enforced.
pub const LANDLOCK: ABI = ABI::V6;

/// The result of confining a process: descriptions of the barriers that are not in force.
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
    /// Returns whether all barriers are in force.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Notes the barrier `what` as missing, if it could not be set.
    pub fn note<E: fmt::Display>(&mut self, what: &str, set: Result<(), E>) {
        if let Err(error) = set {
            self.missing.push(format!("{what}: {error}"));
        }
    }
}

/// Confines this process for good, as far as the kernel can, and returns what is missing.
pub fn confine() -> Confinement {
    let mut confinement = Confinement::default();
    // Before the limit on file descriptors, because a Landlock ruleset needs one while it is built.
    confinement.note("Landlock", close_files(AccessNet::from_all(LANDLOCK)));
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    confinement.note("no new file descriptors", setrlimit(Resource::Nofile, none));
    confinement.note("seccomp", close_system_calls());
    confinement
}

/// Why Landlock is not in force.
#[derive(Debug, thiserror::Error)]
pub enum NoLandlock {
    /// The kernel has no Landlock.
    #[error(
        "this kernel has none, or it is not enabled (Linux 5.13 or newer has it, with `landlock` in the parameter lsm)"
    )]
    NotThere,
    /// The rules cannot be built or applied.
    #[error("{0}")]
    Rules(#[from] RulesetError),
}

/// Denies access to every file, abstract socket and other process, and these uses of TCP: Landlock denies what is handled
/// and has no rule. It confines only the calling thread and the threads that it starts.
///
/// # Errors
/// If Landlock is not in force.
pub fn close_files(network: BitFlags<AccessNet>) -> Result<(), NoLandlock> {
    let RestrictionStatus { ruleset, .. } = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .handle_access(network)?
        .scope(Scope::from_all(LANDLOCK))?
        .create()?
        .restrict_self()?;
    if ruleset == RulesetStatus::NotEnforced { Err(NoLandlock::NotThere) } else { Ok(()) }
}

/// Applies two filters, because a filter has one action for all the calls that it lists, and two are needed here: to
/// fail and to end the process. The kernel takes the stricter action of the two.
fn close_system_calls() -> Result<(), seccompiler::Error> {
    let refused = filter(rules(REFUSED), SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    let needed = rules(NEEDED).into_iter().chain(no_new_code()?).chain(names_of_memory()?);
    let known = rules(REFUSED).into_iter().chain(needed).collect();
    let others = filter(known, SeccompAction::KillProcess, SeccompAction::Allow)?;
    // In this order, because the second filter forbids the system call that applies a filter.
    seccompiler::apply_filter_all_threads(&refused)?;
    seccompiler::apply_filter_all_threads(&others)
}

/// System calls, each with rules for its arguments. A call matches if one of its rules does, or if it has no rules.
pub type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Builds a filter with the action `listed` for the calls that match a rule, and `others` for all others.
///
/// # Errors
/// If a rule cannot be expressed, or this architecture is unknown.
pub fn filter(rules: Rules, others: SeccompAction, listed: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
    let filter = SeccompFilter::new(rules, others, listed, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// Returns rules that match these calls with any arguments.
pub fn rules(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Returns rules that match the allocation of memory, unless it is executable: code that is compiled here is executed
/// in another process.
///
/// # Errors
/// Never: the rule is valid.
pub fn no_new_code() -> Result<Rules, seccompiler::Error> {
    let is_no_code = || {
        let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        SeccompRule::new(vec![SeccompCondition::new(2, SeccompCmpArgLen::Dword, executable, 0)?])
    };
    [libc::SYS_mmap, libc::SYS_mprotect].into_iter().map(|call| Ok((call, vec![is_no_code()?]))).collect()
}

/// Returns the rule that matches one of the many operations of `prctl`: the allocator names the memory that it
/// allocates, and a large component needs more memory than was allocated at the start.
fn names_of_memory() -> Result<Rules, seccompiler::Error> {
    let names = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::PR_SET_VMA as u64)?;
    Ok(Rules::from([(libc::SYS_prctl, vec![SeccompRule::new(vec![names])?])]))
}

/// The system calls that are needed to compute, to allocate, to panic and to exit.
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
    // After the process was stopped for a while or received a signal.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // A panic message names the thread.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// The system calls that fail, where others end the process: the C library, the allocator and the standard library make
/// them, and tolerate their failure.
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
    // Older forms of some calls, which newer architectures never had.
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
    fn no_needed_call_is_refused_or_reaches_beyond_the_process() {
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
    fn missing_barriers_are_described() {
        let mut confinement = Confinement::default();
        confinement.note("seccomp", Ok::<(), String>(()));
        assert!(confinement.is_complete());
        confinement.note("Landlock", Err(NoLandlock::NotThere));
        assert!(!confinement.is_complete());
        assert!(confinement.to_string().starts_with("Landlock: this kernel has none"), "{confinement}");
    }
}
