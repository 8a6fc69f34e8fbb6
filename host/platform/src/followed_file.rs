//! Follows a file that may be replaced at any time: a component or a `plugin.yaml`.
//!
//! A followed file is polled, because a mounted volume swaps a symlink far above the file without an event. A file that
//! is not followed is read on request. Size, times and inode only save reads; whether the content has changed is
//! decided by its digest.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::candidate::Candidate;
use crate::safe_file::{open, read_up_to};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Size;

/// How often the file is polled.
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A file that is followed.
#[derive(Debug)]
pub struct FollowedFile {
    paths: Vec<PathBuf>,
    cap: Size,
    poll: Duration,
    /// Whether the file is polled for changes. Otherwise it is read on request.
    follows: bool,
    /// Whether a missing file is waited for, without an error.
    is_awaited: bool,
    /// Whether a read was requested and has not ended yet.
    requested: bool,
    /// The only content that may be offered: a request to offer the same component again must not offer another one.
    only: Option<Digest>,
    seen: Seen,
    /// The read in progress.
    reading: Option<JoinHandle<io::Result<(Candidate, Stamp)>>>,
}

/// The known state of the file.
#[derive(Debug, Default)]
struct Seen {
    /// The file's stamp at the last poll, and since when it has been the same. The file is read only once its stamp has
    /// been the same for a while.
    polled: Option<(Stamp, Instant)>,
    /// The file's stamp when it was read.
    read: Option<Stamp>,
    /// The digest of the content that was returned last.
    offered: Option<Digest>,
    /// The error that was returned last, because each is returned once.
    error: Option<ReturnedError>,
}

/// An error that was already returned, and the file's state at that time.
#[derive(Debug)]
struct ReturnedError {
    message: String,
    /// The file's stamp; none if the file did not exist.
    stamp: Option<Stamp>,
}

/// The metadata that shows a change of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// The time of the last change of the inode. A writer may set the time above back, but not this one.
    changed: (i64, i64),
}

/// Why the content of a followed file cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is missing or cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Its path.
        path: String,
        /// The error.
        source: io::Error,
    },
    /// The file is larger than the limit.
    #[error("the file has {size} bytes, more than the {limit} that are read")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
}

impl FollowedFile {
    /// Follows a file of at most `cap` bytes.
    pub fn file(path: impl Into<PathBuf>, cap: Size) -> Self {
        Self::first_of(vec![path.into()], cap)
    }

    /// Follows a file that may be at several paths: at each poll, [`chosen`] picks the path.
    pub fn first_of(paths: Vec<PathBuf>, cap: Size) -> Self {
        Self {
            paths,
            cap,
            poll: POLL_INTERVAL,
            follows: true,
            is_awaited: false,
            requested: true,
            only: None,
            seen: Seen::default(),
            reading: None,
        }
    }

    /// Sets whether the file is read when it changes. Otherwise it is read at the start and on request.
    #[must_use]
    pub fn following(self, follows: bool) -> Self {
        Self { follows, ..self }
    }

    /// Sets whether a missing file is waited for. Otherwise it is an error.
    #[must_use]
    pub fn awaited(self, is_awaited: bool) -> Self {
        Self { is_awaited, ..self }
    }

    /// Sets the poll interval.
    #[must_use]
    pub fn every(self, poll: Duration) -> Self {
        Self { poll, ..self }
    }

    /// Returns the present path of the file.
    pub fn path(&self) -> &Path {
        chosen(&self.paths)
    }

    /// Returns the digest of the content that was returned last; none if that is to be returned again.
    pub fn offered(&self) -> Option<Digest> {
        self.seen.offered
    }

    /// Has the next call of [`Self::next`] return the content or the error once more. If the file is not followed and
    /// holds another component by now, nothing is returned.
    pub fn offer_again(&mut self) {
        self.only = self.seen.offered.or(self.only).filter(|_| !self.follows);
        (self.seen.read, self.seen.offered, self.seen.error) = (None, None, None);
        self.requested = true;
    }

    /// Requests a read of the file, whichever component it holds by now.
    pub fn request(&mut self) {
        (self.requested, self.only) = (true, None);
    }

    /// Reads the file once more although its metadata has not changed.
    pub fn reread(&mut self) {
        self.seen.read = None;
    }

    /// Follows another file from now on, or the same one with another maximum size. Its content is returned even if it
    /// was returned before.
    pub fn redirect(&mut self, paths: Vec<PathBuf>, cap: Size, is_awaited: bool) {
        let is_another = self.paths != paths;
        (self.paths, self.cap, self.is_awaited, self.reading) = (paths, cap, is_awaited, None);
        self.offer_again();
        if is_another {
            self.request();
        }
    }

