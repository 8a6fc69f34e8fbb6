//! Components that no compiler would write, made of text.

use hotshoe_components::{Guest, reconcile, reworded, text};

/// What lies in the place of a component.
pub enum Offered {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A file of this size without anything in it.
    Hole(u64),
    /// A pipe.
    Pipe,
}

const FOREVER: &str = "(loop $ever (br $ever))";

fn called(guest: Guest) -> Vec<u8> {
    guest.of("fixtures.example.com", "v1", "Attack").component()
}

fn offered(guest: Guest) -> Offered {
    Offered::Bytes(called(guest))
}

/// A plugin without any harm in it, for what lies between two attacks.
pub fn harmless() -> Vec<u8> {
    called(Guest::default())
}

/// Traps whenever it is asked about an object of this kind.
pub fn traps(group: &str, version: &str, kind: &str) -> Vec<u8> {
    reconcile("unreachable").of(group, version, kind).component()
}

// === what happens in a call ===

/// The host allocates the request in the guest, by the guest's allocator.
pub fn loop_in_realloc() -> Vec<u8> {
    called(Guest { realloc: format!("{FOREVER} (i32.const 0)"), ..Guest::default() })
}

/// The host reports to the guest that the answer was read.
pub fn loop_after_return() -> Vec<u8> {
    let name = "cabi_post_hotshoe:reconciler/reconciler@0.1.0#reconcile";
    called(Guest { fields: format!("(func (export \"{name}\") (param i32) {FOREVER})"), ..Guest::default() })
}

/// Grows a table until it gets no more.
pub fn table_bomb() -> Vec<u8> {
    let grow = "(loop $more (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))";
    called(Guest { fields: "(table $t 1 funcref)".into(), ..reconcile(&format!("{grow} unreachable")) })
}

/// Recursion that needs none of the guest's memory.
pub fn stack_bomb() -> Vec<u8> {
    let deep = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (call $deep (local.get 0))))";
    called(Guest { fields: deep.into(), ..reconcile("(call $deep (i32.const 1))") })
}

/// `err(other(TEXT))` with a text of so many bytes at 65536.
fn failure_of(length: u32) -> String {
    format!(
        "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store8 (i32.const 264) (i32.const 2))
         (i32.store (i32.const 272) (i32.const 65536)) (i32.store (i32.const 276) (i32.const {length}))
         (i32.const 256)"
    )
}

/// `ok(decided(DECISION))` where a list of the decision has so many elements, all zero, at 65536.
fn long_list(at: u32, count: u32) -> Guest {
    let list = format!(
        "(i32.store (i32.const {at}) (i32.const 65536)) (i32.store (i32.const {}) (i32.const {count}))",
        at + 4
    );
    Guest { pages: 400, ..reconcile(&format!("{list} (i32.const 256)")) }
}

/// Events of 20 bytes each: it is their number that would fill the host.
pub fn million_records() -> Vec<u8> {
    called(long_list(304, 1_000_000))
}

/// Children of 52 bytes each.
pub fn many_children() -> Vec<u8> {
    called(long_list(276, 100_000))
}

