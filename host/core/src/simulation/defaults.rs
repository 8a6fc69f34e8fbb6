//! What the API server fills into objects of Kubernetes' own kinds that leave it out.
//!
//! The rows are those of `pkg/apis/*/v1/defaults.go` and of the registries' strategies in Kubernetes 1.36, for the kinds
//! that operators make. What only the cluster knows is not filled in: addresses, node ports, classes of storage, and what
//! admission plugins add.

use serde_json::{Map, Value, json};

use crate::model::kind::ObjectRef;

/// A value that is filled in.
#[derive(Clone, Copy)]
enum Filled {
    Text(&'static str),
    Number(u64),
    /// A number, of which 0 counts as left out.
    Positive(u64),
    Bool(bool),
    /// An object, into which other rows may fill.
    Object,
    /// A list of one text.
    List(&'static str),
}

use Filled::{Bool, List, Number, Object, Positive, Text};

impl Filled {
    fn value(self) -> Value {
        match self {
            Text(text) => text.into(),
            Number(number) | Positive(number) => number.into(),
            Bool(bool) => bool.into(),
            Object => Map::new().into(),
            List(text) => [text].as_slice().into(),
        }
    }
}

/// A path and the value of its last member where that is missing. `[]` stands for each element of a list. Nothing is filled in
/// where the members before the last are missing.
type Row = (&'static str, Filled);

const DEPLOYMENT: &[Row] = &[
    ("spec.replicas", Number(1)),
    ("spec.revisionHistoryLimit", Number(10)),
    ("spec.progressDeadlineSeconds", Number(600)),
    ("spec.strategy", Object),
    ("spec.strategy.type", Text(ROLLING_UPDATE)),
];
const STATEFUL_SET: &[Row] = &[
    ("spec.replicas", Number(1)),
    ("spec.revisionHistoryLimit", Number(10)),
    ("spec.serviceName", Text("")),
    ("spec.podManagementPolicy", Text("OrderedReady")),
    ("spec.updateStrategy", Object),
    ("spec.updateStrategy.type", Text(ROLLING_UPDATE)),
    ("spec.updateStrategy.rollingUpdate.partition", Number(0)),
    ("spec.persistentVolumeClaimRetentionPolicy", Object),
    ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", Text("Retain")),
    ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", Text("Retain")),
    ("spec.volumeClaimTemplates[].apiVersion", Text("v1")),
    ("spec.volumeClaimTemplates[].kind", Text("PersistentVolumeClaim")),
    ("spec.volumeClaimTemplates[].spec.volumeMode", Text("Filesystem")),
    ("spec.volumeClaimTemplates[].status", Object),
    ("spec.volumeClaimTemplates[].status.phase", Text("Pending")),
];
const DAEMON_SET: &[Row] = &[
    ("spec.revisionHistoryLimit", Number(10)),
    ("spec.updateStrategy", Object),
    ("spec.updateStrategy.type", Text(ROLLING_UPDATE)),
];
/// Rows for the parameters of a rolling update.
const DEPLOYMENT_UPDATE: &[Row] = &[("maxSurge", Text("25%")), ("maxUnavailable", Text("25%"))];
const DAEMON_SET_UPDATE: &[Row] = &[("maxSurge", Number(0)), ("maxUnavailable", Number(1))];
const REPLICA_SET: &[Row] = &[("spec.replicas", Number(1))];
const JOB: &[Row] = &[
    ("spec.parallelism", Number(1)),
    ("spec.podFailurePolicy.rules[].onPodConditions[].status", Text("True")),
    ("spec.completionMode", Text("NonIndexed")),
    ("spec.manualSelector", Bool(false)),
    ("spec.suspend", Bool(false)),
];
const CRON_JOB: &[Row] = &[
    ("spec.concurrencyPolicy", Text("Allow")),
    ("spec.suspend", Bool(false)),
    ("spec.successfulJobsHistoryLimit", Number(3)),
    ("spec.failedJobsHistoryLimit", Number(1)),
    ("spec.jobTemplate.metadata", Object),
];
const SERVICE: &[Row] = &[
    ("spec", Object),
    ("spec.type", Text("ClusterIP")),
    ("spec.sessionAffinity", Text("None")),
    ("spec.ports[].protocol", Text("TCP")),
];
const CLAIM: &[Row] = &[("spec.volumeMode", Text("Filesystem"))];
const SECRET: &[Row] = &[("type", Text("Opaque"))];
const NAMESPACE: &[Row] = &[("spec", Object), ("spec.finalizers", List("kubernetes")), ("metadata.labels", Object)];
const AUTOSCALER: &[Row] = &[("spec.minReplicas", Number(1))];
/// Rows for the behaviour of an autoscaler.
const BEHAVIOR: &[Row] = &[
    ("scaleUp", Object),
    ("scaleUp.selectPolicy", Text("Max")),
    ("scaleUp.stabilizationWindowSeconds", Number(0)),
    ("scaleDown", Object),
    ("scaleDown.selectPolicy", Text("Max")),
];
const NETWORK_POLICY: &[Row] =
    &[("spec.ingress[].ports[].protocol", Text("TCP")), ("spec.egress[].ports[].protocol", Text("TCP"))];
const BINDING: &[Row] = &[("roleRef.apiGroup", Text(RBAC))];

/// Rows for the spec of a Pod, or of a template of Pods.
const POD: &[Row] = &[
    ("restartPolicy", Text("Always")),
    ("terminationGracePeriodSeconds", Number(30)),
    ("dnsPolicy", Text("ClusterFirst")),
    ("securityContext", Object),
    ("schedulerName", Text("default-scheduler")),
    ("volumes[].secret.defaultMode", Number(MODE)),
    ("volumes[].configMap.defaultMode", Number(MODE)),
    ("volumes[].downwardAPI.defaultMode", Number(MODE)),
    ("volumes[].downwardAPI.items[].fieldRef.apiVersion", Text("v1")),
    ("volumes[].downwardAPI.items[].resourceFieldRef.divisor", Text("0")),
    ("volumes[].projected.defaultMode", Number(MODE)),
    ("volumes[].projected.sources[].serviceAccountToken.expirationSeconds", Number(3600)),
    ("volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion", Text("v1")),
    ("volumes[].hostPath.type", Text("")),
    ("volumes[].ephemeral.volumeClaimTemplate.metadata", Object),
    ("volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode", Text("Filesystem")),
];
/// Rows for each container of a Pod.
const CONTAINER: &[Row] = &[
    ("terminationMessagePath", Text("/dev/termination-log")),
    ("terminationMessagePolicy", Text("File")),
    ("resources", Object),
    ("ports[].protocol", Text("TCP")),
    ("env[].valueFrom.fieldRef.apiVersion", Text("v1")),
    ("env[].valueFrom.resourceFieldRef.divisor", Text("0")),
    ("lifecycle.postStart.httpGet.path", Text("/")),
    ("lifecycle.postStart.httpGet.scheme", Text("HTTP")),
    ("lifecycle.preStop.httpGet.path", Text("/")),
    ("lifecycle.preStop.httpGet.scheme", Text("HTTP")),
];
/// Rows for each probe of a container.
const PROBE: &[Row] = &[
    ("timeoutSeconds", Positive(1)),
    ("periodSeconds", Positive(10)),
    ("successThreshold", Positive(1)),
    ("failureThreshold", Positive(3)),
    ("httpGet.path", Text("/")),
    ("httpGet.scheme", Text("HTTP")),
    ("grpc.service", Text("")),
];

/// The members of a Pod's spec that name its account, the newer one first.
const ACCOUNT: [&str; 2] = ["serviceAccountName", "serviceAccount"];
const ROLLING_UPDATE: &str = "RollingUpdate";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The mode of files in volumes, which is 0644.
const MODE: u64 = 420;

/// Fills into an object what the API server stores where it is left out.
pub(super) fn fill_in(reference: &ObjectRef, object: &mut Value) {
    let (group, kind) = (&*reference.kind.group, &*reference.kind.kind);
    match (group, kind) {
        ("apps", "Deployment") => fill_workload(object, DEPLOYMENT, "/spec/strategy", DEPLOYMENT_UPDATE),
        ("apps", "StatefulSet") => fill_stateful_set(object),
        ("apps", "DaemonSet") => fill_workload(object, DAEMON_SET, "/spec/updateStrategy", DAEMON_SET_UPDATE),
        ("apps", "ReplicaSet") => fill_all(object, REPLICA_SET),
        ("batch", "Job") => fill_job(object),
        ("batch", "CronJob") => fill_all(object, CRON_JOB),
        ("", "Service") => fill_service(object),
        ("", "PersistentVolumeClaim") => fill_all(object, CLAIM),
        ("", "Secret") => fill_all(object, SECRET),
        ("", "Pod") => fill_pod(object),
        ("", "Namespace") => fill_namespace(object, &reference.name),
        ("", "LimitRange") => each(object, "/spec/limits", fill_limit),
        ("autoscaling", "HorizontalPodAutoscaler") => fill_autoscaler(object),
        ("networking.k8s.io", "NetworkPolicy") => fill_network_policy(object),
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => fill_binding(object),
        _ => {}
    }
    let pod = match (group, kind) {
        ("", "Pod") => "/spec",
        ("batch", "CronJob") => "/spec/jobTemplate/spec/template/spec",
        ("apps" | "batch", _) => "/spec/template/spec",
        _ => return,
    };
    if let Some(spec) = object.pointer_mut(pod) {
        fill_template(spec);
    }
}

fn fill_all(object: &mut Value, rows: &[Row]) {
    for (path, filled) in rows {
        fill(object, path, *filled);
    }
}

fn fill(value: &mut Value, path: &str, filled: Filled) {
    let Some(members) = value.as_object_mut() else { return };
    let Some((name, rest)) = path.split_once('.') else {
        let member = members.entry(path).or_insert(Value::Null);
        if is_left_out(member, filled) {
            *member = filled.value();
        }
        return;
    };
    match name.strip_suffix("[]") {
        Some(name) => {
            let elements = members.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten();
            elements.for_each(|element| fill(element, rest, filled));
        }
        None => {
            if let Some(member) = members.get_mut(name) {
                fill(member, rest, filled);
            }
        }
    }
}

/// Returns whether a member counts as left out.
fn is_left_out(member: &Value, filled: Filled) -> bool {
    match filled {
        Text(_) => member.is_null() || member == "",
        Positive(_) => member.is_null() || *member == 0,
        List(_) => member.is_null() || *member == json!([]),
        Number(_) | Bool(_) | Object => member.is_null(),
    }
}

fn each(object: &mut Value, list: &str, fill: impl Fn(&mut Value)) {
    object.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(fill);
}

/// Fills in a workload and, where its strategy is a rolling update, the parameters of that.
fn fill_workload(object: &mut Value, rows: &[Row], strategy: &str, parameters: &[Row]) {
    fill_all(object, rows);
    let Some(strategy) = object.pointer_mut(strategy).filter(|strategy| strategy["type"] == ROLLING_UPDATE) else {
        return;
    };
    fill(strategy, "rollingUpdate", Object);
    if let Some(rolling_update) = strategy.get_mut("rollingUpdate") {
        fill_all(rolling_update, parameters);
    }
}

/// Fills in a StatefulSet. It gets parameters of a rolling update only where the strategy is left out.
fn fill_stateful_set(set: &mut Value) {
    if set.pointer("/spec/updateStrategy/type").is_none_or(|strategy| strategy.is_null() || strategy == "") {
        fill(set, "spec.updateStrategy", Object);
        fill(set, "spec.updateStrategy.rollingUpdate", Object);
    }
    fill_all(set, STATEFUL_SET);
}

/// Fills in a Job. Without a number of Pods it has one to complete; with a limit of them alone, it completes with the first
/// that succeeds.
fn fill_job(job: &mut Value) {
    if job.pointer("/spec/parallelism").is_none() {
        fill(job, "spec.completions", Number(1));
    }
    fill_all(job, JOB);
    fill_labels(job);
    let is_limited_by_index = job.pointer("/spec/backoffLimitPerIndex").is_some();
    fill(job, "spec.backoffLimit", Number(if is_limited_by_index { i32::MAX as u64 } else { 6 }));
    let has_policy = job.pointer("/spec/podFailurePolicy").is_some();
    fill(job, "spec.podReplacementPolicy", Text(if has_policy { "Failed" } else { "TerminatingOrFailed" }));
}

/// Gives a Job without labels those of its Pods.
fn fill_labels(job: &mut Value) {
    let labels = job.pointer("/spec/template/metadata/labels").filter(|labels| labels.is_object()).cloned();
    let metadata = job.get_mut("metadata").and_then(Value::as_object_mut);
    let (Some(labels), Some(metadata)) = (labels, metadata) else { return };
    let own = metadata.entry("labels").or_insert(Value::Null);
    if own.as_object().is_none_or(Map::is_empty) {
        *own = labels;
    }
}

fn fill_service(service: &mut Value) {
    fill_all(service, SERVICE);
    let Some(spec) = service.get_mut("spec") else { return };
    if spec["sessionAffinity"] == "ClientIP" {
        fill(spec, "sessionAffinityConfig", Object);
        fill(spec, "sessionAffinityConfig.clientIP", Object);
        fill(spec, "sessionAffinityConfig.clientIP.timeoutSeconds", Number(10_800));
    }
    if spec["type"] != "ExternalName" {
        fill(spec, "internalTrafficPolicy", Text("Cluster"));
        fill_families(spec);
    }
    let has_external = spec["externalIPs"].as_array().is_some_and(|addresses| !addresses.is_empty());
    if has_external || spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" {
        fill(spec, "externalTrafficPolicy", Text("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", Bool(true));
    }
    each(spec, "/ports", |port| {
        let number = port["port"].clone();
        let Some(port) = port.as_object_mut() else { return };
        let target = port.entry("targetPort").or_insert(Value::Null);
        if target.is_null() || *target == 0 || target == "" {
            *target = number;
        }
    });
}

/// Fills in the families of addresses, of a cluster with IPv4. A headless Service without a selector has both families.
fn fill_families(spec: &mut Value) {
    let is_headless = spec["clusterIP"] == "None";
    if is_headless {
        fill(spec, "clusterIPs", List("None"));
    }
    let has_selector = spec["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if is_headless && !has_selector && spec["ipFamilyPolicy"].is_null() && spec["ipFamilies"].is_null() {
        spec["ipFamilyPolicy"] = "RequireDualStack".into();
        spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
    }
    fill(spec, "ipFamilies", List("IPv4"));
    fill(spec, "ipFamilyPolicy", Text("SingleStack"));
}

fn fill_namespace(namespace: &mut Value, name: &str) {
    fill_all(namespace, NAMESPACE);
    if let Some(labels) = namespace.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

/// Fills in the limits of containers that have none of their own.
fn fill_limit(limit: &mut Value) {
    if limit["type"] != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        if limit[from].is_object() {
            fill(limit, to, Object);
        }
        fill_amounts(limit, from, to);
    }
}

/// Fills in an autoscaler. Without metrics the processor time counts. Rules for its speed are completed where there are any.
fn fill_autoscaler(autoscaler: &mut Value) {
    fill_all(autoscaler, AUTOSCALER);
    let Some(spec) = autoscaler.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let metrics = spec.entry("metrics").or_insert(Value::Null);
    if metrics.as_array().is_none_or(Vec::is_empty) {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        *metrics = json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]);
    }
    let Some(behavior) = spec.get_mut("behavior") else { return };
    fill_all(behavior, BEHAVIOR);
    let doubled = json!({ "type": "Percent", "value": 100, "periodSeconds": 15 });
    let by_four = json!({ "type": "Pods", "value": 4, "periodSeconds": 15 });
    for (rules, policies) in [("scaleUp", json!([by_four, doubled])), ("scaleDown", json!([doubled]))] {
        if let Some(rules) = behavior.get_mut(rules).and_then(Value::as_object_mut) {
            rules.entry("policies").or_insert(policies);
        }
    }
}

fn fill_network_policy(policy: &mut Value) {
    fill_all(policy, NETWORK_POLICY);
    let Some(spec) = policy.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let has_egress = spec.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    let types = if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    let own = spec.entry("policyTypes").or_insert(Value::Null);
    if own.as_array().is_none_or(Vec::is_empty) {
        *own = types;
    }
}

fn fill_binding(binding: &mut Value) {
    fill_all(binding, BINDING);
    each(binding, "/subjects", |subject| {
        if subject["kind"] != "ServiceAccount" {
            fill(subject, "apiGroup", Text(RBAC));
        }
    });
}

/// Fills into a Pod what a template of Pods does not have. What a container may use at most it asks for, unless it asks for
/// another amount.
pub(super) fn fill_pod(pod: &mut Value) {
    fill(pod, "spec.enableServiceLinks", Bool(true));
    let is_on_host = pod.pointer("/spec/hostNetwork") == Some(&json!(true));
    for containers in ["/spec/initContainers", "/spec/containers"] {
        each(pod, containers, |container| {
            if is_on_host {
                each(container, "/ports", fill_host_port);
            }
            let Some(resources) = container.get_mut("resources") else { return };
            if resources.get("limits").is_some() {
                fill(resources, "requests", Object);
            }
            fill_amounts(resources, "limits", "requests");
        });
    }
}

fn fill_host_port(port: &mut Value) {
    let number = port["containerPort"].clone();
    if let Some(port) = port.as_object_mut() {
        port.entry("hostPort").or_insert(number);
    }
}

/// Adds to the amounts in one member those of another one, of the resources of which it has none.
fn fill_amounts(value: &mut Value, from: &str, to: &str) {
    let Some(amounts) = value.get(from).and_then(Value::as_object).cloned() else { return };
    let Some(to) = value.get_mut(to).and_then(Value::as_object_mut) else { return };
    for (resource, amount) in amounts {
        to.entry(resource).or_insert(amount);
    }
}

/// Fills in the spec of a Pod, or of a template of Pods.
fn fill_template(spec: &mut Value) {
    fill_all(spec, POD);
    fill_account(spec);
    each(spec, "/volumes", fill_volume);
    each(spec, "/initContainers", fill_container);
    each(spec, "/containers", fill_container);
}

/// Fills in the account under its older name, too. No field manager owns that one, so that an account which is no longer
/// stated stays.
fn fill_account(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    let Some(name) = ACCOUNT.iter().find_map(|member| spec.get(*member).filter(|name| **name != "")).cloned() else {
        return;
    };
    for member in ACCOUNT {
        spec.insert(member.to_owned(), name.clone());
    }
}

/// Fills in a volume. One of no kind is an empty folder.
fn fill_volume(volume: &mut Value) {
    if let Some(members) = volume.as_object_mut()
        && members.keys().all(|member| member == "name")
    {
        members.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(image) = volume.get_mut("image") {
        fill_pull_policy(image, "reference", "pullPolicy");
    }
}

fn fill_container(container: &mut Value) {
    fill_all(container, CONTAINER);
    fill_pull_policy(container, "image", "imagePullPolicy");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            fill_all(probe, PROBE);
        }
    }
}

