//! What the model fills into children is what the API server fills in.

use hotshoe_core::compare::json_diff::{Field, Rules, compare};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::Cluster;
use hotshoe_tests::control_plane::ControlPlane;
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

use super::desired;
use super::numbers::Numbers;

const SCRIPTS: u64 = 8;
/// What only a cluster knows, or its controllers write.
const OF_THE_CLUSTER: [&str; 8] = [
    "storageClassName",
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
];
/// What admission plugins and the scheduler add to the spec of a Pod.
const ADMITTED_WITH: [&str; 6] =
    ["serviceAccountName", "serviceAccount", "tolerations", "priority", "preemptionPolicy", "nodeName"];
const OF_METADATA: [&str; 6] =
    ["uid", "generation", "creationTimestamp", "resourceVersion", "managedFields", "namespace"];

impl Numbers {
    /// Returns an object with some of these members, each by its pointer.
    fn with_some(&mut self, mut object: Value, members: &[(&str, Value)]) -> Value {
        for (pointer, value) in members {
            let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
            if self.chance() {
                object.pointer_mut(parent).expect("it is there")[name] = value.clone();
            }
        }
        object
    }

    fn one_of<V: Clone>(&mut self, values: &[V]) -> V {
        values[(self.next() % values.len() as u64) as usize].clone()
    }

    fn container_of_many_fields(&mut self, name: &str) -> Value {
        let image = self.one_of(&[
            "i",
            "i:1",
            "i:latest",
            "r.example.com:5000/i",
            "i@sha256:0000000000000000000000000000000000000000000000000000000000000000",
        ]);
        let field = json!([{ "name": "POD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
        let probes = [
            json!({ "httpGet": { "port": 80 }, "timeoutSeconds": 0 }),
            json!({ "grpc": { "port": 80 }, "periodSeconds": 3 }),
            json!({ "tcpSocket": { "port": 80 }, "failureThreshold": 9 }),
        ];
        let probe = self.one_of(&probes);
        let container = json!({ "name": name, "image": image });
        self.with_some(
            container,
            &[
                ("/env", field),
                ("/readinessProbe", probe.clone()),
                ("/livenessProbe", probe),
                ("/startupProbe", json!({ "exec": { "command": ["true"] } })),
                ("/ports", json!([{ "containerPort": 53 }, { "containerPort": 53, "protocol": "UDP" }])),
                ("/resources", json!({ "limits": { "cpu": "1" } })),
                ("/imagePullPolicy", json!("Never")),
                ("/lifecycle", json!({ "preStop": { "httpGet": { "port": 80 } } })),
            ],
        )
    }

    fn template_of_many_fields(&mut self) -> Value {
        let containers = [self.container_of_many_fields("a"), self.container_of_many_fields("b")];
        let volumes = json!([
            { "name": "none" }, { "name": "secret", "secret": { "secretName": "a" } },
            { "name": "map", "configMap": { "name": "a", "defaultMode": 256 } },
            { "name": "down", "downwardAPI": { "items": [{ "path": "a", "fieldRef": { "fieldPath": "metadata.name" } }] } },
            { "name": "all", "projected": { "sources": [{ "serviceAccountToken": { "path": "a" } }] } },
            { "name": "host", "hostPath": { "path": "/a" } },
            { "name": "claim", "ephemeral": { "volumeClaimTemplate": { "spec": claim() } } },
        ]);
        let spec = self.with_some(
            json!({ "containers": containers }),
            &[
                ("/volumes", volumes),
                ("/serviceAccountName", json!("a")),
                ("/securityContext", json!({ "runAsUser": 1 })),
                ("/terminationGracePeriodSeconds", json!(0)),
                ("/dnsPolicy", json!("Default")),
            ],
        );
        let mut template = json!({ "metadata": { "labels": { "app": "model" } }, "spec": spec });
        if self.chance() {
            template["spec"]["initContainers"] = json!([self.container_of_init()]);
        }
        template
    }

    /// Returns a container without probes, which run only beside others.
    fn container_of_init(&mut self) -> Value {
        let mut container = self.container_of_many_fields("init");
        let members = container.as_object_mut().expect("an object");
        members.retain(|name, _| !name.ends_with("Probe") && name != "lifecycle");
        container
    }

    fn workload_of_many_fields(&mut self, kind: &str) -> Value {
        let spec =
            json!({ "selector": { "matchLabels": { "app": "model" } }, "template": self.template_of_many_fields() });
        let rolling = |parameters: Value| json!({ "type": "RollingUpdate", "rollingUpdate": parameters });
        let spec = match kind {
            "Deployment" => {
                let strategies = [json!({}), json!({ "type": "Recreate" }), rolling(json!({ "maxSurge": 1 }))];
                let strategy = self.one_of(&strategies);
                self.with_some(spec, &[("/strategy", strategy), ("/progressDeadlineSeconds", json!(60))])
            }
            "StatefulSet" => {
                let of_type = json!({ "type": "RollingUpdate" });
                let strategies =
                    [json!({ "type": "OnDelete" }), rolling(json!({ "partition": 2 })), json!({}), of_type];
                let strategy = self.one_of(&strategies);
                let claims = json!([{ "metadata": { "name": "a" }, "spec": claim() }]);
                let retention = json!({ "whenScaled": "Delete" });
                let members = [
                    ("/updateStrategy", strategy),
                    ("/volumeClaimTemplates", claims),
                    ("/persistentVolumeClaimRetentionPolicy", retention),
                ];
                self.with_some(spec, &members)
            }
            "DaemonSet" => {
                let strategies = [json!({ "type": "OnDelete" }), rolling(json!({ "maxUnavailable": 2 }))];
                let strategy = self.one_of(&strategies);
                self.with_some(spec, &[("/updateStrategy", strategy), ("/revisionHistoryLimit", json!(0))])
            }
            _ => spec,
        };
        json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "model" }, "spec": spec })
    }