    /// Returns whether the file is about to be read: because a read was requested or, with a followed file, because its
    /// stamp has changed since it was read or an error was returned. Takes microseconds.
    pub fn has_changed(&self) -> bool {
        if !self.follows {
            return self.requested;
        }
        let stamp = fs::metadata(self.path()).ok().map(|metadata| Stamp::from(&metadata));
        let is_returned = self.seen.error.as_ref().is_some_and(|error| error.stamp == stamp);
        let is_read = stamp.is_some() && self.seen.read == stamp;
        !is_returned && !is_read
    }

    /// Waits for content that was not returned before. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If the file is missing, unreadable or too large. The same error is not returned twice in a row.
    pub async fn next(&mut self) -> Result<Candidate, FileError> {
        loop {
            if (self.follows || self.requested)
                && let Some(found) = self.poll_once().await
            {
                return found;
            }
            tokio::time::sleep(self.poll).await;
        }
    }

    /// Polls once, which takes microseconds for a local file; only a changed file is read.
    async fn poll_once(&mut self) -> Option<Result<Candidate, FileError>> {
        match self.read_when_settled().await {
            Ok(candidate) => {
                self.seen.error = None;
                self.requested &= !self.seen.is_read();
                self.unless_offered(candidate?).map(Ok)
            }
            Err(error) => {
                self.requested = false;
                // Once the file is readable again its content is returned again, to end the reported error.
                (self.seen.read, self.seen.offered) = (None, None);
                let stamp = self.seen.polled.map(|(stamp, _)| stamp);
                let returned = ReturnedError { message: error.to_string(), stamp };
                let is_new = self.seen.error.as_ref().is_none_or(|before| before.message != returned.message);
                self.seen.error = Some(returned);
                is_new.then_some(Err(error))
            }
        }
    }

    /// Returns the candidate, unless it was offered before or is not the one that is to be offered again.
    fn unless_offered(&mut self, candidate: Candidate) -> Option<Candidate> {
        let digest = candidate.digest();
        let offered = self.only.take().unwrap_or(digest);
        let is_new = offered == digest && self.seen.offered != Some(digest);
        self.seen.offered = Some(offered);
        is_new.then_some(candidate)
    }

    async fn read_when_settled(&mut self) -> Result<Option<Candidate>, FileError> {
        let metadata = fs::metadata(self.path());
        let stamp = metadata.as_ref().ok().map(Stamp::from);
        let unchanged_for = self.seen.unchanged_for(stamp, Instant::now());
        if self.is_awaited && metadata.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let metadata = metadata.map_err(|error| self.unreadable(error))?;
        let stamp = Stamp::from(&metadata);
        if !metadata.is_file() {
            return Err(self.unreadable(io::Error::other("it is no regular file")));
        }
        let is_settled = unchanged_for >= self.poll || is_quiet(&metadata, self.poll);
        if self.seen.read == Some(stamp) || !is_settled {
            return Ok(None);
        }
        if stamp.size > self.cap.0 {
            return Err(FileError::TooLarge { size: stamp.size, limit: self.cap.0 });
        }
        let read = self.read().await;
        let (candidate, after) = read.map_err(|error| self.unreadable(error))?;
        if after != stamp {
            return Ok(None);
        }
        self.seen.read = Some(stamp);
        Ok(Some(candidate))
    }

    /// Reads and hashes on a blocking thread: all reconciles share one thread, and a component may be large. Continues
    /// a read that began before the last future was dropped.
    async fn read(&mut self) -> io::Result<(Candidate, Stamp)> {
        let (path, cap) = (self.path().to_owned(), self.cap);
        let reading = self.reading.get_or_insert_with(|| tokio::task::spawn_blocking(move || read(&path, cap)));
        let read = reading.await;
        self.reading = None;
        read.unwrap_or_else(|error| Err(error.into()))
    }

    fn unreadable(&self, source: io::Error) -> FileError {
        FileError::Unreadable { path: self.path().display().to_string(), source }
    }
}

impl Seen {
    /// Returns whether the file was read with the stamp that it had at the last poll.
    fn is_read(&self) -> bool {
        self.read.is_some() && self.read == self.polled.map(|(stamp, _)| stamp)
    }

