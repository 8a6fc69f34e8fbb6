//! From caches to writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotshoe_sdk::{Children, Decision, ObjectRef as ChildRef, Refusal};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::difference::differs;
use super::pods::Pods;
use crate::behaviour::{self, Seen};
use crate::resource::{FINALIZER, Memcached, Status};

const MANAGER: &str = "native-memcached";
const RETRY: Duration = Duration::from_secs(1);

/// What every reconcile uses.
pub(super) struct Context {
    pub(super) client: kube::Client,
    pub(super) deployments: Store<Deployment>,
    pub(super) services: Store<Service>,
    pub(super) pods: Arc<Pods>,
    pub(super) recorder: Recorder,
    /// The plugin's configuration.
    pub(super) config: String,
    /// The first statuses that the watch has not delivered yet, by UID. Without them a status would be written twice.
    pub(super) first_statuses: Mutex<HashMap<String, Status>>,
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// An error of the API server.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// An error of the decision code.
    #[error("{0:#}")]
    Decision(#[from] anyhow::Error),
}

/// Tries again after a while.
pub(super) fn on_error(parent: Arc<Memcached>, error: &Error, _: Arc<Context>) -> Action {
    eprintln!("{}: {error}", parent.name_any());
    Action::requeue(RETRY)
}

/// Reconciles one object as the plugin decides.
pub(super) async fn reconcile(parent: Arc<Memcached>, context: Arc<Context>) -> Result<Action, Error> {
    // A decision on an incomplete cache would write what exists already.
    drop(context.deployments.wait_until_ready().await);
    drop(context.services.wait_until_ready().await);
    if parent.metadata.deletion_timestamp.is_some() {
        return context.finalize(&parent).await;
    }
    let held = context.add_finalizer(&parent).await?;
    let parent = held.as_ref().unwrap_or(&parent);
    let later = context.with_first_status(parent);
    let parent = later.as_ref().unwrap_or(parent);
    let decision = behaviour::reconcile(parent, context.seen(parent).view(&context, parent), &context.config)?;
    // Watch events of the children that are created now trigger the next reconcile.
    let is_woken = context.seen(parent).deployment.is_none() && matches!(decision.children, Children::Exactly(_));
    let refusals = context.apply(parent, &decision).await?;
    if refusals.is_empty() {
        let written = context.write_status(parent, &decision).await?;
        if let Some(newer) = written.filter(|_| parent.status.is_none()) {
            // The first status is always the same, and no watch event triggers a reconcile for the next one.
            context.remember_first_status(&newer);
            let seen = context.seen(&newer);
            if !is_woken {
                let decision = behaviour::reconcile(&newer, seen.view(&context, &newer), &context.config)?;
                context.write_status(&newer, &decision).await?;
            }
        }
        return Ok(Action::await_change());
    }
    let seen = context.seen(parent);
    let refused = Seen { refusals, ..seen.view(&context, parent) };
    context.write_status(parent, &behaviour::reconcile(parent, refused, &context.config)?).await?;
    Ok(Action::requeue(RETRY))
}

/// The children of one object, from the caches.
struct Cached {
    deployment: Option<Arc<Deployment>>,
    service: Option<Arc<Service>>,
}

impl Cached {
    fn view<'a>(&'a self, context: &Context, parent: &Memcached) -> Seen<'a> {
        Seen {
            deployment: self.deployment.as_deref(),
            service: self.service.as_deref(),
            pods: context.pods.of(&parent.namespace().unwrap_or_default(), &parent.name_any()),
            refusals: Vec::new(),
        }
    }
}

impl Context {
    fn seen(&self, parent: &Memcached) -> Cached {
        let namespace = parent.namespace().unwrap_or_default();
        let name = parent.name_any();
        Cached {
            deployment: self.deployments.get(&ObjectRef::new(&name).within(&namespace)),
            service: self.services.get(&ObjectRef::new(&format!("{name}-service")).within(&namespace)),
        }
    }

    fn remember_first_status(&self, parent: &Memcached) {
        if let (Some(uid), Some(status)) = (parent.uid(), &parent.status) {
            self.first_statuses().insert(uid, status.clone());
        }
    }

    /// Returns the object with its first status, where the watch has not delivered that yet.
    fn with_first_status(&self, parent: &Memcached) -> Option<Memcached> {
        let uid = parent.uid()?;
        if parent.status.is_some() {
            self.first_statuses().remove(&uid);
            return None;
        }
        let status = Some(self.first_statuses().get(&uid)?.clone());
        Some(Memcached { status, ..parent.clone() })
    }

