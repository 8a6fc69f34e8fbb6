//! The fields of the children that the plugin sets, and no others: what Go's clients call apply
//! configurations. With the full types the component is twice as large, formats dates that no decision
//! has, and takes a third longer for one. `tests/table.rs` shows that Kubernetes knows each of these fields.

use serde::Serialize;

use crate::names::Labels;

#[derive(Serialize)]
pub(crate) struct Deployment<'a> {
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: DeploymentSpec<'a>,
}

#[derive(Serialize)]
pub(crate) struct Service<'a> {
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: ServiceSpec<'a>,
}

#[derive(Serialize)]
pub(crate) struct Metadata<'a> {
    pub(crate) labels: &'a Labels,
}

#[derive(Serialize)]
pub(crate) struct DeploymentSpec<'a> {
    pub(crate) replicas: i32,
    pub(crate) selector: LabelSelector<'a>,
    pub(crate) template: PodTemplate<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LabelSelector<'a> {
    pub(crate) match_labels: &'a Labels,
}

#[derive(Serialize)]
pub(crate) struct PodTemplate<'a> {
    pub(crate) metadata: Metadata<'a>,
    pub(crate) spec: PodSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSpec<'a> {
    pub(crate) automount_service_account_token: bool,
    pub(crate) containers: [Container<'a>; 1],
    pub(crate) security_context: PodSecurityContext,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodSecurityContext {
    pub(crate) run_as_non_root: bool,
    pub(crate) seccomp_profile: SeccompProfile,
}

#[derive(Serialize)]
pub(crate) struct SeccompProfile {
    #[serde(rename = "type")]
    pub(crate) profile: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Container<'a> {
    pub(crate) name: &'static str,
    pub(crate) image: &'a str,
    pub(crate) image_pull_policy: &'static str,
    pub(crate) command: [&'static str; 5],
    pub(crate) ports: [ContainerPort; 1],
    pub(crate) security_context: SecurityContext,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerPort {
    pub(crate) name: &'static str,
    pub(crate) container_port: i32,
    pub(crate) protocol: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SecurityContext {
    pub(crate) run_as_non_root: bool,
    pub(crate) run_as_user: i64,
    pub(crate) allow_privilege_escalation: bool,
    pub(crate) capabilities: Capabilities,
}

#[derive(Serialize)]
pub(crate) struct Capabilities {
    pub(crate) drop: [&'static str; 1],
}

#[derive(Serialize)]
pub(crate) struct ServiceSpec<'a> {
    #[serde(rename = "type")]
    pub(crate) reach: &'static str,
    pub(crate) selector: &'a Labels,
    pub(crate) ports: [ServicePort; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServicePort {
    pub(crate) port: i32,
    pub(crate) target_port: i32,
    pub(crate) protocol: &'static str,
}
