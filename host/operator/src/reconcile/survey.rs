//! What is known of all parents of a plugin together. Status, readiness, metrics and the passes over `Plugin` objects
//! show it, and anyone who reaches a port chooses how often; so it is found out at most once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::api::status::{Deleting, Stalled, StalledParent};
use hotshoe_cluster::time;
use hotshoe_core::model::kind::Key;
use hotshoe_core::model::object::Object;

/// How long a value that costs a look at every parent is shown before it is found out anew.
const SHOWN_FOR: Duration = Duration::from_secs(1);
/// Deletions that last longer than this are shown, in seconds.
const LONG_DELETION_SECONDS: u64 = 60;
/// How many stalled parents are shown by name.
const MAX_STALLED_SHOWN: usize = 10;

/// A value that is found out at most once a second.
#[derive(Debug)]
pub struct Remembered<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Remembered<T> {
    /// Returns the value that was found out in the last second before `now`, or otherwise finds it out. Of several
    /// threads that ask, one does; the others wait for it.
    pub fn get(&self, now: Instant, find_out: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.0.lock();
        match &*known {
            Some((at, value)) if now.saturating_duration_since(*at) < SHOWN_FOR => value.clone(),
            _ => {
                let value = Arc::new(find_out());
                *known = Some((now, value.clone()));
                value
            }
        }
    }
}

/// What is known of all parents of a plugin together.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// How many failed at their last reconcile.
    pub failing: usize,
    /// How many others have children that the API server refuses.
    pub refused: usize,
    /// The parents that are not retried before something changes.
    pub stalled: Option<Stalled>,
    /// The parents whose deletion takes long.
    pub deleting: Option<Deleting>,
}

impl Stalled {
    /// Summarises parents: the key of each, how often it was tried, and the reason of its last failure.
    pub(super) fn of<'a>(stalled: impl Iterator<Item = (&'a Key, u32, &'a str)>) -> Option<Self> {
        let shown = |(key, tries, reason): (&Key, u32, &str)| StalledParent {
            object: key.to_string(),
            tries,
            reason: reason.to_owned(),
        };
        let mut parents: Vec<_> = stalled.map(shown).collect();
        parents.sort_by(|a, b| a.object.cmp(&b.object));
        let count = parents.len();
        parents.truncate(MAX_STALLED_SHOWN);
        (count > 0).then_some(Self { count, parents })
    }
}

/// Which deletions take long at some time.
pub(super) struct LongDeletion {
    /// The latest time at which such a deletion began, as Kubernetes writes it.
    began: String,
}

impl LongDeletion {
    pub(super) fn at(now: u64) -> Option<Self> {
        Some(Self { began: time::at(now.saturating_sub(LONG_DELETION_SECONDS))? })
    }

    /// Returns whether the deletion of an object takes long. Parses nothing: users choose how many parents are being
    /// deleted, and how large they are.
    pub(super) fn has(&self, object: &Object) -> bool {
        object.deleted_at.as_deref().is_some_and(|began| *began <= *self.began)
    }
}

impl Deleting {
    /// Summarises parents whose deletion takes long. `awaited` returns what one of them waits for.
    pub(super) fn of(late: &[Arc<Object>], now: u64, awaited: impl Fn(&Object) -> Option<Box<str>>) -> Option<Self> {
        let oldest = late.iter().min_by(|a, b| (&a.deleted_at, &a.key).cmp(&(&b.deleted_at, &b.key)))?;
        let since = time::seconds(oldest.deleted_at.as_deref()?)?;
        let reason = awaited(oldest).map_or_else(|| not_reconciled_yet(oldest), String::from);
        Some(Self { count: late.len(), oldest: oldest.key.to_string(), seconds: now.saturating_sub(since), reason })
    }
}

fn not_reconciled_yet(parent: &Object) -> String {
    format!("it was not reconciled yet; its finalizers are {}", parent.finalizers.join(", "))
}

#[cfg(test)]
mod tests {
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    use super::*;

    #[test]
    fn what_costs_a_look_at_every_parent_is_found_out_once_a_second_however_often_it_is_asked_for() {
        let (remembered, start, mut looks) = (Remembered::default(), Instant::now(), 0);
        for milliseconds in 0..3_000 {
            let now = start + Duration::from_millis(milliseconds);
            let seen = *remembered.get(now, || {
                looks += 1;
                looks
            });
            assert_eq!(seen, milliseconds / 1_000 + 1, "after {milliseconds} ms");
        }
        assert_eq!(looks, 3);
    }

    fn deleted(name: &str, at: &str) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"1","deletionTimestamp":"{at}","finalizers":["a/b"]}}}}"#
        );
        let kept_fields = KeptFields { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        // No body: what is shown of a deletion is not read from it.
        Arc::new(Object { body: "".into(), ..Object::read(&json, &kept_fields).unwrap() })
    }

    #[test]
    fn the_oldest_of_long_deletions_is_shown_without_its_body() {
        let now = time::seconds("2026-01-01T00:10:00Z").unwrap();
        let late = LongDeletion::at(now).unwrap();
        let parents = [("a", "00:08:00"), ("b", "00:05:00"), ("c", "00:09:30")]
            .map(|(name, at)| deleted(name, &format!("2026-01-01T{at}Z")));
        let late: Vec<_> = parents.into_iter().filter(|parent| late.has(parent)).collect();
        let shown = Deleting::of(&late, now, |_| None).unwrap();
        assert_eq!((shown.count, &*shown.oldest, shown.seconds), (2, "n/b", 300));
        assert!(shown.reason.contains("a/b"), "{}", shown.reason);
    }
}
