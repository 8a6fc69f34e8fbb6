//! What the plugin promises, row by row.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test says what broke by breaking")]

use hotshoe_sdk::{
    Answer, Children, Cleanup, Condition, Decision, Failure, Object, ObjectRef, Observation, Refusal, Related,
    ResourceKind, Status,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use memcached::Memcached;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const FORBIDDEN: &str = "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0";

/// A world in which `cache` of size 3 lives in the namespace `shop`, to be changed by each test.
struct World {
    name: String,
    annotations: Value,
    spec: Value,
    /// What was written last.
    said: Value,
    children: Vec<Object>,
    pods: Vec<Object>,
    refusals: Vec<Refusal>,
    config: Value,
}

impl World {
    fn new() -> Self {
        Self {
            name: "cache".to_owned(),
            annotations: json!({}),
            spec: json!({ "size": 3, "containerPort": 11211 }),
            said: json!({ "nodes": [] }),
            children: Vec::new(),
            pods: Vec::new(),
            refusals: Vec::new(),
            config: json!({ "image": "memcached:1.6-alpine" }),
        }
    }

    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::new() }
    }

    /// With a Deployment of three servers, of which so many are ready.
    fn with_ready(ready: i32) -> Self {
        Self::new().deployment(json!({
            "metadata": { "name": "cache", "generation": 2 },
            "spec": { "replicas": 3, "selector": selector() },
            "status": { "observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready },
        }))
    }

    fn deployment(mut self, json: Value) -> Self {
        self.children.push(object("apps", "v1", "Deployment", "cache", &json));
        self
    }

    fn change_deployment(mut self, pointer: &str, to: Value) -> Self {
        let deployment = self.children.first_mut().unwrap();
        let mut json: Value = serde_json::from_str(&deployment.json).unwrap();
        *json.pointer_mut(pointer).unwrap() = to;
        deployment.json = json.to_string();
        self
    }

    fn service(mut self) -> Self {
        let json = json!({ "metadata": { "name": "cache-service" } });
        self.children.push(object("", "v1", "Service", "cache-service", &json));
        self
    }

    fn pod(mut self, name: &str, deletion_timestamp: Option<&str>) -> Self {
        let mut json = json!({ "metadata": { "name": name } });
        if let Some(time) = deletion_timestamp {
            *json.pointer_mut("/metadata").unwrap() = json!({ "name": name, "deletionTimestamp": time });
        }
        self.pods.push(object("", "v1", "Pod", name, &json));
        self
    }

    fn refused(mut self, kind: &str, code: u32, reason: &str, message: &str) -> Self {
        let (group, name) = match kind {
            "Deployment" => ("apps", "cache"),
            _ => ("", "cache-service"),
        };
        self.refusals.push(Refusal {
            reference: reference(group, "v1", kind, name),
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
        });
        self
    }

    fn observation(self) -> Observation {
        let parent = json!({
            "metadata": { "name": self.name, "namespace": "shop", "annotations": self.annotations },
            "spec": self.spec,
            "status": self.said,
        });
        Observation {
            parent: object("cache.example.com", "v1", "Memcached", &self.name, &parent),
            children: self.children,
            related: vec![Related { key: "pods".to_owned(), objects: self.pods }],
            refusals: self.refusals,
            config: self.config.to_string(),
            now: None,
            attempt: None,
        }
    }

    fn decide(self) -> Decision {
        match hotshoe_sdk::reconcile::<Memcached>(self.observation()) {
            Ok(Answer::Decided(decision)) => decision,
            other => panic!("{other:?}"),
        }
    }

    fn clean_up(self) -> Cleanup {
        hotshoe_sdk::finalize::<Memcached>(self.observation()).unwrap()
    }
}

fn selector() -> Value {
    json!({ "matchLabels": {
        "app": "memcached",
        "app.kubernetes.io/instance": "cache",
        "app.kubernetes.io/part-of": "memcached-operator",
    } })
}

fn reference(group: &str, version: &str, kind: &str, name: &str) -> ObjectRef {
    ObjectRef {
        kind: ResourceKind::new(group, version, kind),
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
    }
}

