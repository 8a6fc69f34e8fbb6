//! The gate, with all that it reads: the one way in which an answer, a deletion or the result of a write is admitted.
//!
//! A parent whose children are as desired is most of the work of a host. So the gate remembers one verdict for each
//! parent: which desired children it admitted for which observed ones, when nothing of them was left to be written. The
//! key of the verdict changes with everything that the verdict depends on, but for the scopes of kinds: a definition with
//! another scope has none of the observed children.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::PluginConfig;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::observe::Observed;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::shared_watch::SharedWatch;
use hotshoe_cluster::view;
use hotshoe_cluster::view::held_by_namespace;
use hotshoe_core::check;
use hotshoe_core::check::memory_quota::{DecisionMemory, Quota};
use hotshoe_core::check::{AdmittedDecision, Context, Denial, Inadmissible, ObservedState};
use hotshoe_core::model::decision::{Answer, Call};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Object, ObservedChildren};
use hotshoe_sandbox::revision::Revision;

/// What a revision may do about one parent. Owns all that it reads, so that it can run on the thread of a call.
pub struct Gate {
    plugin: Arc<PluginConfig>,
    revision: Arc<Revision>,
    kinds: Arc<Kinds>,
    namespaces: Option<Arc<SharedWatch>>,
    parent: ObjectRef,
    uid: Arc<str>,
}

impl Gate {
    /// Prepares the checks for a parent.
    pub fn of(active: &ActiveRevision, parent: &Object) -> Self {
        Self {
            plugin: active.plugin.clone(),
            revision: active.revision.clone(),
            kinds: active.kinds.clone(),
            namespaces: active.namespaces.clone(),
            parent: view::reference(active.parent_kind(), &parent.key),
            uid: parent.uid.clone(),
        }
    }

    /// Checks that a child that is no longer desired may be deleted.
    ///
    /// # Errors
    /// When a rule forbids the deletion.
    pub fn check_prune(&self, child: &ObjectRef) -> Result<(), Denial> {
        check::check_prune(child, &self.context())
    }

    /// Checks the object that a write of a child results in.
    ///
    /// # Errors
    /// When the grant does not allow something in the object.
    pub fn check_result(&self, child: &ObjectRef, json: &str) -> Result<(), Denial> {
        check::result::check(child, json, &self.context())
    }

    fn context(&self) -> Context<'_> {
        Context {
            parent: &self.parent,
            uid: &self.uid,
            plugin: &self.plugin.name,
            grant: &self.plugin.grant,
            descriptor: self.revision.descriptor(),
            most_children: self.plugin.limits.children as usize,
            most_fields: self.plugin.limits.fields_per_child as usize,
            namespaced: Box::new(|kind| Some(self.kinds.get(kind)?.namespaced)),
            label_of: Box::new(|namespace, key| view::label_of(self.namespaces.as_deref(), namespace, key)),
        }
    }
}

/// Admits the answers of one call.
pub struct Admission {
    gate: Gate,
    call: Call,
    observed: Arc<Observed>,
    owned: Vec<Arc<SharedWatch>>,
    quota: Quota,
}

impl Admission {
    /// Prepares to check the answers of a revision about an observation.
    pub fn of(active: &ActiveRevision, call: Call, observed: &Arc<Observed>) -> Self {
        let limits = &active.plugin.limits;
        let held = active.note_held();
        Self {
            gate: Gate::of(active, &observed.parent),
            call,
            observed: observed.clone(),
            owned: active.owned.iter().map(|view| view.watch.clone()).collect(),
            quota: Quota { held, most: limits.held_bytes.bytes(), answer: limits.boundary_bytes.bytes() },
        }
    }

    /// Returns the decision of an answer, with its children completed, if the answer is admissible. `desired` is the
    /// fingerprint of the children that the answer desires, and `admitted` what is remembered of the parent.
    ///
    /// # Errors
    /// Why the answer is not admissible.
    pub fn admit(
        &self,
        answer: Answer,
        desired: u64,
        admitted: Option<&Admitted>,
    ) -> Result<AdmittedDecision, Inadmissible> {
        let observed = &*self.observed;
        let (parent, children, quota) = (&*observed.parent, &observed.children, self.quota);
        let plugin = &self.gate.plugin;
        let by_namespace = &|namespaces: &[_]| held_by_namespace(&self.owned, &plugin.name, namespaces);
        let room = DecisionMemory { shared: &plugin.memory, parent, children, quota, by_namespace };
        let references = (!self.remembers(desired, admitted)).then(|| observed.references());
        let state = ObservedState { children: references.as_deref(), room: Some(room) };
        check::admit(self.call, answer, state, &self.gate.context())
    }

    /// Returns whether these desired children were admitted before, and are in sync. Clean-up has rules of its own.
    pub fn remembers(&self, desired: u64, admitted: Option<&Admitted>) -> bool {
        let admitted = admitted.filter(|_| self.call == Call::Reconcile);
        admitted.is_some_and(|admitted| admitted.has(desired, &self.observed.children))
    }
}

/// What the gate remembers of a parent: which children it admitted that are in sync.
#[derive(Clone)]
pub struct Admitted {
    /// Makes fingerprints.
    pub hasher: RandomState,
    /// The plugin's field manager.
    pub manager: String,
    /// A fingerprint of the component, `plugin.yaml` and the labels of namespaces.
    rules: u64,
    key: Option<u64>,
}

impl Admitted {
    /// Returns what is remembered under this key, of children that were admitted for a revision.
    pub fn of(controller: &Controller, active: &ActiveRevision, key: Option<u64>) -> Self {
        let (hasher, manager) = (controller.hasher.clone(), controller.writer.manager().to_owned());
        let rules = hasher.hash_one((active.basis, controller.relabelled.load(Ordering::Acquire)));
        Self { hasher, rules, manager, key }
    }

    fn has(&self, desired: u64, children: &ObservedChildren) -> bool {
        self.key.is_some_and(|key| key == self.key(desired, children))
    }

    /// Returns the key under which to remember that these desired children were admitted, and that the observed ones are
    /// in sync with them.
    pub fn key(&self, desired: u64, children: &ObservedChildren) -> u64 {
        let children: Vec<_> = children
            .iter()
            .map(|(kind, child)| {
                let fields = child.owned_fields(&self.manager, false);
                (kind, &child.key, &child.uid, child.deleting, &child.applied, fields)
            })
            .collect();
        self.hasher.hash_one((self.rules, desired, children))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::kind::Kind;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    #[test]
    fn a_verdict_is_remembered_only_for_the_same_rules_desired_and_observed_children() {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let child = |uid: &str| {
            let json = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}}}}"#);
            vec![(Kind::new("", "v1", "ConfigMap"), Arc::new(Object::read(&json, &kept_fields).unwrap()))]
        };
        let nothing = Admitted { hasher: RandomState::new(), manager: "hotshoe/demo".to_owned(), rules: 1, key: None };
        assert!(!nothing.has(7, &child("u")));
        let admitted = Admitted { key: Some(nothing.key(7, &child("u"))), ..nothing };
        assert!(admitted.has(7, &child("u")));
        assert!(!admitted.has(8, &child("u")) && !admitted.has(7, &child("v")) && !admitted.has(7, &Vec::new()));
        assert!(!Admitted { rules: 2, ..admitted }.has(7, &child("u")));
    }
}
