//! Components: built as a person builds them, changed in a word, or broken.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

pub use hotshoe_components::reworded;
use tempfile::TempDir;

use crate::host::program;
use crate::repository;

const PRODUCTS: &str = "target/tests/plugins";
/// Where the host keeps what it has compiled, in a folder of its name. A build fills it, so that no host compiles a
/// large component while others are at work beside it, which they slow down as they should.
pub const CACHES: &str = "target/tests/caches";

/// The folder of the Memcached plugin, its component built.
pub fn memcached() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("plugins/memcached", "memcached")).clone()
}

/// The folder of the backup plugin, its component built.
pub fn backup() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("plugins/backup", "backup")).clone()
}

/// The folder of a plugin that fails in the way that its parent asks for, its component built.
pub fn faulty() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/faulty", "faulty")).clone()
}

/// The folder of the same in Python, its component built.
pub fn faulty_python() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/faulty-python", "faulty-python")).clone()
}

/// The folder of a plugin that attacks its host in the way that its parent asks for, its component
/// built.
pub fn hostile() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/hostile", "hostile")).clone()
}

/// The folder of the plugin in `plugins/NAME`, its component built.
pub fn plugin(name: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().expect("no build has panicked");
    built.entry(name).or_insert_with(|| build(&format!("plugins/{name}"), name)).clone()
}

/// The folder of the plugin in `tests/fixtures/NAME`, its component built.
pub fn fixture(name: &'static str) -> PathBuf {
    build(&format!("tests/fixtures/{name}"), name)
}

/// The folder of a plugin whose parents are marked ConfigMaps, its component built.
pub fn marked() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/marked", "marked")).clone()
}

/// Builds a plugin where everybody's build products are, as `just build` does.
pub fn product(source: &str) {
    let output = Command::new(program()).arg("build").arg(repository(source)).output().expect("the program runs");
    assert!(output.status.success(), "hotshoe build failed: {}", String::from_utf8_lossy(&output.stderr));
}

/// Builds into a folder of the tests' own, so that work on the plugin meanwhile does not change
/// what a test runs. Test binaries build one after the other; the second finds everything done.
fn build(source: &str, name: &str) -> PathBuf {
    let folder = repository(PRODUCTS).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for products");
    let lock = File::create(repository(PRODUCTS).join("lock")).expect("a lock file");
    lock.lock().expect("the lock");
    let source = repository(source);
    let out = folder.join(format!("{name}.wasm"));
    let mut build = Command::new(program());
    build.arg("build").arg(&source).arg("--out").arg(out).env("XDG_CACHE_HOME", repository(CACHES));
    let output = build.output();
    let output = output.expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hotshoe build {} failed: {said}", source.display());
    std::fs::copy(source.join("plugin.yaml"), folder.join("plugin.yaml")).expect("plugin.yaml is copied");
    folder
}

/// A plugin in a folder of its own, whose component can be replaced.
pub struct Folder {
    folder: TempDir,
    name: &'static str,
    original: Vec<u8>,
}

impl Folder {
    /// The Memcached plugin.
    pub fn of_memcached() -> Self {
        Self::of(&memcached(), "memcached")
    }

    /// The plugin that fails.
    pub fn of_faulty() -> Self {
        Self::of(&faulty(), "faulty")
    }

    /// The plugin that attacks.
    pub fn of_hostile() -> Self {
        Self::of(&hostile(), "hostile")
    }

    /// One of several plugins that attack one host, with a name, a finalizer and parents of its own: those with the
    /// label `attacker: NAME`. At most nine.
    pub fn of_attacker(number: usize) -> Self {
        let folder = Self::of_hostile();
        let name = attacker(number);
        folder.edit("metadata:\n  name: hostile\n", &format!("metadata:\n  name: {name}\n"));
        let parents = "    kind: Attack\n";
        folder.edit(parents, &format!("{parents}    selector:\n      matchLabels:\n        attacker: {name}\n"));
        let (finalizer, own) = ("fixtures.example.com/finalizer", format!("fixtures.example.com/finalize{number}"));
        folder.edit(finalizer, &own);
        let original = reworded(&folder.original, finalizer, &own);
        folder.put(&original);
        Self { original, ..folder }
    }

