//! Follows a file that may be replaced at any time: a component or a `plugin.yaml`.
//!
//! With following on it is polled, for a mounted volume swaps a symlink far above it without an event; otherwise it
//! is read on request. Size, times and inode only save reading; the digest decides.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::sandbox::candidate::Candidate;
use crate::sandbox::error::LoadError;
use crate::sandbox::safe_file::{open, read_up_to};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Size;

/// How often the file is polled.
pub const POLL: Duration = Duration::from_millis(250);

/// A file that is followed.
#[derive(Debug)]
pub struct FollowedFile {
    paths: Vec<PathBuf>,
    cap: Size,
    poll: Duration,
    /// Whether a change of the file is looked for. Otherwise it is read when that is requested.
    follows: bool,
    /// Whether a file that is not there yet is waited for without an error.
    is_awaited: bool,
    /// A read was requested and has not ended yet.
    requested: bool,
    /// Only this component is offered: a request to offer it again is none to offer another one.
    only: Option<Digest>,
    seen: Seen,
    /// The file is being read.
    reading: Option<JoinHandle<io::Result<(Candidate, Look)>>>,
}

/// The known state of the file.
#[derive(Debug, Default)]
struct Seen {
    /// Its metadata at the last poll, and since when; it is read only once that has not changed for a while.
    look: Option<(Look, Instant)>,
    /// Its metadata when it was read.
    read: Option<Look>,
    /// The digest of the content that was returned last.
    offered: Option<Digest>,
    /// The error that was returned last, for each is returned once.
    error: Option<ReturnedError>,
}

/// An error that was returned.
#[derive(Debug)]
struct ReturnedError {
    message: String,
    /// The file's metadata; none if it did not exist.
    look: Option<Look>,
}

/// The metadata that shows a change of a file without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// A writer may set the time above back, but not this one.
    changed: (i64, i64),
}

impl FollowedFile {
    /// Follows a file of at most `cap` bytes.
    pub fn file(path: impl Into<PathBuf>, cap: Size) -> Self {
        Self::first_of(vec![path.into()], cap)
    }

    /// Follows a file that may be at several paths: at each poll the one that [`chosen`] returns.
    pub fn first_of(paths: Vec<PathBuf>, cap: Size) -> Self {
        Self {
            paths,
            cap,
            poll: POLL,
            follows: true,
            is_awaited: false,
            requested: true,
            only: None,
            seen: Seen::default(),
            reading: None,
        }
    }

    /// The same, but with `follows` false the file is read at the start and on request, not when it changes.
    #[must_use]
    pub fn following(self, follows: bool) -> Self {
        Self { follows, ..self }
    }

    /// The same, but with `awaited` a file that is not there is waited for, and no error.
    #[must_use]
    pub fn awaited(self, is_awaited: bool) -> Self {
        Self { is_awaited, ..self }
    }

    /// Sets the poll interval.
    #[must_use]
    pub fn every(self, poll: Duration) -> Self {
        Self { poll, ..self }
    }

    /// Returns the path of the file now.
    pub fn path(&self) -> &Path {
        chosen(&self.paths)
    }

    /// Returns the digest of the content that was returned last, unless it is to be returned again.
    pub fn offered(&self) -> Option<Digest> {
        self.seen.offered
    }

    /// Returns the content once more although it was returned before, and an error, too. Where the file is not
    /// followed, a component that replaced the one that was returned is not returned instead.
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

    /// Reads another file from now on, or the same one up to another size, and returns its content in any case.
    pub fn redirect(&mut self, paths: Vec<PathBuf>, cap: Size, is_awaited: bool) {
        let is_another = self.paths != paths;
        (self.paths, self.cap, self.is_awaited, self.reading) = (paths, cap, is_awaited, None);
        self.offer_again();
        if is_another {
            self.request();
        }
    }

    /// Whether the file is about to be read: a read was requested, or its metadata has changed since it was read or
    /// an error was returned. Takes microseconds.
    pub fn has_changed(&self) -> bool {
        if !self.follows {
            return self.requested;
        }
        let look = fs::metadata(self.path()).ok().map(|metadata| Look::from(&metadata));
        let is_returned = self.seen.error.as_ref().is_some_and(|error| error.look == look);
        let is_read = look.is_some() && self.seen.read == look;
        !is_returned && !is_read
    }

