//! Makes entries of a history, and leaves out those that no host can have written.

use crate::api::history::Entry;
use hotshoe_cluster::time;
use hotshoe_core::check::provenance::Signer;
use hotshoe_core::flow::probation::CallStats;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::plugin::past::{Event, Recorded};

/// What is recorded when a component is activated.
#[derive(Clone, Debug, Default)]
pub struct Activation {
    /// The component's finalizer.
    pub finalizer: Option<String>,
    /// The kinds that the component owns.
    pub owns: Vec<Kind>,
    /// Where the component was fetched from, exactly; none if its source is a file.
    pub source: Option<String>,
    /// The signers of whom one has signed its image; none if no signature was required.
    pub signed_by: Vec<Signer>,
    /// The call statistics of the revision before the component, with which it is compared.
    pub before: CallStats,
}

impl Recorded for Entry {
    fn digest(&self) -> Digest {
        self.digest
    }

    fn event(&self) -> Event {
        self.event
    }

    fn fails(&self) -> bool {
        self.fails
    }
}

impl Entry {
    /// Builds an entry with the present time.
    pub(super) fn of(digest: Digest, version: &str, event: Event, message: &str) -> Self {
        let at = time::unix_seconds();
        let (version, message) = (version.to_owned(), message.to_owned());
        let Activation { finalizer, owns, source, signed_by, before } = Activation::default();
        Self { digest, version, at, event, message, finalizer, owns, source, signed_by, before, fails: false }
    }
}

/// How far ahead of this host's clock the time of an entry may be: the clocks of hosts differ.
const MAX_AHEAD_SECONDS: u64 = 3600;

/// Returns the entries of a history that a host can have written. One with a time far ahead would count as the newest
/// for good, and an approval of a component that nothing else is known of is not a host's.
pub(super) fn plausible(entries: Vec<Entry>, now: u64) -> Vec<Entry> {
    let latest = now.saturating_add(MAX_AHEAD_SECONDS);
    let mut kept: Vec<Entry> = Vec::new();
    for entry in entries {
        let is_known = entry.event != Event::Approved || kept.iter().any(|before| before.digest == entry.digest);
        if entry.at <= latest && is_known {
            kept.push(entry);
        } else {
            let Entry { digest, at, event, .. } = entry;
            tracing::warn!(%digest, ?event, at, "an entry of the history of revisions was not written by a host, and is left out");
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::history::fixtures::digest;

    #[test]
    fn an_entry_with_a_time_far_ahead_and_an_approval_of_an_unknown_component_are_left_out() {
        let of = |name: &str, event: Event, at: u64| Entry { at, ..Entry::of(digest(name), "1", event, "") };
        let now = 1_795_406_400;
        let good = [
            of("a", Event::Activated, now - 5),
            of("b", Event::ApprovalRequired, now),
            of("b", Event::Approved, now + MAX_AHEAD_SECONDS),
        ];
        let bad = [
            of("b", Event::Approved, now + MAX_AHEAD_SECONDS + 1),
            of("a", Event::RolledBack, 253_370_764_800),
            of("a", Event::Activated, 10_000_000_000_000_000_000),
            of("c", Event::Approved, now),
        ];
        assert_eq!(plausible([&good[..], &bad[..]].concat(), now), good);
        assert_eq!(plausible(vec![of("a", Event::Activated, u64::MAX)], u64::MAX).len(), 1, "nothing overflows");
    }
}
