//! *check*: runs on the thread of the call, and its time counts as time of the call. The plugin chooses how much there
//! is to check, compare and hash, and the host's own thread serves all plugins.

use std::hash::RandomState;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::PluginConfig;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::fingerprint::{InSync, beside_parent, sync_fingerprint};
use crate::reconcile::observe::{Observed, Rules, context_of};
use crate::reconcile::pass::Pass;
use crate::reconcile::status_plan::{Comparison, ObservedGeneration, StatusPlan};
use hotshoe_cluster::discovery::{Kinds, Resource};
use hotshoe_cluster::shared_watch::SharedWatch;
use hotshoe_cluster::view::held_by_namespace;
use hotshoe_core::check;
use hotshoe_core::check::memory_quota::{DecisionMemory, Quota};
use hotshoe_core::check::{AdmittedDecision, Denial, Desired, Inadmissible, ObservedState, Stage};
use hotshoe_core::diff;
use hotshoe_core::diff::Plan;
use hotshoe_core::diff::associative_lists::AssociativeLists;
use hotshoe_core::diff::changed_fields::DesiredBefore;
use hotshoe_core::flow::flapping::DesiredFingerprint;
use hotshoe_core::model::decision::{Answer, Call, Children, Decision};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::ObservedChildren;
use hotshoe_sandbox::revision::Revision;

/// Checks answers about one parent. Owns all its inputs, so that it can run on the thread of the call.
pub struct Gate {
    call: Call,
    plugin: Arc<PluginConfig>,
    revision: Arc<Revision>,
    namespaces: Option<Arc<SharedWatch>>,
    kinds: Arc<Kinds>,
    observed: Arc<Observed>,
    owned: Vec<Arc<SharedWatch>>,
    quota: Quota,
}

impl Gate {
    /// Prepares to check the answers of a revision about an observation.
    pub fn of(controller: &Controller, active: &ActiveRevision, call: Call, observed: &Arc<Observed>) -> Self {
        let limits = &active.plugin.limits;
        let held = active.note_held();
        Self {
            call,
            plugin: active.plugin.clone(),
            revision: active.revision.clone(),
            namespaces: active.namespaces.clone(),
            kinds: controller.kinds.clone(),
            observed: observed.clone(),
            owned: active.owned.iter().map(|view| view.watch.clone()).collect(),
            quota: Quota { held, most: limits.held_bytes.bytes(), answer: limits.boundary_bytes.bytes() },
        }
    }

    /// Returns the decision of an answer, with its children completed, if the answer is admissible.
    ///
    /// # Errors
    /// Why the answer is not admissible.
    pub fn check(&self, answer: Answer) -> Result<AdmittedDecision, Inadmissible> {
        let observed = &*self.observed;
        let rules = Rules {
            plugin: &self.plugin,
            revision: &self.revision,
            kinds: &self.kinds,
            namespaces: self.namespaces.as_deref(),
        };
        let reference = &observed.shown.parent.reference;
        let context = context_of(rules, reference, &observed.parent.uid);
        let (parent, children, quota) = (&*observed.parent, &observed.children, self.quota);
        let by_namespace = &|namespaces: &[_]| held_by_namespace(&self.owned, &self.plugin.name, namespaces);
        let room = DecisionMemory { shared: &self.plugin.memory, parent, children, quota, by_namespace };
        let state = ObservedState { children: &observed.references(), room: Some(room) };
        check::admit(self.call, answer, state, &context)
    }
}

/// An admissible answer, with everything that was computed from it.
pub struct Checked {
    /// How far the reconcile or the clean-up is.
    pub stage: Stage,
    /// The decision.
    pub decision: Decision,
    /// What to do with the children.
    pub target: Target,
    /// What must be written of the parent's status.
    pub status: StatusPlan,
    /// The fingerprints of the desired state.
    pub desired_fingerprint: DesiredFingerprint,
}

/// What to do with the children.
pub enum Target {
    /// Leave them as they are.
    Keep,
    /// Nothing: desired and observed children were in sync, and neither has changed.
    InSync,
    /// Apply these, and prune all others.
    Exactly(Planned),
}

/// The desired children, compared with the observed ones and with those that were desired before.
pub struct Planned {
    /// What must be written.
    pub plan: Plan,
    /// The desired children, each with the fields that are desired differently than before, if these are known.
    pub changed: Vec<(ObjectRef, Option<Vec<String>>)>,
    /// The fingerprints of the desired children, to remember for the next comparison.
    pub desired: Arc<DesiredBefore>,
}