/// A text that is none.
pub fn invalid_answer() -> Vec<u8> {
    called(Guest { fields: r#"(data (i32.const 65536) "\ff\fe")"#.into(), ..reconcile(&failure_of(2)) })
}

/// The same on its way to the log.
pub fn invalid_log() -> Vec<u8> {
    called(Guest {
        fields: r#"(data (i32.const 0x500) "\ff")"#.into(),
        ..reconcile("(call $log (i32.const 1) (i32.const 0x500) (i32.const 1)) (i32.const 256)")
    })
}

/// A text that begins in its memory and ends far beyond.
pub fn answer_outside() -> Vec<u8> {
    called(reconcile(&failure_of(50_000_000)))
}

/// Neither `ok` nor `err`.
pub fn unknown_variant() -> Vec<u8> {
    called(reconcile("(i32.store8 (i32.const 256) (i32.const 9)) (i32.const 256)"))
}

// === what is offered to be loaded ===

/// Runs before anything is called.
pub fn loop_in_start(_: &[u8]) -> Offered {
    offered(Guest { fields: format!("(func $start {FOREVER}) (start $start)"), ..Guest::default() })
}

/// Runs when the host asks what it is.
pub fn loop_in_describe(_: &[u8]) -> Offered {
    offered(Guest { describe: format!("{FOREVER} (i32.const 16)"), ..Guest::default() })
}

/// 69 MB before the first instruction.
pub fn memory_from_the_start(_: &[u8]) -> Offered {
    offered(Guest { pages: 1_100, ..Guest::default() })
}

/// One more than may be.
pub fn many_tables(_: &[u8]) -> Offered {
    offered(Guest { fields: "(table 1 funcref)".repeat(33), ..Guest::default() })
}

/// A function that this host never had.
pub fn unknown_import(_: &[u8]) -> Offered {
    let import = r#"(import "acme:net/http" (instance (export "fetch" (func (param "url" string)))))"#;
    Offered::Bytes(text(&format!("(component {import})")))
}

/// What most toolchains import by default.
pub fn wasi(_: &[u8]) -> Offered {
    let function = r#"(export "get-environment" (func (result (list (tuple string string)))))"#;
    Offered::Bytes(text(&format!(r#"(component (import "wasi:cli/environment@0.2.0" (instance {function})))"#)))
}

/// A plugin of the future.
pub fn other_contract(_: &[u8]) -> Offered {
    let export = r#"(export "hotshoe:reconciler/reconciler@2.0.0" (instance $i))"#;
    Offered::Bytes(text(&format!("(component (component $c) (instance $i (instantiate $c)) {export})")))
}

/// Well made, and of no use.
pub fn no_plugin(_: &[u8]) -> Offered {
    Offered::Bytes(text("(component)"))
}

/// What a component is made of.
pub fn core_module(_: &[u8]) -> Offered {
    Offered::Bytes(Guest::default().core_module())
}

/// As a copy that was broken off leaves it.
pub fn half(good: &[u8]) -> Offered {
    Offered::Bytes(good.get(..good.len() / 2).unwrap_or_default().to_vec())
}

/// No WebAssembly at all.
pub fn garbage(_: &[u8]) -> Offered {
    Offered::Bytes(b"this is a text and no component".to_vec())
}

/// Each of them small.
pub fn many_components(_: &[u8]) -> Offered {
    Offered::Bytes(text(&format!("(component {})", "(component)".repeat(10_000))))
}

/// It has no blocks on any disk.
pub fn large_file(_: &[u8]) -> Offered {
    Offered::Hole(1 << 30)
}

/// A reader that opens it waits for a writer.
pub fn pipe(_: &[u8]) -> Offered {
    Offered::Pipe
}

/// A function near the largest that there may be, of which every value is needed at its end.
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

/// Branches with a hundred thousand targets each.
pub fn branch_tables(_: &[u8]) -> Offered {
    let targets = "0 1 ".repeat(60_000);
    let branch = format!("(block $b (block $a (br_table {targets} 0 (local.get 0))))");
    offered(Guest { fields: format!("(func $many (param i32) {})", branch.repeat(60)), ..Guest::default() })
}

/// Each function is accepted, and takes its time: what is assigned in a thousand branches is merged
/// behind each of them.
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

/// The engine would keep each of them, also when nothing is ever made of them.
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

/// The host would keep each name.
pub fn many_exports(_: &[u8]) -> Offered {
    let exports: String = (0..150_000).map(|number| format!("(export \"x{number}\" (func $many))")).collect();
    offered(Guest { fields: format!("(func $many) {exports}"), ..Guest::default() })
}

/// As values in memory they would be half a gigabyte.
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

/// In LEB128, as WebAssembly writes numbers.
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

/// It would be shown every Pod of the cluster.
pub fn parent_is_a_pod(_: &[u8]) -> Offered {
    with_parent("", "v1", "Pod")
}

/// It would decide beside the plugin whose it is.
pub fn parent_of_another(_: &[u8]) -> Offered {
    with_parent("cache.example.com", "v1alpha1", "Memcached")
}

/// What would let it grant itself anything.
pub fn owns_role_bindings(good: &[u8]) -> Offered {
    owning(good, "rbac.authorization.k8s.io/v1", "RoleBinding")
}

/// The same plugin, which also reads the ConfigMap that a field of the parent names.
pub fn reading_by_field(good: &[u8]) -> Vec<u8> {
    reworded(good, "reads by field: no ", "reads by field: yes")
}

/// What its administrator never said.
pub fn owns_secrets(good: &[u8]) -> Offered {
    owning(good, "v1", "Secret")
}
