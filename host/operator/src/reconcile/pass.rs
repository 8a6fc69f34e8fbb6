//! The context of one pass over one parent, which every step of the pass works with.

use std::hash::BuildHasher;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::record::Record;
use crate::reconcile::requeue::{Ending, Requeue};
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::view;
use hotshoe_core::check::ignored::Ignored;
use hotshoe_core::flow::circuit_breaker::Trial;
use hotshoe_core::flow::signal::Signal;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Object, ObservedChildren};

/// One pass over one parent, with one revision of the plugin from beginning to end.
pub struct Pass<'a> {
    /// The plugin's controller.
    pub controller: &'a Controller,
    /// The revision that decides.
    pub active: &'a ActiveRevision,
    /// The right to write, which ends with the lease.
    pub permit: &'a Permit,
    /// The parent as the pass found it.
    pub parent: Arc<Object>,
    /// The children as the pass saw or left them.
    pub children: ObservedChildren,
    /// The objects that name the parent as their controller and are outside of the grant.
    pub ignored: Ignored,
    /// The state kept of the parent between passes.
    pub state: ParentState,
    /// Whether the requeue of the last decision is due.
    pub is_due: bool,
    /// Whether the plugin was shown Secrets in this pass. Then their bytes may be anywhere in its answer.
    pub tainted: bool,
    /// The trial of the circuit breaker, which ends with the pass.
    pub trial: Option<Trial<'a>>,
    /// What the pass has shown about the revision.
    pub signals: Vec<Signal>,
    /// What the pass has decided on and written.
    pub record: Record,
}

impl<'a> Pass<'a> {
    /// Begins a pass over a parent.
    pub fn begin(
        controller: &'a Controller,
        active: &'a ActiveRevision,
        parent: Arc<Object>,
        permit: &'a Permit,
    ) -> Self {
        let mut state = controller.recall(&parent);
        if state.term != permit.term() {
            // Another host may have reconciled the parent since.
            state = ParentState { term: permit.term(), ..ParentState::new(&parent) };
        }
        let (children, ignored) = active.family_of(&parent);
        let is_due = state.is_due();
        let (tainted, trial, signals, record) = (false, None, Vec::new(), Record::default());
        Self { controller, active, permit, parent, children, ignored, state, is_due, tainted, trial, signals, record }
    }

    /// Returns the reference of the parent.
    pub fn reference(&self) -> ObjectRef {
        view::reference(self.active.parent_kind(), &self.parent.key)
    }

    /// Returns the plugin's field manager.
    pub fn manager(&self) -> &'a str {
        self.controller.writer.manager()
    }

    /// Returns whether the parent is being deleted and has a finalizer that only this plugin removes.
    pub fn blocks_deletion(&self) -> bool {
        let blocks_deletion = |parent: &Object| parent.deleting && self.active.our_finalizer(parent).is_some();
        self.live().is_some_and(|live| blocks_deletion(&live))
    }

    /// Records what the pass has shown about the revision.
    pub fn record_signals(&mut self) {
        let (trial, signals) = (self.trial.take(), mem::take(&mut self.signals));
        self.controller.record(self.active, &self.parent.key, trial, &signals);
    }

    /// Ends the pass: stores the state of the parent, and returns when to reconcile it again. A parent on which the
    /// plugin flaps has a pause.
    pub fn end(self, result: &Result<Outcome, Error>, is_reported: bool, flap_pause: Option<Duration>) -> Requeue {
        let object = &self.parent.key;
        if let Some(pause) = flap_pause {
            tracing::warn!(?pause, "the plugin keeps changing what it desires for this object; it is slowed down");
        }
        let was_deleted = !self.parent.deleting && self.live().is_some_and(|live| live.deleting);
        let (blocks_deletion, policy) = (self.blocks_deletion(), &self.active.plugin.retry);
        let ending = Ending { result, is_reported, blocks_deletion, policy, was_deleted, flap_pause };
        let requeue = match Requeue::after(&ending, &self.state) {
            due if result.is_err() => {
                due.jittered(self.controller.hasher.hash_one((&object.name, self.state.failures)))
            }
            due => due,
        };
        tracing::debug!(?result, ?requeue, "reconciled");
        self.controller.remember(&self.parent.key, self.state);
        requeue
    }

    /// Returns the newest known version of the parent; `None` if it is gone.
    pub fn live(&self) -> Option<Arc<Object>> {
        self.active.parents.watch.cache.get(&self.parent.key).filter(|live| live.uid == self.parent.uid)
    }
}