fn object(group: &str, version: &str, kind: &str, name: &str, json: &Value) -> Object {
    Object { reference: reference(group, version, kind, name), json: json.to_string() }
}

fn condition<'a>(decision: &'a Decision, name: &str) -> &'a Condition {
    decision.conditions.iter().find(|condition| condition.name == name).unwrap()
}

fn assert_condition(decision: &Decision, name: &str, status: Status, reason: &str, message: &str) {
    assert_eq!(condition(decision, name), &Condition::new(name, status, reason, message));
}

fn child(decision: &Decision, kind: &str) -> Value {
    let Children::Exactly(children) = &decision.children else { panic!("{decision:?}") };
    let child = children.iter().find(|child| child.reference.kind.kind == kind).unwrap();
    Value::Object(child.whole().unwrap())
}

/// Read as a `K` and written again: a field that `K` does not have is lost on the way.
fn known<K: Serialize + DeserializeOwned>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<K>(object.clone()).unwrap()).unwrap()
}

fn status(decision: &Decision) -> Value {
    serde_json::from_str(decision.status.as_deref().unwrap()).unwrap()
}

/// The status of `cache` with these nodes, of which so many are ready.
fn said(nodes: &[&str], ready: i32) -> Value {
    let selector = "app=memcached,app.kubernetes.io/instance=cache,app.kubernetes.io/part-of=memcached-operator";
    json!({ "nodes": nodes, "replicas": nodes.len(), "readyReplicas": ready, "selector": selector })
}

#[test]
fn at_first_sight_it_says_that_it_starts() {
    for before in [json!({}), json!({ "nodes": [] })] {
        let decision = World { said: before, ..World::new() }.decide();
        assert_starts(&decision);
        assert_eq!(status(&decision), said(&[], 0));
        assert_eq!(decision.events, []);
        assert_eq!(decision.requeue_after, None);
    }
}

fn assert_starts(decision: &Decision) {
    assert_condition(decision, "Available", Status::Unknown, "Reconciling", "Starting reconciliation");
    assert_eq!(condition(decision, "Progressing").status, Status::True);
    assert_eq!(condition(decision, "Degraded").status, Status::False);
}

#[test]
fn the_first_status_says_that_it_starts_whatever_the_problem() {
    let without_image = World { config: json!({}), ..World::new() };
    let refused = World::new().refused("Deployment", 403, "Forbidden", FORBIDDEN);
    for world in [World::named("1st"), without_image, refused, World::with_ready(3)] {
        assert_starts(&World { said: json!({}), ..world }.decide());
    }
}

#[test]
fn the_deployment_is_the_one_of_the_table_and_sets_nothing_else() {
    let labels = json!({
        "app": "memcached",
        "app.kubernetes.io/created-by": "controller-manager",
        "app.kubernetes.io/instance": "cache",
        "app.kubernetes.io/name": "Memcached",
        "app.kubernetes.io/part-of": "memcached-operator",
        "app.kubernetes.io/version": "1.6-alpine",
    });
    let expected = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "cache", "labels": labels },
        "spec": {
            "replicas": 3,
            "selector": selector(),
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "automountServiceAccountToken": false,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "memcached",
                        "image": "memcached:1.6-alpine",
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["memcached", "-m=64", "-o", "modern", "-v"],
                        "ports": [{ "containerPort": 11211, "name": "memcached", "protocol": "TCP" }],
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": 1001,
                            "allowPrivilegeEscalation": false,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    });
    assert_eq!(child(&World::new().decide(), "Deployment"), expected);
}

#[test]
fn kubernetes_knows_each_field_that_is_set() {
    let decision = World::new().decide();
    let (deployment, service) = (child(&decision, "Deployment"), child(&decision, "Service"));
    assert_eq!(known::<Deployment>(&deployment), deployment);
    assert_eq!(known::<Service>(&service), service);
}