    fn job(&mut self) -> Value {
        let mut template = self.template_of_many_fields();
        template["spec"]["restartPolicy"] = "Never".into();
        let failed = json!({ "rules": [{ "action": "FailJob", "onExitCodes": { "operator": "In", "values": [1] } }] });
        let mut spec = self.with_some(
            json!({ "template": template }),
            &[
                ("/parallelism", json!(2)),
                ("/completions", json!(3)),
                ("/suspend", json!(true)),
                ("/podFailurePolicy", failed),
            ],
        );
        if self.chance() {
            spec["completionMode"] = "Indexed".into();
            spec["completions"] = 3.into();
            spec["backoffLimitPerIndex"] = 1.into();
        }
        spec
    }

    /// Returns the spec of a Pod that is admitted into a namespace with the Pod Security Standard `restricted`.
    fn pod(&mut self) -> Value {
        let restricted = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
        let mut container = self.container_of_many_fields("a");
        container["securityContext"] = restricted;
        json!({
            "containers": [container], "automountServiceAccountToken": false,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        })
    }

    fn service(&mut self) -> Value {
        let ports =
            json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 81, "targetPort": "b", "protocol": "UDP" }]);
        let of = |kind: &str| json!({ "type": kind, "selector": { "app": "model" }, "ports": ports });
        let headless = json!({ "clusterIP": "None", "selector": { "app": "model" } });
        let external = json!({ "type": "ExternalName", "externalName": "a.example.com" });
        let alone = json!({ "clusterIP": "None", "ports": [{ "port": 80, "targetPort": 0 }] });
        let addressed = json!({ "ports": ports, "externalIPs": ["192.0.2.1"] });
        let plain = json!({ "ports": ports });
        let all = [plain, of("NodePort"), of("LoadBalancer"), headless, alone, external, addressed];
        let mut spec = self.one_of(&all);
        if self.chance() && spec["type"] != "ExternalName" {
            spec["sessionAffinity"] = "ClientIP".into();
        }
        object("v1", "Service", json!({ "spec": spec }))
    }

    fn policy(&mut self) -> Value {
        let ports = json!([{ "ports": [{ "port": 80 }] }]);
        let members = [("/ingress", ports.clone()), ("/egress", ports), ("/policyTypes", json!([]))];
        let spec = self.with_some(json!({ "podSelector": {} }), &members);
        object("networking.k8s.io/v1", "NetworkPolicy", json!({ "spec": spec }))
    }

    fn limits(&mut self) -> Value {
        let amount = |amount: &str| json!({ "cpu": amount });
        let members = [
            ("/max", amount("4")),
            ("/default", json!({ "memory": "1Gi" })),
            ("/min", amount("1")),
            ("/defaultRequest", amount("2")),
        ];
        let mut limit = self.with_some(json!({ "type": "Container" }), &members);
        if limit["max"].is_object() && limit["default"].is_object() {
            limit["default"]["cpu"] = "3".into();
        }
        object("v1", "LimitRange", json!({ "spec": { "limits": [limit] } }))
    }

    /// Returns an object of each kind that gets defaults.
    fn objects(&mut self) -> Vec<Value> {
        let workloads = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];
        let mut objects: Vec<Value> = workloads.iter().map(|kind| self.workload_of_many_fields(kind)).collect();
        let job = self.job();
        let cron = json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": self.job() } });
        let cron =
            self.with_some(cron, &[("/concurrencyPolicy", json!("Forbid")), ("/failedJobsHistoryLimit", json!(0))]);
        let scaled = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "none" });
        let half = json!({ "type": "Utilization", "averageUtilization": 50 });
        let scaler = self.with_some(
            json!({ "scaleTargetRef": scaled, "maxReplicas": 3 }),
            &[
                ("/minReplicas", json!(2)),
                ("/metrics", json!([{ "type": "Resource", "resource": { "name": "cpu", "target": half } }])),
                ("/behavior", json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } })),
            ],
        );
        let role = json!({ "kind": "Role", "name": "none" });
        let subjects =
            json!([{ "kind": "ServiceAccount", "name": "a", "namespace": "a" }, { "kind": "User", "name": "a" }]);
        objects.extend([
            object("batch/v1", "Job", json!({ "spec": job })),
            object("batch/v1", "CronJob", json!({ "spec": cron })),
            object("v1", "PersistentVolumeClaim", json!({ "spec": claim() })),
            object("v1", "Pod", json!({ "spec": self.pod() })),
            object("v1", "Secret", self.one_of(&[json!({}), json!({ "type": "example.com/a" })])),
            object("autoscaling/v2", "HorizontalPodAutoscaler", json!({ "spec": scaler })),
            object("rbac.authorization.k8s.io/v1", "RoleBinding", json!({ "roleRef": role, "subjects": subjects })),
            self.service(),
            self.policy(),
            self.limits(),
        ]);
        objects
    }
}

