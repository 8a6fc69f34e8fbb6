//! Which components were activated, rolled back, refused or approved. The history and the last components are kept on
//! disk, so that an earlier revision can be activated again without network or compiler, also after a restart.
//!
//! ```text
//! BASE/revisions/PLUGIN/history.json     the entries, newest last
//! BASE/revisions/PLUGIN/DIGEST.wasm      the components that the newest entries name
//! ```
//!
//! A component that is read back is checked against its digest. The history lies in directories that only the host's
//! user can write, because a process that can write there chooses the active component. Without a directory, the
//! entries are kept in memory until the process ends, and no components are kept.
//!
//! | file | contents |
//! |---|---|
//! | `entry.rs` | makes entries, and leaves out those that no host can have written |
//! | `queries.rs` | the state of a component, derived from its entries |
//! | `eviction.rs` | which entries and components are kept |
//! | `layout.rs` | where the files lie |
//! | `disk.rs` | reads and writes them |
//! | `room.rs` | how much disk space the components of all plugins have |

mod disk;
mod entry;
mod eviction;
mod layout;
mod queries;
mod room;

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use hotshoe_core::check::provenance::Signer;
use hotshoe_core::model::digest::Digest;

use crate::rollout::history::entry::plausible;
use hotshoe_cluster::time;

pub use crate::api::history::Entry;
pub use crate::rollout::history::entry::Activation;
pub use crate::rollout::history::layout::FETCHED;
pub use crate::rollout::history::room::DiskSpace;
pub use hotshoe_core::plugin::past::Event;

/// The history of one plugin.
#[derive(Clone, Debug, Default)]
pub struct History {
    dir: Option<PathBuf>,
    room: Arc<DiskSpace>,
    entries: Vec<Entry>,
    /// Why the entries could not be written last.
    write_error: Option<String>,
    /// Why the last component could not be kept.
    keep_error: Option<String>,
    /// Whether another host writes the files, so that this one only reads them.
    is_read_only: bool,
}

impl History {
    /// Adds an entry.
    pub fn note(&mut self, digest: Digest, version: &str, event: Event, message: &str) {
        self.add(Entry::of(digest, version, event, message));
    }

    /// Adds that a component requires approval, because it fails or for another reason. Adds nothing where the
    /// component's last entry says the same, or where it was rolled back: that needs the same approval.
    pub fn require_approval(&mut self, digest: Digest, version: &str, message: &str, fails: bool) {
        if self.rolled_back(digest).is_some() {
            return;
        }
        self.add_if_new(Entry { fails, ..Entry::of(digest, version, Event::ApprovalRequired, message) });
    }

    /// Adds that a component cannot be activated as it is, unless the component's last entry says the same.
    pub fn refuse(&mut self, digest: Digest, message: &str) {
        let version = self.version_of(digest);
        self.add_if_new(Entry::of(digest, &version, Event::Refused, message));
    }

    /// Adds that an administrator approved a component.
    pub fn approve(&mut self, digest: Digest) {
        self.note(digest, &self.version_of(digest), Event::Approved, "");
    }

    /// Reads entries that are kept outside of this host, without those that no host can have written.
    pub fn read(entries: &[Value]) -> Vec<Entry> {
        let parsed = entries.iter().filter_map(|entry| serde_json::from_value(entry.clone()).ok());
        plausible(parsed.collect(), time::unix_seconds())
    }

    /// Takes over the entries that are remembered elsewhere of the same plugin, if their last one is newer.
    #[must_use]
    pub fn or_newer(mut self, remembered: Vec<Entry>) -> Self {
        if self.is_older_than(&remembered) {
            self.entries = remembered;
            self.evict();
            self.save();
        }
        self
    }

    fn version_of(&self, digest: Digest) -> String {
        let known = self.entries.iter().rfind(|entry| entry.digest == digest && !entry.version.is_empty());
        known.map(|entry| entry.version.clone()).unwrap_or_default()
    }

    fn add_if_new(&mut self, entry: Entry) {
        let last = self.entries.iter().rfind(|known| known.digest == entry.digest);
        let content = |entry: &Entry| (entry.event, entry.message.clone(), entry.fails);
        if last.map(content) != Some(content(&entry)) {
            self.add(entry);
        }
    }

