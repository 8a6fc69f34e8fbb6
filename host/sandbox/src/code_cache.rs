//! The cache of compiled components, on disk.
//!
//! The host executes this native code, so a file is trusted only if this host wrote it. Each file ends with a MAC over
//! its name and its content, by a key that only the host's user can read, and the same open file is verified and
//! loaded. A file that is corrupt, foreign, renamed or old is removed, and its component is compiled again.
//!
//! ```text
//! BASE/compiled/NAME.native    code of revisions that were loaded to be active
//! BASE/compiled/NAME.tried     code that was compiled for a trial only
//! ```
//!
//! A file is mapped into the process, so that code which does not run takes no memory. A file is never written in
//! place, and a removed file stays mapped. A process that could write to a mapped file could also read the key beside
//! it, and sign.
//!
//! Each kind of file has a [share](hotshoe_core::flow::disk_share) of the directory's bytes. The file of an active
//! revision is never evicted, because the next start would need the compiler then. Code that does not fit beside those
//! files is not stored.

use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use digest_io::IoWrapper;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::Sha256;

use hotshoe_core::flow::disk_share::{Share, Stored, make_room};
use hotshoe_core::model::limits::Size;
use hotshoe_platform::safe_file;
use hotshoe_platform::volume;

/// The magic bytes after the code in every file. They come last because the code must begin on a page to be mapped. The
/// number is raised when the layout changes.
const MAGIC: &[u8; 8] = b"HOTSHOE2";
/// The length of the magic bytes and the MAC.
const TRAILER_BYTES: usize = 8 + 32;
const KEY_FILE: &str = "key";

/// Why a component is loaded, which decides how long its code is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The component is to be activated, if nothing is wrong with it.
    Activation,
    /// The component is only tried, as in a shadow run or by its author.
    Trial,
}

impl Purpose {
    const ALL: [Self; 2] = [Self::Activation, Self::Trial];

    fn extension(self) -> &'static str {
        match self {
            Self::Activation => "native",
            Self::Trial => "tried",
        }
    }

    fn share(self) -> Share {
        match self {
            Self::Activation => Share::ActiveCode,
            Self::Trial => Share::TriedCode,
        }
    }
}

/// A private directory of compiled components.
#[derive(Debug)]
pub struct CodeCache {
    dir: PathBuf,
    key: [u8; 32],
    /// The maximum size of the whole cache directory, of which this directory is a part.
    cache_bytes: Size,
    /// The names of the code of revisions that are active or were loaded to be, for as long as these revisions live.
    in_use: Mutex<Vec<Weak<str>>>,
    /// Held while files are evicted and the freed space is used.
    eviction_lock: Mutex<()>,
}

impl CodeCache {
    /// Opens the cache below `base`, a cache directory of at most `cache_bytes` in all, and creates what is missing.
    /// `base` itself may be shared, such as a mounted volume; the directory in it belongs to the host's user alone.
    ///
    /// # Errors
    /// If the directory cannot be written or belongs to another user.
    pub(crate) fn open(base: &Path, cache_bytes: Size) -> io::Result<Self> {
        let dir = base.join("compiled");
        safe_file::make_private_dir(&dir)?;
        let key = read_key(&dir).or_else(|_| make_key(&dir))?;
        Ok(Self { dir, key, cache_bytes, in_use: Mutex::default(), eviction_lock: Mutex::default() })
    }

    /// Returns the directory of the cache.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps the code with this name until `name` is dropped.
    pub(super) fn pin(&self, name: &Arc<str>) {
        let mut in_use = self.in_use.lock();
        in_use.retain(|name| name.strong_count() > 0);
        in_use.push(Arc::downgrade(name));
    }

    /// Returns the code with this name, if it is intact, written by this host and at most `most` bytes long.
    pub(super) fn get(&self, name: &str, most: Size, purpose: Purpose) -> Option<VerifiedCode> {
        Purpose::ALL.into_iter().find_map(|kept| self.get_from(kept, name, most, purpose))
    }