fn fill_pull_policy(value: &mut Value, image: &str, policy: &str) {
    if let Some(when) = value[image].as_str().map(pull_policy) {
        fill(value, policy, Text(when));
    }
}

/// Returns when an image is pulled: always, if its tag is `latest`, which it is where there is neither a tag nor a digest.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or(image);
    let has_digest = name.contains('@');
    let tag = name.split('@').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !has_digest => "Always",
        _ => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(mut object: Value) -> Value {
        object["metadata"] = json!({ "name": "a" });
        let reference = ObjectRef::of(&object).unwrap();
        fill_in(&reference, &mut object);
        object
    }

    #[test]
    fn what_is_left_out_is_filled_in_and_what_is_stated_stays() {
        let containers = json!([{ "name": "a", "image": "a:1", "readinessProbe": { "periodSeconds": 5 } }]);
        let spec = json!({ "replicas": 3, "template": { "spec": { "containers": containers } } });
        let after = filled(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec }));
        assert_eq!(after["spec"]["replicas"], 3);
        let rolling_update = json!({ "maxSurge": "25%", "maxUnavailable": "25%" });
        assert_eq!(after["spec"]["strategy"], json!({ "type": "RollingUpdate", "rollingUpdate": rolling_update }));
        let container = &after["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        let probe = json!({ "periodSeconds": 5, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3 });
        assert_eq!(container["readinessProbe"], probe);
        assert!(container.get("livenessProbe").is_none(), "none is made");
    }

    #[test]
    fn filling_in_again_changes_nothing() {
        let ports = json!([{ "port": 80 }]);
        let once = filled(json!({ "apiVersion": "v1", "kind": "Service", "spec": { "ports": ports } }));
        assert_eq!(filled(once.clone()), once);
        assert_eq!(once["spec"]["ports"], json!([{ "port": 80, "targetPort": 80, "protocol": "TCP" }]));
    }

    #[test]
    fn another_strategy_has_no_parameters_of_a_rolling_update() {
        let spec = json!({ "strategy": { "type": "Recreate" } });
        let after = filled(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec }));
        assert_eq!(after["spec"]["strategy"], json!({ "type": "Recreate" }));
    }

    #[test]
    fn a_pod_asks_for_what_it_may_use_at_most_and_a_template_does_not() {
        let limits = json!({ "cpu": "2", "memory": "1Gi" });
        let resources = json!({ "limits": limits, "requests": { "cpu": "1" } });
        let spec = json!({ "containers": [{ "name": "a", "image": "a:1", "resources": resources }] });
        let pod = filled(json!({ "apiVersion": "v1", "kind": "Pod", "spec": spec }));
        let asked = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(
            (asked, &pod["spec"]["enableServiceLinks"]),
            (&json!({ "cpu": "1", "memory": "1Gi" }), &json!(true))
        );
        let spec = json!({ "template": { "spec": spec } });
        let set = filled(json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "spec": spec }));
        let template = &set["spec"]["template"]["spec"];
        assert_eq!(template["containers"][0]["resources"]["requests"], json!({ "cpu": "1" }));
        assert_eq!(template.get("enableServiceLinks"), None);
    }

    #[test]
    fn an_account_that_is_no_longer_stated_stays_by_its_older_name() {
        let of = |spec: Value| {
            let spec = json!({ "template": { "spec": spec } });
            let after = filled(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": spec }));
            let spec = &after["spec"]["template"]["spec"];
            [spec["serviceAccountName"].clone(), spec["serviceAccount"].clone()]
        };
        assert_eq!(of(json!({ "serviceAccountName": "a", "serviceAccount": "b" })), ["a", "a"]);
        assert_eq!(of(json!({ "serviceAccount": "b" })), ["b", "b"]);
        assert_eq!(of(json!({})), [Value::Null, Value::Null]);
    }

    #[test]
    fn an_image_is_always_pulled_where_its_tag_is_or_may_be_latest() {
        for image in ["a", "a:latest", "registry:5000/a"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["a:1", "registry:5000/a:1", "a@sha256:0", "a:1@sha256:0"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn objects_of_other_shapes_and_kinds_stay_as_they_are() {
        let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "spec": [1] });
        assert_eq!(filled(deployment)["spec"], json!([1]));
        let odd = json!({ "apiVersion": "v1", "kind": "Service", "spec": { "ports": ["x"], "type": 1 } });
        assert_eq!(filled(odd)["spec"]["ports"], json!(["x"]));
        let other = json!({ "apiVersion": "example.com/v1", "kind": "Deployment", "spec": {} });
        assert_eq!(filled(other)["spec"], json!({}));
    }
}
