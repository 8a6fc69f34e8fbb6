//! Components made from a few lines of WebAssembly text, which no compiler would emit: a plugin whose
//! allocator loops, whose answer lies outside its memory, or which is hard to compile on purpose.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a component that cannot be made is reported by a panic in the test that needs it"
)]

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A plugin in WebAssembly text. The default answers `decided(exactly([]))` to everything.
///
/// The memory's first page holds the descriptor at address 16, and at 256 an answer of zero bytes:
/// `ok(decided(exactly([])))` or `ok(waiting(exactly([])))`. The allocator hands out memory from
/// address 4096 on.
pub struct Guest {
    /// Group, version and kind of the parent.
    pub parent: [String; 3],
    /// Instructions of `reconcile`, which leave the address of the answer on the stack.
    pub reconcile: String,
    /// Instructions of `describe`, which leave the address of the descriptor on the stack.
    pub describe: String,
    /// Instructions of `convert`, if the plugin converts; they leave the address of the answer on the stack. Parameters:
    /// `$objects`, `$count`, `$version`, `$length`; local: `$at`.
    pub convert: Option<String>,
    /// Instructions of the allocator, which leave an address on the stack. Locals: `$old`, `$size`, `$align`, `$new`.
    pub realloc: String,
    /// Further fields of the core module.
    pub fields: String,
    /// Pages of memory at the start.
    pub pages: u32,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            parent: ["example.com", "v1", "Test"].map(str::to_owned),
            reconcile: "(i32.const 256)".into(),
            describe: "(i32.const 16)".into(),
            convert: None,
            realloc: "(global.set $top (i32.and (i32.add (global.get $top) (i32.add (local.get $new) (i32.const 15))) (i32.const -16)))
                      (i32.sub (global.get $top) (i32.and (i32.add (local.get $new) (i32.const 15)) (i32.const -16)))".into(),
            fields: String::new(),
            pages: 2,
        }
    }
}

/// A plugin whose `reconcile` has these instructions.
pub fn reconcile(body: &str) -> Guest {
    Guest { reconcile: body.into(), ..Guest::default() }
}

/// A plugin that writes another version into the reference of each object, and then does this with the object at `$at`.
pub fn converting(each: &str) -> Guest {
    let convert = format!(
        r#"(local.set $at (local.get $objects))
        (block $end (loop $next
            (br_if $end (i32.eq (local.get $at)
                (i32.add (local.get $objects) (i32.mul (local.get $count) (i32.const 52)))))
            (i32.store offset=8 (local.get $at) (local.get $version))
            (i32.store offset=12 (local.get $at) (local.get $length))
            {each}
            (local.set $at (i32.add (local.get $at) (i32.const 52)))
            (br $next)))
        ;; ok(objects)
        (i32.store (i32.const 0x708) (local.get $objects)) (i32.store (i32.const 0x70c) (local.get $count))
        (i32.const 0x700)"#
    );
    Guest { convert: Some(convert), ..Guest::default() }
}

/// A plugin that converts each object to one that is named `a` and has nothing but its name.
pub fn forgetting() -> Guest {
    let json = r#"{"metadata":{"name":"a"}}"#;
    let each = format!(
        "(i32.store offset=44 (local.get $at) (i32.const 0x720)) (i32.store offset=48 (local.get $at) (i32.const {}))",
        json.len()
    );
    let fields = format!("(data (i32.const 0x720) \"{}\")", json.replace('"', "\\22"));
    Guest { fields, ..converting(&each) }
}

/// A plugin that asks to own ConfigMaps, with the verbs create and update.
pub fn owner_of_config_maps() -> Guest {
    let fields = r#"
        ;; owns: a list of one
        (data (i32.const 64) "\00\05\00\00\01\00\00\00")
        ;; group, version, kind; verbs, fields
        (data (i32.const 0x500) "\00\00\00\00\00\00\00\00" "\80\04\00\00\02\00\00\00" "\00\06\00\00\09\00\00\00"
            "\10\06\00\00\02\00\00\00" "\00\00\00\00\00\00\00\00")
        (data (i32.const 0x600) "ConfigMap") (data (i32.const 0x610) "\00\01")"#;
    Guest { fields: fields.into(), ..Guest::default() }
}

impl Guest {
    /// Sets the kind of the parents.
    #[must_use]
    pub fn of(self, group: &str, version: &str, kind: &str) -> Self {
        Self { parent: [group, version, kind].map(str::to_owned), ..self }
    }

