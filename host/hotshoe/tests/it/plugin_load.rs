//! Which components are loaded and which are refused, and which files of a cache are trusted.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::plugin_support::{
    Guest, HOTSHOE, compiler, engine, folder, limits, load, load_with, observation, only, reconcile, refusal,
};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::decision::Call;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::{CACHE_BYTES, Limits, Size, Span};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::{Compiler, VERB};
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::{Loaded, Revision};

#[tokio::test]
async fn a_plugin_is_described_once_it_is_loaded() {
    let bytes = Guest::default().component();
    let revision = load(bytes.clone()).await.unwrap();
    assert_eq!(revision.digest(), Digest::of(&bytes));
    let descriptor = revision.descriptor();
    assert_eq!((descriptor.name.as_str(), descriptor.version.as_str()), ("test", "0.1.0"));
    assert_eq!(descriptor.parent.to_string(), "Test.example.com");
}

#[tokio::test]
async fn the_cases_that_a_component_carries_are_read_with_it() {
    let names = async |section: &str| {
        let loaded = load_cached(&compiler(), &carrying(section)).await.unwrap();
        let names = |cases: Vec<Case>| cases.into_iter().map(|case| case.name).collect::<Vec<_>>();
        loaded.cases.map(names)
    };
    let case = r#"[{"name":"a sentence","parent":{}}]"#;
    assert_eq!(names(case).await.unwrap(), ["a sentence"]);
    assert!(names("[]").await.unwrap().is_empty());
    let none = load_cached(&compiler(), &Guest::default().component()).await.unwrap();
    assert!(none.cases.unwrap().is_empty());
    let unreadable = names("[{]").await.unwrap_err();
    assert!(unreadable.contains("the component's own cases cannot be read"), "{unreadable}");
}

/// A component with a custom section of cases. The section has less than 128 bytes, so that its size is encoded in one
/// byte.
fn carrying(cases: &str) -> Vec<u8> {
    let section = format!("\u{d}hotshoe:cases{cases}");
    let size = u8::try_from(section.len()).unwrap();
    [Guest::default().component(), vec![0, size], section.into_bytes()].concat()
}

#[tokio::test]
async fn a_file_that_is_no_plugin_is_refused_with_a_clear_message() {
    let cases: [(&[u8], &str, &str); 5] = [
        (b"", "NotAComponent", "the file is empty"),
        (b"\0asm\x01\0\0\0", "NotAComponent", "it is a core module"),
        (b"apiVersion: v1\n", "NotAComponent", "it does not begin like WebAssembly"),
        (b"\0asm\x0d\0\x01\0", "NoPlugin", "exports nothing"),
        (b"\0asm\x0d\0\x01\0\xff\xff", "NotAComponent", "no WebAssembly component"),
    ];
    for (bytes, reason, words) in cases {
        let (found, message) = refusal(bytes.to_vec()).await;
        assert_eq!(found, reason, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_host_of_the_lowest_priority_compiles_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plugin.wasm");
    fs::write(&path, Guest::default().component()).unwrap();
    let mut compile = Command::new("nice");
    compile.args(["-n", "19", HOTSHOE, VERB]).stdin(fs::File::open(path).unwrap());
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stdout.is_empty());
}

/// Other threads preempt the compiler, so a slow compilation delays no other work.
#[test]
fn a_compiler_runs_only_while_the_processor_is_idle() {
    let mut compiler = Command::new(HOTSHOE);
    compiler.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut compiler = compiler.spawn().unwrap();
    // Field 41 of proc_pid_stat(5), where 5 is SCHED_IDLE.
    let policy = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", compiler.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.split(' ').nth(41 - 3).map(str::to_owned)
    };
    until(|| policy().as_deref() == Some("5"));
    compiler.kill().unwrap();
    compiler.wait().unwrap();
}