    /// Notes the stamp of a poll. Returns for how long the stamp has been the same, over any number of polls.
    fn unchanged_for(&mut self, stamp: Option<Stamp>, now: Instant) -> Duration {
        let since = self.polled.filter(|(before, _)| Some(*before) == stamp).map_or(now, |(_, since)| since);
        self.polled = stamp.map(|stamp| (stamp, since));
        now.saturating_duration_since(since)
    }
}

/// Returns which of several paths to follow: the first whose file exists. If there is none, returns the first of the
/// paths after the first one whose folder exists, where the file is going to be, or else the first path.
pub fn chosen(paths: &[PathBuf]) -> &Path {
    let Some((first, others)) = paths.split_first() else { return Path::new("") };
    let there = paths.iter().find(|path| path.exists());
    let elsewhere = || others.iter().find(|path| path.parent().is_some_and(Path::is_dir));
    there.or_else(elsewhere).unwrap_or(first)
}

/// Reads at most `cap` bytes, whatever size the file claims to have. Returns them with the stamp of the file.
fn read(path: &Path, cap: Size) -> io::Result<(Candidate, Stamp)> {
    let file = open(path)?;
    let bytes = read_up_to(&file, cap)?;
    let stamp = Stamp::from(&file.metadata()?);
    Ok((Candidate::of(bytes), stamp))
}

/// Returns whether the last write is so long ago that no writer is likely to be in the middle of the file.
fn is_quiet(metadata: &fs::Metadata, poll: Duration) -> bool {
    let age = metadata.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > 4 * poll)
}

impl From<&fs::Metadata> for Stamp {
    fn from(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use std::fs::File;
    use std::os::unix::fs::symlink;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            fs::write(self.path(name), bytes).unwrap();
        }

