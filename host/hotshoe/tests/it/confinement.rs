//! What an attacker's code could do that has taken over the compiler, or the process that pulls.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::plugin_support::{Guest, HOTSHOE, compiler};
use hotshoe_registry::{process, verification};
use hotshoe_sandbox::compile::VERB;

/// The signal for a system call that a filter does not allow.
const SIGSYS: i32 = 31;

fn attempt(what: &str) -> Output {
    attempt_of(VERB, what)
}

fn attempt_of(verb: &str, what: &str) -> Output {
    Command::new(HOTSHOE).args([verb, "--attempt", what]).output().unwrap()
}

/// Returns the features that this kernel lacks. The tests check full confinement only where it lacks none.
fn missing() -> String {
    let output = attempt("nothing");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_compiler_opens_no_file_has_no_socket_and_reaches_no_other_process() {
    let missing = missing();
    for what in ["file", "socket", "unix-socket", "listen", "program", "signal"] {
        let output = attempt(what);
        let said = String::from_utf8_lossy(&output.stderr);
        // One of these errors has different messages in glibc and in musl.
        let refusals = ["Operation not permitted", "Too many open files", "No file descriptors available"];
        let is_refused = refusals.iter().any(|words| said.contains(words));
        let is_ended = output.status.signal() == Some(SIGSYS);
        if missing.is_empty() {
            assert!(!output.status.success() && (is_refused || is_ended), "{what}: {output:?}");
        } else if ["file", "socket", "unix-socket", "listen"].contains(&what) {
            assert!(!output.status.success() && is_refused, "on any kernel, {what}: {output:?}");
        }
    }
}

/// A host only reports what is missing, so an error in the seccomp rules would be reported as a missing feature, too.
#[test]
fn where_the_kernel_has_seccomp_it_is_in_force() {
    let has_seccomp =
        fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").is_ok_and(|has| has.contains("kill"));
    assert!(!has_seccomp || !missing().contains("seccomp"), "{}", missing());
}

/// The allocator makes this system call only when a large component needs more memory.
#[test]
fn the_system_calls_of_the_allocator_do_not_end_a_compiler() {
    let output = attempt("name");
    assert!(output.status.success(), "{output:?}");
    let output = attempt("prctl");
    assert!(!missing().is_empty() || output.status.signal() == Some(SIGSYS), "{output:?}");
}

/// On a kernel without Landlock too: the system call that opens a file is refused, and no rule of Landlock.
#[test]
fn a_process_that_pulls_has_the_network_and_no_file_program_or_other_process() {
    let missing = attempt_of(process::VERB, "nothing");
    assert!(missing.status.success(), "{missing:?}");
    let missing = String::from_utf8(missing.stdout).unwrap();
    assert!(attempt_of(process::VERB, "socket").status.success(), "it reaches a registry");
    for what in ["file", "unix-socket", "listen", "program", "signal"] {
        let output = attempt_of(process::VERB, what);
        let said = String::from_utf8_lossy(&output.stderr);
        if !missing.contains("seccomp") {
            assert!(!output.status.success() && said.contains("Operation not permitted"), "{what}: {output:?}");
        }
    }
}

#[test]
fn a_process_that_verifies_signatures_has_neither_network_nor_file() {
    for what in ["file", "socket", "unix-socket", "listen"] {
        let output = attempt_of(verification::VERB, what);
        assert!(!output.status.success(), "{what}: {output:?}");
    }
    assert!(attempt_of(verification::VERB, "nothing").status.success());
}

#[test]
fn a_compiler_is_confined_before_it_reads_and_compiles_all_the_same() {
    let mut child = Command::new(HOTSHOE);
    child.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let of_child = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    let is_filtered = || value(&of_child("status"), "Seccomp_filters:") == "2";
    while missing().is_empty() && !is_filtered() {
        assert!(Instant::now() < deadline, "{}", of_child("status"));
        std::thread::sleep(Duration::from_millis(5));
    }
    if missing().is_empty() {
        assert_eq!(value(&of_child("status"), "NoNewPrivs:"), "1");
        assert_eq!(value(&of_child("limits"), "Max open files"), "0");
    }
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&Guest::default().component()).unwrap();
    drop(stdin);
    let mut code = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut code).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && code.starts_with(b"\x7fELF"));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said.trim_start_matches("not confined: ").trim(), missing().trim(), "it says what is missing");
}

#[tokio::test]
async fn a_host_says_what_its_machine_lacks_to_confine_its_children() {
    let missing = missing();
    assert_eq!(compiler().children().missing(VERB).await.unwrap().unwrap_or_default(), missing.trim());
    let doctor = Command::new(HOTSHOE).args(["doctor", "-o", "json"]).output().unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let finding = findings.as_array().unwrap().iter().find(|finding| finding["tool"] == "confinement").unwrap();
    let of_puller = attempt_of(process::VERB, "nothing").stdout;
    assert_eq!(finding["ok"], missing.is_empty() && of_puller.is_empty(), "{finding}");
}
