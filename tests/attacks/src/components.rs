//! Components that no compiler would emit, made of text.

use hotshoe_components::{Guest, reconcile, reworded, text};

/// What is put in the place of a component.
pub enum Offered {
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// A sparse file of this size.
    Hole(u64),
    /// A named pipe.
    Pipe,
}

const FOREVER: &str = "(loop $ever (br $ever))";

fn called(guest: Guest) -> Vec<u8> {
    guest.of("fixtures.example.com", "v1", "Attack").component()
}

fn offered(guest: Guest) -> Offered {
    Offered::Bytes(called(guest))
}

/// A harmless plugin, which runs between two attacks.
pub fn harmless() -> Vec<u8> {
    called(Guest::default())
}

/// Traps whenever it is asked about an object of this kind.
pub fn traps(group: &str, version: &str, kind: &str) -> Vec<u8> {
    reconcile("unreachable").of(group, version, kind).component()
}

// === in a call ===

/// Loops in the guest's allocator, by which the host allocates the request.
pub fn loop_in_realloc() -> Vec<u8> {
    called(Guest { realloc: format!("{FOREVER} (i32.const 0)"), ..Guest::default() })
}

/// Loops in the function by which the host tells the guest that the answer was read.
pub fn loop_after_return() -> Vec<u8> {
    let name = "cabi_post_hotshoe:reconciler/reconciler@0.1.0#reconcile";
    called(Guest { fields: format!("(func (export \"{name}\") (param i32) {FOREVER})"), ..Guest::default() })
}

/// Grows a table until that is refused.
pub fn table_bomb() -> Vec<u8> {
    let grow = "(loop $more (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))";
    called(Guest { fields: "(table $t 1 funcref)".into(), ..reconcile(&format!("{grow} unreachable")) })
}

/// Recurses without using the guest's memory.
pub fn stack_bomb() -> Vec<u8> {
    let deep = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (call $deep (local.get 0))))";
    called(Guest { fields: deep.into(), ..reconcile("(call $deep (i32.const 1))") })
}

/// Builds `err(other(TEXT))` with a text of this many bytes at address 65536.
fn failure_of(length: u32) -> String {
    format!(
        "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store8 (i32.const 264) (i32.const 2))
         (i32.store (i32.const 272) (i32.const 65536)) (i32.store (i32.const 276) (i32.const {length}))
         (i32.const 256)"
    )
}

/// Builds `ok(decided(DECISION))` where one list of the decision has this many elements of zero bytes, at address
/// 65536.
fn long_list(at: u32, count: u32) -> Guest {
    let list = format!(
        "(i32.store (i32.const {at}) (i32.const 65536)) (i32.store (i32.const {}) (i32.const {count}))",
        at + 4
    );
    Guest { pages: 400, ..reconcile(&format!("{list} (i32.const 256)")) }
}

/// Answers with Events of 20 bytes each, whose number would fill the host's memory.
pub fn million_records() -> Vec<u8> {
    called(long_list(304, 1_000_000))
}

/// Answers with children of 52 bytes each.
pub fn many_children() -> Vec<u8> {
    called(long_list(276, 100_000))
}