/// The host cannot end a stopped process by any signal but SIGKILL, which the kernel sends when the host dies.
#[test]
fn a_compiler_that_is_stopped_ends_with_its_host() {
    // A shell connects no standard input to a background process by default.
    let script = r#"exec 3<&0; "$0" "$1" <&3 & echo $!; wait"#;
    let mut host = Command::new("sh");
    host.args(["-c", script, HOTSHOE, VERB]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut host = host.spawn().unwrap();
    let mut pid = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let of_child = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", pid.trim()));
    // The compiler sets its own limits before it reads.
    until(|| {
        of_child("limits")
            .unwrap()
            .lines()
            .any(|line| line.starts_with("Max cpu time  ") && !line.contains("unlimited"))
    });
    assert!(Command::new("kill").args(["-STOP", pid.trim()]).status().unwrap().success());
    host.kill().unwrap();
    host.wait().unwrap();
    // It may still be a zombie, until its new parent has waited for it.
    until(|| of_child("stat").map_or(true, |stat| stat.contains(") Z ")));
}

fn until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come to that in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_truncated_component_is_refused() {
    let whole = Guest::default().component();
    for part in 1..8 {
        let cut = whole.len() * part / 8;
        let error = load(whole[..cut].to_vec()).await.unwrap_err();
        assert!(matches!(error, LoadError::NotAComponent(_) | LoadError::NoPlugin(_)), "cut at {cut}: {error}");
    }
}

#[tokio::test]
async fn an_invalid_function_body_is_refused_by_the_compiler() {
    let mut bytes = reconcile("(i32.const 256) (i32.const 77777) drop").component();
    let place = bytes.windows(4).position(|window| window == [0x41, 0xd1, 0xdf, 0x04]).unwrap();
    bytes[place] = 0xff;
    let (reason, message) = refusal(bytes).await;
    assert_eq!(reason, "CompileFailed");
    assert!(!message.contains('\n'), "{message}");
}

#[tokio::test]
async fn a_component_above_the_cap_is_refused() {
    let limits = limits(r#"{"componentBytes":100}"#);
    let error = load_with(Guest::default().component(), limits).await.unwrap_err();
    assert!(matches!(error, LoadError::TooLarge { limit: 100, .. }), "{error}");
}

#[tokio::test]
async fn native_code_above_its_cap_is_refused_also_where_it_was_compiled_before() {
    let (base, component) = (folder(), Guest::default().component());
    let compiler = Compiler::new(HOTSHOE.into(), Some(base.path()), CACHE_BYTES);
    let load = async |most: u64| {
        let limits = Limits { native_bytes: Size(most), ..Limits::default() };
        let (component, memory) = (Candidate::of(component.clone()), Account::default());
        Revision::load(engine(), &compiler, component, limits, Purpose::Activation, &memory).await
    };
    let refused = |loaded: Result<Loaded, LoadError>| loaded.unwrap_err().to_string().contains("of native code");
    assert!(refused(load(1 << 10).await));
    load(16 << 20).await.unwrap();
    assert!(refused(load(1 << 10).await));
}

#[tokio::test]
async fn forbidden_imports_are_named() {
    let wasi = r#"(component
        (import "wasi:cli/environment@0.2.0" (instance
            (export "get-environment" (func (result (list (tuple string string))))))))"#;
    let (reason, message) = refusal(wat::parse_str(wasi).unwrap()).await;
    assert_eq!(reason, "ForbiddenImport");
    assert!(message.contains("wasi:cli/environment@0.2.0#get-environment"), "{message}");
    let unknown = r#"(component (import "acme:net/http" (instance (export "fetch" (func (param "url" string))))))"#;
    assert!(refusal(wat::parse_str(unknown).unwrap()).await.1.contains("acme:net/http#fetch"));
}

#[tokio::test]
async fn another_contract_version_is_named() {
    let text = r#"(component (component $c) (instance $i (instantiate $c))
        (export "hotshoe:reconciler/reconciler@2.0.0" (instance $i)))"#;
    let (reason, message) = refusal(wat::parse_str(text).unwrap()).await;
    assert_eq!(reason, "ContractMismatch");
    assert!(
        message.starts_with("plugin needs hotshoe:reconciler@2.0.0, this host offers 0.1.0 and 0.2.0;"),
        "{message}"
    );
}

