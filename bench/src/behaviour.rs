//! The plugin's decisions, made natively: what the host does around a call, done with typed objects.

use anyhow::{Context, Result, bail};
use hotshoe_sdk::{
    Answer, Children, Cleanup, Condition as Stated, Decision, Object, ObjectRef, Observation, Refusal, Related,
    ResourceKind, Status as Truth,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use crate::resource::{API_VERSION, Memcached, Spec, Status};

/// The observed children of one `Memcached`.
#[derive(Default)]
pub struct Seen<'a> {
    /// Its Deployment.
    pub deployment: Option<&'a Deployment>,
    /// Its Service.
    pub service: Option<&'a Service>,
    /// The names of its Pods.
    pub pods: Vec<String>,
    /// Writes that the API server refused.
    pub refusals: Vec<Refusal>,
}

/// Calls the plugin's `reconcile`.
///
/// # Errors
/// When the plugin returns a failure, which it does not do for valid objects.
pub fn reconcile(parent: &Memcached, children: Seen<'_>, config: &str) -> Result<Decision> {
    match hotshoe_sdk::reconcile::<memcached::Memcached>(observe(parent, children, config)?) {
        Ok(Answer::Decided(decision)) => Ok(decision),
        Ok(Answer::Needs(_)) => bail!("the plugin needs more than it declared"),
        Err(failure) => bail!("the plugin failed: {failure}"),
    }
}

/// Calls the plugin's `finalize`, and returns its decision and whether the clean-up is done.
///
/// # Errors
/// When the plugin returns a failure.
pub fn finalize(parent: &Memcached, children: Seen<'_>, config: &str) -> Result<(Decision, bool)> {
    match hotshoe_sdk::finalize::<memcached::Memcached>(observe(parent, children, config)?) {
        Ok(Cleanup::Waiting(decision)) => Ok((decision, false)),
        Ok(Cleanup::Done(decision)) => Ok((decision, true)),
        Err(failure) => bail!("the plugin failed: {failure}"),
    }
}

/// Returns the desired children as they are applied: with namespace and controller reference.
///
/// # Errors
/// When a child is not a JSON object.
pub fn desired(parent: &Memcached, decision: &Decision) -> Result<Vec<(ObjectRef, Value)>> {
    let Children::Exactly(children) = &decision.children else { return Ok(Vec::new()) };
    children.iter().map(|child| Ok((child.reference.clone(), stamp(parent, child)?))).collect()
}

fn stamp(parent: &Memcached, child: &Object) -> Result<Value> {
    let mut body = Value::Object(child.whole()?);
    let metadata = body.pointer_mut("/metadata").and_then(Value::as_object_mut).context("a child without metadata")?;
    metadata.insert("namespace".into(), parent.namespace().into());
    metadata.insert("ownerReferences".into(), json!([parent.controller_reference()]));
    Ok(body)
}

/// Returns the status of a decision, with the times of unchanged conditions taken from `parent`.
///
/// # Errors
/// When the plugin's status does not parse as the resource's status.
pub fn status(parent: &Memcached, decision: &Decision) -> Result<Status> {
    let stated: Status = serde_json::from_str(decision.status.as_deref().unwrap_or("{}"))?;
    let now = Time(Timestamp::from_second(Timestamp::now().as_second())?);
    let conditions = decision.conditions.iter().map(|stated| condition(stated, parent, &now)).collect();
    Ok(Status { conditions, ..stated })
}

fn condition(stated: &Stated, parent: &Memcached, now: &Time) -> Condition {
    let status = match stated.status {
        Truth::True => "True",
        Truth::False => "False",
        Truth::Unknown => "Unknown",
    };
    let unchanged = parent.conditions().iter().find(|other| other.type_ == stated.name && other.status == status);
    Condition {
        type_: stated.name.clone(),
        status: status.to_owned(),
        reason: stated.reason.clone(),
        message: stated.message.clone(),
        observed_generation: parent.metadata.generation,
        last_transition_time: unchanged.map_or(now, |other| &other.last_transition_time).clone(),
    }
}

