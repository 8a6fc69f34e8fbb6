//! The Pod template of the StatefulSet. It sets only the fields that the operator is responsible for.

use std::collections::BTreeMap;

use hotshoe_sdk::apply::core_v1::{
    Capabilities, Container, ContainerPort, ExecAction, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext, VolumeMount,
};
use hotshoe_sdk::apply::meta_v1::ObjectMeta;

use crate::{
    api::{Amount, RedisSpec, Resources},
    names,
};

/// The name of the container and of its port.
pub(crate) const REDIS: &str = "redis";

pub(crate) const PORT: i32 = 6379;

/// Named although it is the default, because it is part of the key of a port.
pub(crate) const PROTOCOL: &str = "TCP";

/// The annotation of the Pods that identifies their template. It reveals a template that was set by hand, for example
/// by `kubectl rollout undo`.
pub(crate) const TEMPLATE: &str = "cache.example.com/template";

const DATA: &str = "/data";

/// The user and the group of Redis in its image.
const USER: i32 = 999;

/// The template, and the digest that identifies it.
pub(crate) struct Template {
    pub(crate) digest: String,
    pub(crate) pods: PodTemplateSpec,
}

impl Template {
    pub(crate) fn of(name: &str, spec: &RedisSpec) -> Self {
        let pods = PodTemplateSpec::new().spec(pod(spec));
        let digest = digest(&format!("{pods:?}"));
        let metadata = ObjectMeta::new().labels(names::labels(name)).annotations([(TEMPLATE, digest.as_str())]);
        Self { pods: pods.metadata(metadata), digest }
    }
}

fn pod(spec: &RedisSpec) -> PodSpec {
    PodSpec::new()
        // Redis never calls the API server.
        .automount_service_account_token(false)
        .termination_grace_period_seconds(spec.termination_grace_period_seconds)
        .security_context(pod_security())
        .init_containers([init_container(spec)])
        .containers([server(spec)])
}

fn server(spec: &RedisSpec) -> Container {
    let port = ContainerPort::new().name(REDIS).container_port(PORT).protocol(PROTOCOL);
    container(REDIS, &spec.image, &spec.resources)
        .command(["redis-server"])
        .args(["--appendonly", "yes"])
        .ports([port])
        // A server that is still loading its data answers, but not with PONG.
        .readiness_probe(probe(["sh", "-c", "redis-cli ping | grep -q PONG"]).period_seconds(5))
        .liveness_probe(probe(["redis-cli", "ping"]).initial_delay_seconds(30).failure_threshold(5))
}

/// Builds the init container: the one of the spec, or one that checks that the volume is writable, so that a read-only
/// volume shows as a failing init container and not as a server that keeps restarting.
fn init_container(spec: &RedisSpec) -> Container {
    match &spec.init_container {
        Some(own) if own.command.is_empty() => container("init", &own.image, &spec.resources),
        Some(own) => container("init", &own.image, &spec.resources).command(&own.command),
        None => {
            let check = format!("touch {DATA}/.writable && rm {DATA}/.writable");
            container("init", &spec.image, &spec.resources).command(["sh", "-c", check.as_str()])
        }
    }
}

/// Builds what both containers have in common. Under a quota of CPU or memory, each container needs resources.
fn container(name: &str, image: &str, resources: &Resources) -> Container {
    Container::new()
        .name(name)
        .image(image)
        .resources(needs(resources))
        .volume_mounts([VolumeMount::new().name(names::CLAIM).mount_path(DATA)])
        .security_context(container_security())
}

/// Leaves out empty maps: the API server drops them, which would look like a change by others.
fn needs(resources: &Resources) -> ResourceRequirements {
    let mut needs = ResourceRequirements::new();
    if !resources.requests.is_empty() {
        needs = needs.requests(amounts(&resources.requests));
    }
    if !resources.limits.is_empty() {
        needs = needs.limits(amounts(&resources.limits));
    }
    needs
}

fn amounts(amounts: &BTreeMap<String, Amount>) -> impl Iterator<Item = (&str, &str)> + use<'_> {
    amounts.iter().map(|(name, amount)| (name.as_str(), amount.0.as_str()))
}

fn probe<const N: usize>(command: [&str; N]) -> Probe {
    Probe::new().exec(ExecAction::new().command(command))
}

/// Builds the Pod's security context, which, with [`container_security`], fulfils the Pod Security level `restricted`.
fn pod_security() -> PodSecurityContext {
    PodSecurityContext::new()
        .run_as_non_root(true)
        .run_as_user(USER)
        .fs_group(USER)
        .seccomp_profile(SeccompProfile::new().type_("RuntimeDefault"))
}

fn container_security() -> SecurityContext {
    SecurityContext::new().allow_privilege_escalation(false).capabilities(Capabilities::new().drop(["ALL"]))
}

/// Returns the FNV-1a hash of a text. It only has to distinguish the templates of one Redis.
fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_the_pods_changes_the_digest() {
        let digest = |change: fn(&mut RedisSpec)| {
            let mut spec = RedisSpec::default();
            change(&mut spec);
            Template::of("redis", &spec).digest
        };
        let first = digest(|_| {});
        assert_eq!(first, digest(|spec| spec.replicas = 5));
        assert_eq!(first, digest(|spec| spec.update_strategy.partition = 2));
        assert_ne!(first, digest(|spec| spec.image = "redis:7.0".to_owned()));
        assert_ne!(first, digest(|spec| spec.termination_grace_period_seconds = 31));
        assert_ne!(first, digest(|spec| spec.resources.limits.clear()));
    }
}
