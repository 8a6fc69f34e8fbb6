//! The desired children. They set what the operator stands for and nothing else: every field left
//! out may be set by others, and is left alone.

use hotshoe_sdk::{Failure, Object};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            Capabilities, Container, ContainerPort, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
            SecurityContext, Service, ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

use crate::{api::MemcachedSpec, image, names};

/// The port of every Service, and Memcached's own.
const PORT: i32 = 11211;

/// Named although it is the default, because it is part of the key of a port: two appliers that
/// differ in naming it would otherwise seem to speak of two ports.
const PROTOCOL: &str = "TCP";

const CONTAINER: &str = "memcached";

const COMMAND: [&str; 5] = ["memcached", "-m=64", "-o", "modern", "-v"];

pub(crate) fn desired(name: &str, spec: &MemcachedSpec, image: &str) -> Result<[Object; 2], Failure> {
    let version = image::version(image);
    let deployment = deployment(name, spec, image, &version);
    let service = service(name, spec, &version);
    Ok([Object::of(&deployment)?, Object::of(&service)?])
}

fn deployment(name: &str, spec: &MemcachedSpec, image: &str, version: &str) -> Deployment {
    Deployment {
        metadata: metadata(name.to_owned(), name, version),
        spec: Some(DeploymentSpec {
            replicas: Some(spec.size),
            selector: LabelSelector { match_labels: Some(names::selector(name)), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(names::all(name, version)), ..ObjectMeta::default() }),
                spec: Some(PodSpec {
                    // Memcached never speaks to the API server.
                    automount_service_account_token: Some(false),
                    containers: vec![container(spec, image)],
                    security_context: Some(pod_security()),
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

fn container(spec: &MemcachedSpec, image: &str) -> Container {
    Container {
        name: CONTAINER.to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(COMMAND.map(str::to_owned).to_vec()),
        ports: Some(vec![ContainerPort {
            name: Some(CONTAINER.to_owned()),
            container_port: spec.container_port,
            protocol: Some(PROTOCOL.to_owned()),
            ..ContainerPort::default()
        }]),
        security_context: Some(container_security()),
        ..Container::default()
    }
}

/// Together with [`container_security`] what the Pod Security level `restricted` wants.
fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() }),
        ..PodSecurityContext::default()
    }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        run_as_non_root: Some(true),
        // The image's own user is named and not numbered, so the kubelet could not tell that it
        // is not root.
        run_as_user: Some(1001),
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
        ..SecurityContext::default()
    }
}

fn service(name: &str, spec: &MemcachedSpec, version: &str) -> Service {
    Service {
        metadata: metadata(names::service(name), name, version),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(names::selector(name)),
            ports: Some(vec![ServicePort {
                port: PORT,
                target_port: Some(IntOrString::Int(spec.container_port)),
                protocol: Some(PROTOCOL.to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn metadata(own_name: String, name: &str, version: &str) -> ObjectMeta {
    ObjectMeta { name: Some(own_name), labels: Some(names::all(name, version)), ..ObjectMeta::default() }
}