/// Builds the body of a server-side apply of a status.
pub fn status_body(parent: &Memcached, status: &Status) -> Value {
    let metadata = json!({ "name": parent.name_any(), "namespace": parent.namespace() });
    json!({ "apiVersion": API_VERSION, "kind": "Memcached", "metadata": metadata, "status": status })
}

fn observe(parent: &Memcached, children: Seen<'_>, config: &str) -> Result<Observation> {
    let mut shown = Vec::with_capacity(2);
    if let Some(deployment) = children.deployment {
        shown.push(Object { reference: reference::<Deployment>(deployment), json: show_deployment(deployment)? });
    }
    if let Some(service) = children.service {
        shown.push(Object { reference: reference::<Service>(service), json: "{}".to_owned() });
    }
    Ok(Observation {
        parent: Object { reference: reference_of(parent, parent_kind()), json: show_parent(parent)? },
        children: shown,
        related: vec![Related { key: "pods".to_owned(), objects: children.pods.iter().map(show_pod).collect() }],
        refusals: children.refusals,
        config: config.to_owned(),
        now: None,
        attempt: None,
    })
}

fn parent_kind() -> ResourceKind {
    ResourceKind::new("cache.example.com", "v1", "Memcached")
}

fn reference<K: k8s_openapi::Resource>(object: &impl ResourceExt) -> ObjectRef {
    reference_of(object, ResourceKind::of::<K>())
}

fn reference_of(object: &impl ResourceExt, kind: ResourceKind) -> ObjectRef {
    ObjectRef { kind, namespace: object.namespace(), name: object.name_any() }
}

// Views with the fields that the plugin asks for, as the host would project them.

#[derive(Serialize)]
struct Shown<'a, S: Serialize, T: Serialize> {
    metadata: Metadata<'a>,
    spec: S,
    status: T,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: Option<&'a str>,
    generation: Option<i64>,
}

#[derive(Serialize)]
struct DeploymentSpec<'a> {
    replicas: Option<i32>,
    selector: &'a LabelSelector,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeploymentStatus {
    observed_generation: Option<i64>,
    ready_replicas: i32,
    replicas: i32,
    updated_replicas: i32,
}

#[derive(Serialize)]
struct Said<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<&'a [String]>,
    conditions: &'a [Condition],
}

fn metadata(object: &impl ResourceExt) -> Metadata<'_> {
    Metadata { name: object.meta().name.as_deref(), generation: object.meta().generation }
}

fn show_parent(parent: &Memcached) -> Result<String> {
    let spec: &Spec = &parent.spec;
    // As the host does: conditions are shown only while the object is being deleted.
    let conditions = if parent.metadata.deletion_timestamp.is_some() { parent.conditions() } else { &[] };
    let nodes = parent.status.as_ref().map(|status| &*status.nodes);
    Ok(serde_json::to_string(&Shown { metadata: metadata(parent), spec, status: Said { nodes, conditions } })?)
}

fn show_deployment(deployment: &Deployment) -> Result<String> {
    let spec = deployment.spec.as_ref().context("a Deployment without spec")?;
    let status = deployment.status.as_ref().map(|status| DeploymentStatus {
        observed_generation: status.observed_generation,
        ready_replicas: status.ready_replicas.unwrap_or_default(),
        replicas: status.replicas.unwrap_or_default(),
        updated_replicas: status.updated_replicas.unwrap_or_default(),
    });
    let spec = DeploymentSpec { replicas: spec.replicas, selector: &spec.selector };
    Ok(serde_json::to_string(&Shown { metadata: metadata(deployment), spec, status: status.unwrap_or_default() })?)
}

fn show_pod(name: &String) -> Object {
    let reference = ObjectRef { kind: ResourceKind::new("", "v1", "Pod"), namespace: None, name: name.clone() };
    Object { reference, json: json!({ "metadata": { "name": name } }).to_string() }
}
