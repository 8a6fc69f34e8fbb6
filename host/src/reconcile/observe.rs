//! *observe*, from the caches to what a plugin is shown of one parent; and what the checks look at
//! beside it. Everything is read through the grant.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use crate::cluster::view;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::pass::Pass;
use hotshoe_core::check;
use hotshoe_core::check::access_request::{Access, Request, Verb};
use hotshoe_core::check::grant::NAMESPACE_NOT_GRANTED;
use hotshoe_core::check::memory_quota::Quota;
use hotshoe_core::check::{Context, Denial, Inadmissible, Judged, Present};
use hotshoe_core::model::decision::{Answer, Call, Document, Observation};
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::object::Object;
use hotshoe_core::model::object::ObservedChildren;

/// What a plugin is shown of one parent, with the objects behind it.
pub struct Observed {
    /// The parent.
    pub parent: Arc<Object>,
    /// Its children, desired or not yet pruned.
    pub children: ObservedChildren,
    /// As the plugin sees it.
    pub shown: Arc<Observation>,
    /// That the grant does not let the plugin see all of it: it is not asked then.
    pub denied: Option<Error>,
}

impl Observed {
    /// The references of the children that are there.
    pub fn references(&self) -> Vec<ObjectRef> {
        self.children.iter().map(|(kind, child)| view::reference(kind, &child.key)).collect()
    }

    /// A child as it was observed.
    pub fn child(&self, child: &ObjectRef) -> Option<&Arc<Object>> {
        self.children.iter().find(|(kind, live)| child.is(kind, &live.key)).map(|(_, live)| live)
    }
}

/// Reads everything that a decision may depend on from the caches, through the grant.
///
/// # Errors
/// When the grant does not let the plugin see all of it.
pub fn observe(pass: &Pass<'_>) -> Result<Observed, Error> {
    observe_parent(pass, pass.parent.clone())
}

/// The same, of the parent as a write of ours left it.
///
/// # Errors
/// When the grant does not let the plugin see all of it.
pub fn observe_parent(pass: &Pass<'_>, parent: Arc<Object>) -> Result<Observed, Error> {
    let now = unix_millis();
    let now = if pass.is_due { now } else { pass.state.now_to_show(now) };
    let observed = observe_at(pass.logic, parent, &pass.state, now);
    observed.denied.map_or(Ok(()), Err)?;
    Ok(Observed { denied: None, ..observed })
}

/// The same at this time, milliseconds since the epoch, for two revisions that are to see the same.
pub fn observe_at(logic: &ActiveRevision, parent: Arc<Object>, state: &ParentState, now: u64) -> Observed {
    let document = shown_parent(logic, &parent);
    let children = logic.children_of(&parent);
    let descriptor = logic.revision.descriptor();
    let denied = RefCell::new(denied_kind(logic));
    let authorise = |object: &ObjectRef| {
        let namespaced = object.namespace.is_some();
        let request = Request { parent: &document.reference, object, namespaced, access: Access::Read };
        let label_of = |namespace: &str, key: &str| logic.label_of(namespace, key);
        logic.plugin.grant.authorise_watched(&request, &label_of)
    };
    let may_read = |object: &ObjectRef| {
        let allowed = authorise(object);
        // A kind that is only watched until the last child of an earlier revision is pruned is not shown.
        if let Err(denial) = &allowed
            && descriptor.sees(&object.kind)
        {
            let why = denial.violations().first().map_or("", |first| &first.message);
            denied.borrow_mut().get_or_insert_with(|| not_granted(&object.kind, why));
        }
        allowed.is_ok()
    };
    // Of a parent without a namespace anyone may label objects in any: those elsewhere are as if they were not there.
    let is_within = |object: &ObjectRef| {
        let elsewhere = |denial: Denial| denial.rule() == NAMESPACE_NOT_GRANTED;
        document.reference.namespace.is_some() || !authorise(object).is_err_and(elsewhere)
    };
    let may_relate = |object: &ObjectRef| is_within(object) && may_read(object);
    let shown = Observation {
        children: view::show_children(&logic.owned, &children, &may_read),
        related: view::related(&logic.reads, &parent, &may_relate),
        refusals: state.refused.shown(),
        config: logic.plugin.config.clone(),
        now: descriptor.wants_now.then_some(now),
        attempt: descriptor.wants_attempt.then_some(state.failures),
        parent: document.clone(),
    };
    Observed { parent, children, shown: Arc::new(shown), denied: denied.into_inner() }
}

/// A kind that is not granted is denied also where no object of it is there: an empty list would say that there
/// are none.
fn denied_kind(logic: &ActiveRevision) -> Option<Error> {
    let (descriptor, grant) = (logic.revision.descriptor(), &logic.plugin.grant);
    let mut kinds =
        descriptor.owns.iter().map(|owned| &owned.kind).chain(descriptor.reads.iter().map(|read| &read.kind));
    let denied = kinds.find(|kind| [Verb::Get, Verb::List, Verb::Watch].iter().any(|verb| !grant.allows(*verb, kind)));
    denied.map(|kind| not_granted(kind, &format!("{kind} may not be read")))
}

fn not_granted(kind: &Kind, why: &str) -> Error {
    let (group, kind) = (&kind.group, &kind.kind);
    Error::NotGranted(format!(
        "{why}; the plugin is not asked about what it may not see; grant it below spec.grants of plugin.yaml: - {{group: \"{group}\", kind: {kind}, verbs: [get, list, watch]}}"
    ))
}

/// The parent as the plugin is shown it.
pub fn shown_parent(logic: &ActiveRevision, parent: &Object) -> Document {
    let document = logic.parents.show(parent);
    Document { json: with_conditions(parent, document.json), ..document }
}

/// The parent as clean-up is shown it: with its conditions, so that it knows how far it came.
fn with_conditions(parent: &Object, shown: Arc<str>) -> Arc<str> {
    let Some(status) = parent.status.as_deref().filter(|_| parent.deleting) else { return shown };
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

/// Returns an answer with its children completed, if it may be carried out.
///
/// # Errors
/// Why it may not.
pub fn judge(
    controller: &Controller,
    logic: &ActiveRevision,
    call: Call,
    observed: &Observed,
    answer: Answer,
) -> Result<Judged, Inadmissible> {
    let limits = &logic.plugin.limits;
    let held = logic.owned.iter().map(|view| view.watched.cache.held_of(&logic.plugin.name)).sum();
    let room = Quota { held, most: limits.held_bytes.bytes(), answer: limits.boundary_bytes.bytes() };
    let present = Present { children: &observed.references(), room: Some((room, &observed.children)) };
    check::judge(call, answer, present, &context(controller, logic, observed))
}

/// What the checks need to know.
pub fn context<'a>(controller: &'a Controller, logic: &'a ActiveRevision, observed: &'a Observed) -> Context<'a> {
    context_of(controller, logic, &observed.shown.parent.reference, &observed.parent.uid)
}

/// The same, of a parent that was not observed.
pub fn context_of<'a>(
    controller: &'a Controller,
    logic: &'a ActiveRevision,
    parent: &'a ObjectRef,
    uid: &'a str,
) -> Context<'a> {
    Context {
        parent,
        uid,
        plugin: &controller.name,
        grant: &logic.plugin.grant,
        descriptor: logic.revision.descriptor(),
        most_children: logic.plugin.limits.children as usize,
        namespaced: Box::new(|kind| Some(controller.kinds.get(kind)?.namespaced)),
        label_of: Box::new(|namespace, key| logic.label_of(namespace, key)),
    }
}

/// Milliseconds since the epoch.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