    /// The plugin of marked ConfigMaps.
    pub fn of_marked() -> Self {
        Self::of(&marked(), "marked")
    }

    /// A plugin in `plugins`, which one test uses.
    pub fn of_plugin(name: &'static str) -> Self {
        Self::of(&build(&format!("plugins/{name}"), name), name)
    }

    fn of(source: &Path, name: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::copy(source.join("plugin.yaml"), folder.path().join("plugin.yaml")).expect("plugin.yaml is copied");
        let original = std::fs::read(source.join(format!("{name}.wasm"))).expect("the component was built");
        let this = Self { folder, name, original };
        this.put(&this.original);
        this
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The component as it was built.
    pub fn original(&self) -> &[u8] {
        &self.original
    }

    /// Replaces the component, at once as `hotshoe build` does.
    pub fn put(&self, component: &[u8]) {
        let path = self.component();
        let new = path.with_extension("new");
        std::fs::write(&new, component).expect("the component is written");
        std::fs::rename(&new, &path).expect("the component is replaced");
    }

    /// Puts a file of this size in its place, without anything in it.
    pub fn put_hole(&self, size: u64) {
        let new = self.component().with_extension("new");
        File::create(&new).and_then(|file| file.set_len(size)).expect("a file");
        std::fs::rename(&new, self.component()).expect("the component is replaced");
    }

    /// Puts a pipe in its place.
    pub fn put_pipe(&self) {
        let new = self.component().with_extension("new");
        let made = Command::new("mkfifo").arg(&new).status().expect("mkfifo runs");
        assert!(made.success(), "no pipe at {}", new.display());
        std::fs::rename(&new, self.component()).expect("the component is replaced");
    }

    /// Where the component lies.
    pub fn component(&self) -> PathBuf {
        self.folder.path().join(format!("{}.wasm", self.name))
    }

    /// Edits `plugin.yaml`, at once as editors do.
    pub fn edit(&self, what: &str, into: &str) {
        let text = std::fs::read_to_string(self.plugin_file()).expect("plugin.yaml is read");
        assert!(text.contains(what), "plugin.yaml has no {what}");
        let new = self.plugin_file().with_extension("new");
        std::fs::write(&new, text.replace(what, into)).expect("plugin.yaml is written");
        std::fs::rename(&new, self.plugin_file()).expect("plugin.yaml is replaced");
    }

    /// Where `plugin.yaml` lies.
    pub fn plugin_file(&self) -> PathBuf {
        self.folder.path().join("plugin.yaml")
    }
}

/// The name of the plugin of [`Folder::of_attacker`], and of its account; the numbers begin with 1.
pub fn attacker(number: usize) -> String {
    if number == 1 { "hostile".to_owned() } else { format!("hostile-{number}") }
}

/// What is offered as a component and must be refused, with the expected reason.
pub fn unusable(good: &[u8]) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("garbage", b"this is a text and no component".to_vec(), "NotAComponent"),
        ("an empty file", Vec::new(), "NotAComponent"),
        ("a core module", b"\0asm\x01\0\0\0".to_vec(), "NotAComponent"),
        ("the first half of a component", good[..good.len() / 2].to_vec(), "NotAComponent"),
        ("a component that wants WASI", wants_wasi(), "ForbiddenImport"),
    ]
}

/// `(component (import "wasi:cli/environment@0.2.0" (instance (export "get-environment" (func)))))`
/// in the binary format.
fn wants_wasi() -> Vec<u8> {
    let (interface, function) = ("wasi:cli/environment@0.2.0", "get-environment");
    // An instance type with two declarations: the type of a function without parameters and
    // results, and an export of that type.
    let mut types = vec![1, 0x42, 2, 1, 0x40, 0, 1, 0, 4, 0];
    types.extend(text(function));
    types.extend([1, 0]);
    let mut imports = vec![1, 0];
    imports.extend(text(interface));
    imports.extend([5, 0]);
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    for (id, section) in [(7, types), (10, imports)] {
        component.push(id);
        component.push(u8::try_from(section.len()).expect("a short section"));
        component.extend(section);
    }
    component
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(text.len()).expect("a short text")];
    bytes.extend(text.as_bytes());
    bytes
}
