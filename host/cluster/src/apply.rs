//! Writes children: all writes of children are made here, and in the [repairs](crate::repair) that an apply
//! needs. Every write needs an identity and a permit. Every reply goes into the store, so that no decision is based on
//! a view older than our own writes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::join_all;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::apply_body;
use crate::client::{ApiCall, Cluster};
use crate::discovery::{Kinds, Resource};
use crate::error::ApiError;
use crate::identity::{Identity, Permit};
use crate::rate_limit::RateLimit;
use crate::shared_watch::{Role, SharedWatch};
use crate::view::View;
use hotshoe_core::check;
use hotshoe_core::check::fields;
use hotshoe_core::check::violation::Checked;
use hotshoe_core::check::{Denial, Desired};
use hotshoe_core::diff::ownership::{
    NotAChild, Owner, as_observed, claim, is_no_older, lost_its_controller, way_to_take_over,
};
use hotshoe_core::diff::{Apply, Plan};
use hotshoe_core::flow::unanswered::Unanswered;
use hotshoe_core::flow::write_cost::tokens;
use hotshoe_core::model::kind::{Key, Kind, ObjectRef};
use hotshoe_core::model::limits::Limits;
use hotshoe_core::model::object::{Object, PLUGIN_LABEL, metadata_manager, plugin_manager};
use hotshoe_core::model::predecessors::Predecessors;

pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

/// Has an object go at once, and then what it owns.
const BACKGROUND: &str = "Background";
/// Has an object go once all that it owns is gone.
pub(super) const FOREGROUND: &str = "Foreground";

/// Writes on behalf of one plugin.
pub struct Writer {
    pub(super) cluster: Cluster,
    pub(super) kinds: Arc<Kinds>,
    pub(super) identity: Identity,
    pub(super) plugin: String,
    pub(super) manager: String,
    pub(super) metadata_manager: String,
    pub(super) rate_limit: RateLimit,
    /// Why the host may not impersonate the plugin, by the last request.
    pub(super) impersonation_error: Mutex<Option<String>>,
}

/// The result of the write of one child.
#[derive(Clone, Debug)]
pub struct ChildWrite {
    /// The child.
    pub reference: ObjectRef,
    /// The digest of the desired child; empty for a deletion.
    pub digest: Box<str>,
    /// What was written, or the error.
    pub result: Result<Written, WriteError>,
}

/// What was written of a child.
#[derive(Clone, Debug)]
pub enum Written {
    /// It was applied; the object is as the API server has it now.
    Applied(Arc<Object>),
    /// It was deleted.
    Deleted,
    /// It was deleted to be made anew once it is gone, because the API server refused to change it with this message.
    Recreating(String),
}

/// Why a child was not written.
#[derive(Clone, Debug)]
pub enum WriteError {
    /// The API server refused or did not answer.
    Api(Box<ApiError>),
    /// An object of this name exists that is not a child of this parent, or is one of another plugin. It was not
    /// changed.
    Conflict {
        /// Why the object does not belong to this parent, with its owner if it has one.
        holder: String,
    },
    /// Another field manager owns a label or annotation that is stated of the parent. It was not changed.
    Owned(Box<ApiError>),
    /// The child of a former parent of this name is not garbage-collected yet.
    Collecting,
    /// The child is to be made anew, and has to wait.
    Waits {
        /// What for.
        why: String,
    },
    /// The object that would result has fields that others set and that the grant does not allow. None of the desired
    /// fields were written. Repairs that were allowed by themselves may have been written, and so may the ownership of
    /// a predecessor's fields.
    Denied(Denial),
}

impl From<ApiError> for WriteError {
    fn from(error: ApiError) -> Self {
        WriteError::Api(Box::new(error))
    }
}

impl From<NotAChild> for WriteError {
    fn from(error: NotAChild) -> Self {
        match error {
            NotAChild::Conflict { holder } => WriteError::Conflict { holder },
            NotAChild::Collecting => WriteError::Collecting,
        }
    }
}

impl From<Denial> for WriteError {
    fn from(denial: Denial) -> Self {
        WriteError::Denied(denial)
    }
}

/// Checks the object that results from a write: takes the child and its JSON, as a dry run of the API server or a
/// repair of ours produced it.
pub type CheckResult<'a> = dyn Fn(&ObjectRef, &str) -> Checked + Send + Sync + 'a;

