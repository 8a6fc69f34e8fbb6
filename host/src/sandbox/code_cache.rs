//! Compiled components on disk.
//!
//! The host will run this native code, so it is trusted only if this host wrote it: a file carries a MAC over its name
//! and its content, by a key that only this user can read, and the verified bytes are the very bytes that are loaded.
//! A file that is corrupt, foreign, renamed or old is removed and compiled again.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::sandbox::safe_file;
use hotshoe_core::model::limits::Size;

/// Begins every file; its version is raised when the layout changes.
const MAGIC: &[u8; 8] = b"HOTSHOE1";
/// Length of magic and MAC, bytes.
const HEADER: usize = 8 + 32;
const KEY_FILE: &str = "key";
const EXTENSION: &str = "native";
/// How many files are kept, those that were used last: enough to roll back without compiling.
const KEEP: usize = 64;

/// A private directory of compiled components.
#[derive(Debug)]
pub(super) struct CodeCache {
    dir: PathBuf,
    key: [u8; 32],
}

impl CodeCache {
    /// Opens the cache below `base`, and creates what is missing. `base` itself may be shared, such as a mounted volume;
    /// the directory in it is ours alone.
    ///
    /// # Errors
    /// If it cannot be written or belongs to another user.
    pub(super) fn open(base: &Path) -> io::Result<Self> {
        let dir = base.join("compiled");
        safe_file::make_private_dir(&dir)?;
        let key = read_key(&dir).or_else(|_| make_key(&dir))?;
        Ok(Self { dir, key })
    }

    /// Returns its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the code of this name, if it is intact, our own and at most `most` bytes.
    pub(super) fn get(&self, name: &str, most: Size) -> Option<Vec<u8>> {
        let path = self.path(name);
        // Read once: what is verified cannot be replaced before it is loaded.
        let mut bytes = match safe_file::read_whole(&path, Size(most.0.saturating_add(HEADER as u64))) {
            Ok(Some(bytes)) if self.verify(name, &bytes).is_some() => bytes,
            // Larger than this plugin may have, but maybe not for another plugin of the same component.
            Ok(None) => return None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Ok(Some(_)) | Err(_) => {
                tracing::warn!(file = %path.display(), "compiled component is corrupt or foreign; compiling again");
                let _ = fs::remove_file(&path);
                return None;
            }
        };
        self.note_used(name);
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Marks a file as used now. A failure costs a compilation later.
    pub(super) fn note_used(&self, name: &str) {
        let _ = safe_file::open(&self.path(name)).and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Stores code under a name, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn put(&self, name: &str, code: &[u8]) -> io::Result<()> {
        self.restore()?;
        let mac = self.mac(name, code).finalize().into_bytes();
        let written = safe_file::replace(&self.path(name), safe_file::PRIVATE, &[MAGIC, &mac, code]);
        self.prune();
        written
    }

    /// Creates the directory and the key file again if they were deleted, so that what is stored from now on is valid
    /// after a restart, too.
    fn restore(&self) -> io::Result<()> {
        safe_file::make_private_dir(&self.dir)?;
        if self.dir.join(KEY_FILE).exists() { Ok(()) } else { plant_key(&self.dir, &self.key) }
    }

    /// Removes code that turned out to be unusable.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name).with_extension(EXTENSION)
    }

    fn verify(&self, name: &str, bytes: &[u8]) -> Option<()> {
        let (header, code) = bytes.split_at_checked(HEADER)?;
        let mac = header.strip_prefix(MAGIC)?;
        self.mac(name, code).verify_slice(mac).ok()
    }

    fn mac(&self, name: &str, code: &[u8]) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of 32 bytes");
        mac.update(name.as_bytes());
        mac.update(&[0]);
        mac.update(code);
        mac
    }

    /// Removes the files that were used least recently. A failure only costs space.
    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let mut files: Vec<_> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == EXTENSION))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort_unstable();
        for (_, path) in files.iter().rev().skip(KEEP) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Reads the key, unless other users could have read or planted it.
fn read_key(dir: &Path) -> io::Result<[u8; 32]> {
    let mut file = safe_file::open(&dir.join(KEY_FILE))?;
    let metadata = file.metadata()?;
    let private =
        metadata.len() == 32 && metadata.mode() & 0o077 == 0 && metadata.uid() == rustix::process::geteuid().as_raw();
    if !private {
        return Err(io::Error::other("the key is not private"));
    }
    let mut key = [0; 32];
    file.read_exact(&mut key)?;
    Ok(key)
}

/// Creates a key. If two hosts do so at once, both get the same one.
fn make_key(dir: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut key)?;
    plant_key(dir, &key)?;
    read_key(dir)
}