    fn get_from(&self, kept: Purpose, name: &str, most: Size, purpose: Purpose) -> Option<VerifiedCode> {
        let path = self.path(name, kept);
        let most = Size(most.0.saturating_add(TRAILER_BYTES as u64));
        let code = match safe_file::open(&path).and_then(|file| self.verify(name, file, most)) {
            Ok(CachedFile::Intact(code)) => code,
            // Not removed: another plugin with the same component may have a higher limit.
            Ok(CachedFile::TooLarge) => return None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Ok(CachedFile::Foreign) | Err(_) => {
                tracing::warn!(file = %path.display(), "compiled component is corrupt or foreign; compiling again");
                let _ = fs::remove_file(&path);
                return None;
            }
        };
        self.note_used(&code.file, &path, name, (kept, purpose), code.length + TRAILER_BYTES as u64);
        Some(code)
    }

    /// Marks a file as used now. Moves code that was only tried so far to the code of active revisions, if it is to be
    /// active now. A failure costs a compilation later.
    fn note_used(&self, file: &File, path: &Path, name: &str, (kept, purpose): (Purpose, Purpose), length: u64) {
        let _ = file.set_modified(SystemTime::now());
        if (kept, purpose) == (Purpose::Trial, Purpose::Activation) {
            let _locked = self.eviction_lock.lock();
            let new = self.path(name, purpose);
            if self.fits(purpose, &new, length) {
                self.make_room(purpose, length);
                let _ = fs::rename(path, new);
            }
        }
    }

    /// Stores code under a name, as a whole or not at all. Code that is only tried is not stored if there is no space.
    ///
    /// # Errors
    /// If the file cannot be written, or does not fit into its share beside the code of active revisions.
    pub(super) fn put(&self, name: &str, code: &[u8], purpose: Purpose) -> io::Result<()> {
        let _locked = self.eviction_lock.lock();
        self.restore()?;
        let (path, length) = (self.path(name, purpose), (TRAILER_BYTES + code.len()) as u64);
        if purpose == Purpose::Activation && !self.fits(purpose, &path, length) {
            return Err(io::Error::other(format!(
                "the code of active revisions leaves no room for {length} bytes in its half of --cache-bytes"
            )));
        }
        if !self.make_room(purpose, length) && purpose == Purpose::Trial {
            return Ok(());
        }
        let mut mac = self.mac(name);
        mac.update(code);
        let mac = mac.finalize().into_bytes();
        let write = || safe_file::replace(&path, safe_file::PRIVATE, &[code, MAGIC, &mac]);
        match write() {
            Err(error) if volume::is_full(&error) && purpose == Purpose::Activation => {
                remove(self.stored(Purpose::Trial));
                write()
            }
            written => written,
        }
    }

    /// Returns whether `length` bytes at this path fit into the share beside the code of active revisions.
    fn fits(&self, purpose: Purpose, path: &Path, length: u64) -> bool {
        let mut others = self.stored(purpose);
        others.retain(|stored| stored.file != path);
        purpose.share().fits(self.cache_bytes, volume::of(&self.dir), &others, volume::on_disk(length))
    }

