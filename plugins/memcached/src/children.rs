//! The desired children. They set what the operator stands for and nothing else: every field left
//! out may be set by others, and is left alone.

use hotshoe_sdk::{Failure, Object};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};

use crate::{
    api::MemcachedSpec,
    apply::{
        self, Capabilities, Container, ContainerPort, DeploymentSpec, LabelSelector, Metadata, PodSecurityContext,
        PodSpec, PodTemplate, SeccompProfile, SecurityContext, ServicePort, ServiceSpec,
    },
    image,
    names::{self, Labels},
};

/// The port of every Service, and Memcached's own.
const PORT: i32 = 11211;

/// Named although it is the default, because it is part of the key of a port: two appliers that
/// differ in naming it would otherwise seem to speak of two ports.
const PROTOCOL: &str = "TCP";

const CONTAINER: &str = "memcached";

const COMMAND: [&str; 5] = ["memcached", "-m=64", "-o", "modern", "-v"];

pub(crate) fn desired(name: &str, spec: &MemcachedSpec, image: &str) -> Result<[Object; 2], Failure> {
    let (labels, selector) = (names::all(name, &image::version(image)), names::selector(name));
    let pods = Pods { labels: &labels, selector: &selector };
    let deployment = Object::desired::<Deployment>(name, &deployment(pods, spec, image))?;
    let service = Object::desired::<Service>(&names::service(name), &service(pods, spec))?;
    Ok([deployment, service])
}

/// The Pods of one custom resource, by their labels. Its children have the same.
#[derive(Clone, Copy)]
struct Pods<'a> {
    labels: &'a Labels,
    selector: &'a Labels,
}

fn deployment<'a>(pods: Pods<'a>, spec: &MemcachedSpec, image: &'a str) -> apply::Deployment<'a> {
    apply::Deployment {
        metadata: Metadata { labels: pods.labels },
        spec: DeploymentSpec {
            replicas: spec.size,
            selector: LabelSelector { match_labels: pods.selector },
            template: PodTemplate {
                metadata: Metadata { labels: pods.labels },
                spec: PodSpec {
                    // Memcached never speaks to the API server.
                    automount_service_account_token: false,
                    containers: [container(spec, image)],
                    security_context: pod_security(),
                },
            },
        },
    }
}

fn container<'a>(spec: &MemcachedSpec, image: &'a str) -> Container<'a> {
    Container {
        name: CONTAINER,
        image,
        image_pull_policy: "IfNotPresent",
        command: COMMAND,
        ports: [ContainerPort { name: CONTAINER, container_port: spec.container_port, protocol: PROTOCOL }],
        security_context: container_security(),
    }
}

/// Together with [`container_security`] what the Pod Security level `restricted` wants.
fn pod_security() -> PodSecurityContext {
    PodSecurityContext { run_as_non_root: true, seccomp_profile: SeccompProfile { profile: "RuntimeDefault" } }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        run_as_non_root: true,
        // The image's own user is named and not numbered, so the kubelet could not see that it
        // is not root.
        run_as_user: 1001,
        allow_privilege_escalation: false,
        capabilities: Capabilities { drop: ["ALL"] },
    }
}

fn service<'a>(pods: Pods<'a>, spec: &MemcachedSpec) -> apply::Service<'a> {
    apply::Service {
        metadata: Metadata { labels: pods.labels },
        spec: ServiceSpec {
            reach: "ClusterIP",
            selector: pods.selector,
            ports: [ServicePort { port: PORT, target_port: spec.container_port, protocol: PROTOCOL }],
        },
    }
}
