//! The disk space that the components of all plugins share: those that are kept for a rollback, and those that were
//! fetched and may be activated.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::rollout::history::layout::{FETCHED, REVISIONS, component_path, read_entries};
use hotshoe_core::flow::disk_share::{Share, Stored, make_room};
use hotshoe_core::model::limits::{CACHE_BYTES, Size};
use hotshoe_core::plugin::past::{current, rollback_targets};
use hotshoe_platform::volume;
use hotshoe_sandbox::code_cache::CodeCache;

/// The disk space for components. Where the volume is full, compiled code is removed before a history is lost.
#[derive(Debug)]
pub struct DiskSpace {
    /// The maximum size of the whole cache directory.
    cache_bytes: Size,
    code: Option<Arc<CodeCache>>,
    /// Held while components are evicted and the freed space is used.
    eviction_lock: Mutex<()>,
}

impl Default for DiskSpace {
    fn default() -> Self {
        Self::new(CACHE_BYTES, None)
    }
}

impl DiskSpace {
    /// Creates the disk space in a cache directory of at most `cache_bytes`, compiled code included.
    pub fn new(cache_bytes: Size, code: Option<Arc<CodeCache>>) -> Self {
        Self { cache_bytes, code, eviction_lock: Mutex::default() }
    }

    /// Writes a component to `path`, in the directory of its plugin, after older components of all plugins were evicted
    /// for it. Components that are fetched, active or can be rolled back to are not evicted.
    ///
    /// # Errors
    /// If the component cannot be written, or does not fit beside those.
    pub(super) fn keep(&self, path: &Path, length: usize, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let _locked = self.eviction_lock.lock();
        if let Some(base) = path.ancestors().nth(3) {
            self.make_room(base, path, length as u64, |stored| stored == path)?;
        }
        self.write(write)
    }