#[test]
fn the_service_leads_to_the_container_port() {
    let mut world = World::new();
    world.spec = json!({ "size": 1, "containerPort": 12000 });
    let decision = world.decide();
    let service = child(&decision, "Service");
    assert_eq!(service.pointer("/metadata/name"), Some(&json!("cache-service")));
    assert_eq!(
        service.pointer("/spec"),
        Some(&json!({
            "type": "ClusterIP",
            "ports": [{ "port": 11211, "protocol": "TCP", "targetPort": 12000 }],
            "selector": selector().get("matchLabels"),
        }))
    );
    let deployment = child(&decision, "Deployment");
    assert_eq!(deployment.pointer("/spec/template/spec/containers/0/ports/0/containerPort"), Some(&json!(12000)));
}

#[test]
fn further_ports_are_ports_of_the_container() {
    let kept = r#"[{"name":"cache"},{"containerPort":9150,"name":"metrics"},{"containerPort":9150,"name":"again"}]"#;
    let mut world = World::new();
    world.annotations = json!({ "cache.example.com/ports": kept });
    let decision = world.decide();
    let ports = json!([
        { "name": "cache", "containerPort": 11211, "protocol": "TCP" },
        { "name": "metrics", "containerPort": 9150, "protocol": "TCP" },
    ]);
    let deployment = child(&decision, "Deployment");
    assert_eq!(deployment.pointer("/spec/template/spec/containers/0/ports"), Some(&ports));
    let service = child(&decision, "Service");
    assert_eq!(service.pointer("/spec/ports/0/targetPort"), Some(&json!(11211)));
}

#[test]
fn a_spec_without_fields_has_the_defaults() {
    let mut world = World::new();
    world.spec = json!({});
    let decision = world.decide();
    assert_eq!(child(&decision, "Deployment").pointer("/spec/replicas"), Some(&json!(1)));
    assert_eq!(child(&decision, "Service").pointer("/spec/ports/0/targetPort"), Some(&json!(11211)));
}

#[test]
fn the_plugin_has_no_largest_size() {
    let mut world = World::new();
    world.spec = json!({ "size": 1000 });
    assert_eq!(child(&world.decide(), "Deployment").pointer("/spec/replicas"), Some(&json!(1000)));
}

#[test]
fn a_new_image_changes_the_version_and_not_the_selector() {
    let mut world = World::new();
    world.config = json!({ "image": "localhost:5000/memcached@sha256:0123456789abcdef" });
    let deployment = child(&world.decide(), "Deployment");
    assert_eq!(deployment.pointer("/spec/selector"), Some(&selector()));
    assert_eq!(
        deployment.pointer("/spec/template/metadata/labels/app.kubernetes.io~1version"),
        Some(&json!("0123456789ab"))
    );
}

#[test]
fn it_is_available_once_as_many_are_ready_as_desired() {
    let decision = World::with_ready(3).service().decide();
    assert_condition(
        &decision,
        "Available",
        Status::True,
        "Reconciling",
        "Deployment for custom resource (cache) with 3 replicas created successfully",
    );
    assert_eq!(condition(&decision, "Progressing").status, Status::False);
    assert_eq!(condition(&decision, "Degraded").status, Status::False);
    assert_eq!(status(&decision), said(&[], 3));
}

#[test]
fn until_then_it_reports_how_many_are_ready() {
    let decision = World::with_ready(1).service().decide();
    assert_condition(
        &decision,
        "Available",
        Status::False,
        "Reconciling",
        "Deployment for custom resource (cache) has 1 of 3 replicas ready",
    );
    assert_eq!(condition(&decision, "Progressing").status, Status::True);
}

#[test]
fn a_deployment_without_a_status_has_none_ready() {
    let world = World::new().deployment(json!({
        "metadata": { "name": "cache", "generation": 1 },
        "spec": { "replicas": 3, "selector": selector() },
    }));
    let message = "Deployment for custom resource (cache) has 0 of 3 replicas ready";
    assert_condition(&world.decide(), "Available", Status::False, "Reconciling", message);
}

