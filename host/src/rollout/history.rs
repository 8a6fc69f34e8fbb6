//! Which components were activated, rolled back, refused or approved. It is kept on disk, so that an earlier
//! revision can be activated again without network or compiler, also after a restart.
//!
//! ```text
//! BASE/revisions/PLUGIN/history.json     newest last
//! BASE/revisions/PLUGIN/DIGEST.wasm      those that the newest entries name
//! ```
//!
//! A component that is read back is checked against its digest. The history itself lies in directories that
//! only the host's user can write: a process that writes there chooses the active component. Without a directory
//! the entries, but no components, are remembered until the process ends.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::sandbox::candidate::Candidate;
use crate::sandbox::safe_file;
use hotshoe_core::flow::probation::CallStats;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::limits::Size;

/// Components that are kept: the active one and those before it.
const KEPT: usize = 5;
/// Entries that are kept.
const ENTRIES: usize = 100;
/// A larger file was not written by a host.
const MAX_HISTORY: Size = Size(1024 * 1024);
const HISTORY_FILE: &str = "history.json";
/// Where a history that could not be read is moved to.
const UNREADABLE_FILE: &str = "history.json.unreadable";

/// One thing that happened to a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The component's digest.
    pub digest: Digest,
    /// Its version, from its descriptor; empty where that was never read.
    pub version: String,
    /// Seconds since the epoch; in JSON as Kubernetes writes times.
    #[serde(with = "written_time")]
    pub at: u64,
    /// What happened.
    pub event: Event,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its finalizer, where it was activated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<String>,
    /// The kinds that it owns, where it was activated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Kind>,
    /// The call statistics of the revision before it, where it was activated.
    #[serde(default, skip_serializing_if = "CallStats::is_empty")]
    pub before: CallStats,
    /// Whether it requires approval because it fails on parents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails: bool,
}

/// What is recorded of a component that is activated.
#[derive(Clone, Debug, Default)]
pub struct Activation {
    /// Its finalizer.
    pub finalizer: Option<String>,
    /// The kinds that it owns.
    pub owns: Vec<Kind>,
    /// The call statistics of the revision before it, with which it is compared.
    pub before: CallStats,
}

impl Entry {
    /// Builds an entry of this moment.
    fn of(digest: Digest, version: &str, event: Event, message: &str) -> Self {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (version, message) = (version.to_owned(), message.to_owned());
        let Activation { finalizer, owns, before } = Activation::default();
        Self { digest, version, at, event, message, finalizer, owns, before, fails: false }
    }
}

/// Writes seconds since the epoch as RFC 3339, and as a number where they have no such form.
mod written_time {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::cluster::events;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Seconds(u64),
        Time(String),
    }

    pub(super) fn serialize<S: Serializer>(at: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(*at).ok().and_then(events::at) {
            Some(time) => serializer.serialize_str(&time),
            None => serializer.serialize_u64(*at),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let time = match Written::deserialize(deserializer)? {
            Written::Seconds(seconds) => return Ok(seconds),
            Written::Time(time) => time,
        };
        let seconds = events::seconds(&time).and_then(|seconds| u64::try_from(seconds).ok());
        seconds.ok_or_else(|| D::Error::custom(format_args!("{time:?} is no time since 1970")))
    }
}

/// What happened to a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// It became active.
    Activated,
    /// It was active and was rolled back; it stays inactive until an administrator approves it.
    RolledBack,
    /// An administrator allowed it although it had required approval or been rolled back.
    Approved,
    /// It fails on parents or would delete much; it stays inactive until an administrator approves it.
    ApprovalRequired,
    /// It cannot be activated as it is, even with an approval.
    Refused,
}

/// The history of one plugin.
#[derive(Debug, Default)]
pub struct History {
    dir: Option<PathBuf>,
    entries: Vec<Entry>,
    /// Why the last entry could not be written.
    unwritten: Option<String>,
    /// Why the last component could not be kept.
    unkept: Option<String>,
}

impl History {
    /// Reads the history of a plugin below `base`. One that cannot be read is moved aside, logged and begun anew.
    pub fn open(base: Option<&Path>, plugin: &str) -> Self {
        let dir = base.map(|base| base.join("revisions").join(plugin));
        let made = dir.as_deref().map(make);
        if let (Some(Err(error)), Some(dir)) = (&made, &dir) {
            tracing::warn!(directory = %dir.display(), %error, "earlier revisions are not kept: give a directory that the host can write");
            return Self { unwritten: Some(in_words(dir, error)), ..Self::default() };
        }
        let entries = dir.as_deref().map(read).unwrap_or_default();
        Self { dir, entries, ..Self::default() }
    }

