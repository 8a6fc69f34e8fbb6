//! *observe*: builds what a plugin is shown of one parent from the caches. Everything is read through the grant.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;

use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::complete;
use crate::reconcile::error::Error;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::pass::Pass;
use hotshoe_cluster::time::unix_millis;
use hotshoe_cluster::view;
use hotshoe_core::check::Denial;
use hotshoe_core::check::access_request::{Access, READ_VERBS, Request};
use hotshoe_core::check::fix::Fix;
use hotshoe_core::check::grant::NAMESPACE_NOT_GRANTED;
use hotshoe_core::check::reach;
use hotshoe_core::model::decision::{Document, MatchRule, Observation};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;
use hotshoe_core::model::object::ObservedChildren;

/// What a plugin is shown of one parent, with the objects behind it.
pub struct Observed {
    /// The parent.
    pub parent: Arc<Object>,
    /// The children of the parent, desired or not yet pruned.
    pub children: ObservedChildren,
    /// What the plugin is shown.
    pub shown: Arc<Observation>,
    /// The error if the grant does not let the plugin see everything. Then the plugin is not called.
    pub denied: Option<Error>,
}

impl Observed {
    /// Returns the references of the observed children.
    pub fn references(&self) -> Vec<ObjectRef> {
        self.children.iter().map(|(kind, child)| view::reference(kind, &child.key)).collect()
    }

    /// Returns a child as it was observed.
    pub fn child(&self, child: &ObjectRef) -> Option<&Arc<Object>> {
        self.children.iter().find(|(kind, live)| child.is(kind, &live.key)).map(|(_, live)| live)
    }
}

/// Reads everything that a decision may depend on from the caches, through the grant.
///
/// # Errors
/// When the grant does not let the plugin see everything.
pub fn observe(pass: &Pass<'_>) -> Result<Observed, Error> {
    observe_parent(pass, pass.parent.clone())
}

/// Builds what a revision is shown, as [`observe`] does, of a version of the parent that the reply to our own write has
/// shown.
///
/// # Errors
/// When the grant does not let the plugin see everything.
pub fn observe_parent(pass: &Pass<'_>, parent: Arc<Object>) -> Result<Observed, Error> {
    let now = unix_millis();
    let now = if pass.is_due { now } else { pass.state.now_to_show(now) };
    let observed = observe_at(pass.active, parent, &pass.state, now);
    observed.denied.map_or(Ok(()), Err)?;
    Ok(Observed { denied: None, ..observed })
}

/// Builds what a revision is shown at a given `now`, in milliseconds since the epoch, so that two revisions can be shown
/// the same.
pub fn observe_at(active: &ActiveRevision, parent: Arc<Object>, state: &ParentState, now: u64) -> Observed {
    let document = shown_parent(active, &parent);
    let children = active.children_of(&parent);
    let descriptor = active.revision.descriptor();
    let unseen = || complete::error_of(active.without_content(&parent, &children));
    let denied = RefCell::new(denied_kind(active).or_else(|| not_listed(active, &parent)).or_else(unseen));
    let authorise = |object: &ObjectRef| {
        let namespaced = object.namespace.is_some();
        let request = Request { parent: &document.reference, object, namespaced, access: Access::Read };
        let label_of = |namespace: &str, key: &str| active.label_of(namespace, key);
        active.plugin.grant.authorise_watched(&request, &label_of)
    };
    // Any user may forge a child or label an object, so those outside of the grant are left out. What the parent itself
    // names is denied instead, because the plugin would take it for missing.
    let is_granted = |object: &ObjectRef| authorise(object).is_ok();
    let may_relate = |rule: &MatchRule, object: &ObjectRef| match (authorise(object), rule) {
        (Err(denial), MatchRule::ParentField(path))
            if document.reference.namespace.is_some() || denial.rule() != NAMESPACE_NOT_GRANTED =>
        {
            denied.borrow_mut().get_or_insert_with(|| not_granted(&named_by_parent(denial, path).reasons()));
            false
        }
        (allowed, _) => allowed.is_ok(),
    };
    let shown = Observation {
        children: view::show_children(&active.owned, &children, &is_granted),
        related: view::related(&active.reads, &parent, &may_relate),
        refusals: state.refused.shown(),
        config: active.plugin.config.clone(),
        now: descriptor.wants_now.then_some(now),
        attempt: descriptor.wants_attempt.then_some(state.tries.made()),
        parent: document.clone(),
    };
    Observed { parent, children, shown: Arc::new(shown), denied: denied.into_inner() }
}