    /// Writes a fetched component to `path`, after older components of all plugins were evicted for it. `is_replaced`
    /// says which files of the folder are removed then.
    ///
    /// # Errors
    /// If the component cannot be written, or does not fit beside those that are not evicted.
    pub(in crate::rollout) fn fetch(
        &self,
        path: &Path,
        length: usize,
        is_replaced: impl Fn(&Path) -> bool,
        write: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let _locked = self.eviction_lock.lock();
        if let Some(base) = path.ancestors().nth(2) {
            let is_fetched = |stored: &Path| stored.parent() == path.parent();
            self.make_room(base, path, length as u64, |stored| is_fetched(stored) && is_replaced(stored))?;
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
                tracing::warn!(%error, "the volume of the cache is full, so compiled code is removed for the \
                                        history; give the host a larger one, or less --cache-bytes");
                code.clear();
                write()
            }
            (written, _) => written,
        }
    }

    /// Evicts older components below `base`, to make room for one of `length` bytes at `path`. The files that it
    /// replaces are left out.
    fn make_room(&self, base: &Path, path: &Path, length: u64, is_replaced: impl Fn(&Path) -> bool) -> io::Result<()> {
        let (mut stored, volume, more) = (all_components(base, path), volume::of(base), volume::on_disk(length));
        let held = stored.iter().map(|stored| stored.bytes).sum();
        stored.retain(|stored| !is_replaced(&stored.file));
        if !Share::Components.fits(self.cache_bytes, volume, &stored, more) {
            return Err(io::Error::other(format!(
                "the components that were fetched, are active or may be rolled back to leave no room for {length} \
                 bytes in their third of --cache-bytes; raise that, or remove plugins"
            )));
        }
        for path in make_room(stored, more, Share::Components.bound(self.cache_bytes, volume, held)).files {
            tracing::debug!(file = %path.display(), "a component is not kept any longer: there is no room");
            // A failure only costs space.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }
}

/// Returns the components of all plugins below `base`, before one is written to `new`.
fn all_components(base: &Path, new: &Path) -> Vec<Stored<PathBuf, SystemTime>> {
    let mut all = volume::files(&base.join(FETCHED));
    // The rollouts follow these files, and have no others while a source cannot be reached.
    all.iter_mut().for_each(|fetched| fetched.is_needed = true);
    let plugins = fs::read_dir(base.join(REVISIONS)).into_iter().flatten().filter_map(Result::ok);
    all.extend(plugins.flat_map(|plugin| components(&plugin.path(), new)));
    all
}

/// Returns the files in a plugin's directory, without its history. The component that was active last and the best one
/// before it are marked as needed; only one of them if a `new` one of the plugin is about to be active.
fn components(dir: &Path, new: &Path) -> Vec<Stored<PathBuf, SystemTime>> {
    let entries = read_entries(dir).unwrap_or_default();
    let current = current(&entries);
    let last = current.into_iter().chain(rollback_targets(&entries, current).into_iter().take(1));
    let last = last.map(|digest| component_path(dir, digest)).filter(|path| path != new);
    let needed: Vec<PathBuf> = last.take(if new.parent() == Some(dir) { 1 } else { 2 }).collect();
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
    use crate::rollout::history::fixtures::digest;
    use crate::rollout::history::{Event, History};
    use crate::test_disk::Tmpfs;
    use hotshoe_platform::candidate::Candidate;
    use hotshoe_sandbox::compile::Compiler;

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
        let path = component_path(history.dir.as_deref().unwrap(), kept.digest());
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        let _ = File::open(path).and_then(|file| file.set_modified(then));
    }

    fn kept(history: &History, texts: &[&str]) -> Vec<bool> {
        texts.iter().map(|text| history.is_kept(component(text).digest())).collect()
    }

    #[test]
    fn the_oldest_components_of_all_plugins_go_and_what_can_be_rolled_back_to_stays() {
        let base = tempfile::tempdir().unwrap();
        let room = Arc::new(DiskSpace::new(Size(3 * 4 * BLOCK as u64), None));
        let [mut quiet, mut busy] = ["quiet", "busy"].map(|name| History::open(Some(base.path()), name, room.clone()));
        for (number, text) in ["q0", "q1"].into_iter().enumerate() {
            activate(&mut quiet, text, number as u64);
        }
        for (number, text) in ["b0", "b1", "b2", "b3"].into_iter().enumerate() {
            activate(&mut busy, text, 10 + number as u64);
        }
        assert_eq!(kept(&quiet, &["q0", "q1"]), [true, true], "it is active, and the one before it");
        assert_eq!(kept(&busy, &["b0", "b1", "b2", "b3"]), [false, false, true, true]);
        activate(&mut quiet, "q2", 20);
        activate(&mut quiet, "q3", 21);
        assert_eq!(kept(&quiet, &["q0", "q1", "q2", "q3"]), [false, false, true, true]);
        assert_eq!(kept(&busy, &["b2", "b3"]), [true, true]);
    }

    #[test]
    fn a_component_that_does_not_fit_beside_what_is_needed_is_not_kept_and_the_reason_is_shown() {
        let base = tempfile::tempdir().unwrap();
        let room = Arc::new(DiskSpace::new(Size(3 * 3 * BLOCK as u64), None));
        let [mut first, mut late] = ["first", "late"].map(|name| History::open(Some(base.path()), name, room.clone()));
        ["f0", "f1"].iter().for_each(|text| activate(&mut first, text, 0));
        ["l0", "l1"].iter().for_each(|text| activate(&mut late, text, 1));
        assert_eq!((kept(&first, &["f0", "f1"]), kept(&late, &["l0", "l1"])), (vec![true; 2], vec![true, false]));
        let why = late.failing().unwrap();
        assert!(why.contains("no room for 4096 bytes") && why.contains("--cache-bytes"), "{why}");
        fs::remove_file(component_path(first.dir.as_deref().unwrap(), component("f0").digest())).unwrap();
        late.keep(&component("l1"));
        assert_eq!((late.failing(), kept(&late, &["l0", "l1"])), (None, vec![true, true]));
    }

    #[test]
    fn fetched_components_take_room_from_kept_ones_and_are_refused_where_there_is_none() {
        let base = tempfile::tempdir().unwrap();
        let room = Arc::new(DiskSpace::new(Size(3 * 4 * BLOCK as u64), None));
        let mut history = History::open(Some(base.path()), "a", room.clone());
        for (number, text) in ["a0", "a1", "a2", "a3"].into_iter().enumerate() {
            activate(&mut history, text, number as u64);
        }
        let fetched = base.path().join(FETCHED);
        fs::create_dir(&fetched).unwrap();
        let fetch = |name: &str| {
            let path = fetched.join(name);
            let is_own = |other: &Path| other == path;
            room.fetch(&path, BLOCK, is_own, || fs::write(&path, [0; BLOCK]))
        };
        fetch("a").unwrap();
        fetch("b").unwrap();
        assert_eq!(kept(&history, &["a0", "a1", "a2", "a3"]), [false, false, true, true]);
        let refused = fetch("c").unwrap_err().to_string();
        assert!(refused.contains("no room") && !fetched.join("c").exists(), "{refused}");
        fetch("a").unwrap();
    }

    #[test]
    fn on_a_full_volume_compiled_code_makes_way_for_the_record_of_a_rollback() {
        let Some(tmpfs) = Tmpfs::mount(4) else { return };
        let code = Compiler::new("/bin/false".into(), Some(tmpfs.path()), CACHE_BYTES).cache();
        fs::write(tmpfs.path().join("compiled/some.native"), [1; 4 * BLOCK]).unwrap();
        let room = Arc::new(DiskSpace::new(CACHE_BYTES, code));
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
