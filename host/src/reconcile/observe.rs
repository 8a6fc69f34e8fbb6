//! *observe*, from the caches to what a plugin is shown of one parent; and what the checks look at
//! beside it. Everything is read through the grant.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use crate::cluster::view;
use crate::reconcile::controller::{Controller, Logic, Memory};
use hotshoe_core::check;
use hotshoe_core::check::access_request::{Access, Request};
use hotshoe_core::check::memory_quota::Room;
use hotshoe_core::check::{Context, Inadmissible, Judged, Present};
use hotshoe_core::model::decision::{Answer, Call, Document, Observation};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::Object;
use hotshoe_core::model::object::ObservedChildren;

/// What a plugin is shown of one parent, with the objects behind it.
pub struct Observed {
    /// The parent.
    pub parent: Arc<Object>,
    /// Its children, wished for or not yet pruned.
    pub children: ObservedChildren,
    /// As the plugin sees it.
    pub shown: Arc<Observation>,
}

impl Observed {
    /// Which children are there.
    pub fn references(&self) -> Vec<ObjectRef> {
        self.children.iter().map(|(kind, child)| view::reference(kind, &child.key)).collect()
    }
}

/// Reads everything that a decision may depend on from the caches, through the grant.
pub fn observe(logic: &Logic, parent: Arc<Object>, memory: &Memory) -> Observed {
    observe_at(logic, parent, memory, unix_millis())
}

/// The same at this time, milliseconds since the epoch, for two revisions that are to see the same.
pub fn observe_at(logic: &Logic, parent: Arc<Object>, memory: &Memory, now: u64) -> Observed {
    let document = shown_parent(logic, &parent);
    let children = view::children(&logic.owned, &parent.uid, &logic.plugin.name);
    let descriptor = logic.revision.descriptor();
    let may_read = |object: &ObjectRef| {
        let namespaced = object.namespace.is_some();
        let request = Request { parent: &document.reference, object, namespaced, access: Access::Read };
        logic.plugin.grant.authorise_watched(&request, &|namespace, key| logic.label_of(namespace, key)).is_ok()
    };
    let shown = Observation {
        children: view::show_children(&logic.owned, &children, &may_read),
        related: view::related(&logic.reads, &parent, &may_read),
        parent: document,
        refusals: memory.refused.told(),
        config: logic.plugin.config.clone(),
        now: descriptor.wants_now.then_some(now),
        attempt: descriptor.wants_attempt.then_some(memory.failures),
    };
    Observed { parent, children, shown: Arc::new(shown) }
}

/// The parent as the plugin is shown it.
pub fn shown_parent(logic: &Logic, parent: &Object) -> Document {
    let document = logic.parents.show(parent);
    Document { json: with_conditions(parent, document.json), ..document }
}

/// The parent as clean-up is shown it: with its conditions, so that it can tell how far it came.
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
    logic: &Logic,
    call: Call,
    observed: &Observed,
    answer: Answer,
) -> Result<Judged, Inadmissible> {
    let limits = &logic.plugin.limits;
    let held = logic.owned.iter().map(|view| view.watched.cache.held_of(&logic.plugin.name)).sum();
    let room = Room { held, most: limits.held_bytes.bytes(), answer: limits.boundary_bytes.bytes() };
    let present = Present { children: &observed.references(), room: Some((room, &observed.children)) };
    check::judge(call, answer, present, &context(controller, logic, observed))
}

/// What the checks need to know.
pub fn context<'a>(controller: &'a Controller, logic: &'a Logic, observed: &'a Observed) -> Context<'a> {
    context_of(controller, logic, &observed.shown.parent.reference, &observed.parent.uid)
}

/// The same, of a parent that was not observed.
pub fn context_of<'a>(
    controller: &'a Controller,
    logic: &'a Logic,
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