/// Returns an error if a declared kind is not granted, even if there is no object of it: an empty list would tell the
/// plugin that there are none.
fn denied_kind(active: &ActiveRevision) -> Option<Error> {
    let (descriptor, grant) = (active.revision.descriptor(), &active.plugin.grant);
    let mut kinds =
        descriptor.owns.iter().map(|owned| &owned.kind).chain(descriptor.reads.iter().map(|read| &read.kind));
    // Without their labels, all namespaces that are granted by label would seem not to be.
    if active.namespaces.as_ref().is_some_and(|namespaces| namespaces.cache.is_empty()) {
        return Some(not_granted("the namespaces are not listed yet, and the grant selects some by their labels"));
    }
    let denied = kinds.find(|kind| READ_VERBS.iter().any(|verb| !grant.allows(*verb, kind)))?;
    let is_beyond_own = reach::is_beyond_own(&descriptor.parent, denied, &|kind| active.kinds.is_namespaced(kind));
    let fix = Fix::new_grant(denied.clone(), &READ_VERBS, is_beyond_own);
    Some(not_granted(&format!("{denied} may not be read; {fix}")))
}

/// Returns an error if the host may not list all that a decision about a parent depends on in its namespace: a plugin that
/// is shown less than there is would delete or create what it should not.
fn not_listed(active: &ActiveRevision, parent: &Object) -> Option<Error> {
    let (watch, namespace, why) = active.watches().find_map(|watch| {
        let (namespace, why) = watch.refusal_of(&parent.key.namespace)?;
        Some((watch, namespace, why))
    })?;
    let kind = &watch.scope.kind;
    Some(Error::NotListed(format!("nothing is decided, because {kind} may not be listed in {namespace}: {why}")))
}

/// Replaces the advice to grant an object that a parent's field names: who writes the parent chose it.
fn named_by_parent(denial: Denial, path: &str) -> Denial {
    let change = format!("{path} of the parent names it: name one there that is granted");
    denial.map(|violation| violation.answer(change.clone()))
}

fn not_granted(why: &str) -> Error {
    Error::NotGranted(format!("the plugin is not called, because it may not see all that it asks for: {why}"))
}

/// Returns the parent as the plugin is shown it.
pub fn shown_parent(active: &ActiveRevision, parent: &Object) -> Document {
    let document = active.parents.show(parent);
    Document { json: with_conditions(parent, document.json), ..document }
}

/// Adds the conditions to a parent that is being deleted, so that the clean-up knows how far it has come.
fn with_conditions(parent: &Object, shown: Arc<str>) -> Arc<str> {
    let Some(status) = parent.status().filter(|_| parent.deleting) else { return shown };
    let status: Option<Value> = serde_json::from_str(status).ok();
    let conditions = status.as_ref().and_then(|status| status.get("conditions"));
    let (Some(conditions), Ok(Value::Object(mut members))) = (conditions, serde_json::from_str(&shown)) else {
        return shown;
    };
    let status = members.entry("status").or_insert_with(|| Value::Object(serde_json::Map::new()));
    if let Some(status) = status.as_object_mut() {
        status.insert("conditions".into(), conditions.clone());
    }
    Value::Object(members).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::check::grant::Grant;
    use hotshoe_core::model::kind::Kind;

    #[test]
    fn no_grant_is_advised_for_an_object_that_a_parents_field_names() {
        let grant = Grant {
            rules: Vec::new(),
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "host".into(),
        };
        let object = |kind: &str, name: &str| ObjectRef {
            kind: Kind::new("", "v1", kind),
            namespace: Some("n".into()),
            name: name.into(),
        };
        let (parent, secret) = (object("ConfigMap", "web"), object("Secret", "theirs"));
        let request = Request { parent: &parent, object: &secret, namespaced: true, access: Access::Read };
        let denial = grant.authorise_watched(&request, &|_, _| None).expect_err("nothing is granted");
        assert!(denial.reasons().contains("plugin.yaml"), "{denial}");
        let advice = named_by_parent(denial, "spec.secretName").reasons();
        assert!(advice.ends_with("spec.secretName of the parent names it: name one there that is granted"), "{advice}");
        assert!(!advice.contains("plugin.yaml"), "{advice}");
    }
}