/// The parent of the children that are written.
#[derive(Clone, Copy)]
pub struct Parent<'a> {
    /// The reference of the parent.
    pub reference: &'a ObjectRef,
    /// The uid of the parent.
    pub uid: &'a str,
    /// The plugins whose children of this parent are taken over.
    pub predecessors: &'a Predecessors,
    /// Whether children of this parent that no plugin made are taken over.
    pub adopts: bool,
    /// Checks the object that a write results in.
    pub check_result: &'a CheckResult<'a>,
}

/// What every write of one child needs: the store that learns the reply, how its kind is served, whose child it is, and
/// the permit.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) view: &'a View,
    pub(super) resource: &'a Resource,
    pub(super) permit: &'a Permit,
    pub(super) parent: Parent<'a>,
}

impl Writer {
    /// Creates the writer of a plugin with this ServiceAccount.
    pub fn new(cluster: &Cluster, kinds: Arc<Kinds>, plugin: &str, identity: Identity, rate_limit: RateLimit) -> Self {
        let (cluster, manager) = (cluster.of(plugin), plugin_manager(plugin));
        Self {
            cluster,
            kinds,
            identity,
            plugin: plugin.to_owned(),
            manager,
            metadata_manager: metadata_manager(plugin),
            rate_limit,
            impersonation_error: Mutex::default(),
        }
    }

    /// Replaces the rate limits of the plugin.
    pub fn set_limits(&self, limits: &Limits) {
        self.rate_limit.set(limits);
    }

    /// Returns whether an unanswered write counts against the plugin.
    pub fn is_to_blame(&self, write: Unanswered) -> bool {
        self.cluster.outage.blame(&self.plugin, write)
    }

    /// Returns the plugin's field manager.
    pub fn manager(&self) -> &str {
        &self.manager
    }

    /// Executes a plan. One child's failure does not stop its siblings.
    pub async fn execute(&self, plan: Plan, views: &[View], parent: Parent<'_>, permit: &Permit) -> Vec<ChildWrite> {
        let turn = AtomicBool::new(plan.may_recreate());
        let applies =
            join_all(plan.apply.into_iter().map(|apply| self.write_child(apply, views, parent, permit, &turn)));
        let prunes =
            join_all(plan.prune.into_iter().map(|(kind, child)| self.prune(kind, child, views, parent, permit)));
        let (mut written, pruned) = futures::future::join(applies, prunes).await;
        written.extend(pruned);
        written
    }

    async fn write_child(
        &self,
        apply: Apply,
        views: &[View],
        parent: Parent<'_>,
        permit: &Permit,
        turn: &AtomicBool,
    ) -> ChildWrite {
        let reference = apply.desired.reference.clone();
        let digest = apply.desired.digest.clone();
        let view = views.iter().find(|view| view.watch.scope.kind == reference.kind);
        let result = match (view, self.kinds.get(&reference.kind)) {
            (Some(view), Some(resource)) => {
                let target = Target { view, resource: &resource, permit, parent };
                let written = self.claim_and_write(&apply, target).await;
                self.recreate_immutable(&apply, written, turn, target).await
            }
            // The check admits only kinds that are owned and known.
            _ => Err(unknown_kind(&reference).into()),
        };
        ChildWrite { reference, digest, result }
    }

    /// Writes a child. After a conflict, claims the live object for the parent if it is its child, and writes again.
    async fn claim_and_write(&self, apply: &Apply, target: Target<'_>) -> Result<Arc<Object>, WriteError> {
        let key = check::key(&apply.desired.reference);
        let known = target.view.watch.cache.get(&key);
        let error = match self.write_repaired(apply, known.as_deref(), target).await {
            Ok(object) => return Ok(object),
            Err(WriteError::Api(error)) if error.code == 409 || !error.is_definite() => error,
            Err(error) => return Err(error),
        };
        // After a conflict, the live object shows whether the child is ours. After a write of unknown outcome, the live
        // object goes into the store.
        let live = self.read_live(&key, target).await;
        // A write that had no answer counts against the plugin, even if the read has none either or finds a conflict.
        if error.unanswered.is_some() {
            return Err(WriteError::Api(error));
        }
        let Some(live) = live? else { return Err(WriteError::Api(error)) };
        let precondition = match claim(&live, &apply.desired.digest, self.owner(target.parent)) {
            Err(NotAChild::Conflict { .. })
                if lost_its_controller(&live, &self.manager) && self.is_no_older_than_parent(&key, target).await? =>
            {
                as_observed(&live)
            }
            Err(NotAChild::Conflict { holder }) if live.controller.is_none() => {
                let way = way_to_take_over(&apply.desired.reference, &self.plugin, target.parent.reference);
                return Err(WriteError::Conflict { holder: format!("{holder}; {way}") });
            }
            claimed => claimed?,
        };
        if error.code != 409 {
            return Err(WriteError::Api(error));
        }
        let apply = Apply { precondition, desired: apply.desired.clone() };
        let written = self.write_repaired(&apply, Some(&live), target).await;
        if let Err(WriteError::Api(error)) = &written
            && error.unanswered.is_none()
            && live.label(PLUGIN_LABEL).is_none()
        {
            self.label_as_ours(&apply.desired.reference, &live, target).await?;
        }
        written
    }

