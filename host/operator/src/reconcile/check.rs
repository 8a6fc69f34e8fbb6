//! *check*: runs on the thread of the call, and its time counts as time of the call. The plugin chooses how much there
//! is to check, compare and hash, and the host's own thread serves all plugins.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::PluginConfig;
use crate::reconcile::fingerprint::beside_parent;
use crate::reconcile::gate::{Admission, Admitted};
use crate::reconcile::observe::Observed;
use crate::reconcile::pass::Pass;
use crate::reconcile::status_plan::{Comparison, ObservedGeneration, StatusPlan};
use hotshoe_core::check::parent_metadata::StatedMetadata;
use hotshoe_core::check::{AdmittedDecision, Denial, Desired, Inadmissible, Stage};
use hotshoe_core::diff;
use hotshoe_core::diff::Plan;
use hotshoe_core::diff::associative_lists::AssociativeLists;
use hotshoe_core::diff::changed_fields::DesiredBefore;
use hotshoe_core::diff::parent_metadata;
use hotshoe_core::flow::flapping::DesiredFingerprint;
use hotshoe_core::model::decision::{Answer, Call, Decision};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_sandbox::revision::Revision;

/// An admissible answer, with everything that was computed from it.
pub struct CheckedDecision {
    /// How far the reconcile or the clean-up is.
    pub stage: Stage,
    /// The decision.
    pub decision: Decision,
    /// What must be written of the children; `None` if they stay as they are.
    pub planned: Option<Planned>,
    /// The labels and annotations of the parent that must be written; `None` if they are as stated, or stay as they are.
    pub metadata: Option<StatedMetadata>,
    /// What must be written of the parent's status.
    pub status: StatusPlan,
    /// The fingerprints of the desired state.
    pub desired_fingerprint: DesiredFingerprint,
}

/// The desired children, compared with the observed ones and with those that were desired before.
pub struct Planned {
    /// What must be written.
    pub plan: Plan,
    /// The desired children, each with the fields that are desired differently than before, if these are known.
    pub changed: Vec<(ObjectRef, Option<Vec<String>>)>,
    /// The fingerprints of the desired children, to remember for the next comparison.
    pub desired: Arc<DesiredBefore>,
    /// What the gate remembers once the children are in sync.
    pub admitted: Admitted,
}

/// Checks the answers of one pass.
pub struct Check {
    admission: Admission,
    plugin: Arc<PluginConfig>,
    revision: Arc<Revision>,
    observed: Arc<Observed>,
    admitted: Admitted,
    current_status: Option<u64>,
    observed_generation: ObservedGeneration,
    before: Arc<DesiredBefore>,
    associative_lists: Arc<RwLock<AssociativeLists>>,
    metadata_manager: String,
}

impl Check {
    /// Prepares to check the answers of a pass.
    pub fn of(pass: &Pass<'_>, call: Call, observed: &Arc<Observed>) -> Self {
        let (controller, active) = (pass.controller, pass.active);
        Self {
            admission: Admission::of(active, call, observed),
            plugin: active.plugin.clone(),
            revision: active.revision.clone(),
            observed: observed.clone(),
            admitted: Admitted::of(controller, active, pass.state.admitted),
            current_status: pass.state.current_status,
            observed_generation: controller.observed_generation(active.parent_kind()),
            before: pass.state.desired.clone(),
            associative_lists: controller.associative_lists.clone(),
            metadata_manager: controller.writer.metadata_manager().to_owned(),
        }
    }

    /// Returns the decision of an answer and what to do for it, if the answer is admissible.
    ///
    /// # Errors
    /// Why the answer is not admissible.
    pub fn run(&self, answer: Answer) -> Result<CheckedDecision, Inadmissible> {
        let desired_fingerprint =
            answer.decision().map(|decision| self.desired_fingerprint(decision)).unwrap_or_default();
        let AdmittedDecision { stage, decision, desired, metadata } =
            self.admission.admit(answer, desired_fingerprint.children, Some(&self.admitted))?;
        let planned = desired.map(|desired| self.plan(desired));
        let is_written = |stated: &StatedMetadata| {
            !parent_metadata::is_as_stated(stated, &self.observed.parent, &self.metadata_manager)
        };
        let metadata = metadata.filter(is_written);
        let status = self.status(&decision)?;
        Ok(CheckedDecision { stage, decision, planned, metadata, status, desired_fingerprint })
    }

    fn status(&self, decision: &Decision) -> Result<StatusPlan, Denial> {
        let (parent, current) = (&*self.observed.parent, self.current_status);
        let (generation, observed) = (parent.generation, self.observed_generation);
        let Admitted { hasher, manager, .. } = &self.admitted;
        let by = Comparison { hasher, manager, generation, observed, current };
        StatusPlan::of(decision, parent, by)
    }

    fn desired_fingerprint(&self, decision: &Decision) -> DesiredFingerprint {
        DesiredFingerprint {
            children: decision.desired_children(&self.admitted.hasher),
            feedback: decision.feedback(self.revision.own_status(), &self.admitted.hasher),
            about: beside_parent(&self.admitted.hasher, &self.observed.shown),
        }
    }

    fn plan(&self, desired: Vec<Desired>) -> Planned {
        let (known, changed) = self.before.next(&desired, &self.admitted.hasher);
        let changed = desired.iter().map(|one| one.reference.clone()).zip(changed).collect();
        let makers = self.plugin.makers();
        let lists = self.associative_lists.read();
        let plan = diff::plan(desired, &self.observed.children, &makers, &self.admitted.manager, &lists);
        Planned { plan, changed, desired: Arc::new(known), admitted: self.admitted.clone() }
    }
}