    /// Waits for content that was not returned before. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// If the file is gone, unreadable or too large; each error is returned once until it changes.
    pub async fn next(&mut self) -> Result<Candidate, LoadError> {
        loop {
            if (self.follows || self.requested)
                && let Some(news) = self.look().await
            {
                return news;
            }
            tokio::time::sleep(self.poll).await;
        }
    }

    /// Polls once, which takes microseconds for a local file; only a changed file is read.
    async fn look(&mut self) -> Option<Result<Candidate, LoadError>> {
        match self.read_when_settled().await {
            Ok(candidate) => {
                self.seen.error = None;
                self.requested &= !self.seen.is_read();
                self.news(candidate?).map(Ok)
            }
            Err(error) => {
                self.requested = false;
                // Once the file is readable again its content is returned again, to end the reported error.
                (self.seen.read, self.seen.offered) = (None, None);
                let returned = ReturnedError { message: error.to_string(), look: self.seen.look.map(|(look, _)| look) };
                let is_news = self.seen.error.as_ref().is_none_or(|before| before.message != returned.message);
                self.seen.error = Some(returned);
                is_news.then_some(Err(error))
            }
        }
    }

    /// The candidate, unless it was offered before or is not the one that is to be offered again.
    fn news(&mut self, candidate: Candidate) -> Option<Candidate> {
        let digest = candidate.digest();
        let offered = self.only.take().unwrap_or(digest);
        let is_news = offered == digest && self.seen.offered != Some(digest);
        self.seen.offered = Some(offered);
        is_news.then_some(candidate)
    }

    async fn read_when_settled(&mut self) -> Result<Option<Candidate>, LoadError> {
        let metadata = fs::metadata(self.path());
        let look = metadata.as_ref().ok().map(Look::from);
        let lasts = self.seen.lasts(look, Instant::now());
        if self.is_awaited && metadata.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let metadata = metadata.map_err(|error| self.unreadable(error))?;
        let look = Look::from(&metadata);
        if !metadata.is_file() {
            return Err(self.unreadable(io::Error::other("it is no regular file")));
        }
        let is_settled = lasts >= self.poll || is_quiet(&metadata, self.poll);
        if self.seen.read == Some(look) || !is_settled {
            return Ok(None);
        }
        if look.size > self.cap.0 {
            return Err(LoadError::TooLarge { size: look.size, limit: self.cap.0 });
        }
        let read = self.read().await;
        let (candidate, after) = read.map_err(|error| self.unreadable(error))?;
        if after != look {
            return Ok(None);
        }
        self.seen.read = Some(look);
        Ok(Some(candidate))
    }

    /// Reads and hashes on another thread: all reconciles share one, and a component may be large. Continues a read that
    /// began before the last future was dropped.
    async fn read(&mut self) -> io::Result<(Candidate, Look)> {
        let (path, cap) = (self.path().to_owned(), self.cap);
        let reading = self.reading.get_or_insert_with(|| tokio::task::spawn_blocking(move || read(&path, cap)));
        let read = reading.await;
        self.reading = None;
        read.unwrap_or_else(|error| Err(error.into()))
    }

    fn unreadable(&self, source: io::Error) -> LoadError {
        LoadError::Unreadable { path: self.path().display().to_string(), source }
    }
}

impl Seen {
    /// Whether the content was read that belongs to the last metadata.
    fn is_read(&self) -> bool {
        self.read.is_some() && self.read == self.look.map(|(look, _)| look)
    }

    /// Returns for how long the file's metadata has been the same, over any number of polls.
    fn lasts(&mut self, look: Option<Look>, now: Instant) -> Duration {
        let since = self.look.filter(|(before, _)| Some(*before) == look).map_or(now, |(_, since)| since);
        self.look = look.map(|look| (look, since));
        now.saturating_duration_since(since)
    }
}

/// Returns which of several paths to follow: the first that exists, else the first but one whose folder exists, for that is
/// where the file will be.
pub fn chosen(paths: &[PathBuf]) -> &Path {
    let Some((first, others)) = paths.split_first() else { return Path::new("") };
    let there = paths.iter().find(|path| path.exists());
    let elsewhere = || others.iter().find(|path| path.parent().is_some_and(Path::is_dir));
    there.or_else(elsewhere).unwrap_or(first)
}

