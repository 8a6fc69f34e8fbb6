//! The logic of an nginx operator: a Deployment for each `NginxServer`, and a status that shows how many
//! servers are available.

pub mod admission;
pub mod api;
#[cfg(feature = "crd")]
pub mod crd;
mod image;

use hotshoe_sdk::apply::apps_v1::{Deployment, DeploymentSpec};
use hotshoe_sdk::apply::core_v1::{Container, ContainerPort, Pod, PodSpec, PodTemplateSpec, SecurityContext};
use hotshoe_sdk::apply::meta_v1::{LabelSelector, ObjectMeta};
use hotshoe_sdk::{
    AdmissionContext, Answer, Condition, Decision, Defaulter, Descriptor, Failure, MatchRule, Reconciler, Request,
    ResourceKind, Validator, Verb, Verdict, parent_label,
};
use serde::Deserialize;

use crate::api::{Config, NginxServer, NginxServerSpec, NginxServerStatus};

/// The label that carries the name of the NginxServer.
const INSTANCE: &str = "app.kubernetes.io/instance";

/// The plugin.
pub struct Nginx;

impl Reconciler for Nginx {
    type Parent = NginxServer;
    type Config = Config;

    fn describe() -> Descriptor {
        let parent = ResourceKind::new(api::GROUP, api::VERSION, api::KIND);
        Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), parent)
            .owns::<Deployment>(&[Verb::Create, Verb::Update], &["status.availableReplicas"])
            .reads::<Pod>("pods", "app=nginx", MatchRule::parent_label(INSTANCE), &[])
            .config_schema(api::CONFIG_SCHEMA)
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        let spec = &request.parent.spec;
        let observed = request.child_as::<Deployment, Observed>(request.name())?.unwrap_or_default().status;
        let status = NginxServerStatus {
            available_replicas: observed.available_replicas,
            pod_names: request.related_names("pods")?,
        };
        let decision = Decision::exactly([deployment(request.name(), spec).into()]).status(&status)?;
        let available = available(observed.available_replicas, spec.replicas);
        let ready = available.named("Ready");
        Ok(Answer::Decided(decision.conditions([available, ready])))
    }
}

impl Validator for Nginx {
    fn validate(
        new: &NginxServer,
        old: Option<&NginxServer>,
        context: &AdmissionContext<Config>,
    ) -> Result<Verdict, Failure> {
        admission::validate(new, old, context)
    }
}

impl Defaulter for Nginx {
    type Object = admission::Sparse;

    fn default(object: &mut Self::Object, context: &AdmissionContext<Config>) -> Result<(), Failure> {
        admission::default(object, context)
    }
}

/// The fields of the Deployment that `describe` asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Observed {
    status: ObservedStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObservedStatus {
    available_replicas: i32,
}

fn available(available: i32, replicas: i32) -> Condition {
    let is_available = available >= replicas;
    let reason = if is_available { "PodsAvailable" } else { "PodsUnavailable" };
    Condition::new("Available", is_available.into(), reason, format!("{available} of {replicas} Pods are available"))
}

fn deployment(name: &str, spec: &NginxServerSpec) -> Deployment {
    let instance = parent_label(name);
    let labels = [("app", "nginx"), (INSTANCE, instance.as_str())];
    let container = Container::new()
        .name("nginx")
        .image(&spec.image)
        // The protocol is named although it is the default, because it is part of the key of a port.
        .ports([ContainerPort::new().container_port(80).protocol("TCP")])
        .security_context(SecurityContext::new().allow_privilege_escalation(false));
    // No runAsNonRoot: the stock image starts as root, and its workers run as another user.
    let pod = PodSpec::new().automount_service_account_token(false).containers([container]);
    let template = PodTemplateSpec::new().metadata(ObjectMeta::new().labels(labels)).spec(pod);
    let selector = LabelSelector::new().match_labels(labels);
    let spec = DeploymentSpec::new().replicas(spec.replicas).selector(selector).template(template);
    Deployment::new(name).labels(labels).spec(spec)
}

hotshoe_sdk::export!(Nginx, validation, defaulting);
