//! The files of a history and of its components: private to the host's user and written durably. Each component is
//! checked against its digest when it is read back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rollout::history::layout::{HISTORY_FILE, REVISIONS, component_path, read_entries};
use crate::rollout::history::{DiskSpace, Entry, History};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Size;
use hotshoe_platform::candidate::Candidate;
use hotshoe_platform::safe_file;

/// The name under which a history that cannot be read is put aside.
const UNREADABLE_FILE: &str = "history.json.unreadable";

impl History {
    /// Reads the history of a plugin below `base`. A history that cannot be read is logged and put aside, and a new one
    /// begins.
    pub fn open(base: Option<&Path>, plugin: &str, room: Arc<DiskSpace>) -> Self {
        let dir = base.map(|base| base.join(REVISIONS).join(plugin));
        let made = dir.as_deref().map(make_private_dirs);
        if let (Some(Err(error)), Some(dir)) = (&made, &dir) {
            tracing::warn!(directory = %dir.display(), %error, "earlier revisions are not kept: give a directory that the host can write");
            return Self { write_error: Some(described(dir, error)), ..Self::default() };
        }
        let entries = dir.as_deref().map(read).unwrap_or_default();
        Self { dir, room, entries, ..Self::default() }
    }

    /// Leaves all writing to another host, which has the same files.
    pub fn make_read_only(&mut self) {
        self.is_read_only = true;
    }

    /// Returns the directory to write to; none where nothing is kept, or another host writes.
    fn own_dir(&self) -> Option<&Path> {
        self.dir.as_deref().filter(|_| !self.is_read_only)
    }

    /// Returns which directory cannot be written, and why.
    pub fn failing(&self) -> Option<&str> {
        self.write_error.as_deref().or(self.keep_error.as_deref())
    }

    /// Keeps a component, and writes its file again where that was damaged or removed meanwhile.
    pub fn keep(&mut self, component: &Candidate) {
        let Some(dir) = self.own_dir() else { return };
        let digest = component.digest();
        if self.component(digest, Size(component.bytes().len() as u64)).is_some() {
            self.keep_error = None;
            return;
        }
        let path = component_path(dir, digest);
        let write = || safe_file::replace_durably(&path, safe_file::SHARED, &[component.bytes()]);
        let written = make_private_dirs(dir).and_then(|()| self.room.keep(&path, component.bytes().len(), write));
        if let Err(error) = &written {
            tracing::warn!(%digest, directory = %dir.display(), %error, "the component cannot be kept for a rollback");
        }
        self.keep_error = written.err().map(|error| described(dir, &error));
    }

    /// Returns whether a component has a file, which may be damaged.
    pub fn is_kept(&self, digest: Digest) -> bool {
        self.dir.as_deref().is_some_and(|dir| component_path(dir, digest).is_file())
    }

    /// Returns a component that was kept, if it is intact.
    pub fn component(&self, digest: Digest, most: Size) -> Option<Candidate> {
        let path = component_path(self.dir.as_deref()?, digest);
        let bytes = safe_file::read_whole(&path, most).ok()??;
        Some(Candidate::of(bytes)).filter(|kept| kept.digest() == digest)
    }

    /// Writes the entries, and removes components that need not be kept any more. A failure is logged and shown.
    pub(super) fn save(&mut self) {
        let Some(dir) = self.own_dir() else { return };
        let written = self.write(dir);
        if let Err(error) = &written {
            tracing::warn!(directory = %dir.display(), %error, "the history of revisions is not kept");
        }
        self.write_error = written.err().map(|error| described(dir, &error));
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let json = serde_json::to_vec_pretty(&self.entries)?;
        let write = || safe_file::replace_durably(&dir.join(HISTORY_FILE), safe_file::SHARED, &[&json]);
        make_private_dirs(dir)?;
        self.room.write(write)?;
        self.prune(dir);
        Ok(())
    }