/// Reads at most `cap` bytes, whatever the file claims, and the metadata of the file that was read.
fn read(path: &Path, cap: Size) -> io::Result<(Candidate, Look)> {
    let file = open(path)?;
    let bytes = read_up_to(&file, cap)?;
    let look = Look::from(&file.metadata()?);
    Ok((Candidate::of(bytes), look))
}

/// Whether the file has not been written for so long that no writer is still at it.
fn is_quiet(metadata: &fs::Metadata, poll: Duration) -> bool {
    let age = metadata.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
    age.is_some_and(|age| age > 4 * poll)
}

impl From<&fs::Metadata> for Look {
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

    /// The next look at a file that was left alone for long enough since the last one.
    async fn later(source: &mut FollowedFile) -> Option<Result<Candidate, LoadError>> {
        tokio::time::advance(source.poll).await;
        source.look().await
    }

    /// A file that was just written is read at the second look.
    async fn twice(source: &mut FollowedFile) -> Option<Result<Candidate, LoadError>> {
        match source.look().await {
            Some(news) => Some(news),
            None => later(source).await,
        }
    }

    /// What the source offers within three of its looks.
    async fn next(source: &mut FollowedFile) -> Option<Result<Candidate, LoadError>> {
        tokio::time::timeout(3 * source.poll, source.next()).await.ok()
    }

    fn bytes(news: Option<Result<Candidate, LoadError>>) -> Option<Vec<u8>> {
        news.map(|news| news.unwrap().bytes().to_vec())
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_offered_once_it_has_settled_and_once_only() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert_eq!(bytes(source.look().await), None);
        assert_eq!(bytes(later(&mut source).await), Some(b"one".to_vec()));
        assert_eq!(bytes(later(&mut source).await), None);
    }