    /// Adds that a component is active now.
    pub fn activate(&mut self, digest: Digest, version: &str, activation: Activation, message: &str) {
        let Activation { finalizer, owns, source, signed_by, before } = activation;
        let entry = Entry::of(digest, version, Event::Activated, message);
        self.add(Entry { finalizer, owns, source, signed_by, before, ..entry });
    }

    /// Records by whom the image of a component that was active is signed, in the entry of its last activation. The
    /// accepted signers may have changed since.
    pub fn record_signers(&mut self, digest: Digest, signed_by: Vec<Signer>) {
        let is_it = |entry: &&mut Entry| entry.digest == digest && entry.event == Event::Activated;
        let Some(entry) = self.entries.iter_mut().rfind(is_it) else { return };
        if entry.signed_by != signed_by {
            entry.signed_by = signed_by;
            self.save();
        }
    }

    /// Adds an entry with a time that is not before the last entry's. If the clock was set back, or the clock of the host
    /// before was ahead, the memory of the cluster would seem newer than this entry and replace it: a rollback would be
    /// forgotten.
    fn add(&mut self, mut entry: Entry) {
        entry.at = entry.at.max(self.entries.last().map_or(0, |last| last.at));
        self.entries.push(entry);
        self.evict();
        self.save();
    }
}

#[cfg(test)]
mod fixtures;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::history::fixtures::digest;

    #[test]
    fn the_signers_of_a_component_are_those_that_were_recorded_last() {
        let key = |text: &str| vec![Signer::Key { key: digest(text) }];
        let mut history = History::default();
        history.activate(digest("a"), "1", Activation { signed_by: key("old"), ..Activation::default() }, "");
        history.activate(digest("b"), "2", Activation::default(), "");
        history.record_signers(digest("a"), key("new"));
        history.record_signers(digest("unknown"), key("new"));
        assert_eq!(history.signed_by(digest("a")), key("new"));
        assert!(history.signed_by(digest("b")).is_empty() && history.signed_by(digest("unknown")).is_empty());
        let kept: Vec<Value> = history.entries().iter().map(|entry| serde_json::to_value(entry).unwrap()).collect();
        assert_eq!(History::read(&kept), history.entries());
    }

    #[test]
    fn a_time_that_no_clock_reaches_is_no_reason_to_panic() {
        let mut history = History::default();
        history.activate(digest("a"), "1", Activation::default(), "");
        history.activate(digest("b"), "2", Activation::default(), "");
        history.entries.iter_mut().for_each(|entry| entry.at = 10_000_000_000_000_000_000);
        assert_eq!(history.on_probation_since(digest("b")), None);
    }

    #[test]
    fn a_rollback_counts_after_the_clock_was_set_back() {
        let mut history = History::default();
        history.activate(digest("good"), "1", Activation::default(), "");
        history.activate(digest("bad"), "2", Activation::default(), "");
        history.entries.iter_mut().for_each(|entry| entry.at += 24 * 3600);
        let remembered = history.entries.clone();
        history.note(digest("bad"), "2", Event::RolledBack, "it traps");
        assert!(!history.is_older_than(&remembered));
        let history = history.or_newer(remembered);
        assert_eq!(history.rolled_back(digest("bad")).map(|entry| &*entry.message), Some("it traps"));
        assert_eq!(history.rollback_targets(Some(digest("bad"))), [digest("good")]);
    }

    #[test]
    fn an_approval_has_the_version_of_the_components_earlier_entry() {
        let mut history = History::default();
        history.require_approval(digest("waiting"), "2", "it would delete much", false);
        history.approve(digest("waiting"));
        history.approve(digest("waiting"));
        history.approve(digest("unknown"));
        assert_eq!(history.entries().iter().map(|entry| &*entry.version).collect::<Vec<_>>(), ["2", "2", "2", ""]);
    }

    #[test]
    fn a_requirement_of_approval_is_recorded_again_only_if_its_message_changes() {
        let mut history = History::default();
        for _ in 0..3 {
            history.require_approval(digest("b"), "2", "it fails on 1 of 1 parents", true);
        }
        history.require_approval(digest("b"), "2", "it fails on 2 of 2 parents", true);
        assert_eq!(history.entries().len(), 2);
    }
}