#[test]
fn an_edit_of_the_deployment_is_progress_and_keeps_all_servers_listed() {
    for (pointer, to) in [("/metadata/generation", 3), ("/spec/replicas", 5)] {
        let decision = World::with_ready(3).change_deployment(pointer, json!(to)).decide();
        assert_eq!(condition(&decision, "Available").status, Status::True, "{pointer}");
        assert_eq!(condition(&decision, "Progressing").status, Status::True, "{pointer}");
        assert_eq!(child(&decision, "Deployment").pointer("/spec/replicas"), Some(&json!(3)));
    }
}

#[test]
fn it_progresses_while_servers_of_an_older_version_are_there() {
    for (pointer, to) in [("/status/updatedReplicas", 2), ("/status/replicas", 4)] {
        let decision = World::with_ready(3).change_deployment(pointer, json!(to)).decide();
        assert_eq!(condition(&decision, "Available").status, Status::True);
        assert_eq!(condition(&decision, "Progressing").status, Status::True, "{pointer}");
    }
}

#[test]
fn the_nodes_are_sorted_and_those_that_go_are_left_out() {
    let decision = World::with_ready(2)
        .pod("cache-b", None)
        .pod("cache-a", None)
        .pod("cache-c", Some("2026-01-01T00:00:00Z"))
        .decide();
    assert_eq!(status(&decision), said(&["cache-a", "cache-b"], 2));
}

#[test]
fn conditions_always_come_in_the_same_order() {
    for world in [World::new(), World::with_ready(3), World::named("no.label")] {
        let decision = world.decide();
        let names: Vec<&str> = decision.conditions.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.get(..4), Some(&["Available", "Progressing", "Degraded", "Ready"][..]));
    }
}

#[test]
fn tools_that_wait_for_it_read_whether_it_is_ready_on_its_way_or_stalled() {
    let summary = |decision: Decision| {
        let holds = |name| decision.conditions.iter().find(|one| one.name == name).map(|one| one.status);
        [holds("Ready"), holds("Reconciling"), holds("Stalled")]
    };
    let [yes, no] = [Some(Status::True), Some(Status::False)];
    assert_eq!(summary(World::with_ready(3).decide()), [yes, None, None]);
    assert_eq!(summary(World::with_ready(2).decide()), [no, yes, None]);
    assert_eq!(summary(World::named("no.label").decide()), [no, None, yes]);
    let refused = World::new().refused("Deployment", 403, "Forbidden", FORBIDDEN);
    assert_eq!(summary(refused.decide()), [no, yes, None]);
}

#[test]
fn a_refused_creation_is_reported_with_its_cause() {
    let decision = World::new().refused("Deployment", 403, "Forbidden", FORBIDDEN).decide();
    let message = format!("Failed to create Deployment for the custom resource (cache): ({FORBIDDEN})");
    assert_condition(&decision, "Available", Status::False, "Reconciling", &message);
    assert_condition(&decision, "Degraded", Status::True, "Reconciling", &message);
    assert_eq!(child(&decision, "Deployment").pointer("/spec/replicas"), Some(&json!(3)));
}

#[test]
fn a_refused_resize_is_reported_as_a_resize() {
    let decision = World::with_ready(2)
        .change_deployment("/spec/replicas", json!(2))
        .refused("Deployment", 403, "Forbidden", FORBIDDEN)
        .decide();
    let message = format!("Failed to update the size for the custom resource (cache): ({FORBIDDEN})");
    assert_condition(&decision, "Available", Status::False, "Resizing", &message);
    assert_condition(&decision, "Degraded", Status::True, "Resizing", &message);
}

#[test]
fn any_other_refused_change_names_the_child() {
    let decision = World::with_ready(3).refused("Deployment", 422, "Invalid", "no").decide();
    let message = "Failed to update Deployment for the custom resource (cache): (no)";
    assert_condition(&decision, "Available", Status::False, "Reconciling", message);
    assert_condition(&decision, "Degraded", Status::True, "Reconciling", message);

    let decision = World::with_ready(3).service().refused("Service", 422, "Invalid", "no").decide();
    let message = "Failed to update Service for the custom resource (cache): (no)";
    assert_condition(&decision, "Degraded", Status::True, "Reconciling", message);
}