    #[tokio::test(start_paused = true)]
    async fn looking_often_does_not_make_a_file_settle_sooner() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"half");
        let mut source = folder.source();
        for _ in 0..10 {
            assert_eq!(bytes(source.look().await), None);
            tokio::time::advance(source.poll / 20).await;
        }
        folder.write("plugin.wasm", b"half and half");
        assert_eq!(bytes(source.look().await), None);
        tokio::time::advance(source.poll - Duration::from_secs(1)).await;
        assert_eq!(bytes(source.look().await), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(bytes(source.look().await), Some(b"half and half".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn other_bytes_of_the_same_size_and_time_in_the_same_file_are_noticed() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let look = || Look::from(&fs::metadata(folder.path("plugin.wasm")).unwrap());
        let before = (look(), fs::metadata(folder.path("plugin.wasm")).unwrap().modified().unwrap());
        let mut source = folder.source();
        assert_eq!(bytes(twice(&mut source).await), Some(b"one".to_vec()));
        // The clock of a file system moves in small steps.
        while look() == before.0 {
            let mut file = File::options().write(true).open(folder.path("plugin.wasm")).unwrap();
            std::io::Write::write_all(&mut file, b"two").unwrap();
            file.set_modified(before.1).unwrap();
        }
        let now = look();
        assert_eq!((now.inode, now.size, now.modified), (before.0.inode, before.0.size, before.0.modified));
        assert!(source.has_changed());
        assert_eq!(bytes(twice(&mut source).await), Some(b"two".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_looked_at_anew_has_changed_until_it_is_read_and_is_no_news_if_it_is_the_same() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert!(twice(&mut source).await.is_some());
        source.reread();
        assert!(source.has_changed());
        assert_eq!(bytes(source.look().await), None);
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
        assert_eq!(next(&mut source).await.unwrap().unwrap_err().reason().as_str(), "Unreadable");
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_file_that_is_not_followed_nothing_else_is_offered_again_than_what_was_offered() {
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
        assert_eq!(bytes(folder.source().look().await), Some(b"one".to_vec()));
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
    async fn the_same_bytes_again_are_no_news() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert!(twice(&mut source).await.is_some());
        folder.write("copy", b"one");
        fs::rename(folder.path("copy"), folder.path("plugin.wasm")).unwrap();
        assert_eq!(bytes(source.look().await), None);
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
        assert_eq!(source.look().await.unwrap().unwrap_err().reason().as_str(), "Unreadable");
        assert!(source.look().await.is_none());
        folder.write("plugin.wasm", &[0; 101]);
        assert!(source.look().await.is_none());
        assert_eq!(later(&mut source).await.unwrap().unwrap_err().reason().as_str(), "ComponentTooLarge");
        assert!(later(&mut source).await.is_none() && later(&mut source).await.is_none());
        folder.write("plugin.wasm", b"one");
        assert!(source.look().await.is_none());
        assert_eq!(bytes(later(&mut source).await), Some(b"one".to_vec()));
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        assert_eq!(source.look().await.unwrap().unwrap_err().reason().as_str(), "Unreadable");
        folder.write("plugin.wasm", b"one");
        assert!(source.look().await.is_none());
        assert_eq!(bytes(later(&mut source).await), Some(b"one".to_vec()), "the same bytes, but they were missed");
        assert!(later(&mut source).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn another_file_is_offered_whatever_is_in_it() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        folder.write("other.wasm", b"one");
        let mut source = folder.source();
        assert!(twice(&mut source).await.is_some());
        source.redirect(vec![folder.path("other.wasm")], Size(2), false);
        assert!(source.look().await.is_none());
        assert_eq!(later(&mut source).await.unwrap().unwrap_err().reason().as_str(), "ComponentTooLarge");
        source.redirect(vec![folder.path("other.wasm")], Size(3), false);
        assert_eq!(bytes(source.look().await), Some(b"one".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_comes_to_be_in_another_place_is_followed_there() {
        let folder = Folder::new();
        let paths = ["plugin.wasm", "near/plugin.wasm", "far/plugin.wasm"].map(|name| folder.path(name));
        let mut source = FollowedFile::first_of(paths.to_vec(), Size(100)).every(Duration::from_secs(60));
        assert!(source.look().await.unwrap().is_err());
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
        assert!(source.has_changed() && source.look().await.is_some());
        assert!(!source.has_changed(), "it does not exist, and that was returned");
        folder.write("plugin.wasm", b"one");
        assert!(source.has_changed());
        assert!(twice(&mut source).await.is_some());
        assert!(!source.has_changed());
        folder.write("plugin.wasm", b"other");
        assert!(source.has_changed());
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        assert!(source.has_changed() && source.look().await.is_some());
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_file_has_changed_until_the_error_is_returned() {
        let folder = Folder::new();
        let mut source = folder.source();
        for size in [101, 102] {
            folder.write("plugin.wasm", &vec![0; size]);
            assert!(source.has_changed() && source.look().await.is_none() && source.has_changed());
            assert!(later(&mut source).await.unwrap().is_err() && !source.has_changed());
            assert!(later(&mut source).await.is_none() && !source.has_changed());
        }
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        folder.write("plugin.wasm", &[0; 102]);
        assert!(source.look().await.is_none() && source.has_changed());
        assert!(later(&mut source).await.is_some() && !source.has_changed());
        fs::remove_file(folder.path("plugin.wasm")).unwrap();
        fs::create_dir(folder.path("plugin.wasm")).unwrap();
        assert!(source.has_changed() && source.look().await.unwrap().is_err());
        assert!(!source.has_changed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_in_its_place_is_an_error() {
        let folder = Folder::new();
        fs::create_dir(folder.path("plugin.wasm")).unwrap();
        let mut source = folder.source();
        let news = twice(&mut source).await;
        assert_eq!(news.unwrap().unwrap_err().reason().as_str(), "Unreadable");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_being_read_is_not_lost_with_its_waiter() {
        let folder = Folder::new();
        folder.write("plugin.wasm", b"one");
        let mut source = folder.source();
        assert_eq!(bytes(source.look().await), None);
        tokio::time::advance(source.poll).await;
        // The read may have ended before it is awaited.
        let at_once = source.look().now_or_never();
        let news = if let Some(news) = at_once { news } else { source.look().await };
        assert_eq!(bytes(news), Some(b"one".to_vec()));
        assert_eq!(bytes(source.look().await), None);
    }
}