/// Checks the answers of one pass.
pub struct Check {
    gate: Gate,
    resource: Arc<Resource>,
    hasher: RandomState,
    basis: u64,
    manager: String,
    in_sync: Option<u64>,
    current_status: Option<u64>,
    observed_generation: ObservedGeneration,
    before: Arc<DesiredBefore>,
    associative_lists: Arc<RwLock<AssociativeLists>>,
}

impl Check {
    /// Prepares to check the answers of a pass.
    pub fn of(pass: &Pass<'_>, call: Call, observed: &Arc<Observed>) -> Self {
        let (controller, active) = (pass.controller, pass.active);
        Self {
            gate: Gate::of(controller, active, call, observed),
            resource: active.resource(),
            hasher: controller.hasher.clone(),
            basis: active.basis,
            manager: pass.manager().to_owned(),
            in_sync: pass.state.in_sync,
            current_status: pass.state.current_status,
            observed_generation: controller.observed_generation(active.parent_kind()),
            before: pass.state.desired.clone(),
            associative_lists: controller.associative_lists.clone(),
        }
    }

    /// Returns the decision of an answer and what to do for it, if the answer is admissible.
    ///
    /// # Errors
    /// Why the answer is not admissible.
    pub fn run(&self, answer: Answer) -> Result<Checked, Inadmissible> {
        let desired_fingerprint =
            answer.decision().map(|decision| self.desired_fingerprint(decision)).unwrap_or_default();
        match answer {
            Answer::Decided(decision) if self.is_in_place(&decision, desired_fingerprint) => {
                let status = self.status(&decision)?;
                Ok(Checked { stage: Stage::Decided, decision, target: Target::InSync, status, desired_fingerprint })
            }
            answer => {
                let AdmittedDecision { stage, decision, desired } = self.gate.check(answer)?;
                let target = desired.map_or(Target::Keep, |desired| Target::Exactly(self.plan(desired)));
                let status = self.status(&decision)?;
                Ok(Checked { stage, decision, target, status, desired_fingerprint })
            }
        }
    }

    fn status(&self, decision: &Decision) -> Result<StatusPlan, Denial> {
        let (parent, current) = (&*self.gate.observed.parent, self.current_status);
        let (generation, observed) = (parent.generation, self.observed_generation);
        let by = Comparison { hasher: &self.hasher, manager: &self.manager, generation, observed, current };
        StatusPlan::of(decision, parent, by)
    }

    fn desired_fingerprint(&self, decision: &Decision) -> DesiredFingerprint {
        DesiredFingerprint {
            children: decision.desired_children(&self.hasher),
            feedback: decision.feedback(self.gate.revision.own_status(), &self.hasher),
            about: beside_parent(&self.hasher, &self.gate.observed.shown),
        }
    }

    /// Returns whether desired and observed children are the same that were found in sync before. Checking and
    /// comparing them again would have the same result.
    fn is_in_place(&self, decision: &Decision, desired_fingerprint: DesiredFingerprint) -> bool {
        let about = InSync { basis: self.basis, manager: &self.manager, desired: desired_fingerprint.children };
        self.gate.call == Call::Reconcile
            && is_in_place(&self.hasher, about, &self.gate.observed.children, decision, self.in_sync)
            && check::status::check_owner(decision, &self.resource.kind).is_ok()
    }

    fn plan(&self, desired: Vec<Desired>) -> Planned {
        let (known, changed) = self.before.next(&desired, &self.hasher);
        let changed = desired.iter().map(|one| one.reference.clone()).zip(changed).collect();
        let plugin = &self.gate.plugin;
        let makers: Vec<&str> =
            std::iter::once(&*plugin.name).chain(plugin.predecessors.names().iter().map(String::as_str)).collect();
        let lists = self.associative_lists.read();
        let plan = diff::plan(desired, &self.gate.observed.children, &makers, &self.manager, &lists);
        Planned { plan, changed, desired: Arc::new(known) }
    }
}

/// Returns whether the desired and observed children are those that were found in sync (`in_sync`), and the status is
/// admissible. An answer is admitted as a whole, so a status that is denied must deny the children, too.
pub fn is_in_place(
    hasher: &RandomState,
    about: InSync<'_>,
    children: &ObservedChildren,
    decision: &Decision,
    in_sync: Option<u64>,
) -> bool {
    in_sync.is_some()
        && matches!(decision.children, Children::Exactly(_))
        && in_sync == Some(sync_fingerprint(hasher, about, children))
        && check::status::check(decision.status.as_deref(), &decision.conditions).is_ok()
}
