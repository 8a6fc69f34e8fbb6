//! Components: built by `hotshoe build`, changed in a word, or broken.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

pub use hotshoe_components::reworded;
use tempfile::TempDir;

use crate::host::program;
use crate::kinds::Kind;
use crate::repository;

const PRODUCTS: &str = "target/tests/plugins";
/// The folder of the hosts' caches.
const CACHES: &str = "target/tests/caches";

/// Returns the folder of the hosts' caches, without the histories of an earlier run: a test would find there what it has
/// rolled back before. Compiled components stay, and a build adds to them, so that no host compiles a large component
/// while other hosts work, which rightly take precedence over a compiler and slow it down.
pub fn caches() -> PathBuf {
    static CACHE_HOME: OnceLock<PathBuf> = OnceLock::new();
    let emptied = || {
        let caches = repository(CACHES);
        for histories in ["revisions", "fetched"] {
            match std::fs::remove_dir_all(caches.join("hotshoe").join(histories)) {
                Err(error) if error.kind() != ErrorKind::NotFound => panic!("{histories} of an earlier run: {error}"),
                _ => {}
            }
        }
        caches
    };
    CACHE_HOME.get_or_init(emptied).clone()
}

/// Builds the Memcached plugin once, and returns its folder.
pub fn memcached() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("plugins/memcached", "memcached")).clone()
}

/// Builds the backup plugin once, and returns its folder.
pub fn backup() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("plugins/backup", "backup")).clone()
}

/// Builds a plugin that fails in the way that its parent asks for, and returns its folder.
pub fn faulty() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/faulty", "faulty")).clone()
}

/// Builds the Python version of [`faulty`], and returns its folder.
pub fn faulty_python() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/faulty-python", "faulty-python")).clone()
}

/// Builds a plugin that attacks its host in the way that its parent asks for, and returns its folder.
pub fn hostile() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/hostile", "hostile")).clone()
}

/// Builds the plugin that converts, and returns its folder.
pub fn converting() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/converting", "converting")).clone()
}

/// Builds the plugin in `plugins/NAME` once, and returns its folder.
pub fn plugin(name: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    // After a build that failed, the next test builds again, and fails with the cause.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name).or_insert_with(|| build(&format!("plugins/{name}"), name)).clone()
}

/// Returns the names of the plugins in `plugins`, in their order.
pub fn shipped() -> Vec<&'static str> {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let read = || {
        let entries = std::fs::read_dir(repository("plugins")).expect("the folder of the plugins");
        let folders = entries.map(|entry| entry.expect("an entry").path());
        let plugins = folders.filter(|folder| folder.join("plugin.yaml").is_file());
        let name = |folder: PathBuf| folder.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let mut names: Vec<String> = plugins.map(name).collect();
        names.sort();
        assert!(names.len() >= 9, "{names:?}");
        names
    };
    NAMES.get_or_init(read).iter().map(String::as_str).collect()
}

/// Builds the plugin in `plugins/examples/NAME`, and returns its folder.
pub fn example(name: &'static str) -> PathBuf {
    build(&format!("plugins/examples/{name}"), name)
}

/// Builds the plugin in `tests/fixtures/NAME`, and returns its folder.
pub fn fixture(name: &'static str) -> PathBuf {
    build(&format!("tests/fixtures/{name}"), name)
}

/// Builds a plugin whose parents are ConfigMaps with a label, and returns its folder.
pub fn marked() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("tests/fixtures/marked", "marked")).clone()
}