    pub(super) fn owner<'a>(&'a self, parent: Parent<'a>) -> Owner<'a> {
        let Parent { reference, uid, predecessors, adopts, .. } = parent;
        Owner { parent: reference, uid, manager: &self.manager, predecessors, adopts }
    }

    /// Returns whether a child was created while this parent existed.
    async fn is_no_older_than_parent(&self, child: &Key, target: Target<'_>) -> Result<bool, ApiError> {
        let parent = target.parent;
        let Some(kind) = self.kinds.get(&parent.reference.kind) else { return Ok(false) };
        let parent_key = check::key(parent.reference);
        let child = self.get(target.resource, child, target.permit);
        let live_parent = self.get(&kind, &parent_key, target.permit);
        match futures::future::try_join(child, live_parent).await {
            Ok((child, live_parent)) => Ok(is_no_older(&child, &live_parent, parent.uid)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Labels a child of another operator that this plugin takes over but cannot apply: only children with our label
    /// are watched and shown to the plugin. Does not apply the label alone, because that would give up all our other
    /// fields.
    async fn label_as_ours(&self, reference: &ObjectRef, live: &Object, target: Target<'_>) -> Result<(), ApiError> {
        let label = json!({ "metadata": { "uid": &*live.uid, "labels": { PLUGIN_LABEL: self.plugin } } });
        self.change("label", reference, MERGE_PATCH, &label, target).await.map(drop)
    }

    pub(super) async fn change(
        &self,
        verb: &'static str,
        reference: &ObjectRef,
        content_type: &'static str,
        patch: &Value,
        target: Target<'_>,
    ) -> Result<Arc<Object>, ApiError> {
        let path = target.resource.path(&check::key(reference), None);
        let call = ApiCall {
            verb,
            target: reference,
            method: Method::PATCH,
            uri: format!("{path}?{}", apply_body::manager_query(&self.manager)),
            content_type,
            body: patch.to_string().into_bytes(),
        };
        let reply = self
            .send_limited(call, (reference.namespace.as_ref(), fields::count(patch)), &self.identity, target.permit)
            .await?;
        self.store_reply(target.view, &reply).map_err(|error| unreadable(reference, &error))
    }

    /// Sends an apply, and stores the reply.
    ///
    /// # Errors
    /// The API server's error.
    pub(super) async fn send_apply(&self, apply: &Apply, target: Target<'_>) -> Result<Arc<Object>, ApiError> {
        let (call, size) = apply_call(apply, apply_body::query(&self.manager), target.resource);
        let reply = self.send_limited(call, size, &self.identity, target.permit).await?;
        self.store_reply(target.view, &reply).map_err(|error| unreadable(&apply.desired.reference, &error))
    }

    /// Returns the object that would result from an apply, by a dry run.
    ///
    /// # Errors
    /// The error with which the API server would refuse the apply.
    pub(super) async fn dry_run(&self, apply: &Apply, target: Target<'_>) -> Result<String, ApiError> {
        let (call, size) = apply_call(apply, apply_body::dry_query(&self.manager), target.resource);
        self.send_limited(call, size, &self.identity, target.permit).await
    }

    fn store_reply(&self, view: &View, reply: &str) -> serde_json::Result<Arc<Object>> {
        view.watch.store_reply(reply, (&self.plugin, Role::Child))
    }

    async fn prune(
        &self,
        kind: Kind,
        child: Arc<Object>,
        views: &[View],
        parent: Parent<'_>,
        permit: &Permit,
    ) -> ChildWrite {
        let reference = crate::view::reference(&kind, &child.key);
        let view = views.iter().find(|view| view.watch.scope.kind == kind);
        let result = match (view, self.kinds.get(&kind)) {
            (Some(view), Some(resource)) => {
                let target = Target { view, resource: &resource, permit, parent };
                self.delete(&reference, &child, BACKGROUND, target).await
            }
            _ => Err(unknown_kind(&reference)),
        };
        ChildWrite { reference, digest: "".into(), result: result.map(|()| Written::Deleted).map_err(WriteError::from) }
    }

    /// Deletes the observed version of an object, and no later one.
    pub(super) async fn delete(
        &self,
        reference: &ObjectRef,
        child: &Object,
        propagation: &str,
        target: Target<'_>,
    ) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
            "preconditions": { "uid": &*child.uid, "resourceVersion": child.resource_version.to_string() },
        });
        let call = ApiCall {
            verb: "delete",
            target: reference,
            method: Method::DELETE,
            uri: target.resource.path(&child.key, None),
            content_type: JSON,
            body: options.to_string().into_bytes(),
        };
        self.rate_limit.delete(child.key.namespace.as_ref()).await;
        let reply = match self.send(call, &self.identity, target.permit).await {
            Ok(reply) => reply,
            Err(error) if error.is_gone() => String::new(),
            Err(error) if error.code == 409 => {
                drop(self.read_live(&child.key, target).await?);
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        // The reply is the object if it has finalizers, and a Status if it is gone.
        let is_object = reply.contains("\"deletionTimestamp\"");
        if !is_object || self.store_reply(target.view, &reply).is_err() {
            target.view.watch.lose(child);
        }
        Ok(())
    }

    /// Reads an object from the API server and stores it.
    ///
    /// # Errors
    /// If the API server refuses or does not answer.
    pub(super) async fn read_live(&self, key: &Key, target: Target<'_>) -> Result<Option<Arc<Object>>, ApiError> {
        let Target { view, resource, permit, .. } = target;
        let reply = match self.get(resource, key, permit).await {
            Ok(reply) => reply,
            Err(error) if error.is_gone() => {
                if let Some(known) = view.watch.cache.get(key) {
                    view.watch.lose(&known);
                }
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let reference = resource.reference(key);
        let live = view.watch.read(&reply).map_err(|error| unreadable(&reference, &error))?;
        // Objects without our label stay out of the store of our children.
        if live.label(PLUGIN_LABEL).is_some() {
            view.watch.store(live.clone());
        }
        Ok(Some(Arc::new(live)))
    }

    /// Reads an object again that is known without its content, and stores it: with its content, if there is room now.
    ///
    /// # Errors
    /// If the API server refuses or does not answer.
    pub async fn read_again(&self, watch: &SharedWatch, key: &Key, permit: &Permit) -> Result<(), ApiError> {
        let resource = self.find_kind(&watch.scope.kind).await?;
        match self.get(&resource, key, permit).await {
            Ok(reply) => {
                let reference = resource.reference(key);
                watch.store(watch.read(&reply).map_err(|error| unreadable(&reference, &error))?);
                Ok(())
            }
            Err(error) if error.is_gone() => {
                if let Some(known) = watch.cache.get(key) {
                    watch.lose(&known);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns a kind as the API server serves it.
    ///
    /// # Errors
    /// If the API server does not serve it (404), or does not answer.
    pub async fn find_kind(&self, kind: &Kind) -> Result<Arc<Resource>, ApiError> {
        self.kinds.find(&self.cluster, kind).await
    }

    /// Reads a child from the API server, as the host.
    ///
    /// # Errors
    /// The API server's error; 404 if there is none.
    pub async fn read_child(&self, reference: &ObjectRef) -> Result<String, ApiError> {
        let resource = self.find_kind(&reference.kind).await?;
        self.get(&resource, &check::key(reference), &Permit::unlimited()).await
    }

    /// Reads an object that a plugin requires for a parent, as the plugin.
    ///
    /// # Errors
    /// The API server's error; 404 if there is none.
    pub async fn read_as_plugin(&self, reference: &ObjectRef, parent: &ObjectRef) -> Result<String, ApiError> {
        let resource = self.kinds.find(&self.cluster, &reference.kind).await?;
        let key = check::key(reference);
        self.rate_limit.read(parent.namespace.as_ref()).await;
        self.get_as(&self.identity, &resource, &key, &Permit::unlimited()).await
    }

    pub(super) async fn get(&self, resource: &Resource, key: &Key, permit: &Permit) -> Result<String, ApiError> {
        self.get_as(&Identity::Host, resource, key, permit).await
    }

    async fn get_as(
        &self,
        identity: &Identity,
        resource: &Resource,
        key: &Key,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let target = resource.reference(key);
        self.send(ApiCall::get("get", &target, resource.path(key, None)), identity, permit).await
    }

    /// Sends a write in a namespace, with this many [fields](fields::count), within the plugin's rate limit.
    pub(super) async fn send_limited(
        &self,
        call: ApiCall<'_>,
        (namespace, fields): (Option<&Arc<str>>, usize),
        identity: &Identity,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let cost = tokens(call.body.len(), fields);
        self.rate_limit.write(namespace, cost).await;
        let result = self.cluster.send_at_cost(call, cost, identity, permit).await;
        self.note_impersonation(identity, &result);
        result
    }

    /// Sends a request outside of the plugin's rate limit.
    pub(super) async fn send(
        &self,
        call: ApiCall<'_>,
        identity: &Identity,
        permit: &Permit,
    ) -> Result<String, ApiError> {
        let result = self.cluster.send(call, identity, permit).await;
        self.note_impersonation(identity, &result);
        result
    }
}

/// Returns the request of an apply, and its namespace and number of fields.
fn apply_call<'a>(
    apply: &'a Apply,
    query: String,
    resource: &Resource,
) -> (ApiCall<'a>, (Option<&'a Arc<str>>, usize)) {
    let Desired { reference, body, .. } = &apply.desired;
    let call = ApiCall {
        verb: "apply",
        target: reference,
        method: Method::PATCH,
        uri: format!("{}?{query}", resource.path(&check::key(reference), None)),
        content_type: APPLY,
        body: apply_body::conditional(body, &apply.precondition),
    };
    (call, (reference.namespace.as_ref(), fields::count(body)))
}

fn unknown_kind(reference: &ObjectRef) -> ApiError {
    let message = "the API server has no such kind".to_owned();
    ApiError::new("write", reference.to_string(), 404, "NotFound", message).unserved()
}

pub(super) fn unreadable(reference: &ObjectRef, error: &serde_json::Error) -> ApiError {
    ApiError::unreadable("write", reference.to_string(), error)
}

#[cfg(test)]
pub(super) mod tests {
    use axum::Router;
    use axum::http::StatusCode;

    use super::*;
    use crate::rate_limit::Delays;
    use crate::served;
    use crate::shared_watch::Scope;
    use hotshoe_core::diff::Precondition;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    /// The child `n/web` with the uid `u`, which the plugin `demo` is about to write to an API server of a test.
    pub(crate) struct Scene {
        pub(crate) writer: Writer,
        pub(crate) view: View,
        pub(crate) apply: Apply,
        resource: Resource,
        permit: Permit,
        parent: ObjectRef,
        predecessors: Predecessors,
    }

    impl Scene {
        /// Takes the group, the kind and its plural.
        pub(crate) async fn new((group, kind, plural): (&str, &str, &str), server: Router) -> Self {
            let cluster = served::by(server).await;
            let rate_limit = RateLimit::new(&Limits::default(), Delays::default());
            let identity = Identity::plugin("hotshoe", "demo");
            let kind = Kind::new(group, "v1", kind);
            let kept_fields =
                KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
            let watch = SharedWatch::new(Scope::new(kind.clone(), PLUGIN_LABEL), kept_fields.clone(), "system".into());
            let reference = ObjectRef { kind: kind.clone(), namespace: Some("n".into()), name: "web".into() };
            let parent = ObjectRef { name: "parent".into(), ..reference.clone() };
            let body = json!({ "metadata": { "name": "web" }, "spec": {} }).into();
            let desired = Desired {
                reference,
                body,
                digest: "digest".into(),
                is_created_once: false,
                left: Arc::default(),
                strategy: Default::default(),
            };
            Self {
                writer: Writer::new(&cluster, Arc::default(), "demo", identity, rate_limit),
                view: View { watch, projection: kept_fields.projection },
                apply: Apply { desired, precondition: Precondition::Uid("u".into()) },
                resource: Resource {
                    kind,
                    plural: plural.to_owned(),
                    namespaced: true,
                    has_status: false,
                    has_scale: false,
                    is_converted: false,
                },
                permit: Permit::unlimited(),
                parent,
                predecessors: Predecessors::default(),
            }
        }

        pub(crate) fn target<'a>(&'a self, check_result: &'a CheckResult<'a>) -> Target<'a> {
            let Self { view, resource, permit, parent, predecessors, .. } = self;
            let parent = Parent { reference: parent, uid: "p", predecessors, adopts: false, check_result };
            Target { view, resource, permit, parent }
        }
    }

    #[tokio::test]
    async fn a_write_without_an_answer_counts_though_the_read_after_it_has_none_either() {
        let server = Router::new().fallback(async || (StatusCode::GATEWAY_TIMEOUT, "{}"));
        let scene = Scene::new(("", "ConfigMap", "configmaps"), server).await;
        let target = scene.target(&|_, _| Ok(()));
        match scene.writer.claim_and_write(&scene.apply, target).await {
            Err(WriteError::Api(error)) => {
                assert_eq!((error.verb, error.unanswered.is_some()), ("apply", true), "{error:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