/// Writes the key file, unless there is a good one.
fn plant_key(dir: &Path, key: &[u8; 32]) -> io::Result<()> {
    let path = dir.join(KEY_FILE);
    if path.exists() && read_key(dir).is_err() {
        fs::remove_file(&path)?;
    }
    safe_file::create(&path, safe_file::PRIVATE, key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const MOST: Size = Size(1024);

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn what_was_put_is_got_by_its_name_only() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        cache.put("a", b"code").unwrap();
        assert_eq!(cache.get("a", MOST).as_deref(), Some(&b"code"[..]));
        assert_eq!(CodeCache::open(base.path()).unwrap().get("a", MOST).as_deref(), Some(&b"code"[..]));
        assert_eq!(cache.get("b", MOST), None);
        fs::rename(cache.path("a"), cache.path("b")).unwrap();
        assert_eq!(cache.get("b", MOST), None);
    }

    #[test]
    fn a_directory_that_is_gone_is_made_again_with_the_same_key() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        let key = cache.dir.join(KEY_FILE);
        let losses: [&dyn Fn() -> io::Result<()>; 2] = [&|| fs::remove_dir_all(&cache.dir), &|| fs::remove_file(&key)];
        for lose in losses {
            lose().unwrap();
            cache.put("a", b"code").unwrap();
            assert_eq!(cache.get("a", MOST).as_deref(), Some(&b"code"[..]));
            assert_eq!(CodeCache::open(base.path()).unwrap().get("a", MOST).as_deref(), Some(&b"code"[..]));
            assert_eq!((mode(&cache.dir), mode(&key)), (0o700, 0o600));
        }
    }

    #[test]
    fn directory_and_files_are_private() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        cache.put("a", b"code").unwrap();
        assert_eq!(mode(&cache.dir), 0o700);
        assert_eq!(mode(&cache.dir.join(KEY_FILE)), 0o600);
        assert_eq!(mode(&cache.path("a")), 0o600);
        fs::set_permissions(&cache.dir, fs::Permissions::from_mode(0o777)).unwrap();
        CodeCache::open(base.path()).unwrap();
        assert_eq!(mode(&cache.dir), 0o700);
    }

    #[test]
    fn changed_cut_and_foreign_files_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        cache.put("a", b"code").unwrap();
        let whole = fs::read(cache.path("a")).unwrap();
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(cache.path("a"), &bytes).unwrap();
            assert_eq!(cache.get("a", MOST), None, "byte {place}");
            fs::write(cache.path("a"), &whole[..place]).unwrap();
            assert_eq!(cache.get("a", MOST), None, "cut at {place}");
        }
        let other = tempfile::tempdir().unwrap();
        let foreign = CodeCache::open(other.path()).unwrap();
        foreign.put("a", b"code").unwrap();
        fs::copy(foreign.path("a"), cache.path("a")).unwrap();
        assert_eq!(cache.get("a", MOST), None);
        assert!(!cache.path("a").exists());
    }

    #[test]
    fn what_is_no_file_of_ours_is_neither_read_nor_waited_for() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        for (number, plant) in safe_file::tests::FOREIGN.iter().enumerate() {
            let _ = fs::remove_file(cache.path("a"));
            plant(&cache.path("a"));
            cache.note_used("a");
            assert_eq!(cache.get("a", MOST), None, "{number}");
            cache.put("a", b"code").unwrap();
            assert_eq!(cache.get("a", MOST).as_deref(), Some(&b"code"[..]), "{number}");
        }
    }

    #[test]
    fn code_that_is_too_large_for_one_plugin_stays_for_another() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        cache.put("a", b"code").unwrap();
        assert_eq!(cache.get("a", Size(3)), None);
        assert_eq!(cache.get("a", Size(4)).as_deref(), Some(&b"code"[..]));
    }

    #[test]
    fn a_key_that_is_no_file_of_ours_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let key = base.path().join("compiled").join(KEY_FILE);
        for (number, plant) in safe_file::tests::FOREIGN.iter().enumerate() {
            CodeCache::open(base.path()).unwrap().put("a", b"code").unwrap();
            fs::remove_file(&key).unwrap();
            plant(&key);
            let cache = CodeCache::open(base.path()).unwrap();
            assert_eq!(cache.get("a", MOST), None, "{number}");
            assert_eq!((mode(&key), fs::read(&key).unwrap().len()), (0o600, 32), "{number}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_replaced_leaves_nothing_behind() {
        let base = tempfile::tempdir().unwrap();
        let compiled = base.path().join("compiled");
        drop(CodeCache::open(base.path()).unwrap());
        fs::remove_file(compiled.join(KEY_FILE)).unwrap();
        fs::create_dir_all(compiled.join(KEY_FILE).join("x")).unwrap();
        assert!(CodeCache::open(base.path()).is_err());
        let names = fs::read_dir(&compiled).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [KEY_FILE]);
    }

    #[test]
    fn a_key_that_others_could_read_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        cache.put("a", b"code").unwrap();
        fs::set_permissions(cache.dir.join(KEY_FILE), fs::Permissions::from_mode(0o644)).unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        assert_eq!(cache.get("a", MOST), None);
        assert_eq!(mode(&cache.dir.join(KEY_FILE)), 0o600);
    }

    #[test]
    fn a_symlink_in_place_of_the_directory_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), base.path().join("compiled")).unwrap();
        assert!(CodeCache::open(base.path()).is_err());
    }

    #[test]
    fn what_is_used_is_kept_before_what_was_put_after_it() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        for n in 0..KEEP {
            cache.put(&format!("n{n}"), b"code").unwrap();
            let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n as u64);
            File::open(cache.path(&format!("n{n}"))).unwrap().set_modified(long_ago).unwrap();
        }
        assert!(cache.get("n0", MOST).is_some());
        cache.note_used("n1");
        cache.put("new", b"code").unwrap();
        assert_eq!(["n0", "n1", "n2", "n3"].map(|name| cache.path(name).exists()), [true, true, false, true]);
    }

    #[test]
    fn only_the_newest_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path()).unwrap();
        for n in 0..KEEP + 5 {
            cache.put(&format!("n{n}"), b"code").unwrap();
        }
        let left =
            fs::read_dir(&cache.dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().extension().is_some());
        assert_eq!(left.count(), KEEP);
    }
}