    /// Returns what happened, the newest last.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an entry.
    pub fn note(&mut self, digest: Digest, version: &str, event: Event, message: &str) {
        self.add(Entry::of(digest, version, event, message));
    }

    /// Adds that a component requires approval, because it fails or for another reason. What its last entry
    /// already says is not said again.
    pub fn require_approval(&mut self, digest: Digest, version: &str, message: &str, fails: bool) {
        self.add_news(Entry { fails, ..Entry::of(digest, version, Event::ApprovalRequired, message) });
    }

    /// Adds that a component cannot be activated as it is. What its last entry already says is not said again.
    pub fn refuse(&mut self, digest: Digest, message: &str) {
        let version = self.version_of(digest);
        self.add_news(Entry::of(digest, &version, Event::Refused, message));
    }

    /// Adds that an administrator approved a component.
    pub fn approve(&mut self, digest: Digest) {
        self.note(digest, &self.version_of(digest), Event::Approved, "");
    }

    fn version_of(&self, digest: Digest) -> String {
        let known = self.entries.iter().rfind(|entry| entry.digest == digest && !entry.version.is_empty());
        known.map(|entry| entry.version.clone()).unwrap_or_default()
    }

    fn add_news(&mut self, entry: Entry) {
        let last = self.entries.iter().rfind(|known| known.digest == entry.digest);
        let says = |entry: &Entry| (entry.event, entry.message.clone(), entry.fails);
        if last.map(says) != Some(says(&entry)) {
            self.add(entry);
        }
    }

    /// Adds that a component is active now.
    pub fn activate(&mut self, digest: Digest, version: &str, activation: Activation, message: &str) {
        let Activation { finalizer, owns, before } = activation;
        self.add(Entry { finalizer, owns, before, ..Entry::of(digest, version, Event::Activated, message) });
    }

    fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
        while self.entries.len() > ENTRIES {
            self.entries.remove(self.least());
        }
        let Some(dir) = &self.dir else { return };
        let written = self.write(dir);
        if let Err(error) = &written {
            tracing::warn!(directory = %dir.display(), %error, "the history of revisions is not kept");
        }
        self.unwritten = written.err().map(|error| in_words(dir, &error));
    }

    /// Returns what cannot be written, and why.
    pub fn failing(&self) -> Option<&str> {
        self.unwritten.as_deref().or(self.unkept.as_deref())
    }

    /// Keeps a component, and writes it again where its file was damaged or removed meanwhile.
    pub fn keep(&mut self, component: &Candidate) {
        let Some(dir) = &self.dir else { return };
        let digest = component.digest();
        if self.component(digest, Size(component.bytes().len() as u64)).is_some() {
            self.unkept = None;
            return;
        }
        let path = component_path(dir, digest);
        let written =
            make(dir).and_then(|()| safe_file::replace_durably(&path, safe_file::SHARED, &[component.bytes()]));
        if let Err(error) = &written {
            tracing::warn!(%digest, directory = %dir.display(), %error, "the component cannot be kept for a rollback");
        }
        self.unkept = written.err().map(|error| in_words(dir, &error));
    }

    /// Returns whether there is a file of a component; it may be damaged.
    pub fn is_kept(&self, digest: Digest) -> bool {
        self.dir.as_deref().is_some_and(|dir| component_path(dir, digest).is_file())
    }

    /// Returns a component that was kept, if it is intact.
    pub fn component(&self, digest: Digest, most: Size) -> Option<Candidate> {
        let path = component_path(self.dir.as_deref()?, digest);
        let bytes = safe_file::read_whole(&path, most).ok()??;
        Some(Candidate::of(bytes)).filter(|kept| kept.digest() == digest)
    }

    /// Returns the entry of a component that was rolled back and not approved since.
    pub fn rolled_back(&self, digest: Digest) -> Option<&Entry> {
        self.last(digest).filter(|last| last.event == Event::RolledBack)
    }

    /// Returns the entry of a component that requires approval and was not approved since.
    pub fn requires_approval(&self, digest: Digest) -> Option<&Entry> {
        self.last(digest).filter(|last| last.event == Event::ApprovalRequired)
    }

    /// Returns the last entry that says how a component stands: that it was refused another time, say for a
    /// grant that was missing, changes nothing about that.
    fn last(&self, digest: Digest) -> Option<&Entry> {
        self.entries.iter().rfind(|entry| entry.digest == digest && entry.event != Event::Refused)
    }

    /// Returns since when the active component has been on probation, and the call statistics of the one before
    /// it. One that was activated by a rollback, or approved although it fails, is not on probation.
    pub fn on_probation_since(&self, digest: Digest) -> Option<(SystemTime, CallStats)> {
        let last = self.entries.iter().rfind(|entry| entry.event == Event::Activated)?;
        let is_swap = last.digest == digest && last.message.is_empty() && !self.before(Some(digest)).is_empty();
        let is_judged = is_swap && !self.is_approved_after_all(digest);
        is_judged.then(|| (UNIX_EPOCH + Duration::from_secs(last.at), last.before))
    }

    /// Returns whether a component was approved and none was activated since: an approval counts for one
    /// activation, because the next time it may break something else.
    pub fn is_approved(&self, digest: Digest) -> bool {
        let is_it = |entry: &&Entry| entry.digest == digest && entry.event != Event::Refused;
        let since = self.entries.iter().rev().take_while(|entry| entry.event != Event::Activated);
        since.into_iter().find(is_it).is_some_and(|last| last.event == Event::Approved)
    }

    /// Returns the component that was activated last.
    pub fn current(&self) -> Option<Digest> {
        self.entries.iter().rfind(|entry| entry.event == Event::Activated).map(|entry| entry.digest)
    }

    /// Returns whether a component was approved after it had been rolled back or found to fail: its failures are
    /// known, so it is not rolled back for them.
    pub fn is_approved_after_all(&self, digest: Digest) -> bool {
        let last = |is_it: &dyn Fn(&Entry) -> bool| {
            self.entries.iter().rposition(|entry| entry.digest == digest && is_it(entry))
        };
        let failed = last(&|entry| entry.event == Event::RolledBack || entry.fails);
        failed.is_some() && failed < last(&|entry| entry.event == Event::Approved)
    }

    /// Returns the components to roll back to from this one, the best first: those that were active last and
    /// neither rolled back nor found to fail since. One that requires approval for what it would delete was good
    /// when it was active, so it is one of them.
    pub fn before(&self, digest: Option<Digest>) -> Vec<Digest> {
        let is_bad = |digest| self.last(digest).is_some_and(|last| last.event == Event::RolledBack || last.fails);
        let mut good = self.activated();
        good.retain(|other| Some(*other) != digest && !is_bad(*other));
        good
    }

    /// Returns the finalizers of all components that were active: parents may still have them.
    pub fn finalizers(&self) -> BTreeSet<String> {
        self.entries.iter().filter_map(|entry| entry.finalizer.clone()).collect()
    }

    /// Returns the kinds that components owned that were active, each in the version that was owned last: there
    /// may still be children of them.
    pub fn owned(&self) -> Vec<Kind> {
        let mut found: Vec<Kind> = Vec::new();
        for kind in self.entries.iter().rev().flat_map(|entry| &entry.owns) {
            if !found.iter().any(|known| known.is_served_as(kind)) {
                found.push(kind.clone());
            }
        }
        found
    }

    /// Returns the components that were ever active, the last one first.
    pub fn activated(&self) -> Vec<Digest> {
        let mut found: Vec<Digest> = Vec::new();
        for entry in self.entries.iter().rev().filter(|entry| entry.event == Event::Activated) {
            if !found.contains(&entry.digest) {
                found.push(entry.digest);
            }
        }
        found
    }

    /// Returns the component that was active and whose digest begins so.
    ///
    /// # Errors
    /// When none does, or more than one, or it was never active.
    pub fn find_activated(&self, prefix: &str) -> Result<Digest, String> {
        let digest = self.find(prefix)?;
        match self.activated().contains(&digest) {
            true => Ok(digest),
            false => Err(format!(
                "{digest} was never active, so it cannot be rolled back to; `hotshoe approve` activates a component that requires approval"
            )),
        }
    }

    fn find(&self, prefix: &str) -> Result<Digest, String> {
        let prefix = prefix.strip_prefix("sha256:").unwrap_or(prefix).to_ascii_lowercase();
        if prefix.is_empty() {
            return Err("no digest is given, or one without digits; `hotshoe history` lists them".to_owned());
        }
        let mut found: Vec<Digest> = self.entries.iter().map(|entry| entry.digest).collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|digest| digest.full().starts_with(&prefix));
        match *found.as_slice() {
            [digest] => Ok(digest),
            [] => Err(format!("no revision's digest begins with {prefix:?}; `hotshoe history` lists them")),
            _ => Err(format!("more than one revision's digest begins with {prefix:?}; give more of it")),
        }
    }

    /// Returns the index of the entry to evict. Prefers (1) the oldest entry superseded by a later one for the
    /// same component, (2) the oldest refusal, (3) the oldest activation, (4) the oldest; entries that record kept
    /// components, finalizers or owned kinds go last.
    fn least(&self) -> usize {
        let needed = self.needed();
        let said = |event: Event| match event {
            Event::ApprovalRequired => Event::RolledBack,
            event => event,
        };
        let worth = |event: Event| match event {
            Event::Refused => 0,
            Event::Activated => 1,
            Event::RolledBack | Event::Approved | Event::ApprovalRequired => 2,
        };
        let is_superseded = |index: usize, entry: &Entry| {
            let mut later = self.entries.iter().skip(index + 1);
            later.any(|later| later.digest == entry.digest && said(later.event) == said(entry.event))
        };
        let can_go = self.entries.iter().enumerate().filter(|(index, _)| !needed.contains(index));
        // Of equals, the first.
        let least = can_go.min_by_key(|(index, entry)| (!is_superseded(*index, entry), worth(entry.event)));
        least.map_or(0, |(index, _)| index)
    }

    /// Returns the indices of the last entries that name the activation of a kept component, a finalizer or an
    /// owned kind.
    fn needed(&self) -> BTreeSet<usize> {
        let kept = self.kept();
        let published = kept.iter().filter_map(|digest| {
            self.entries.iter().rposition(|entry| entry.digest == *digest && entry.event == Event::Activated)
        });
        let finalizers = self.finalizers();
        let named = finalizers
            .iter()
            .filter_map(|finalizer| self.entries.iter().rposition(|entry| entry.finalizer.as_ref() == Some(finalizer)));
        let owned = self.owned();
        let owning = owned.iter().filter_map(|kind| self.entries.iter().rposition(|entry| entry.owns.contains(kind)));
        published.chain(named).chain(owning).collect()
    }

    /// Returns the components to keep for a rollback: an administrator may choose one that was rolled back, the
    /// host only others.
    fn kept(&self) -> Vec<Digest> {
        let good = self.before(None).into_iter().take(KEPT);
        good.chain(self.activated().into_iter().take(KEPT)).collect()
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let json = serde_json::to_vec_pretty(&self.entries)?;
        make(dir)?;
        safe_file::replace_durably(&dir.join(HISTORY_FILE), safe_file::SHARED, &[&json])?;
        self.prune(dir);
        Ok(())
    }

    /// Removes components that are no longer kept, but none while a history lies aside that could not be read
    /// and may name it. A failure only costs space.
    fn prune(&self, dir: &Path) {
        if dir.join(UNREADABLE_FILE).exists() {
            return;
        }
        let kept: Vec<PathBuf> = self.kept().into_iter().map(|digest| component_path(dir, digest)).collect();
        let Ok(entries) = fs::read_dir(dir) else { return };
        for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "wasm") && !kept.contains(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Makes the directory and the one that all plugins share, closed to other users: who could write to that one
/// could exchange this one. Either may be removed at any time.
fn make(dir: &Path) -> io::Result<()> {
    dir.parent().map_or(Ok(()), safe_file::make_private_dir)?;
    safe_file::make_private_dir(dir)
}

fn in_words(dir: &Path, error: &io::Error) -> String {
    format!("{}: {error}", dir.display())
}

fn component_path(dir: &Path, digest: Digest) -> PathBuf {
    dir.join(digest.full()).with_extension("wasm")
}

fn read(dir: &Path) -> Vec<Entry> {
    let path = dir.join(HISTORY_FILE);
    let read = || -> io::Result<Vec<Entry>> {
        let bytes = safe_file::read_whole(&path, MAX_HISTORY)?.ok_or_else(|| io::Error::other("it is too large"))?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    match read() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!(
                file = %path.display(), %error,
                "the history of revisions cannot be read and begins anew; it is put aside as {UNREADABLE_FILE}, and as long as it lies there no component is removed"
            );
            // Where it cannot be moved, the next history is written over it.
            let _ = fs::rename(&path, dir.join(UNREADABLE_FILE));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const MOST: Size = Size(1024);

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn holding(finalizer: &str) -> Activation {
        Activation { finalizer: Some(finalizer.to_owned()), ..Activation::default() }
    }

    fn owning(owns: Vec<Kind>) -> Activation {
        Activation { owns, ..Activation::default() }
    }

    fn published(history: &mut History, text: &str) {
        history.keep(&Candidate::of(text.into()));
        history.note(digest(text), "1", Event::Activated, "");
    }

    #[test]
    fn activations_are_known_after_a_restart() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "a");
        published(&mut history, "b");
        let again = History::open(Some(base.path()), "memcached");
        assert_eq!(again.entries(), history.entries());
        assert_eq!(again.component(digest("a"), MOST), Some(Candidate::of(b"a".to_vec())));
        assert_eq!(again.before(Some(digest("b"))), [digest("a")]);
        assert!(History::open(Some(base.path()), "other").entries().is_empty());
    }

    #[test]
    fn finalizers_of_activated_components_are_known_after_a_restart() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        for (text, finalizer) in [("a", Some("example.com/a")), ("b", Some("example.com/b")), ("c", None)] {
            history.activate(
                digest(text),
                "1",
                Activation { finalizer: finalizer.map(str::to_owned), ..Activation::default() },
                "",
            );
        }
        let again = History::open(Some(base.path()), "memcached");
        assert_eq!(again.finalizers(), ["example.com/a", "example.com/b"].map(str::to_owned).into());
        assert_eq!(again.current(), Some(digest("c")));
    }

    #[test]
    fn the_kinds_that_were_owned_are_known_after_a_restart_and_for_as_long_as_there_is_a_history() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        let kind = |version: &str, kind: &str| Kind::new("apps", version, kind);
        history.activate(digest("a"), "1", owning(vec![kind("v1", "Deployment"), kind("v1", "DaemonSet")]), "");
        for number in 0..2 * ENTRIES {
            let owns = vec![kind("v2", "Deployment")];
            history.activate(digest(&number.to_string()), "2", owning(owns), "");
        }
        let again = History::open(Some(base.path()), "memcached");
        assert_eq!(again.owned(), [kind("v2", "Deployment"), kind("v1", "DaemonSet")]);
    }

    #[test]
    fn times_are_written_as_kubernetes_does_and_read_as_numbers_too() {
        let entry = |at: serde_json::Value| serde_json::json!({ "digest": digest("a").full(), "version": "1", "at": at, "event": "Activated" });
        for (read, at, written) in [
            (serde_json::json!("2026-11-23T04:00:00Z"), 1_795_406_400, serde_json::json!("2026-11-23T04:00:00Z")),
            (serde_json::json!(1), 1, serde_json::json!("1970-01-01T00:00:01Z")),
            (serde_json::json!(u64::MAX), u64::MAX, serde_json::json!(u64::MAX)),
        ] {
            let known: Entry = serde_json::from_value(entry(read)).unwrap();
            assert_eq!(known.at, at);
            assert_eq!(serde_json::to_value(&known).unwrap(), entry(written));
        }
        assert!(serde_json::from_value::<Entry>(entry(serde_json::json!("yesterday"))).is_err());
        assert!(serde_json::from_value::<Entry>(entry(serde_json::json!("1960-01-01T00:00:00Z"))).is_err());
    }

    #[test]
    fn a_history_without_kinds_is_read() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("revisions/memcached");
        fs::create_dir_all(&dir).unwrap();
        let entry =
            serde_json::json!([{ "digest": digest("a").full(), "version": "1", "at": 1, "event": "Activated" }]);
        fs::write(dir.join(HISTORY_FILE), entry.to_string()).unwrap();
        let history = History::open(Some(base.path()), "memcached");
        assert_eq!((history.current(), history.owned()), (Some(digest("a")), Vec::new()));
    }

    #[test]
    fn a_kept_component_that_was_changed_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "a");
        let path = component_path(history.dir.as_deref().unwrap(), digest("a"));
        fs::write(path, "other").unwrap();
        assert_eq!(history.component(digest("a"), MOST), None);
    }

    #[test]
    fn a_kept_component_that_was_damaged_or_removed_is_written_again() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "a");
        let dir = history.dir.clone().unwrap();
        let path = component_path(&dir, digest("a"));
        let spoils: [&dyn Fn() -> io::Result<()>; 4] =
            [&|| fs::write(&path, ""), &|| fs::write(&path, "b"), &|| fs::remove_file(&path), &|| {
                fs::remove_dir_all(&dir)
            }];
        for spoil in spoils {
            spoil().unwrap();
            assert_eq!(history.component(digest("a"), MOST), None);
            history.keep(&Candidate::of(b"a".to_vec()));
            assert!(history.component(digest("a"), MOST).is_some());
        }
        fs::remove_dir_all(&dir).unwrap();
        history.require_approval(digest("b"), "2", "it would delete much", false);
        assert_eq!(History::open(Some(base.path()), "memcached").entries(), history.entries());
    }

    #[test]
    fn what_is_no_file_of_ours_is_neither_read_nor_waited_for() {
        let base = tempfile::tempdir().unwrap();
        for (number, plant) in safe_file::tests::FOREIGN.iter().enumerate() {
            let mut history = History::open(Some(base.path()), "memcached");
            published(&mut history, "a");
            let dir = history.dir.clone().unwrap();
            for path in [dir.join(HISTORY_FILE), component_path(&dir, digest("a"))] {
                fs::remove_file(&path).unwrap();
                plant(&path);
            }
            let mut history = History::open(Some(base.path()), "memcached");
            assert!(history.entries().is_empty(), "{number}");
            assert_eq!(history.component(digest("a"), MOST), None, "{number}");
            published(&mut history, "a");
            let again = History::open(Some(base.path()), "memcached");
            assert_eq!((again.current(), again.is_kept(digest("a"))), (Some(digest("a")), true), "{number}");
            assert!(again.component(digest("a"), MOST).is_some(), "{number}");
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
        assert_eq!(History::open(Some(base.path()), "memcached").failing(), None);
        for dir in &dirs {
            assert_eq!(fs::metadata(dir).unwrap().permissions().mode() & 0o777, 0o700, "{}", dir.display());
        }
    }

    #[test]
    fn a_history_of_another_user_is_neither_read_nor_written() {
        let theirs = tempfile::tempdir().unwrap();
        published(&mut History::open(Some(theirs.path()), "memcached"), "theirs");
        for link in ["revisions", "revisions/memcached"] {
            let base = tempfile::tempdir().unwrap();
            fs::create_dir_all(base.path().join(link).parent().unwrap()).unwrap();
            symlink(theirs.path().join(link), base.path().join(link)).unwrap();
            let mut history = History::open(Some(base.path()), "memcached");
            assert_eq!(history.current(), None, "{link}");
            let why = history.failing().unwrap();
            assert!(why.contains(link) && why.contains("another user"), "{why}");
            published(&mut history, "ours");
            assert!(!history.is_kept(digest("ours")));
        }
        assert_eq!(History::open(Some(theirs.path()), "memcached").entries().len(), 1);
    }

    #[test]
    fn a_history_that_cannot_be_written_is_reported_until_it_can() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "a");
        assert_eq!((history.failing(), history.is_kept(digest("a"))), (None, true));
        // A file in the place of the directory cannot be written, by any account.
        let dir = history.dir.clone().unwrap();
        fs::remove_dir_all(&dir).unwrap();
        fs::write(&dir, "").unwrap();
        assert!(!history.is_kept(digest("a")));
        published(&mut history, "b");
        assert!(history.failing().unwrap().contains("revisions/memcached: "), "{:?}", history.failing());
        assert!(History::open(Some(base.path()), "memcached").failing().is_some());
        fs::remove_file(&dir).unwrap();
        history.require_approval(digest("b"), "1", "", false);
        assert!(history.failing().is_some(), "the component still is not kept");
        history.keep(&Candidate::of(b"b".to_vec()));
        assert_eq!((history.failing(), history.is_kept(digest("b"))), (None, true));
    }

    #[test]
    fn a_rolled_back_component_is_no_rollback_target_until_it_is_approved() {
        let mut history = History::default();
        for text in ["a", "b", "c"] {
            published(&mut history, text);
        }
        history.note(digest("b"), "1", Event::RolledBack, "it traps");
        assert_eq!(history.rolled_back(digest("b")).unwrap().message, "it traps");
        assert_eq!(history.before(Some(digest("c"))), [digest("a")]);
        history.note(digest("b"), "1", Event::Approved, "");
        assert!(history.rolled_back(digest("b")).is_none());
        assert!(history.is_approved(digest("b")));
        assert!(history.is_approved_after_all(digest("b")));
        published(&mut history, "b");
        assert!(!history.is_approved(digest("b")), "the next time it may break more");
        history.note(digest("b"), "1", Event::RolledBack, "it traps");
        assert!(!history.is_approved_after_all(digest("b")), "it was rolled back once more");
    }

    #[test]
    fn a_rollback_and_its_finalizer_are_not_evicted_by_repeated_entries() {
        let mut history = History::default();
        history.activate(digest("bad"), "1", holding("example.com/old"), "");
        history.note(digest("bad"), "1", Event::RolledBack, "it traps");
        for number in 0..3 * ENTRIES {
            history.activate(digest(["a", "b"][number % 2]), "1", holding("example.com/new"), "");
        }
        assert_eq!(history.entries().len(), ENTRIES);
        assert!(history.rolled_back(digest("bad")).is_some());
        assert_eq!(history.finalizers(), ["example.com/new", "example.com/old"].map(str::to_owned).into());
        assert_eq!(history.current(), Some(digest("b")));
        assert_eq!(history.before(history.current()), [digest("a")]);
    }

    #[test]
    fn rollbacks_and_approvals_are_not_evicted_by_many_activations() {
        let mut history = History::default();
        history.activate(digest("present"), "1", Activation::default(), "");
        for text in ["bad", "excused"] {
            history.activate(digest(text), "1", Activation::default(), "");
            history.note(digest(text), "1", Event::RolledBack, "it traps");
        }
        history.approve(digest("excused"));
        for number in 0..3 * ENTRIES {
            history.activate(digest(&number.to_string()), "2", Activation::default(), "");
        }
        assert_eq!(history.entries().len(), ENTRIES);
        assert!(history.rolled_back(digest("bad")).is_some());
        assert!(history.is_approved_after_all(digest("excused")));
    }

    #[test]
    fn an_approval_ends_when_another_component_is_activated() {
        let mut history = History::default();
        published(&mut history, "a");
        history.require_approval(digest("held"), "2", "it would delete much", false);
        history.approve(digest("held"));
        assert!(history.is_approved(digest("held")) && !history.is_approved(digest("a")));
        published(&mut history, "b");
        assert!(!history.is_approved(digest("held")));
    }

    #[test]
    fn the_active_component_is_not_evicted_by_many_that_were_never_active() {
        let mut history = History::default();
        history.activate(digest("before"), "1", holding("example.com/old"), "");
        history.activate(digest("present"), "1", Activation::default(), "");
        for number in 0..3 * ENTRIES {
            history.require_approval(digest(&number.to_string()), "2", "it would delete much", false);
            history.refuse(digest(&format!("refused {number}")), "NotGranted: it asks for Secrets");
        }
        assert_eq!(history.entries().len(), ENTRIES);
        assert_eq!(history.current(), Some(digest("present")));
        assert_eq!(history.before(history.current()), [digest("before")]);
        assert_eq!(history.finalizers(), ["example.com/old".to_owned()].into());
        let last = (3 * ENTRIES - 1).to_string();
        assert!(history.requires_approval(digest(&last)).is_some() && history.requires_approval(digest("0")).is_none());
    }

    #[test]
    fn a_component_requires_approval_also_after_a_restart() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "a");
        history.require_approval(digest("b"), "2", "it would delete much", false);
        let mut again = History::open(Some(base.path()), "memcached");
        assert_eq!(again.requires_approval(digest("b")).unwrap().message, "it would delete much");
        assert_eq!(again.before(Some(digest("b"))), [digest("a")]);
        assert!(again.requires_approval(digest("a")).is_none() && again.rolled_back(digest("b")).is_none());
        again.note(digest("b"), "", Event::Approved, "");
        assert!(again.requires_approval(digest("b")).is_none() && again.is_approved(digest("b")));
        assert!(!again.is_approved_after_all(digest("b")), "it has not failed yet");
        again.require_approval(digest("c"), "3", "it fails on 1 of 2 parents", true);
        assert!(!again.is_approved_after_all(digest("c")));
        again.note(digest("c"), "", Event::Approved, "");
        assert!(again.is_approved_after_all(digest("c")), "its failures were known");
        let restarted = History::open(Some(base.path()), "memcached");
        assert!(restarted.is_approved_after_all(digest("c")) && !restarted.is_approved_after_all(digest("b")));
        again.require_approval(digest("a"), "1", "it would delete much", false);
        assert_eq!(again.before(Some(digest("b"))), [digest("a")], "it was good when it decided");
        again.require_approval(digest("a"), "1", "it fails on 1 of 2 parents", true);
        assert!(again.before(Some(digest("b"))).is_empty(), "no automatic rollback goes to what fails");
    }

    #[test]
    fn a_refusal_is_recorded_and_changes_neither_an_approval_nor_a_rollback() {
        let mut history = History::default();
        published(&mut history, "a");
        history.require_approval(digest("b"), "2", "it fails on 1 of 1 parents", true);
        for _ in 0..3 {
            history.refuse(digest("b"), "NotGranted: it asks for Secrets");
        }
        let last = history.entries().last().unwrap();
        assert_eq!((history.entries().len(), last.event, &*last.version), (3, Event::Refused, "2"));
        assert!(history.requires_approval(digest("b")).is_some());
        history.approve(digest("b"));
        history.refuse(digest("b"), "NotGranted: it asks for Secrets");
        assert!(history.is_approved(digest("b")) && history.is_approved_after_all(digest("b")));
        history.note(digest("a"), "1", Event::RolledBack, "it traps");
        history.refuse(digest("a"), "NotGranted: it asks for Secrets");
        assert!(history.rolled_back(digest("a")).is_some() && history.before(None).is_empty());
    }

    #[test]
    fn what_requires_approval_has_one_line_however_often_it_is_tried() {
        let mut history = History::default();
        for _ in 0..3 {
            history.require_approval(digest("b"), "2", "it fails on 1 of 1 parents", true);
        }
        history.require_approval(digest("b"), "2", "it fails on 2 of 2 parents", true);
        assert_eq!(history.entries().len(), 2);
    }

    #[test]
    fn only_the_last_components_are_kept() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        for number in 0..20 {
            published(&mut history, &number.to_string());
        }
        let kept = (0..20).filter(|number| history.component(digest(&number.to_string()), MOST).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [15, 16, 17, 18, 19]);
    }

    #[test]
    fn rolled_back_components_are_kept_for_the_administrator_and_good_ones_for_the_host() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "good");
        for number in 0..2 * KEPT {
            published(&mut history, &number.to_string());
            history.note(digest(&number.to_string()), "1", Event::RolledBack, "it traps");
        }
        assert_eq!(history.before(None), [digest("good")]);
        for (text, kept) in [("good", true), ("0", false), ("9", true)] {
            assert_eq!(history.component(digest(text), MOST).is_some(), kept, "{text}");
        }
    }

    #[test]
    fn a_history_that_cannot_be_read_begins_anew() {
        let base = tempfile::tempdir().unwrap();
        for text in ["not json", "{}", "[{}]"] {
            let dir = base.path().join("revisions/memcached");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(HISTORY_FILE), text).unwrap();
            let mut history = History::open(Some(base.path()), "memcached");
            assert!(history.entries().is_empty());
            published(&mut history, "a");
            assert_eq!(History::open(Some(base.path()), "memcached").entries().len(), 1);
        }
    }

    #[test]
    fn a_history_that_cannot_be_read_is_put_aside_with_all_that_it_named() {
        let base = tempfile::tempdir().unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "a");
        let dir = history.dir.clone().unwrap();
        fs::write(dir.join(HISTORY_FILE), "not json").unwrap();
        let mut history = History::open(Some(base.path()), "memcached");
        published(&mut history, "b");
        assert!(history.is_kept(digest("a")) && history.is_kept(digest("b")));
        assert_eq!(fs::read_to_string(dir.join(UNREADABLE_FILE)).unwrap(), "not json");
        fs::remove_file(dir.join(UNREADABLE_FILE)).unwrap();
        published(&mut history, "c");
        assert!(!history.is_kept(digest("a")), "nothing names it any more");
    }

    #[test]
    fn what_is_approved_has_the_version_that_it_had_before() {
        let mut history = History::default();
        history.require_approval(digest("held"), "2", "it would delete much", false);
        history.approve(digest("held"));
        history.approve(digest("held"));
        history.approve(digest("unknown"));
        assert_eq!(history.entries().iter().map(|entry| &*entry.version).collect::<Vec<_>>(), ["2", "2", "2", ""]);
    }

    #[test]
    fn a_component_that_was_never_active_is_not_rolled_back_to() {
        let mut history = History::default();
        published(&mut history, "a");
        history.require_approval(digest("b"), "2", "it would delete much", false);
        assert_eq!(history.find_activated(&digest("a").to_string()), Ok(digest("a")));
        let why = history.find_activated(&digest("b").to_string()).unwrap_err();
        assert!(why.contains("never active") && why.contains("approve"), "{why}");
        for empty in ["", "sha256:"] {
            assert!(history.find_activated(empty).unwrap_err().contains("digits"));
        }
    }

    #[test]
    fn a_revision_is_named_by_the_beginning_of_its_digest() {
        let mut history = History::default();
        published(&mut history, "a");
        published(&mut history, "b");
        assert_eq!(history.find(&digest("a").to_string()), Ok(digest("a")));
        assert_eq!(history.find(&format!("sha256:{}", digest("b").full())), Ok(digest("b")));
        assert!(history.find("").is_err());
        assert!(history.find("zz").unwrap_err().contains("no revision"));
    }
}