/// Builds a plugin into a folder of the tests' own, so that work on the plugin meanwhile does not change
/// what a test runs. Test binaries build one after the other; the second finds everything done.
fn build(source: &str, name: &str) -> PathBuf {
    let folder = repository(PRODUCTS).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for products");
    let lock = File::create(repository(PRODUCTS).join("lock")).expect("a lock file");
    lock.lock().expect("the lock");
    let source = repository(source);
    let out = folder.join(format!("{name}.wasm"));
    let mut build = Command::new(program());
    build.arg("build").arg(&source).arg("--out").arg(out).env("XDG_CACHE_HOME", caches());
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

    /// The plugin that fails as its parent asks.
    pub fn of_faulty() -> Self {
        Self::of(&faulty(), "faulty")
    }

    /// The plugin that attacks its host.
    pub fn of_hostile() -> Self {
        Self::of(&hostile(), "hostile")
    }

    /// The plugin that attacks its host, which may own this kind instead of Services.
    pub fn of_hostile_owning(kind: &Kind) -> Self {
        let folder = Self::of_hostile();
        let before = "owns too: v1 Service                                                    ";
        let owned = format!("owns too: {} {}", kind.api_version(), kind.kind);
        let original = reworded(&folder.original, before, &format!("{owned:<width$}", width = before.len()));
        folder.put(&original);
        let granted = format!("group: \"{}\"\n      kind: {}\n", kind.group, kind.kind);
        folder.edit("group: \"\"\n      kind: Service\n", &granted);
        Self { original, ..folder }
    }

    /// One of several plugins that attack one host, with its own name, finalizer and parents: those with the label
    /// `attacker: NAME`. There are nine at most.
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

    /// The plugin whose parents are ConfigMaps with a label.
    pub fn of_marked() -> Self {
        Self::of(&marked(), "marked")
    }

    /// The plugin that converts.
    pub fn of_converting() -> Self {
        Self::of(&converting(), "converting")
    }

    /// The plugin in `tests/fixtures/NAME`.
    pub fn of_fixture(name: &'static str) -> Self {
        Self::of(&fixture(name), name)
    }

    /// A plugin in `plugins`. It is built on each call, so only one test should use it.
    pub fn of_plugin(name: &'static str) -> Self {
        Self::of(&build(&format!("plugins/{name}"), name), name)
    }

    /// A plugin in `plugins/examples`.
    pub fn of_example(name: &'static str) -> Self {
        Self::of(&example(name), name)
    }

    fn of(source: &Path, name: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::copy(source.join("plugin.yaml"), folder.path().join("plugin.yaml")).expect("plugin.yaml is copied");
        let original = std::fs::read(source.join(format!("{name}.wasm"))).expect("the component was built");
        let this = Self { folder, name, original };
        this.put(&this.original);
        this
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the component as it was built.
    pub fn original(&self) -> &[u8] {
        &self.original
    }

    /// Replaces the component atomically, as `hotshoe build` does.
    pub fn put(&self, component: &[u8]) {
        let path = self.component();
        let new = path.with_extension("new");
        std::fs::write(&new, component).expect("the component is written");
        std::fs::rename(&new, &path).expect("the component is replaced");
    }

    /// Replaces the component by a sparse file of this size.
    pub fn put_hole(&self, size: u64) {
        let new = self.component().with_extension("new");
        File::create(&new).and_then(|file| file.set_len(size)).expect("a file");
        std::fs::rename(&new, self.component()).expect("the component is replaced");
    }

    /// Replaces the component by a named pipe.
    pub fn put_pipe(&self) {
        let new = self.component().with_extension("new");
        let made = Command::new("mkfifo").arg(&new).status().expect("mkfifo runs");
        assert!(made.success(), "no pipe at {}", new.display());
        std::fs::rename(&new, self.component()).expect("the component is replaced");
    }

    /// Returns the component's path.
    pub fn component(&self) -> PathBuf {
        self.folder.path().join(format!("{}.wasm", self.name))
    }

    /// Edits `plugin.yaml` and replaces it atomically, as editors do.
    pub fn edit(&self, what: &str, into: &str) {
        let text = std::fs::read_to_string(self.plugin_file()).expect("plugin.yaml is read");
        assert!(text.contains(what), "plugin.yaml has no {what}");
        let new = self.plugin_file().with_extension("new");
        std::fs::write(&new, text.replace(what, into)).expect("plugin.yaml is written");
        std::fs::rename(&new, self.plugin_file()).expect("plugin.yaml is replaced");
    }

    /// Returns the path of `plugin.yaml`.
    pub fn plugin_file(&self) -> PathBuf {
        self.folder.path().join("plugin.yaml")
    }
}

/// Returns the name of the plugin of [`Folder::of_attacker`], which is also that of its account; the numbers begin
/// with 1.
pub fn attacker(number: usize) -> String {
    if number == 1 { "hostile".to_owned() } else { format!("hostile-{number}") }
}

/// Returns files that must be refused as components, each with its description and the expected reason.
pub fn unusable(good: &[u8]) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("garbage", b"this is a text and no component".to_vec(), "NotAComponent"),
        ("an empty file", Vec::new(), "NotAComponent"),
        ("a core module", b"\0asm\x01\0\0\0".to_vec(), "NotAComponent"),
        ("the first half of a component", good[..good.len() / 2].to_vec(), "NotAComponent"),
        ("a component that wants WASI", wants_wasi(), "ForbiddenImport"),
    ]
}

/// Encodes `(component (import "wasi:cli/environment@0.2.0" (instance (export "get-environment" (func)))))`
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