    fn module(&self) -> String {
        let Guest { parent: [group, version, kind], reconcile, describe, convert, realloc, fields, pages } = self;
        let convert = convert.as_ref().map_or(String::new(), |convert| {
            format!(
                r#"(func (export "hotshoe:reconciler/conversion@0.2.0#convert")
                    (param $objects i32) (param $count i32) (param $version i32) (param $length i32) (result i32)
                    (local $at i32) {convert})"#
            )
        });
        let (group_length, version_length, kind_length) = (group.len(), version.len(), kind.len());
        format!(
            r#"(module
            (import "hotshoe:reconciler/log@0.1.0" "log" (func $log (param i32 i32 i32)))
            (memory (export "memory") {pages})
            (global $top (mut i32) (i32.const 4096))
            (data (i32.const 16)
                ;; name, version, parent {{group, version, kind}}
                "\00\04\00\00\04\00\00\00" "\08\04\00\00\05\00\00\00"
                "\10\04\00\00\{group_length:02x}\00\00\00" "\80\04\00\00\{version_length:02x}\00\00\00" "\90\04\00\00\{kind_length:02x}\00\00\00")
            (data (i32.const 0x400) "test") (data (i32.const 0x408) "0.1.0")
            (data (i32.const 0x410) "{group}") (data (i32.const 0x480) "{version}") (data (i32.const 0x490) "{kind}")
            (func (export "hotshoe:reconciler/reconciler@0.1.0#describe") (result i32) {describe})
            (func (export "hotshoe:reconciler/reconciler@0.1.0#reconcile") (param $request i32) (result i32) {reconcile})
            (func (export "hotshoe:reconciler/reconciler@0.1.0#finalize") (param i32) (result i32) (i32.const 256))
            {convert}
            (func (export "cabi_realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32) (result i32)
                {realloc})
            {fields})"#
        )
    }

    /// Builds the core module with the embedded description of its world: the input for making a component.
    pub fn core_module(&self) -> Vec<u8> {
        let module = self.module();
        let mut core = wat::parse_str(&module).unwrap_or_else(|error| panic!("{error}\n{module}"));
        let mut resolve = Resolve::default();
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let (first, _) = resolve.push_dir(&wit).expect("the contract");
        let (second, _) = resolve.push_dir(wit.join("0.2.0")).expect("its second version");
        let (package, world) = match self.convert {
            Some(_) => (second, "converting-plugin"),
            None => (first, "plugin"),
        };
        let world = resolve.select_world(&[package], Some(world)).expect("the world");
        embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).expect("a core module");
        core
    }

    /// Builds the component, and returns its bytes.
    pub fn component(&self) -> Vec<u8> {
        ComponentEncoder::default().module(&self.core_module()).unwrap().validate(true).encode().unwrap()
    }
}

/// Encodes a component or a core module from the text format.
pub fn text(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Adds so many unused functions to a component, all of which the compiler has to compile.
pub fn slow_to_compile(component: &[u8], functions: usize) -> Vec<u8> {
    let step = "(local.set 0 (i32.xor (i32.mul (local.get 0) (i32.const 1664525)) (i32.load (local.get 1))))";
    let function = format!("(func (param i32 i32) (result i32) {} (local.get 0))", step.repeat(100));
    let module = text(&format!("(module (memory 1) {})", function.repeat(functions)));
    let mut whole = component.to_vec();
    // A section with a core module in it, which is defined and never instantiated.
    whole.push(1);
    let mut length = module.len();
    while length >= 0x80 {
        whole.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
        length >>= 7;
    }
    whole.push(u8::try_from(length).expect("seven bits"));
    whole.extend(module);
    whole
}

/// Makes another revision of a component by replacing a text in it by one of the same length, in its data
/// and in the cases that it carries.
pub fn reworded(component: &[u8], word: &str, other: &str) -> Vec<u8> {
    assert_eq!(word.len(), other.len(), "the length of a text is part of the code");
    let mut changed = component.to_vec();
    let mut found = 0;
    let mut at = 0;
    while let Some(offset) = find(changed.get(at..).unwrap_or_default(), word.as_bytes()) {
        changed[at + offset..at + offset + word.len()].copy_from_slice(other.as_bytes());
        at += offset + word.len();
        found += 1;
    }
    assert!(found > 0, "the component does not say {word:?}");
    changed
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
