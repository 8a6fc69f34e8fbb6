//! Whether a plugin's component is older than its source, as after a build that failed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cli::project::{Folder, shown};
use crate::cli::terminal;

/// Extensions of files from which a component is made.
const SOURCES: [&str; 10] = ["rs", "toml", "py", "js", "mjs", "ts", "json", "wit", "go", "c"];
/// Folders without a part of the component: products, packages that are installed, and tests. Cases are read from their
/// files, not from the component.
const SKIPPED: [&str; 6] = ["target", "node_modules", "__pycache__", CASES, "tests", "test"];
const CASES: &str = "cases";
/// Ends of the names of folders that tools write.
const WRITTEN: &str = ".egg-info";
/// How many folders deep source is looked for.
const MAX_DEPTH: usize = 16;

/// Returns a source below a plugin's folder that was changed after its component was made; `None` if there is none.
pub(super) fn newer_than(component: &Path, folder: &Path) -> Option<PathBuf> {
    newest(folder, fs::metadata(component).ok()?.modified().ok()?, MAX_DEPTH)
}

/// Warns if the component of a plugin is older than its source: after a build that failed, what is found is about what was
/// built before.
pub(super) fn note_age(component: &Path, folder: &Folder) {
    if let Some(newer) = newer_than(component, &folder.dir) {
        terminal::note(format_args!(
            "warning: the component {} is older than its source {}, so this is about an earlier source; build it again: `{}`",
            shown(component).display(),
            shown(&newer).display(),
            folder.build_command()
        ));
    }
}

/// Returns whether a folder is apart from what a component is made of and tested with: hidden, written by tools, or with
/// tests that need no component.
pub(super) fn is_apart(name: &str) -> bool {
    name.starts_with('.') || name.ends_with(WRITTEN) || (SKIPPED.contains(&name) && name != CASES)
}

/// Returns the first source in the order of the paths, so that the same state always has the same answer.
fn newest(folder: &Path, than: SystemTime, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    entries.iter().find_map(|entry| {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            let is_source = !name.starts_with('.') && !SKIPPED.contains(&&*name) && depth > 0;
            return is_source.then(|| newest(&path, than, depth - 1)).flatten();
        }
        let extension = path.extension()?.to_str()?;
        let is_newer = kind.is_file() && SOURCES.contains(&extension) && entry.metadata().ok()?.modified().ok()? > than;
        is_newer.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_source_that_was_changed_after_the_component_was_made_is_named_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let component = folder.join("demo.wasm");
        let made = SystemTime::now();
        let put = |name: &str, seconds: i64| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            let past = made - Duration::from_secs(1000);
            let at = past + Duration::from_secs(u64::try_from(1000 + seconds).unwrap());
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        };
        put("demo.wasm", 0);
        put("src/lib.rs", -1);
        put("Cargo.toml", 0);
        for other in ["cases/a.json", "plugin.yaml", "README.md", "target/a.rs", "tests/a.rs", ".git/a.rs", "src/a.txt"]
        {
            put(other, 1);
        }
        assert_eq!(newer_than(&component, folder), None);
        put("src/deep/plugin.py", 1);
        assert_eq!(newer_than(&component, folder), Some(folder.join("src/deep/plugin.py")));
        put("Cargo.toml", 1);
        assert_eq!(newer_than(&component, folder), Some(folder.join("Cargo.toml")));
        put("demo.wasm", 2);
        assert_eq!(newer_than(&component, folder), None);
        assert_eq!(newer_than(&folder.join("missing.wasm"), folder), None);
    }
}
