//! The canary of a plugin: a revision that decides for a share of the parents, beside the active one. Each parent is
//! decided by one of the two, chosen at the beginning of each reconcile.
//!
//! A canary has a [`Health`] of its own. A failing canary does not keep the active revision from deciding, and a failure of
//! the active revision does not end the canary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::health::Health;
use crate::reconcile::survey::Remembered;
use hotshoe_cluster::shared_watch::SharedWatch;
use hotshoe_core::flow::canary::{PausedTime, Share};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Key;
use hotshoe_core::model::object::Object;

/// A revision that decides for a share of the parents.
#[derive(Clone)]
pub struct Canary {
    /// The revision, with views of its own.
    pub revision: Arc<ActiveRevision>,
    /// The parents that the canary decides for.
    pub share: Share,
    /// The watched namespaces, if the share selects namespaces by label.
    pub namespaces: Option<Arc<SharedWatch>>,
    /// When the canary began.
    pub began: Instant,
    /// For how long the plugin has been paused since.
    pub paused: Arc<Mutex<PausedTime>>,
    /// When the canary began, in seconds since the epoch.
    pub since: u64,
    /// The number of parents of its share.
    pub counted: Arc<Remembered<usize>>,
    /// How its answers about proposed parents compare with those of the active revision.
    pub reviews: Arc<Reviews>,
}

/// How the answer of a canary about a proposed parent compares with that of the active revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The same would become of the object.
    Same,
    /// It alone would refuse the object.
    Refused,
    /// It alone would admit the object.
    Admitted,
    /// It would fill in something else.
    OtherDefaults,
    /// It did not answer in time.
    Unanswered,
    /// It was not asked, because it was still being asked about another object.
    Skipped,
}

impl Comparison {
    /// Returns the label value of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Refused => "refused",
            Self::Admitted => "admitted",
            Self::OtherDefaults => "other-defaults",
            Self::Unanswered => "unanswered",
            Self::Skipped => "skipped",
        }
    }
}

/// How often a canary was asked about proposed parents, by how its answer compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReviewCounts {
    /// The same would have become of the object.
    pub same: u64,
    /// It alone would have refused the object.
    pub refused: u64,
    /// It alone would have admitted the object.
    pub admitted: u64,
    /// It would have filled in something else.
    pub other_defaults: u64,
    /// It did not answer in time.
    pub unanswered: u64,
}

/// Counts how the answers of a canary about proposed parents compare, and has it asked about one at a time.
#[derive(Debug)]
pub struct Reviews {
    place: Arc<Semaphore>,
    counts: Mutex<ReviewCounts>,
    shown: Mutex<Option<(Instant, ReviewCounts)>>,
}

impl Default for Reviews {
    fn default() -> Self {
        Self { place: Arc::new(Semaphore::new(1)), counts: Mutex::default(), shown: Mutex::default() }
    }
}

impl Reviews {
    /// Takes the only place.
    ///
    /// # Errors
    /// When the canary is being asked already.
    pub fn enter(&self) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.place.clone().try_acquire_owned()
    }

    /// Counts a comparison. What was not asked about says nothing of the canary.
    pub fn count(&self, comparison: Comparison) {
        let mut counts = self.counts.lock();
        match comparison {
            Comparison::Same => counts.same += 1,
            Comparison::Refused => counts.refused += 1,
            Comparison::Admitted => counts.admitted += 1,
            Comparison::OtherDefaults => counts.other_defaults += 1,
            Comparison::Unanswered => counts.unanswered += 1,
            Comparison::Skipped => {}
        }
    }

    /// Returns the counts as they were at most [`REVIEWS_SHOWN_FOR`] ago.
    pub fn shown(&self, now: Instant) -> ReviewCounts {
        let mut shown = self.shown.lock();
        match *shown {
            Some((at, counts)) if now.saturating_duration_since(at) < REVIEWS_SHOWN_FOR => counts,
            _ => {
                let counts = *self.counts.lock();
                *shown = Some((now, counts));
                counts
            }
        }
    }
}

/// How long the same counts are shown: each change is a write of the status of a `Plugin`, and there may be hundreds of
/// reviews a second.
pub const REVIEWS_SHOWN_FOR: Duration = Duration::from_secs(10);

impl Canary {
    /// Returns the digest of the revision.
    pub fn digest(&self) -> Digest {
        self.revision.revision.digest()
    }

    /// Returns whether the canary decides for a parent.
    pub fn has(&self, parent: &Object) -> bool {
        let namespace = || {
            let name = parent.key.namespace.as_deref()?;
            self.namespaces.as_ref()?.cache.get(&Key::new(None, name))
        };
        let namespace = self.share.namespaces().and_then(|_| namespace());
        self.share.has(self.digest(), &parent.uid, namespace.as_deref())
    }

    /// Returns the number of parents that the canary decides for.
    /// It is found out at most once a second.
    pub fn parents(&self) -> usize {
        *self.counted.get(Instant::now(), || {
            self.revision.parents.watch.cache.all(|_| true).iter().filter(|parent| self.has(parent)).count()
        })
    }
}

/// The canary of one plugin, if it has one, with its health.
#[derive(Default)]
pub struct CanarySlot {
    current: ArcSwapOption<Canary>,
    /// Whether the canary may be called, and whether it does worse than the active revision.
    pub health: Health,
}

impl CanarySlot {
    /// Returns the current canary.
    pub fn current(&self) -> Option<Arc<Canary>> {
        self.current.load_full()
    }

    /// Returns whether this revision is the canary.
    pub fn is(&self, digest: Digest) -> bool {
        self.current.load().as_ref().is_some_and(|canary| canary.digest() == digest)
    }

    /// Replaces the canary, or removes it. Returns the previous one.
    pub fn replace(&self, next: Option<Arc<Canary>>) -> Option<Arc<Canary>> {
        let before = self.current.swap(next.clone());
        if before.as_ref().map(|before| before.digest()) != next.map(|next| next.digest()) {
            self.health.breaker.reset([]);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_is_asked_about_one_object_at_a_time() {
        let reviews = Reviews::default();
        let place = reviews.enter().unwrap();
        assert!(reviews.enter().is_err());
        drop(place);
        assert!(reviews.enter().is_ok());
    }

    #[test]
    fn counts_that_are_shown_change_every_ten_seconds_at_most() {
        let (reviews, start) = (Reviews::default(), Instant::now());
        let shown = |seconds| reviews.shown(start + Duration::from_secs(seconds));
        reviews.count(Comparison::Refused);
        reviews.count(Comparison::Skipped);
        let first = ReviewCounts { refused: 1, ..ReviewCounts::default() };
        assert_eq!(shown(0), first);
        reviews.count(Comparison::Same);
        assert_eq!(shown(9), first);
        assert_eq!(shown(10), ReviewCounts { same: 1, ..first });
    }
}