#[tokio::test]
async fn an_export_of_another_shape_cannot_be_loaded() {
    let text = r#"(component (component $c) (instance $i (instantiate $c))
        (export "hotshoe:reconciler/reconciler@0.1.0" (instance $i)))"#;
    assert_eq!(refusal(wat::parse_str(text).unwrap()).await.0, "LoadFailed");
}

#[tokio::test]
async fn a_descriptor_that_cannot_be_used_is_refused() {
    let nameless =
        Guest { describe: "(i32.store (i32.const 20) (i32.const 0)) (i32.const 16)".into(), ..Guest::default() };
    let (reason, message) = refusal(nameless.component()).await;
    assert_eq!(reason, "DescribeFailed");
    assert!(message.contains("no name"), "{message}");
    let traps = Guest { describe: "unreachable".into(), ..Guest::default() };
    assert!(refusal(traps.component()).await.1.contains("trapped"));
}

#[tokio::test]
async fn compilation_is_bounded_in_memory() {
    let error = load_with(
        reconcile("(i32.const 512) drop (i32.const 256)").component(),
        Limits { compile_memory: Size(8 << 20), ..Limits::default() },
    )
    .await;
    assert!(matches!(error.unwrap_err(), LoadError::CompileFailed(_)));
}

#[tokio::test]
async fn a_compiler_that_never_ends_is_stopped() {
    let base = folder();
    let program = base.path().join("slow");
    fs::write(&program, "#!/bin/sh\nexec sleep 600\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let compiler = Compiler::new(program, None, CACHE_BYTES);
    let bytes = Candidate::of(Guest::default().component());
    let error = Revision::load(
        engine(),
        &compiler,
        bytes,
        Limits { compile_time: Span(Duration::from_millis(50)), ..Limits::default() },
        Purpose::Activation,
        &Account::default(),
    )
    .await
    .unwrap_err();
    assert!(error.to_string().contains("not done after 16 times the 50ms"), "{error}");
}

async fn load_cached(compiler: &Compiler, bytes: &[u8]) -> Result<Loaded, LoadError> {
    let (component, limits) = (Candidate::of(bytes.to_vec()), Limits::default());
    Revision::load(engine(), compiler, component, limits, Purpose::Activation, &Account::default()).await
}

/// A compiler that can only read the cache.
fn no_compiler(base: &Path) -> Compiler {
    Compiler::new("/bin/false".into(), Some(base), CACHE_BYTES)
}

#[tokio::test]
async fn a_cached_component_is_loaded_without_a_compiler() {
    let base = folder();
    let bytes = Guest::default().component();
    assert!(load_cached(&no_compiler(base.path()), &bytes).await.is_err());
    load_cached(&Compiler::new(HOTSHOE.into(), Some(base.path()), CACHE_BYTES), &bytes).await.unwrap();
    let revision = load_cached(&no_compiler(base.path()), &bytes).await.unwrap().revision;
    revision.decide(Call::Reconcile, observation()).await.unwrap();
}

#[tokio::test]
async fn a_damaged_cache_entry_is_compiled_again_and_replaced() {
    let base = folder();
    let bytes = Guest::default().component();
    let compiler = Compiler::new(HOTSHOE.into(), Some(base.path()), CACHE_BYTES);
    load_cached(&compiler, &bytes).await.unwrap();
    let file = only(&base.path().join("compiled"), ".native");
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&whole[..whole.len() / 2], &flipped[..], b"", b"\x7fELF of another program"] {
        fs::write(&file, damaged).unwrap();
        assert!(load_cached(&no_compiler(base.path()), &bytes).await.is_err(), "trusted {} bytes", damaged.len());
        load_cached(&compiler, &bytes).await.unwrap();
        assert_eq!(fs::read(&file).unwrap().len(), whole.len());
    }
}

#[tokio::test]
async fn without_a_cache_each_load_compiles() {
    let base = folder();
    fs::write(base.path().join("file"), "").unwrap();
    let compiler = Compiler::new(HOTSHOE.into(), Some(&base.path().join("file/below")), CACHE_BYTES);
    load_cached(&compiler, &Guest::default().component()).await.unwrap();
}
