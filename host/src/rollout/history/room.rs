//! The disk space that the kept components of all plugins share.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::rollout::history::{History, disk};
use crate::sandbox::code_cache::CodeCache;
use crate::sandbox::volume;
use hotshoe_core::flow::disk_share::{Share, Stored, make_room};
use hotshoe_core::model::limits::{CACHE_BYTES, Size};

/// The disk space for kept components. Where the volume is full, compiled code is removed before a history is lost.
#[derive(Debug)]
pub struct Room {
    /// The maximum size of the whole cache directory.
    cache_bytes: Size,
    code: Option<Arc<CodeCache>>,
    /// Held while components are evicted and the freed space is used.
    eviction_lock: Mutex<()>,
}

impl Default for Room {
    fn default() -> Self {
        Self::new(CACHE_BYTES, None)
    }
}

impl Room {
    /// Creates the disk space in a cache directory of at most `cache_bytes`, compiled code included.
    pub fn new(cache_bytes: Size, code: Option<Arc<CodeCache>>) -> Self {
        Self { cache_bytes, code, eviction_lock: Mutex::default() }
    }

    /// Writes a component to `dir`, the directory of its plugin, after older components of all plugins were evicted for
    /// it. Components that can be rolled back to are not evicted, and the component is written even if it has too
    /// little space.
    ///
    /// # Errors
    /// If the component cannot be written.
    pub(super) fn keep(&self, dir: &Path, length: usize, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let _locked = self.eviction_lock.lock();
        if let Some(all) = dir.parent() {
            self.evict_for(all, length as u64);
        }
        self.write(write)
    }

    /// Calls `write`. Where the volume is full, removes compiled code, which can be compiled again, and calls `write`
    /// once more.
    ///
    /// # Errors
    /// If the second attempt fails, too.
    pub(super) fn write(&self, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        match (write(), &self.code) {
            (Err(error), Some(code)) if volume::is_full(&error) => {
                tracing::warn!(%error, "the volume of the cache is full, so compiled code is removed for the history; give the host a larger one, or less --cache-bytes");
                code.clear();
                write()
            }
            (written, _) => written,
        }
    }