fn claim() -> Value {
    json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } })
}

fn object(api_version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({ "name": "model" });
    object
}

/// Returns what is compared: all but what only a cluster knows. A `null` is as good as a missing member.
fn compared(object: &Value) -> Value {
    let mut object = stripped(object);
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if object["kind"] == "Job" {
        object["spec"].as_object_mut().expect("an object").remove("selector");
        if object.pointer("/spec/template/metadata/labels") == Some(&json!({})) {
            object["spec"]["template"]["metadata"] = json!({});
        }
    }
    if object["kind"] == "PersistentVolumeClaim" {
        object["metadata"].as_object_mut().expect("an object").remove("finalizers");
    }
    if object["kind"] == "Pod" {
        object["spec"].as_object_mut().expect("an object").retain(|name, _| !ADMITTED_WITH.contains(&&**name));
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !OF_METADATA.contains(&&**name) && name != "annotations");
    }
    object
}

fn stripped(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(name, value)| !value.is_null() && !OF_THE_CLUSTER.contains(&&***name))
            .map(|(name, value)| (name.clone(), stripped(value)))
            .collect(),
        Value::Array(elements) => elements.iter().map(stripped).collect(),
        value => value.clone(),
    }
}

/// Has both store an object. Returns in what they differ: the value in the model, and the real one.
async fn differences(scene: &Scene, model: &mut Cluster, body: Value, seed: u64) -> Vec<(u64, String, Field)> {
    let real = scene.apply("model", body.clone()).await;
    let reference = ObjectRef::of(&real).expect("an object");
    let kind = reference.kind.to_string();
    model.carry_out(&[desired(reference, body)]);
    let (model, real) = (compared(&model.children()[0]), compared(&real));
    let different = compare(Some(&model), Some(&real), usize::MAX, Rules::default()).listed;
    assert_eq!(different.is_empty(), model == real, "{model:#} {real:#}");
    different.into_iter().map(|field| (seed, kind.clone(), field)).collect()
}

#[test]
fn children_get_the_defaults_that_the_api_server_fills_in() {
    run(async {
        let plane = ControlPlane::shared().await;
        let scripts = (0..SCRIPTS).map(|seed| async move {
            let (scene, mut found) = (Scene::new(plane, "simulated-defaults").await, Vec::new());
            for body in Numbers(2_000 + seed).objects() {
                found.extend(differences(&scene, &mut Cluster::default(), body, seed).await);
            }
            found
        });
        let found = futures::future::join_all(scripts).await.concat();
        assert!(found.is_empty(), "{found:#?}");
    });
}

#[test]
fn a_default_comes_back_once_another_value_is_no_longer_stated() {
    run(async {
        let (scene, mut found) = (Scene::new(ControlPlane::shared().await, "simulated-defaults").await, Vec::new());
        for seed in 0..SCRIPTS {
            let (mut numbers, mut model) = (Numbers(3_000 + seed), Cluster::default());
            for _ in 0..3 {
                let mut body = numbers.workload_of_many_fields("Deployment");
                body["metadata"]["name"] = format!("model-{seed}").into();
                // What is left of another strategy would be refused.
                body["spec"]["strategy"] = json!({ "type": "RollingUpdate" });
                found.extend(differences(&scene, &mut model, body, seed).await);
            }
        }
        assert!(found.is_empty(), "{found:#?}");
    });
}

#[test]
fn a_namespace_has_the_label_and_the_finalizer_of_kubernetes() {
    run(async {
        let plane = ControlPlane::shared().await;
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "simulated-defaults" } });
        let real = plane.admin.apply("model", &body).await.expect("it is applied");
        let mut model = Cluster::default();
        model.carry_out(&[desired(ObjectRef::of(&real).expect("an object"), body)]);
        assert_eq!(compared(&model.children()[0]), compared(&real));
    });
}