    /// Removes components that need not be kept any more; none while an unreadable history is put aside, because that
    /// history may name them. A failure only costs space.
    fn prune(&self, dir: &Path) {
        if dir.join(UNREADABLE_FILE).exists() {
            return;
        }
        let kept: Vec<PathBuf> = self.kept_components().into_iter().map(|digest| component_path(dir, digest)).collect();
        let Ok(entries) = fs::read_dir(dir) else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "wasm") && !kept.contains(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Creates a plugin's directory and its parent, which all plugins share. Both are closed to other users: a user who may
/// write to the parent could replace the directory. Called before each write, because either may be removed at any
/// time.
fn make_private_dirs(dir: &Path) -> io::Result<()> {
    dir.parent().map_or(Ok(()), safe_file::make_private_dir)?;
    safe_file::make_private_dir(dir)
}

fn described(dir: &Path, error: &io::Error) -> String {
    format!("{}: {error}", dir.display())
}

fn read(dir: &Path) -> Vec<Entry> {
    let path = dir.join(HISTORY_FILE);
    match read_entries(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!(
                file = %path.display(), %error,
                "the history of revisions cannot be read and begins anew; it is put aside as {UNREADABLE_FILE}, \
                 and while that file exists, components are removed only to make room"
            );
            // If the file cannot be moved, the new history overwrites it.
            let _ = fs::rename(&path, dir.join(UNREADABLE_FILE));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::rollout::history::Activation;
    use crate::rollout::history::fixtures::{MAX_SIZE, activate, digest, open};
    use crate::test_disk::FOREIGN;

    #[test]
    fn activations_are_known_after_a_restart() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "a");
        activate(&mut history, "b");
        let again = open(base.path(), "memcached");
        assert_eq!(again.entries(), history.entries());
        assert_eq!(again.component(digest("a"), MAX_SIZE), Some(Candidate::of(b"a".to_vec())));
        assert_eq!(again.rollback_targets(Some(digest("b"))), [digest("a")]);
        assert!(open(base.path(), "other").entries().is_empty());
    }

    #[test]
    fn a_history_without_kinds_is_read() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("revisions/memcached");
        fs::create_dir_all(&dir).unwrap();
        let entry =
            serde_json::json!([{ "digest": digest("a").full(), "version": "1", "at": 1, "event": "Activated" }]);
        fs::write(dir.join(HISTORY_FILE), entry.to_string()).unwrap();
        let history = open(base.path(), "memcached");
        assert_eq!((history.current(), history.owned()), (Some(digest("a")), Vec::new()));
    }

