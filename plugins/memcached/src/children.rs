//! The desired children. They set only the fields that the operator is responsible for: other field
//! managers may set the rest, which is left alone.

use std::collections::BTreeSet;

use hotshoe_sdk::Object;
use hotshoe_sdk::apply::apps_v1::{Deployment, DeploymentSpec};
use hotshoe_sdk::apply::core_v1::{
    Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
    SecurityContext, Service, ServicePort, ServiceSpec,
};
use hotshoe_sdk::apply::meta_v1::{LabelSelector, ObjectMeta};

use crate::{
    api::{Memcached, MemcachedSpec},
    image,
    names::{self, Labels},
    ports,
};

/// The port of every Service, and Memcached's own.
const PORT: i32 = 11211;

/// Named although it is the default, because it is part of the key of a port: without it, the ports of
/// two field managers, one of whom names it, would seem to be two different ports.
const PROTOCOL: &str = "TCP";

const CONTAINER: &str = "memcached";

const COMMAND: [&str; 5] = ["memcached", "-m=64", "-o", "modern", "-v"];

pub(crate) fn desired(name: &str, parent: &Memcached, image: &str) -> [Object; 2] {
    let spec = &parent.spec;
    let (labels, selector) = (names::all(name, &image::version(image)), names::selector(name));
    let deployment = Deployment::new(name).labels(&labels).spec(
        DeploymentSpec::new()
            .replicas(spec.size)
            .selector(LabelSelector::new().match_labels(&selector))
            .template(pods(&labels, parent, image)),
    );
    let service = Service::new(names::service(name)).labels(&labels).spec(service(&selector, spec));
    [deployment.into(), service.into()]
}

fn pods(labels: &Labels, parent: &Memcached, image: &str) -> PodTemplateSpec {
    let pod = PodSpec::new()
        // Memcached never calls the API server.
        .automount_service_account_token(false)
        .containers([container(parent, image)])
        .security_context(pod_security());
    PodTemplateSpec::new().metadata(ObjectMeta::new().labels(labels)).spec(pod)
}

fn container(parent: &Memcached, image: &str) -> Container {
    Container::new()
        .name(CONTAINER)
        .image(image)
        .image_pull_policy("IfNotPresent")
        .command(COMMAND)
        .ports(container_ports(parent))
        .security_context(container_security())
}

/// Builds the ports of the container. Of two with the same number only the first is there, because the number is the key
/// of a port.
fn container_ports(parent: &Memcached) -> Vec<ContainerPort> {
    let kept = parent.metadata.annotations.get(ports::ANNOTATION);
    let ports = ports::of_stored(Some(parent.spec.container_port), kept.map(String::as_str));
    let mut numbers = BTreeSet::new();
    let new = |port: &ports::Port| port.container_port.is_some_and(|number| numbers.insert(number));
    let named = |port: ports::Port| {
        let number = port.container_port.unwrap_or_default();
        ContainerPort::new().name(port.name).container_port(number).protocol(PROTOCOL)
    };
    ports.unwrap_or_default().into_iter().filter(new).map(named).collect()
}

/// Builds the Pod's security context, which, with [`container_security`], fulfils the Pod Security level `restricted`.
fn pod_security() -> PodSecurityContext {
    PodSecurityContext::new().run_as_non_root(true).seccomp_profile(SeccompProfile::new().type_("RuntimeDefault"))
}

fn container_security() -> SecurityContext {
    SecurityContext::new()
        .run_as_non_root(true)
        // The image's own user is named and not numbered, so the kubelet could not see that it
        // is not root.
        .run_as_user(1001)
        .allow_privilege_escalation(false)
        .capabilities(Capabilities::new().drop(["ALL"]))
}

fn service(selector: &Labels, spec: &MemcachedSpec) -> ServiceSpec {
    let port = ServicePort::new().port(PORT).target_port(spec.container_port).protocol(PROTOCOL);
    ServiceSpec::new().type_("ClusterIP").selector(selector).ports([port])
}