    fn evict_for(&self, all: &Path, length: u64) {
        let plugins = fs::read_dir(all).into_iter().flatten().filter_map(Result::ok);
        let stored: Vec<_> = plugins.flat_map(|plugin| components(&plugin.path())).collect();
        let held = stored.iter().map(|stored| stored.bytes).sum();
        let bound = Share::Components.bound(self.cache_bytes, volume::of(all), held);
        for path in make_room(stored, volume::on_disk(length), bound).files {
            tracing::debug!(file = %path.display(), "a component is not kept any longer: there is no room");
            // A failure only costs space.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns the files in a plugin's directory, without its history. The component that was active last and the best one
/// before it are marked as needed.
fn components(dir: &Path) -> Vec<Stored<PathBuf, SystemTime>> {
    let history = History { entries: disk::read_entries(dir).unwrap_or_default(), ..History::default() };
    let current = history.current();
    let needed: Vec<PathBuf> = current
        .into_iter()
        .chain(history.rollback_targets(current).into_iter().take(1))
        .map(|digest| disk::component_path(dir, digest))
        .collect();
    let mut stored = volume::files(dir);
    stored.retain(|stored| stored.file.extension().is_none_or(|extension| extension == "wasm"));
    stored.iter_mut().for_each(|stored| stored.is_needed = needed.contains(&stored.file));
    stored
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;
    use crate::rollout::history::Event;
    use crate::rollout::history::fixtures::digest;
    use crate::sandbox::candidate::Candidate;
    use crate::sandbox::compile::Compiler;
    use crate::sandbox::volume::tests::Tmpfs;

    const BLOCK: usize = 4096;

    /// A component that takes one block on the disk.
    fn component(text: &str) -> Candidate {
        Candidate::of(text.repeat(BLOCK / text.len()).into_bytes())
    }

    /// Keeps and activates such a component, so many seconds after the epoch.
    fn activate(history: &mut History, text: &str, number: u64) {
        let kept = component(text);
        history.keep(&kept);
        history.note(kept.digest(), "1", Event::Activated, "");
        let path = disk::component_path(history.dir.as_deref().unwrap(), kept.digest());
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        let _ = File::open(path).and_then(|file| file.set_modified(then));
    }

    fn kept(history: &History, texts: &[&str]) -> Vec<bool> {
        texts.iter().map(|text| history.is_kept(component(text).digest())).collect()
    }

    #[test]
    fn the_oldest_components_of_all_plugins_go_and_what_can_be_rolled_back_to_stays() {
        let base = tempfile::tempdir().unwrap();
        let room = Arc::new(Room::new(Size(3 * 4 * BLOCK as u64), None));
        let [mut quiet, mut busy] = ["quiet", "busy"].map(|name| History::open(Some(base.path()), name, room.clone()));
        for (number, text) in ["q0", "q1"].into_iter().enumerate() {
            activate(&mut quiet, text, number as u64);
        }
        for (number, text) in ["b0", "b1", "b2", "b3"].into_iter().enumerate() {
            activate(&mut busy, text, 10 + number as u64);
        }
        assert_eq!(kept(&quiet, &["q0", "q1"]), [true, true], "it is active, and the one before it");
        assert_eq!(kept(&busy, &["b0", "b1", "b2", "b3"]), [false, true, true, true]);
        activate(&mut quiet, "q2", 20);
        activate(&mut quiet, "q3", 21);
        assert_eq!(kept(&quiet, &["q0", "q1", "q2", "q3"]), [false, true, true, true]);
        assert_eq!(kept(&busy, &["b1", "b2", "b3"]), [false, true, true]);
    }

    #[test]
    fn components_are_kept_for_a_rollback_however_small_the_cache_is() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "a", Arc::new(Room::new(Size(0), None)));
        for (number, text) in ["a0", "a1", "a2"].into_iter().enumerate() {
            activate(&mut history, text, number as u64);
        }
        assert_eq!(history.failing(), None);
        assert_eq!(kept(&history, &["a1", "a2"]), [true, true]);
    }

    #[test]
    fn on_a_full_volume_compiled_code_makes_way_for_the_record_of_a_rollback() {
        let Some(tmpfs) = Tmpfs::mount(4) else { return };
        let code = Compiler::new("/bin/false".into(), Some(tmpfs.path()), CACHE_BYTES).cache();
        fs::write(tmpfs.path().join("compiled/some.native"), [1; 4 * BLOCK]).unwrap();
        let room = Arc::new(Room::new(CACHE_BYTES, code));
        let mut history = History::open(Some(tmpfs.path()), "a", room.clone());
        tmpfs.fill(0);
        history.note(digest("bad"), "1", Event::RolledBack, "it traps");
        assert_eq!(history.failing(), None);
        assert!(!tmpfs.path().join("compiled/some.native").exists());
        let again = History::open(Some(tmpfs.path()), "a", room);
        assert!(again.rolled_back(digest("bad")).is_some());
    }

    #[test]
    fn a_volume_that_stays_full_is_reported_and_earlier_entries_are_still_there() {
        let Some(tmpfs) = Tmpfs::mount(4) else { return };
        let mut history = History::open(Some(tmpfs.path()), "a", Arc::default());
        history.note(digest("bad"), "1", Event::RolledBack, "it traps");
        tmpfs.fill(0);
        history.keep(&component("large"));
        assert!(history.failing().unwrap().contains("No space left"), "{:?}", history.failing());
        history.note(digest("worse"), "1", Event::RolledBack, "it traps");
        assert!(history.failing().unwrap().contains("No space left"), "{:?}", history.failing());
        let again = History::open(Some(tmpfs.path()), "a", Arc::default());
        assert!(again.rolled_back(digest("bad")).is_some());
        assert_eq!(again.entries().len(), 1);
    }
}