        fn source(&self) -> FollowedFile {
            FollowedFile::file(self.path("plugin.wasm"), Size(100)).every(Duration::from_secs(60))
        }
    }

    /// Polls once more after the poll interval.
    async fn later(source: &mut FollowedFile) -> Option<Result<Candidate, FileError>> {
        tokio::time::advance(source.poll).await;
        source.poll_once().await
    }

    /// Polls twice, because a file that was just written is read at the second poll.
    async fn twice(source: &mut FollowedFile) -> Option<Result<Candidate, FileError>> {
        match source.poll_once().await {
            Some(news) => Some(news),
            None => later(source).await,
        }
    }

    /// Returns what the source offers within three polls.
    async fn next(source: &mut FollowedFile) -> Option<Result<Candidate, FileError>> {
        tokio::time::timeout(3 * source.poll, source.next()).await.ok()
    }

    fn bytes(news: Option<Result<Candidate, FileError>>) -> Option<Vec<u8>> {
        news.map(|news| news.unwrap().bytes().to_vec())
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_offered_once_it_has_settled_and_once_only() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert_eq!(bytes(source.poll_once().await), None);
        assert_eq!(bytes(later(&mut source).await), Some(b"one".to_vec()));
        assert_eq!(bytes(later(&mut source).await), None);
    }

    #[tokio::test(start_paused = true)]
    async fn frequent_polls_do_not_make_a_file_settle_sooner() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"half");
        let mut source = folder.source();
        for _ in 0..10 {
            assert_eq!(bytes(source.poll_once().await), None);
            tokio::time::advance(source.poll / 20).await;
        }
        folder.write("plugin.wasm", b"half and half");
        assert_eq!(bytes(source.poll_once().await), None);
        tokio::time::advance(source.poll - Duration::from_secs(1)).await;
        assert_eq!(bytes(source.poll_once().await), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(bytes(source.poll_once().await), Some(b"half and half".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn other_bytes_of_the_same_size_and_time_in_the_same_file_are_noticed() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let stamp = || Stamp::from(&fs::metadata(folder.path("plugin.wasm")).unwrap());
        let before = (stamp(), fs::metadata(folder.path("plugin.wasm")).unwrap().modified().unwrap());
        let mut source = folder.source();
        assert_eq!(bytes(twice(&mut source).await), Some(b"one".to_vec()));
        // The clock of a file system moves in small steps.
        while stamp() == before.0 {
            let mut file = File::options().write(true).open(folder.path("plugin.wasm")).unwrap();
            std::io::Write::write_all(&mut file, b"two").unwrap();
            file.set_modified(before.1).unwrap();
        }
        let now = stamp();
        assert_eq!((now.inode, now.size, now.modified), (before.0.inode, before.0.size, before.0.modified));
        assert!(source.has_changed());
        assert_eq!(bytes(twice(&mut source).await), Some(b"two".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_to_be_reread_has_changed_until_then_and_is_not_offered_if_it_is_the_same() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert!(twice(&mut source).await.is_some());
        source.reread();
        assert!(source.has_changed());
        assert_eq!(bytes(source.poll_once().await), None);
        assert!(!source.has_changed());
        assert_eq!(source.offered(), Some(Digest::of(b"one")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_not_followed_is_read_at_the_start_and_on_request() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source().following(false);
        assert!(source.has_changed());
        assert_eq!(bytes(next(&mut source).await), Some(b"one".to_vec()));
        folder.write("plugin.wasm", b"other");
        assert!(!source.has_changed() && next(&mut source).await.is_none());
        source.request();
        assert!(source.has_changed());
        assert_eq!(bytes(next(&mut source).await), Some(b"other".to_vec()));
        assert!(!source.has_changed() && next(&mut source).await.is_none());
        source.request();
        assert!(next(&mut source).await.is_none() && !source.has_changed(), "the same again is no news");
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        assert!(next(&mut source).await.is_none());
        source.request();
        assert!(matches!(next(&mut source).await.unwrap().unwrap_err(), FileError::Unreadable { .. }));
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_file_that_is_not_followed_only_the_offered_component_is_offered_again() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source().following(false);
        assert!(next(&mut source).await.is_some());
        source.offer_again();
        assert_eq!(bytes(next(&mut source).await), Some(b"one".to_vec()));
        folder.write("plugin.wasm", b"other");
        source.offer_again();
        source.offer_again();
        assert!(next(&mut source).await.is_none() && !source.has_changed());
        assert_eq!(source.offered(), Some(Digest::of(b"one")));
        source.redirect(source.paths.clone(), Size(99), false);
        assert!(next(&mut source).await.is_none() && !source.has_changed());
        source.redirect(vec![folder.path("another.wasm"), folder.path("plugin.wasm")], Size(99), false);
        assert_eq!(bytes(next(&mut source).await), Some(b"other".to_vec()), "another file is read, whatever it holds");
        source.offer_again();
        source.request();
        folder.write("another.wasm", b"third");
        assert_eq!(bytes(next(&mut source).await), Some(b"third".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_written_when_it_is_requested_is_awaited() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source().following(false);
        assert!(next(&mut source).await.is_some());
        source.request();
        for length in 1..5 {
            folder.write("plugin.wasm", &b"whole"[..length]);
            assert_eq!(bytes(later(&mut source).await), None);
            assert!(source.has_changed());
        }
        assert_eq!(bytes(next(&mut source).await), Some(b"whol".to_vec()));
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_file_is_offered_at_once() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let file = File::options().write(true).open(folder.path("plugin.wasm")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        assert_eq!(bytes(folder.source().poll_once().await), Some(b"one".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_written_is_not_returned() {
        let folder = Folder::new();
        let mut source = folder.source();
        for length in 1..5 {
            folder.write("plugin.wasm", &b"whole"[..length]);
            assert_eq!(bytes(later(&mut source).await), None);
        }
        folder.write("plugin.wasm", b"whole");
        assert_eq!(bytes(later(&mut source).await), None);
        assert_eq!(bytes(later(&mut source).await), Some(b"whole".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_bytes_are_not_offered_again() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert!(twice(&mut source).await.is_some());
        folder.write("copy", b"one");
        fs::rename(folder.path("copy"), folder.path("plugin.wasm")).unwrap();
        assert_eq!(bytes(source.poll_once().await), None);
        assert_eq!(bytes(later(&mut source).await), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_swapped_symlink_is_noticed() {
        let folder = Folder::new();
        for (version, content) in [("v1", b"one"), ("v2", b"two")] {
            fs::create_dir(folder.path(version)).unwrap();
            folder.write(&format!("{version}/plugin.wasm"), content);
        }
        symlink("v1", folder.path("current")).unwrap();
        symlink("current/plugin.wasm", folder.path("plugin.wasm")).unwrap();
        let mut source = folder.source();
        assert_eq!(bytes(twice(&mut source).await), Some(b"one".to_vec()));
        symlink("v2", folder.path("next")).unwrap();
        fs::rename(folder.path("next"), folder.path("current")).unwrap();
        assert_eq!(bytes(twice(&mut source).await), Some(b"two".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn each_error_is_returned_once_and_recovery_is_seen() {
        let folder = Folder::new();
        let mut source = folder.source();
        assert!(matches!(source.poll_once().await.unwrap().unwrap_err(), FileError::Unreadable { .. }));
        assert!(source.poll_once().await.is_none());
        folder.write("plugin.wasm", &[0; 101]);
        assert!(source.poll_once().await.is_none());
        assert!(matches!(later(&mut source).await.unwrap().unwrap_err(), FileError::TooLarge { .. }));
        assert!(later(&mut source).await.is_none() && later(&mut source).await.is_none());
        folder.write("plugin.wasm", b"one");
        assert!(source.poll_once().await.is_none());
        assert_eq!(bytes(later(&mut source).await), Some(b"one".to_vec()));
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        assert!(matches!(source.poll_once().await.unwrap().unwrap_err(), FileError::Unreadable { .. }));
        folder.write("plugin.wasm", b"one");
        assert!(source.poll_once().await.is_none());
        assert_eq!(bytes(later(&mut source).await), Some(b"one".to_vec()), "the same bytes, but they were missed");
        assert!(later(&mut source).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn another_file_is_offered_even_if_its_content_is_the_same() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        folder.write("other.wasm", b"one");
        let mut source = folder.source();
        assert!(twice(&mut source).await.is_some());
        source.redirect(vec![folder.path("other.wasm")], Size(2), false);
        assert!(source.poll_once().await.is_none());
        assert!(matches!(later(&mut source).await.unwrap().unwrap_err(), FileError::TooLarge { .. }));
        source.redirect(vec![folder.path("other.wasm")], Size(3), false);
        assert_eq!(bytes(source.poll_once().await), Some(b"one".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_appears_at_another_of_its_paths_is_followed_there() {
        let folder = Folder::new();
        let paths = ["plugin.wasm", "near/plugin.wasm", "far/plugin.wasm"].map(|name| folder.path(name));
        let mut source = FollowedFile::first_of(paths.to_vec(), Size(100)).every(Duration::from_secs(60));
        assert!(source.poll_once().await.unwrap().is_err());
        assert_eq!(source.path(), paths[0]);
        for (place, content) in [("far", b"one"), ("near", b"two")] {
            fs::create_dir(folder.path(place)).unwrap();
            folder.write(&format!("{place}/plugin.wasm"), content);
            assert_eq!(bytes(twice(&mut source).await), Some(content.to_vec()), "{place}");
        }
        folder.write("plugin.wasm", b"here");
        assert_eq!(bytes(twice(&mut source).await), Some(b"here".to_vec()));
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        assert_eq!(bytes(twice(&mut source).await), Some(b"two".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_has_changed_until_it_is_read() {
        let folder = Folder::new();
        let mut source = folder.source();
        assert!(source.has_changed() && source.poll_once().await.is_some());
        assert!(!source.has_changed(), "it does not exist, and that was returned");
        folder.write("plugin.wasm", b"one");
        assert!(source.has_changed());
        assert!(twice(&mut source).await.is_some());
        assert!(!source.has_changed());
        folder.write("plugin.wasm", b"other");
        assert!(source.has_changed());
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        assert!(source.has_changed() && source.poll_once().await.is_some());
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_file_has_changed_until_the_error_is_returned() {
        let folder = Folder::new();
        let mut source = folder.source();
        for size in [101, 102] {
            folder.write("plugin.wasm", &vec![0; size]);
            assert!(source.has_changed() && source.poll_once().await.is_none() && source.has_changed());
            assert!(later(&mut source).await.unwrap().is_err() && !source.has_changed());
            assert!(later(&mut source).await.is_none() && !source.has_changed());
        }
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        folder.write("plugin.wasm", &[0; 102]);
        assert!(source.poll_once().await.is_none() && source.has_changed());
        assert!(later(&mut source).await.is_some() && !source.has_changed());
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        fs::create_dir(folder.path("plugin.wasm")).unwrap();
        assert!(source.has_changed() && source.poll_once().await.unwrap().is_err());
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_in_place_of_the_file_is_an_error() {
        let folder = Folder::new();
        fs::create_dir(folder.path("plugin.wasm")).unwrap();
        let mut source = folder.source();
        let news = twice(&mut source).await;
        assert!(matches!(news.unwrap().unwrap_err(), FileError::Unreadable { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_goes_on_when_the_future_that_waits_for_it_is_dropped() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert_eq!(bytes(source.poll_once().await), None);
        tokio::time::advance(source.poll).await;
        // The read may have ended before it is awaited.
        let at_once = source.poll_once().now_or_never();
        let news = if let Some(news) = at_once { news } else { source.poll_once().await };
        assert_eq!(bytes(news), Some(b"one".to_vec()));
        assert_eq!(bytes(source.poll_once().await), None);
    }
}