    /// Evicts the code that was used least recently, so that `length` more bytes fit into the share. Returns whether
    /// they fit. For code that is only tried, nothing is evicted if it would not fit even then.
    fn make_room(&self, purpose: Purpose, length: u64) -> bool {
        let stored = self.stored(purpose);
        let held = stored.iter().map(|stored| stored.bytes).sum();
        let bound = purpose.share().bound(self.cache_bytes, volume::of(&self.dir), held);
        let eviction = make_room(stored, volume::on_disk(length), bound);
        if eviction.suffices || purpose == Purpose::Activation {
            eviction.files.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        eviction.suffices
    }

    /// Returns the files of a kind. Files that another process left half written count as code that was tried.
    fn stored(&self, purpose: Purpose) -> Vec<Stored<PathBuf, SystemTime>> {
        let in_use: Vec<PathBuf> =
            self.in_use.lock().iter().filter_map(Weak::upgrade).map(|name| self.path(&name, purpose)).collect();
        let is_active = |path: &Path| path.extension().is_some_and(|is| is == Purpose::Activation.extension());
        let mut files = volume::files(&self.dir);
        files.retain(|stored| !stored.file.ends_with(KEY_FILE));
        files.retain(|stored| is_active(&stored.file) == (purpose == Purpose::Activation));
        files.iter_mut().for_each(|stored| stored.is_needed = in_use.contains(&stored.file));
        files
    }

    /// Removes all code, to make space for data that cannot be made again. Code can be compiled again.
    pub fn clear(&self) {
        let _locked = self.eviction_lock.lock();
        Purpose::ALL.into_iter().for_each(|purpose| remove(self.stored(purpose)));
    }

    /// Creates the directory and the key file again if they were deleted, so that code that is stored from now on is
    /// valid after a restart, too.
    fn restore(&self) -> io::Result<()> {
        safe_file::make_private_dir(&self.dir)?;
        if self.dir.join(KEY_FILE).exists() { Ok(()) } else { plant_key(&self.dir, &self.key) }
    }

    /// Removes code that turned out to be unusable.
    pub(super) fn remove(&self, name: &str) {
        Purpose::ALL.into_iter().for_each(|purpose| drop(fs::remove_file(self.path(name, purpose))));
    }

    fn path(&self, name: &str, purpose: Purpose) -> PathBuf {
        self.dir.join(name).with_extension(purpose.extension())
    }

    /// Reads the whole file once and checks its trailer.
    fn verify(&self, name: &str, file: File, most: Size) -> io::Result<CachedFile> {
        let size = file.metadata()?.len();
        if size > most.0 {
            return Ok(CachedFile::TooLarge);
        }
        let Some(length) = size.checked_sub(TRAILER_BYTES as u64) else { return Ok(CachedFile::Foreign) };
        let mut mac = IoWrapper(self.mac(name));
        let read = io::copy(&mut (&file).take(length), &mut mac)?;
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        (&file).take(TRAILER_BYTES as u64 + 1).read_to_end(&mut trailer)?;
        let is_own = trailer.strip_prefix(MAGIC).is_some_and(|is| mac.0.verify_slice(is).is_ok());
        Ok(if read == length && is_own {
            CachedFile::Intact(VerifiedCode { file, length })
        } else {
            CachedFile::Foreign
        })
    }

    /// Begins the MAC of the code with this name.
    fn mac(&self, name: &str) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of 32 bytes");
        mac.update(name.as_bytes());
        mac.update(&[0]);
        mac
    }
}

/// A file of verified code, which has been open since before it was verified.
#[derive(Debug)]
pub(super) struct VerifiedCode {
    file: File,
    /// The number of bytes of code, which the trailer follows.
    length: u64,
}

impl VerifiedCode {
    /// Returns a path to this very file, even if the path by which it was opened leads to another file by now. The path
    /// does not exist on systems without `/proc`.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Reads the code.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        (&self.file).rewind()?;
        safe_file::read_up_to(&self.file, Size(self.length))
    }
}

enum CachedFile {
    Intact(VerifiedCode),
    TooLarge,
    /// Neither whole nor written by this host under this name.
    Foreign,
}

fn remove(stored: Vec<Stored<PathBuf, SystemTime>>) {
    stored.iter().for_each(|stored| drop(fs::remove_file(&stored.file)));
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

/// Creates a key. If two hosts do so at the same time, both get the same key.
fn make_key(dir: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("the system has no random numbers"))?;
    plant_key(dir, &key)?;
    read_key(dir)
}