#[test]
fn a_refused_service_is_reported_after_a_refused_deployment() {
    let world = World::with_ready(3).refused("Service", 422, "Invalid", "no");
    let message = "Failed to create Service for the custom resource (cache): (no)";
    assert_condition(&world.decide(), "Degraded", Status::True, "Reconciling", message);

    let both = World::new().refused("Service", 422, "Invalid", "no").refused("Deployment", 403, "Forbidden", "never");
    let message = "Failed to create Deployment for the custom resource (cache): (never)";
    assert_condition(&both.decide(), "Degraded", Status::True, "Reconciling", message);
}

#[test]
fn a_foreign_deployment_is_named_by_a_condition() {
    let decision = World::new().refused("Deployment", 409, "Conflict", "exists").decide();
    let message = "Deployment (cache) in the namespace shop exists and does not belong to the custom \
                   resource (cache), so it is left as it is; delete it, or create the custom \
                   resource under another name";
    assert_condition(&decision, "Available", Status::False, "Conflict", message);
    assert_condition(&decision, "Degraded", Status::True, "Conflict", message);
    assert!(decision.events.is_empty(), "the host reports refusals");
}

#[test]
fn a_foreign_service_does_not_make_servers_unavailable() {
    let decision = World::with_ready(3).refused("Service", 409, "Conflict", "exists").decide();
    assert_eq!(condition(&decision, "Available").status, Status::True);
    assert_eq!(condition(&decision, "Degraded").reason, "Conflict");
    assert!(condition(&decision, "Degraded").message.starts_with("Service (cache-service) "));
}

#[test]
fn a_conflict_over_a_child_of_ours_is_an_ordinary_refusal() {
    let decision = World::with_ready(3).refused("Deployment", 409, "Conflict", "busy").decide();
    assert_eq!(condition(&decision, "Degraded").reason, "Reconciling");
    assert_eq!(decision.events, []);
}

#[test]
fn a_deployment_with_another_selector_is_kept_and_the_way_out_named() {
    let mut narrower = selector();
    narrower["matchExpressions"] = json!([{ "key": "tier", "operator": "Exists" }]);
    for other in [json!({ "matchLabels": { "app.kubernetes.io/name": "Memcached" } }), narrower] {
        let decision = World::with_ready(3).change_deployment("/spec/selector", other).decide();
        assert_eq!(decision.children, Children::Keep);
        assert_eq!(condition(&decision, "Available").status, Status::True);
        let degraded = condition(&decision, "Degraded");
        assert_eq!((degraded.status, degraded.reason.as_str()), (Status::True, "SelectorImmutable"));
        assert!(degraded.message.contains("spec.selector"));
        assert!(degraded.message.contains("delete the Deployment"));
    }
}

#[test]
fn without_an_image_the_children_are_left_alone() {
    let message = "Failed to create Deployment for the custom resource (cache): (Unable to find \
                   MEMCACHED_IMAGE environment variable with the image)";
    for config in [json!({}), json!({ "image": "" }), json!({ "image": null })] {
        for mut world in [World::new(), World::with_ready(3)] {
            world.config = config.clone();
            let decision = world.decide();
            assert_eq!(decision.children, Children::Keep);
            assert_condition(&decision, "Available", Status::False, "Reconciling", message);
            assert_condition(&decision, "Degraded", Status::True, "Reconciling", message);
            let hint = format!("{message}; set it where the host runs, and start the host again");
            assert_eq!(decision.events, [hotshoe_sdk::Event::warning("NoImage", hint)]);
        }
    }
}

#[test]
fn a_name_that_no_child_can_have_is_reported_and_nothing_is_tried() {
    for name in ["no.label", "1st", &"a".repeat(56)] {
        let decision = World::named(name).decide();
        let message = condition(&decision, "Degraded").message.as_str();
        assert_eq!(decision.events, [hotshoe_sdk::Event::warning("InvalidName", message)]);
        assert_eq!(decision.children, Children::Keep);
        assert_eq!(decision.requeue_after, None);
        for (condition_name, status) in
            [("Available", Status::False), ("Progressing", Status::False), ("Degraded", Status::True)]
        {
            let condition = condition(&decision, condition_name);
            assert_eq!((condition.status, condition.reason.as_str()), (status, "InvalidName"));
            assert!(condition.message.contains(name));
        }
    }
}

