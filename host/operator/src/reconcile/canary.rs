//! The canary of a plugin: a revision that decides for a share of the parents, beside the active one. Each parent is
//! decided by one of the two, chosen at the beginning of each reconcile.
//!
//! A canary has a [`Health`] of its own. A failing canary does not keep the active revision from deciding, and a failure of
//! the active revision does not end the canary.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

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
}

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