/// Writes the key file, unless there is a valid one.
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
    use crate::test_disk::{FOREIGN, Tmpfs};
    use hotshoe_core::model::limits::CACHE_BYTES;

    const MAX_SIZE: Size = Size(1024);
    const ACTIVATION: Purpose = Purpose::Activation;
    const TRIAL: Purpose = Purpose::Trial;

    fn open(base: &Path) -> io::Result<CodeCache> {
        CodeCache::open(base, CACHE_BYTES)
    }

    fn read(cache: &CodeCache, name: &str, most: Size, purpose: Purpose) -> Option<Vec<u8>> {
        cache.get(name, most, purpose).map(|code| code.read().unwrap())
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn code_is_returned_under_its_own_name_only() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        cache.put("a", b"code", ACTIVATION).unwrap();
        assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION).as_deref(), Some(&b"code"[..]));
        assert_eq!(read(&open(base.path()).unwrap(), "a", MAX_SIZE, ACTIVATION).as_deref(), Some(&b"code"[..]));
        assert_eq!(read(&cache, "b", MAX_SIZE, ACTIVATION), None);
        fs::rename(cache.path("a", ACTIVATION), cache.path("b", ACTIVATION)).unwrap();
        assert_eq!(read(&cache, "b", MAX_SIZE, ACTIVATION), None);
    }

    #[test]
    fn a_directory_that_is_gone_is_made_again_with_the_same_key() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        let key = cache.dir.join(KEY_FILE);
        let losses: [&dyn Fn() -> io::Result<()>; 2] = [&|| fs::remove_dir_all(&cache.dir), &|| fs::remove_file(&key)];
        for lose in losses {
            lose().unwrap();
            cache.put("a", b"code", ACTIVATION).unwrap();
            assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION).as_deref(), Some(&b"code"[..]));
            assert_eq!(read(&open(base.path()).unwrap(), "a", MAX_SIZE, ACTIVATION).as_deref(), Some(&b"code"[..]));
            assert_eq!((mode(&cache.dir), mode(&key)), (0o700, 0o600));
        }
    }

    #[test]
    fn directory_and_files_are_private() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        cache.put("a", b"code", ACTIVATION).unwrap();
        assert_eq!(mode(&cache.dir), 0o700);
        assert_eq!(mode(&cache.dir.join(KEY_FILE)), 0o600);
        assert_eq!(mode(&cache.path("a", ACTIVATION)), 0o600);
        fs::set_permissions(&cache.dir, fs::Permissions::from_mode(0o777)).unwrap();
        open(base.path()).unwrap();
        assert_eq!(mode(&cache.dir), 0o700);
    }

    #[test]
    fn changed_cut_and_foreign_files_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        cache.put("a", b"code", ACTIVATION).unwrap();
        let whole = fs::read(cache.path("a", ACTIVATION)).unwrap();
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            fs::write(cache.path("a", ACTIVATION), &bytes).unwrap();
            assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION), None, "byte {place}");
            fs::write(cache.path("a", ACTIVATION), &whole[..place]).unwrap();
            assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION), None, "cut at {place}");
        }
        let other = tempfile::tempdir().unwrap();
        let foreign = open(other.path()).unwrap();
        foreign.put("a", b"code", ACTIVATION).unwrap();
        fs::copy(foreign.path("a", ACTIVATION), cache.path("a", ACTIVATION)).unwrap();
        assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION), None);
        assert!(!cache.path("a", ACTIVATION).exists());
    }

    #[test]
    fn a_foreign_file_in_place_of_ours_is_neither_read_nor_waited_for() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        for (number, plant) in FOREIGN.iter().enumerate() {
            let _ = fs::remove_file(cache.path("a", ACTIVATION));
            plant(&cache.path("a", ACTIVATION));
            assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION), None, "{number}");
            cache.put("a", b"code", ACTIVATION).unwrap();
            assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION).as_deref(), Some(&b"code"[..]), "{number}");
        }
    }

    #[test]
    fn code_that_is_too_large_for_one_plugin_stays_for_another() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        cache.put("a", b"code", ACTIVATION).unwrap();
        assert_eq!(read(&cache, "a", Size(3), ACTIVATION), None);
        assert_eq!(read(&cache, "a", Size(4), ACTIVATION).as_deref(), Some(&b"code"[..]));
    }

    #[test]
    fn a_foreign_file_in_place_of_the_key_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let key = base.path().join("compiled").join(KEY_FILE);
        for (number, plant) in FOREIGN.iter().enumerate() {
            open(base.path()).unwrap().put("a", b"code", ACTIVATION).unwrap();
            fs::remove_file(&key).unwrap();
            plant(&key);
            let cache = open(base.path()).unwrap();
            assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION), None, "{number}");
            assert_eq!((mode(&key), fs::read(&key).unwrap().len()), (0o600, 32), "{number}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_replaced_leaves_nothing_behind() {
        let base = tempfile::tempdir().unwrap();
        let compiled = base.path().join("compiled");
        drop(open(base.path()).unwrap());
        fs::remove_file(compiled.join(KEY_FILE)).unwrap();
        fs::create_dir_all(compiled.join(KEY_FILE).join("x")).unwrap();
        assert!(open(base.path()).is_err());
        let names = fs::read_dir(&compiled).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [KEY_FILE]);
    }

    #[test]
    fn a_key_that_others_could_read_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let cache = open(base.path()).unwrap();
        cache.put("a", b"code", ACTIVATION).unwrap();
        fs::set_permissions(cache.dir.join(KEY_FILE), fs::Permissions::from_mode(0o644)).unwrap();
        let cache = open(base.path()).unwrap();
        assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION), None);
        assert_eq!(mode(&cache.dir.join(KEY_FILE)), 0o600);
    }

    #[test]
    fn a_symlink_in_place_of_the_directory_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), base.path().join("compiled")).unwrap();
        assert!(open(base.path()).is_err());
    }

    const BLOCK: usize = 4096;

    /// A cache with space for six blocks of active code and two blocks of tried code.
    fn small(base: &Path) -> CodeCache {
        CodeCache::open(base, Size(12 * BLOCK as u64)).unwrap()
    }

    /// Stores code that takes one block, and was last used so many seconds after the epoch.
    fn put_at(cache: &CodeCache, name: &str, purpose: Purpose, seconds: u64) {
        cache.put(name, b"code", purpose).unwrap();
        let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        File::open(cache.path(name, purpose)).unwrap().set_modified(then).unwrap();
    }

    fn names(cache: &CodeCache, purpose: Purpose) -> Vec<String> {
        let stem =
            |stored: Stored<PathBuf, SystemTime>| stored.file.file_stem().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<_> = cache.stored(purpose).into_iter().map(stem).collect();
        names.sort();
        names
    }

    #[test]
    fn the_bytes_of_active_code_are_bounded_and_what_was_used_least_recently_goes() {
        let base = tempfile::tempdir().unwrap();
        let cache = small(base.path());
        for n in 0..6 {
            put_at(&cache, &n.to_string(), ACTIVATION, n);
        }
        assert!(cache.get("0", MAX_SIZE, TRIAL).is_some());
        cache.put("large", &vec![0; 2 * BLOCK - TRAILER_BYTES], ACTIVATION).unwrap();
        assert_eq!(names(&cache, ACTIVATION), ["0", "3", "4", "5", "large"]);
    }

    #[test]
    fn code_that_is_only_tried_takes_no_space_of_active_code() {
        let base = tempfile::tempdir().unwrap();
        let cache = small(base.path());
        for n in 0..6 {
            put_at(&cache, &n.to_string(), ACTIVATION, n);
        }
        for n in 0..12 {
            put_at(&cache, &format!("tried{n:02}"), TRIAL, 100 + n);
        }
        assert_eq!(names(&cache, ACTIVATION), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(names(&cache, TRIAL), ["tried10", "tried11"]);
        cache.put("large", &vec![0; 2 * BLOCK], TRIAL).unwrap();
        assert_eq!(names(&cache, TRIAL), ["tried10", "tried11"], "code that would not fit evicts nothing");
    }

    #[test]
    fn code_of_active_revisions_stays_and_code_that_does_not_fit_beside_it_is_not_stored() {
        let base = tempfile::tempdir().unwrap();
        let cache = small(base.path());
        let active: Vec<Arc<str>> = (0..6).map(|n: u32| n.to_string().into()).collect();
        for (n, name) in active.iter().enumerate() {
            cache.pin(name);
            put_at(&cache, name, ACTIVATION, n as u64);
        }
        let refused = cache.put("next", b"code", ACTIVATION).unwrap_err().to_string();
        assert!(refused.contains("no room") && refused.contains("--cache-bytes"), "{refused}");
        cache.put("0", b"code", ACTIVATION).unwrap();
        cache.put("tried", b"code", TRIAL).unwrap();
        assert!(cache.get("tried", MAX_SIZE, ACTIVATION).is_some());
        assert_eq!(names(&cache, ACTIVATION), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(names(&cache, TRIAL), ["tried"], "it stays where it was");
        drop(active);
        put_at(&cache, "last", ACTIVATION, 10);
        assert_eq!(names(&cache, ACTIVATION), ["0", "2", "3", "4", "5", "last"]);
    }

    #[test]
    fn twelve_shadow_runs_of_20_mib_do_not_fill_the_volume_of_the_deployment() {
        const MIB: usize = 1 << 20;
        let base = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(base.path(), Size(192 << 20)).unwrap();
        let code = vec![1; 20 * MIB];
        let active: Arc<str> = "active".into();
        cache.pin(&active);
        cache.put(&active, &code, ACTIVATION).unwrap();
        for n in 0..12 {
            cache.put(&n.to_string(), &code, TRIAL).unwrap();
        }
        let held: u64 = volume::files(&cache.dir).iter().map(|stored| stored.bytes).sum();
        assert!(held <= 128 << 20, "{held} bytes, of which a third of 192Mi is not for code");
        assert!(cache.path(&active, ACTIVATION).exists());
    }

    #[test]
    fn tried_code_that_is_activated_becomes_active_code() {
        let base = tempfile::tempdir().unwrap();
        let cache = small(base.path());
        cache.put("a", b"code", TRIAL).unwrap();
        assert_eq!(read(&cache, "a", MAX_SIZE, TRIAL).as_deref(), Some(&b"code"[..]));
        assert_eq!((names(&cache, ACTIVATION).len(), names(&cache, TRIAL).len()), (0, 1));
        assert_eq!(read(&cache, "a", MAX_SIZE, ACTIVATION).as_deref(), Some(&b"code"[..]));
        assert_eq!((names(&cache, ACTIVATION).len(), names(&cache, TRIAL).len()), (1, 0));
        assert_eq!(read(&cache, "a", MAX_SIZE, TRIAL).as_deref(), Some(&b"code"[..]));
    }

    #[test]
    fn files_that_a_killed_host_left_half_written_are_evicted_with_tried_code() {
        let base = tempfile::tempdir().unwrap();
        let cache = small(base.path());
        for n in 0..5 {
            fs::write(cache.dir.join(format!(".tmp{n}")), "half").unwrap();
        }
        cache.put("a", b"code", TRIAL).unwrap();
        assert_eq!(names(&cache, TRIAL).len(), 2);
        assert!(cache.dir.join(KEY_FILE).exists());
    }

    #[test]
    fn on_a_full_volume_active_code_takes_the_space_of_tried_code() {
        let Some(tmpfs) = Tmpfs::mount(8) else { return };
        let cache = open(tmpfs.path()).unwrap();
        let code = vec![1; 200 * BLOCK];
        cache.put("tried", &code, TRIAL).unwrap();
        tmpfs.fill(16 * BLOCK as u64);
        cache.put("other", &code, TRIAL).unwrap();
        assert_eq!(names(&cache, TRIAL), ["other"], "there is room for one of them");
        let active: Arc<str> = "active".into();
        cache.pin(&active);
        cache.put(&active, &code, ACTIVATION).unwrap();
        assert_eq!((names(&cache, ACTIVATION), names(&cache, TRIAL)), (vec!["active".to_owned()], vec![]));
        assert!(volume::is_full(&cache.put("more", &code, ACTIVATION).unwrap_err()));
        assert!(!names(&cache, TRIAL).iter().any(|name| name.starts_with(".tmp")), "nothing is left half written");
    }
}