    #[test]
    fn what_no_host_writes_is_left_out_of_a_history_that_is_read() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("revisions/memcached");
        fs::create_dir_all(&dir).unwrap();
        let entry = |of: &str, at: u64, event: &str| serde_json::json!({ "digest": digest(of).full(), "version": "1", "at": at, "event": event });
        let in_two_hours = hotshoe_cluster::time::unix_seconds() + 2 * 3600;
        let entries =
            [entry("a", 1, "Activated"), entry("b", in_two_hours, "Activated"), entry("unknown", 2, "Approved")];
        fs::write(dir.join(HISTORY_FILE), serde_json::json!(entries).to_string()).unwrap();
        let history = open(base.path(), "memcached");
        assert_eq!((history.current(), history.entries().len()), (Some(digest("a")), 1));
    }

    #[test]
    fn a_kept_component_that_was_changed_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "a");
        let path = component_path(history.dir.as_deref().unwrap(), digest("a"));
        fs::write(path, "other").unwrap();
        assert_eq!(history.component(digest("a"), MAX_SIZE), None);
    }

    #[test]
    fn a_kept_component_that_was_damaged_or_removed_is_written_again() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "a");
        let dir = history.dir.clone().unwrap();
        let path = component_path(&dir, digest("a"));
        let spoils: [&dyn Fn() -> io::Result<()>; 4] =
            [&|| fs::write(&path, ""), &|| fs::write(&path, "b"), &|| fs::remove_file(&path), &|| {
                fs::remove_dir_all(&dir)
            }];
        for spoil in spoils {
            spoil().unwrap();
            assert_eq!(history.component(digest("a"), MAX_SIZE), None);
            history.keep(&Candidate::of(b"a".to_vec()));
            assert!(history.component(digest("a"), MAX_SIZE).is_some());
        }
        fs::remove_dir_all(&dir).unwrap();
        history.require_approval(digest("b"), "2", "it would delete much", false);
        assert_eq!(open(base.path(), "memcached").entries(), history.entries());
    }

    #[test]
    fn a_foreign_file_in_place_of_ours_is_neither_read_nor_waited_for() {
        let base = tempfile::tempdir().unwrap();
        for (number, plant) in FOREIGN.iter().enumerate() {
            let mut history = open(base.path(), "memcached");
            activate(&mut history, "a");
            let dir = history.dir.clone().unwrap();
            for path in [dir.join(HISTORY_FILE), component_path(&dir, digest("a"))] {
                fs::remove_file(&path).unwrap();
                plant(&path);
            }
            let mut history = open(base.path(), "memcached");
            assert!(history.entries().is_empty(), "{number}");
            assert_eq!(history.component(digest("a"), MAX_SIZE), None, "{number}");
            activate(&mut history, "a");
            let again = open(base.path(), "memcached");
            assert_eq!((again.current(), again.is_kept(digest("a"))), (Some(digest("a")), true), "{number}");
            assert!(again.component(digest("a"), MAX_SIZE).is_some(), "{number}");
        }
    }

    #[test]
    fn a_history_that_others_could_write_is_closed_to_them() {
        let base = tempfile::tempdir().unwrap();
        let dirs = ["revisions", "revisions/memcached"].map(|dir| base.path().join(dir));
        fs::create_dir_all(&dirs[1]).unwrap();
        for dir in &dirs {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
        }
        assert_eq!(open(base.path(), "memcached").failing(), None);
        for dir in &dirs {
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{}", dir.display());
        }
    }

    #[test]
    fn a_history_of_another_user_is_neither_read_nor_written() {
        let theirs = tempfile::tempdir().unwrap();
        activate(&mut open(theirs.path(), "memcached"), "theirs");
        for link in ["revisions", "revisions/memcached"] {
            let base = tempfile::tempdir().unwrap();
            fs::create_dir_all(base.path().join(link).parent().unwrap()).unwrap();
            symlink(theirs.path().join(link), base.path().join(link)).unwrap();
            let mut history = open(base.path(), "memcached");
            assert_eq!(history.current(), None, "{link}");
            let why = history.failing().unwrap();
            assert!(why.contains(link) && why.contains("another user"), "{why}");
            activate(&mut history, "ours");
            assert!(!history.is_kept(digest("ours")));
        }
        assert_eq!(open(theirs.path(), "memcached").entries().len(), 1);
    }

    #[test]
    fn a_history_that_cannot_be_written_is_reported_until_it_can() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "a");
        assert_eq!((history.failing(), history.is_kept(digest("a"))), (None, true));
        // A file in the place of the directory cannot be written, by any account.
        let dir = history.dir.clone().unwrap();
        fs::remove_dir_all(&dir).unwrap();
        fs::write(&dir, "").unwrap();
        assert!(!history.is_kept(digest("a")));
        activate(&mut history, "b");
        assert!(history.failing().unwrap().contains("revisions/memcached: "), "{:?}", history.failing());
        assert!(open(base.path(), "memcached").failing().is_some());
        fs::remove_file(&dir).unwrap();
        history.require_approval(digest("b"), "1", "", false);
        assert!(history.failing().is_some(), "the component still is not kept");
        history.keep(&Candidate::of(b"b".to_vec()));
        assert_eq!((history.failing(), history.is_kept(digest("b"))), (None, true));
    }

    #[test]
    fn a_history_that_cannot_be_read_begins_anew() {
        let base = tempfile::tempdir().unwrap();
        for text in ["not json", "{}", "[{}]"] {
            let dir = base.path().join("revisions/memcached");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(HISTORY_FILE), text).unwrap();
            let mut history = open(base.path(), "memcached");
            assert!(history.entries().is_empty());
            activate(&mut history, "a");
            assert_eq!(open(base.path(), "memcached").entries().len(), 1);
        }
    }

    #[test]
    fn a_history_that_cannot_be_read_is_put_aside_and_the_components_that_it_named_stay() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "a");
        let dir = history.dir.clone().unwrap();
        fs::write(dir.join(HISTORY_FILE), "not json").unwrap();
        let mut history = open(base.path(), "memcached");
        activate(&mut history, "b");
        assert!(history.is_kept(digest("a")) && history.is_kept(digest("b")));
        assert_eq!(fs::read_to_string(dir.join(UNREADABLE_FILE)).unwrap(), "not json");
        fs::remove_file(dir.join(UNREADABLE_FILE)).unwrap();
        activate(&mut history, "c");
        assert!(!history.is_kept(digest("a")), "nothing names it any more");
    }

    #[test]
    fn finalizers_of_activated_components_are_known_after_a_restart() {
        let base = tempfile::tempdir().unwrap();
        let mut history = open(base.path(), "memcached");
        for (text, finalizer) in [("a", Some("example.com/a")), ("b", Some("example.com/b")), ("c", None)] {
            history.activate(
                digest(text),
                "1",
                Activation { finalizer: finalizer.map(str::to_owned), ..Activation::default() },
                "",
            );
        }
        let again = open(base.path(), "memcached");
        assert_eq!(again.finalizers(), ["example.com/a", "example.com/b"].map(str::to_owned).into());
        assert_eq!(again.current(), Some(digest("c")));
    }
}