    fn first_statuses(&self) -> MutexGuard<'_, HashMap<String, Status>> {
        self.first_statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn api<K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>>(
        &self,
        parent: &Memcached,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), &parent.namespace().unwrap_or_default())
    }

    /// Adds the finalizer, and returns the object as it is then.
    async fn add_finalizer(&self, parent: &Memcached) -> Result<Option<Memcached>, Error> {
        let finalizers = parent.finalizers();
        if finalizers.iter().any(|held| held == FINALIZER) {
            return Ok(None);
        }
        let patch = if finalizers.is_empty() {
            json!([
                { "op": "test", "path": "/metadata/finalizers", "value": null },
                { "op": "add", "path": "/metadata/finalizers", "value": [FINALIZER] },
            ])
        } else {
            json!([
                { "op": "test", "path": "/metadata/finalizers", "value": finalizers },
                { "op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER },
            ])
        };
        Ok(Some(self.patch(parent, patch).await?))
    }

    /// Removes the finalizer.
    async fn remove_finalizer(&self, parent: &Memcached) -> Result<(), Error> {
        let Some(index) = parent.finalizers().iter().position(|held| held == FINALIZER) else { return Ok(()) };
        let path = format!("/metadata/finalizers/{index}");
        let patch = json!([{ "op": "test", "path": path, "value": FINALIZER }, { "op": "remove", "path": path }]);
        self.patch(parent, patch).await.map(drop)
    }

    async fn patch(&self, parent: &Memcached, patch: Value) -> Result<Memcached, Error> {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).map_err(anyhow::Error::from)?);
        Ok(self.api(parent).patch(&parent.name_any(), &PatchParams::default(), &patch).await?)
    }

    /// Applies the children that differ, both at once, and returns those that the API server refused.
    async fn apply(&self, parent: &Memcached, decision: &Decision) -> Result<Vec<Refusal>, Error> {
        let cached = self.seen(parent);
        let desired = behaviour::desired(parent, decision)?;
        let writes = desired.iter().map(|(child, body)| self.apply_child(parent, child, body, &cached));
        let refusals = futures::future::try_join_all(writes).await?;
        Ok(refusals.into_iter().flatten().collect())
    }

    async fn apply_child(
        &self,
        parent: &Memcached,
        child: &ChildRef,
        body: &Value,
        cached: &Cached,
    ) -> Result<Option<Refusal>, Error> {
        let applied = match child.kind.kind.as_str() {
            "Deployment" => self.apply_if_different(parent, child, body, cached.deployment.as_deref()).await,
            _ => self.apply_if_different(parent, child, body, cached.service.as_deref()).await,
        };
        match applied {
            Ok(()) => Ok(None),
            Err(kube::Error::Api(status)) => Ok(Some(Refusal {
                reference: child.clone(),
                code: status.code.into(),
                reason: status.reason.clone(),
                message: status.message.clone(),
            })),
            Err(error) => Err(error.into()),
        }
    }

    async fn apply_if_different<K>(
        &self,
        parent: &Memcached,
        child: &ChildRef,
        body: &Value,
        cached: Option<&K>,
    ) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
    {
        if !differs(body, cached) {
            return Ok(());
        }
        let api: Api<K> = self.api(parent);
        api.patch(&child.name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(body)).await.map(drop)
    }

    /// Writes the status where it differs, and returns the object as it is then.
    async fn write_status(&self, parent: &Memcached, decision: &Decision) -> Result<Option<Memcached>, Error> {
        let status = behaviour::status(parent, decision)?;
        if parent.status.as_ref() == Some(&status) {
            return Ok(None);
        }
        let body = behaviour::status_body(parent, &status);
        let api: Api<Memcached> = self.api(parent);
        let params = PatchParams::apply(MANAGER).force();
        Ok(Some(api.patch_status(&parent.name_any(), &params, &Patch::Apply(body)).await?))
    }

    /// Writes both statuses of the clean-up and the Event, and removes the finalizer.
    async fn finalize(&self, parent: &Memcached) -> Result<Action, Error> {
        let mut parent = parent.clone();
        if !parent.finalizers().iter().any(|held| held == FINALIZER) {
            return Ok(Action::await_change());
        }
        loop {
            let seen = self.seen(&parent);
            let (decision, done) = behaviour::finalize(&parent, seen.view(self, &parent), &self.config)?;
            self.emit_event(&parent, &decision).await?;
            if let Some(newer) = self.write_status(&parent, &decision).await? {
                parent = newer;
            }
            if done {
                self.remove_finalizer(&parent).await?;
                return Ok(Action::await_change());
            }
        }
    }

    async fn emit_event(&self, parent: &Memcached, decision: &Decision) -> Result<(), Error> {
        for event in &decision.events {
            let event = Event {
                type_: EventType::Warning,
                reason: event.reason.clone(),
                note: Some(event.message.clone()),
                action: event.reason.clone(),
                secondary: None,
            };
            self.recorder.publish(&event, &parent.object_ref(&())).await?;
        }
        Ok(())
    }
}
