//! *observe*, from the caches to what a plugin is shown of one parent; and what the checks look at
//! beside it. Everything is read through the grant.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use crate::cluster::discovery::Kinds;
use crate::cluster::shared_watch::SharedWatch;
use crate::cluster::view;
use crate::config::PluginConfig;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::error::Error;
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::pass::Pass;
use crate::sandbox::revision::Revision;
use hotshoe_core::check::access_request::{Access, Request, Verb};
use hotshoe_core::check::fix::Fix;
use hotshoe_core::check::grant::NAMESPACE_NOT_GRANTED;
use hotshoe_core::check::{Context, Denial};
use hotshoe_core::model::decision::{Document, Observation};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;
use hotshoe_core::model::object::ObservedChildren;

/// What showing objects of a kind takes.
const READ: [Verb; 3] = [Verb::Get, Verb::List, Verb::Watch];

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
    let observed = observe_at(pass.active, parent, &pass.state, now);
    observed.denied.map_or(Ok(()), Err)?;
    Ok(Observed { denied: None, ..observed })
}

/// The same at this time, milliseconds since the epoch, for two revisions that are to see the same.
pub fn observe_at(active: &ActiveRevision, parent: Arc<Object>, state: &ParentState, now: u64) -> Observed {
    let document = shown_parent(active, &parent);
    let children = active.children_of(&parent);
    let descriptor = active.revision.descriptor();
    let denied = RefCell::new(denied_kind(active));
    let authorise = |object: &ObjectRef| {
        let namespaced = object.namespace.is_some();
        let request = Request { parent: &document.reference, object, namespaced, access: Access::Read };
        let label_of = |namespace: &str, key: &str| active.label_of(namespace, key);
        active.plugin.grant.authorise_watched(&request, &label_of)
    };
    let may_read = |object: &ObjectRef| {
        let allowed = authorise(object);
        // A kind that is only watched until the last child of an earlier revision is pruned is not shown.
        if let Err(denial) = &allowed
            && descriptor.sees(&object.kind)
        {
            denied.borrow_mut().get_or_insert_with(|| not_granted(&denial.reasons()));
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
        children: view::show_children(&active.owned, &children, &may_read),
        related: view::related(&active.reads, &parent, &may_relate),
        refusals: state.refused.shown(),
        config: active.plugin.config.clone(),
        now: descriptor.wants_now.then_some(now),
        attempt: descriptor.wants_attempt.then_some(state.tries.made()),
        parent: document.clone(),
    };
    Observed { parent, children, shown: Arc::new(shown), denied: denied.into_inner() }
}

/// A kind that is not granted is denied also where no object of it is there: an empty list would say that there
/// are none.
fn denied_kind(active: &ActiveRevision) -> Option<Error> {
    let (descriptor, grant) = (active.revision.descriptor(), &active.plugin.grant);
    let mut kinds =
        descriptor.owns.iter().map(|owned| &owned.kind).chain(descriptor.reads.iter().map(|read| &read.kind));
    let denied = kinds.find(|kind| READ.iter().any(|verb| !grant.allows(*verb, kind)));
    denied.map(|kind| not_granted(&format!("{kind} may not be read; {}", Fix::new_grant(kind.clone(), &READ))))
}

fn not_granted(why: &str) -> Error {
    Error::NotGranted(format!("the plugin is not asked about what it may not see: {why}"))
}

/// The parent as the plugin is shown it.
pub fn shown_parent(active: &ActiveRevision, parent: &Object) -> Document {
    let document = active.parents.show(parent);
    Document { json: with_conditions(parent, document.json), ..document }
}

/// The parent as clean-up is shown it: with its conditions, so that it knows how far it came.
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

/// The rules that answers are checked by.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// `plugin.yaml`.
    pub plugin: &'a PluginConfig,
    /// The component.
    pub revision: &'a Revision,
    /// What is known of kinds.
    pub kinds: &'a Kinds,
    /// The namespaces, where a rule of the grant selects them by label.
    pub namespaces: Option<&'a SharedWatch>,
}

impl<'a> Rules<'a> {
    /// Returns those of a revision.
    pub fn of(controller: &'a Controller, active: &'a ActiveRevision) -> Self {
        Self {
            plugin: &active.plugin,
            revision: &active.revision,
            kinds: &controller.kinds,
            namespaces: active.namespaces.as_deref(),
        }
    }
}

/// What the checks need to know.
pub fn context<'a>(controller: &'a Controller, active: &'a ActiveRevision, observed: &'a Observed) -> Context<'a> {
    context_of(Rules::of(controller, active), &observed.shown.parent.reference, &observed.parent.uid)
}

/// The same, of a parent that was not observed.
pub fn context_of<'a>(rules: Rules<'a>, parent: &'a ObjectRef, uid: &'a str) -> Context<'a> {
    let Rules { plugin, revision, kinds, namespaces } = rules;
    Context {
        parent,
        uid,
        plugin: &plugin.name,
        grant: &plugin.grant,
        descriptor: revision.descriptor(),
        most_children: plugin.limits.children as usize,
        most_fields: plugin.limits.fields_per_child as usize,
        namespaced: Box::new(move |kind| Some(kinds.get(kind)?.namespaced)),
        label_of: Box::new(move |namespace, key| view::label_of(namespaces, namespace, key)),
    }
}

/// Milliseconds since the epoch.
pub fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