#[test]
fn a_size_that_the_configuration_forbids_is_reported_and_its_servers_stay() {
    let with_size = |size: i32, validation: Value| {
        let mut world = World::with_ready(3);
        world.spec = json!({ "size": size });
        world.config = json!({ "image": "memcached:1.6-alpine", "validation": validation });
        world.decide()
    };
    for size in [-1, 0, 11] {
        let decision = with_size(size, json!(["sizeUpTo10"]));
        let message = "Size must be between 1 and 10.";
        assert_eq!(decision.events, [hotshoe_sdk::Event::warning("InvalidSize", message)]);
        assert_eq!(decision.children, Children::Keep);
        assert_condition(&decision, "Degraded", Status::True, "InvalidSize", message);
        assert_condition(&decision, "Progressing", Status::False, "InvalidSize", message);
    }
    for (size, validation) in [(1, json!(["sizeUpTo10"])), (10, json!(["sizeUpTo10"])), (11, json!(["oddSize"]))] {
        let decision = with_size(size, validation);
        assert_eq!(decision.events, []);
        assert_ne!(decision.children, Children::Keep);
    }
}

#[test]
fn a_deletion_is_announced_before_it_is_done() {
    let Cleanup::Waiting(decision) = World::with_ready(3).clean_up() else { panic!("done at once") };
    assert_eq!(decision.children, Children::Keep);
    assert_condition(
        &decision,
        "Degraded",
        Status::Unknown,
        "Finalizing",
        "Performing finalizer operations for the custom resource: cache ",
    );
    let event =
        hotshoe_sdk::Event::warning("Deleting", "Custom Resource cache is being deleted from the namespace shop");
    assert_eq!(decision.events, [event]);
}

#[test]
fn a_deletion_that_was_announced_is_done() {
    for said in ["Unknown", "True"] {
        let mut world = World::with_ready(3);
        let conditions = json!([
            { "type": "Available", "status": "True", "reason": "Reconciling" },
            { "type": "Degraded", "status": said, "reason": "Finalizing" },
        ]);
        world.said = json!({ "nodes": [], "conditions": conditions });
        let Cleanup::Done(decision) = world.clean_up() else { panic!("not done") };
        assert_eq!(decision.children, Children::Keep);
        assert_eq!(decision.events, []);
        assert_condition(
            &decision,
            "Degraded",
            Status::True,
            "Finalizing",
            "Finalizer operations for custom resource cache name were successfully accomplished",
        );
    }
}

#[test]
fn even_what_could_not_be_served_can_be_deleted() {
    let mut world = World::named("no.label");
    world.config = json!({});
    assert!(matches!(world.clean_up(), Cleanup::Waiting(_)));
}

#[test]
fn what_does_not_parse_is_a_failure_with_a_name() {
    let fails = |change: fn(&mut Observation)| {
        let mut observation = World::with_ready(3).pod("cache-a", None).observation();
        change(&mut observation);
        hotshoe_sdk::reconcile::<Memcached>(observation).unwrap_err()
    };
    let parent = fails(|o| o.parent.json = "{".to_owned());
    assert!(matches!(&parent, Failure::Reject { message, .. } if message.contains("Memcached cache")));
    let config = fails(|o| o.config = "[1]".to_owned());
    assert!(matches!(&config, Failure::Reject { message, .. } if message.contains("configuration")));
    let child = fails(|o| o.children.first_mut().unwrap().json = "no".to_owned());
    assert!(matches!(&child, Failure::Other(message) if message.contains("Deployment cache")));
    let pod = fails(|o| o.related.first_mut().unwrap().objects.first_mut().unwrap().json.clear());
    assert!(matches!(&pod, Failure::Other(message) if message.contains("Pod cache-a")));
    let reads = fails(|o| o.related.clear());
    assert!(matches!(&reads, Failure::Other(message) if message.contains("pods")));
}

#[test]
fn equal_requests_are_answered_equally() {
    assert_eq!(World::with_ready(2).decide(), World::with_ready(2).decide());
}