/// Answers with a text that is not UTF-8.
pub fn invalid_answer() -> Vec<u8> {
    called(Guest { fields: r#"(data (i32.const 65536) "\ff\fe")"#.into(), ..reconcile(&failure_of(2)) })
}

/// Logs a text that is not UTF-8.
pub fn invalid_log() -> Vec<u8> {
    called(Guest {
        fields: r#"(data (i32.const 0x500) "\ff")"#.into(),
        ..reconcile("(call $log (i32.const 1) (i32.const 0x500) (i32.const 1)) (i32.const 256)")
    })
}

/// Answers with a text that begins in the guest's memory and ends far beyond it.
pub fn answer_outside() -> Vec<u8> {
    called(reconcile(&failure_of(50_000_000)))
}

/// Answers neither `ok` nor `err`.
pub fn unknown_variant() -> Vec<u8> {
    called(reconcile("(i32.store8 (i32.const 256) (i32.const 9)) (i32.const 256)"))
}

// === while it is loaded ===

/// Loops in the start function, before anything is called.
pub fn loop_in_start(_: &[u8]) -> Offered {
    offered(Guest { fields: format!("(func $start {FOREVER}) (start $start)"), ..Guest::default() })
}

/// Loops in `describe`.
pub fn loop_in_describe(_: &[u8]) -> Offered {
    offered(Guest { describe: format!("{FOREVER} (i32.const 16)"), ..Guest::default() })
}

/// Has a memory of 69 MB before its first instruction.
pub fn memory_from_the_start(_: &[u8]) -> Offered {
    offered(Guest { pages: 1_100, ..Guest::default() })
}

/// Has one table more than allowed.
pub fn many_tables(_: &[u8]) -> Offered {
    offered(Guest { fields: "(table 1 funcref)".repeat(33), ..Guest::default() })
}

/// Imports a function that the host does not have.
pub fn unknown_import(_: &[u8]) -> Offered {
    let import = r#"(import "acme:net/http" (instance (export "fetch" (func (param "url" string)))))"#;
    Offered::Bytes(text(&format!("(component {import})")))
}

/// Imports WASI, as most toolchains do by default.
pub fn wasi(_: &[u8]) -> Offered {
    let function = r#"(export "get-environment" (func (result (list (tuple string string)))))"#;
    Offered::Bytes(text(&format!(r#"(component (import "wasi:cli/environment@0.2.0" (instance {function})))"#)))
}

/// A plugin for a future version of the contract.
pub fn other_contract(_: &[u8]) -> Offered {
    let export = r#"(export "hotshoe:reconciler/reconciler@2.0.0" (instance $i))"#;
    Offered::Bytes(text(&format!("(component (component $c) (instance $i (instantiate $c)) {export})")))
}

/// A valid component without exports.
pub fn no_plugin(_: &[u8]) -> Offered {
    Offered::Bytes(text("(component)"))
}

/// The core module from which a component is made.
pub fn core_module(_: &[u8]) -> Offered {
    Offered::Bytes(Guest::default().core_module())
}

/// A truncated file, as an interrupted copy leaves it.
pub fn half(good: &[u8]) -> Offered {
    Offered::Bytes(good.get(..good.len() / 2).unwrap_or_default().to_vec())
}

/// A file that is not WebAssembly.
pub fn garbage(_: &[u8]) -> Offered {
    Offered::Bytes(b"this is a text and no component".to_vec())
}

/// A component with many nested components, each of them small.
pub fn many_components(_: &[u8]) -> Offered {
    Offered::Bytes(text(&format!("(component {})", "(component)".repeat(10_000))))
}

/// A large sparse file, which takes no space on disk.
pub fn large_file(_: &[u8]) -> Offered {
    Offered::Hole(1 << 30)
}

/// A pipe without a writer, for which a reader would wait.
pub fn pipe(_: &[u8]) -> Offered {
    Offered::Pipe
}

/// A function near the maximum size, whose values are all live at its end.
pub fn huge_function(_: &[u8]) -> Offered {
    let steps = 40_000;
    let mut body = String::new();
    for local in 0..steps {
        body += &format!("(local.set {local} (i32.load (local.get {})))", (local * 7919 + 1) % steps);
        if local % 16 == 0 {
            body += &format!(
                "(if (local.get {}) (then (local.set {} (i32.const 1))))",
                (local * 31) % steps,
                (local * 17) % steps
            );
        }
    }
    let locals = "i32 ".repeat(steps);
    offered(Guest {
        fields: format!("(func $huge (local {locals}) (loop $again {body} (br_if $again (local.get 5))))"),
        ..Guest::default()
    })
}

/// A function with branches of a hundred thousand targets each.
pub fn branch_tables(_: &[u8]) -> Offered {
    let targets = "0 1 ".repeat(60_000);
    let branch = format!("(block $b (block $a (br_table {targets} 0 (local.get 0))))");
    offered(Guest { fields: format!("(func $many (param i32) {})", branch.repeat(60)), ..Guest::default() })
}

/// Functions that the compiler accepts, but compiles slowly: values that are assigned in a thousand branches are
/// merged after each of them.
pub fn slow_functions(_: &[u8]) -> Offered {
    let steps = 1_000;
    let mut body = String::new();
    for step in 0..steps {
        body += &format!("(if (local.get {}) (then", step * 31 % steps);
        for assigned in 0..4 {
            let (to, from) = ((step * 13 + assigned * 104_729) % steps, (step * 17 + assigned * 7_919) % steps);
            body += &format!("(local.set {to} (i32.add (local.get {from}) (i32.const {step})))");
        }
        body += "))";
    }
    let function = format!("(func (param {}) (loop $again {body} (br_if $again (local.get 5))))", "i32 ".repeat(steps));
    offered(Guest { fields: function.repeat(20), ..Guest::default() })
}

/// Many types, all of which the engine would keep, although nothing uses them.
pub fn many_types(_: &[u8]) -> Offered {
    let types: String = (0..100_000)
        .map(|number| {
            let parameter = |digit: u32| ["i32", "i64", "f32", "f64"][(number >> (2 * digit)) & 3];
            let parameters: Vec<&str> = (0..9).map(parameter).collect();
            format!("(type (func (param {})))", parameters.join(" "))
        })
        .collect();
    offered(Guest { fields: types, ..Guest::default() })
}

/// Many exports, whose names the host would keep.
pub fn many_exports(_: &[u8]) -> Offered {
    let exports: String = (0..150_000).map(|number| format!("(export \"x{number}\" (func $many))")).collect();
    offered(Guest { fields: format!("(func $many) {exports}"), ..Guest::default() })
}

/// Cases that would take half a gigabyte of memory once they are parsed.
pub fn large_cases(good: &[u8]) -> Offered {
    let cases = format!("[{{\"children\":[0{}]}}]", ",0".repeat(8 << 20));
    let name = "hotshoe:cases";
    let mut section = number(name.len());
    section.extend(name.as_bytes());
    section.extend(cases.as_bytes());
    // A custom section, behind all others.
    let mut component = [good, &[0]].concat();
    component.extend(number(section.len()));
    component.extend(section);
    Offered::Bytes(component)
}

/// Encodes a number as LEB128, the encoding of WebAssembly.
fn number(value: usize) -> Vec<u8> {
    let (low, rest) = ((value & 0x7f) as u8, value >> 7);
    if rest == 0 { vec![low] } else { [vec![low | 0x80], number(rest)].concat() }
}

fn owning(good: &[u8], api: &str, kind: &str) -> Offered {
    let said = "owns too: v1 Service                                                    ";
    let other = format!("{:<width$}", format!("owns too: {api} {kind}"), width = said.len());
    Offered::Bytes(reworded(good, said, &other))
}

fn with_parent(group: &str, version: &str, kind: &str) -> Offered {
    Offered::Bytes(Guest::default().of(group, version, kind).component())
}

/// Has Pods as parents: it would be shown every Pod of the cluster.
pub fn parent_is_a_pod(_: &[u8]) -> Offered {
    with_parent("", "v1", "Pod")
}

/// Has the parents of another plugin: both would decide about the same objects.
pub fn parent_of_another(_: &[u8]) -> Offered {
    with_parent("cache.example.com", "v1", "Memcached")
}

/// Asks for RoleBindings, by which it could grant itself anything.
pub fn owns_role_bindings(good: &[u8]) -> Offered {
    owning(good, "rbac.authorization.k8s.io/v1", "RoleBinding")
}

/// Makes the same plugin also read the ConfigMap that a field of the parent names.
pub fn reading_by_field(good: &[u8]) -> Vec<u8> {
    reworded(good, "reads by field: no ", "reads by field: yes")
}

/// Asks for Secrets, which its administrator did not grant.
pub fn owns_secrets(good: &[u8]) -> Offered {
    owning(good, "v1", "Secret")
}
