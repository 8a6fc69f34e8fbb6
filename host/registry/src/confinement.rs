//! Confines the process that pulls: it can use the network, compute and end.
//!
//! The adversary wrote what this process reads. The process runs as the host's user, but cannot reach the host's files,
//! token, socket or other processes, like the [process that compiles](hotshoe_platform::confinement). In contrast to that
//! one, it has the network.
//!
//! | barrier | what it closes |
//! |---|---|
//! | seccomp | every system call but the few of a network client: no file, no socket but IP, no program, no process; no memory becomes code |
//! | Landlock, since Linux 5.13 | files, by path; on newer kernels also listening on TCP ports, abstract sockets and signals to other processes |
//!
//! Either one closes files. Names are resolved by the host, for that reads files.
//!
//! A forbidden system call fails, and does not end the process: a C library or a kernel may try another way to do the
//! same thing.

use landlock::AccessNet;
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use hotshoe_platform::confinement::{Confinement, NEEDED, Rules, close_files, filter, no_new_code, rules};

/// The maximum number of open files and connections.
const MAX_OPEN_FILES: u64 = 64;

/// Confines this process for good, as far as the kernel can, and returns what is missing.
pub fn confine() -> Confinement {
    let mut confinement = Confinement::default();
    confinement.note("Landlock", close_files(AccessNet::BindTcp.into()));
    let few = Rlimit { current: Some(MAX_OPEN_FILES), maximum: Some(MAX_OPEN_FILES) };
    confinement.note("few file descriptors", setrlimit(Resource::Nofile, few));
    confinement.note("seccomp", close_system_calls());
    confinement
}

fn close_system_calls() -> Result<(), seccompiler::Error> {
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    seccompiler::apply_filter_all_threads(&filter(allowed()?, refused, SeccompAction::Allow)?)
}

fn allowed() -> Result<Rules, seccompiler::Error> {
    let is = |argument, operator, value: i32| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value as u64)?;
        SeccompRule::new(vec![condition])
    };
    let internet = vec![is(0, SeccompCmpOp::Eq, libc::AF_INET)?, is(0, SeccompCmpOp::Eq, libc::AF_INET6)?];
    // The process may start threads, but no other processes.
    let thread = vec![is(0, SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64), libc::CLONE_THREAD)?];
    // Without the commands by which the kernel signals another process.
    let flags = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC];
    let flags = flags.into_iter().map(|command| is(1, SeccompCmpOp::Eq, command)).collect::<Result<_, _>>()?;
    let limited = [(libc::SYS_socket, internet), (libc::SYS_clone, thread), (libc::SYS_fcntl, flags)];
    Ok(rules(NEEDED).into_iter().chain(rules(NETWORK)).chain(no_new_code()?).chain(limited).collect())
}

/// The system calls that a network client needs beyond those of computing: to communicate, to wait, and for the threads
/// in which it asks the host for addresses. None opens a file.
const NETWORK: &[i64] = &[
    libc::SYS_connect,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_readv,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_ppoll,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fstat,
    libc::SYS_ioctl,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    // For the names of threads.
    libc::SYS_prctl,
    libc::SYS_uname,
    // Older forms of some calls, which newer architectures never had.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_no_program_and_no_other_process_is_reached() {
        let allowed = allowed().unwrap();
        for beyond in [
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_open_by_handle_at,
            libc::SYS_readlinkat,
            libc::SYS_statx,
            libc::SYS_bind,
            libc::SYS_accept4,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_fork,
            libc::SYS_vfork,
            libc::SYS_clone3,
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_listen,
            libc::SYS_socketpair,
            libc::SYS_prlimit64,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_io_uring_setup,
            libc::SYS_bpf,
            libc::SYS_setns,
            libc::SYS_unshare,
            libc::SYS_mount,
        ] {
            assert!(!allowed.contains_key(&beyond), "{beyond}");
        }
        #[cfg(target_arch = "x86_64")]
        assert!(![libc::SYS_open, libc::SYS_creat].iter().any(|call| allowed.contains_key(call)));
        assert!(!allowed[&libc::SYS_socket].is_empty() && !allowed[&libc::SYS_clone].is_empty());
    }
}
