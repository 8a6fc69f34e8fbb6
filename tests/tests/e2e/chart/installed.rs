//! Releases of the chart on a control plane. Pods are simulated there: a process of the test stands in for that of the
//! Pod, with its arguments, its environment and its account.

use std::process::Command;

use hotshoe_tests::audit::Entry;
use hotshoe_tests::guests::{caches, memcached as built};
use hotshoe_tests::host::{in_session_of_tests, program};
use hotshoe_tests::kinds::{
    ADMISSION_BINDING, ADMISSION_POLICY, BUDGET, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CRD, DEPLOYMENT, Kind, MEMCACHED,
    NAMESPACE, NETWORK_POLICY, PLUGIN, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
};
use hotshoe_tests::kube::documents;
use hotshoe_tests::{ControlPlane, Host, Scene, memcached, repository, run};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::alone::run_alone;

use super::{CHART, helm, printed, said, template};

/// The label of the Plugin objects of one release.
const LABEL: &str = "tests.example.com/release";

/// The kinds of all objects of a release but definitions.
const KINDS: [Kind; 12] = [
    ADMISSION_BINDING,
    ADMISSION_POLICY,
    BUDGET,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    DEPLOYMENT,
    NETWORK_POLICY,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
];

/// A release, its namespace, and another one for the parents of its plugin.
struct Release {
    name: String,
    namespace: String,
    scene: Scene,
}

impl Release {
    async fn new(name: &str) -> Self {
        // A plugin that is removed takes its finalizer off all parents, also off those of another host.
        let plane = ControlPlane::alone().await;
        plane.install_definition(&repository("crds/hotshoe.dev_plugins.yaml")).await;
        let scene = Scene::new(plane, name).await;
        let name = scene.namespace.clone();
        let namespace = format!("{name}-host");
        plane.create_namespace(&namespace).await;
        Self { name, namespace, scene }
    }

    /// Runs a command of Helm about this release.
    fn helm(&self, verb: &str, arguments: &[&str]) -> String {
        let mut command = helm(&[verb, &self.name, "--namespace", &self.namespace]);
        command.arg("--kubeconfig").arg(self.scene.plane.file("kubeconfig")).args(arguments);
        printed(command)
    }

    /// The values of every installation here: only this test's Plugin is followed.
    fn install(&self, values: &[&str]) -> String {
        let selector = format!("pluginSelector={LABEL}={}", self.name);
        let image = ["--set", "extraEnv[0].name=MEMCACHED_IMAGE,extraEnv[0].value=memcached:1.6-alpine"];
        let plugin = ["--set", "plugins.memcached.enabled=true", "--set-string", &selector];
        self.helm("install", &[&[CHART, "--wait", "--timeout", "5m"], &plugin[..], &image, values].concat())
    }

    async fn deployment(&self) -> Value {
        let name = format!("{}-hotshoe", self.name);
        self.scene.admin.get(&DEPLOYMENT, &self.namespace, &name).await.expect("the Deployment")
    }

    /// Starts the process of the release's Pod.
    async fn start(&mut self) -> Host {
        let pod = self.deployment().await["spec"]["template"]["spec"].clone();
        let container = &pod["containers"][0];
        let mut command = Command::new("setsid");
        command.arg(program());
        let arguments = container["args"].as_array().expect("arguments").iter().filter_map(Value::as_str);
        for argument in arguments {
            match argument {
                "/plugins" => command.arg(built()),
                address if address.starts_with("0.0.0.0:") => command.arg("127.0.0.1:0"),
                other => command.arg(other),
            };
        }
        let account = pod["serviceAccountName"].as_str().expect("an account");
        command.arg("--kubeconfig").arg(self.scene.plane.kubeconfig_of(&self.namespace, account).await);
        command.env_remove("KUBECONFIG").env_remove("RUST_LOG");
        for variable in container["env"].as_array().expect("variables") {
            let of_field = variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace";
            let value = if of_field { &self.namespace } else { variable["value"].as_str().expect("a value") };
            command.env(variable["name"].as_str().expect("a name"), value);
        }
        command.env("HOTSHOE_CACHE", caches().join("hotshoe")).env("HOTSHOE_CACHE_BYTES", "4Gi");
        in_session_of_tests(&mut command);
        let host = Host::spawn(command);
        self.scene.watch_log(&host);
        host.ready().await;
        host
    }

    /// Applies the Plugin of Memcached, for this release and its namespace of parents, and waits until it is ready.
    async fn apply_plugin(&self) {
        let text = std::fs::read_to_string(built().join("plugin.yaml")).expect("plugin.yaml");
        let mut plugin = documents(&text).remove(0);
        plugin["metadata"]["labels"] = json!({ LABEL: self.name });
        plugin["spec"]["parent"]["namespaces"] = json!([self.scene.namespace]);
        self.scene.admin.create(&plugin).await.expect("the Plugin is created");
        let what = |object: &Value| hotshoe_tests::scene::condition_parts(object, "Ready").0 == "True";
        self.scene.until_object(&PLUGIN, "memcached", "is ready", what).await;
    }

    async fn delete_plugin(&self) {
        self.scene.admin.delete(&PLUGIN, "", "memcached").await.expect("the Plugin is there");
        self.scene.gone_from_cluster(&PLUGIN, "memcached").await;
    }

    /// Returns the requests of the release's accounts that the API server has answered.
    async fn requests(&self) -> Vec<Entry> {
        drop(self.scene.recorded_writes().await);
        let user = |account: &str| format!("system:serviceaccount:{}:{account}", self.namespace);
        let host = self.scene.plane.audit_of(&user(&format!("{}-hotshoe", self.name)));
        host.into_iter().chain(self.scene.plane.audit_of(&user("memcached"))).collect()
    }

    /// Returns the requests of the plugin that wrote the Deployment of its parent.
    async fn writes_of_child(&self) -> Vec<Entry> {
        let mut requests = self.requests().await;
        requests.retain(|entry| entry.is_write() && entry.is_about("deployments"));
        requests
    }

    async fn assert_nothing_was_forbidden(&self) {
        let requests = self.requests().await;
        // A host asks whether the namespace that it watches is there, to warn if not, and needs no answer.
        let is_needed = |entry: &&Entry| !(entry.verb == "get" && entry.is_about("namespaces"));
        let forbidden: Vec<_> = requests.iter().filter(is_needed).filter(|entry| entry.code == 403).collect();
        assert!(forbidden.is_empty() && requests.len() > 10, "of {} requests: {forbidden:#?}", requests.len());
    }

    /// Returns the objects with the release's label, and those of Helm.
    async fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for kind in KINDS {
            let objects = self.scene.admin.list(&kind, "").await.expect("a list");
            let is_of_release = |object: &&Value| {
                let labels = &object["metadata"]["labels"];
                labels["app.kubernetes.io/instance"] == *self.name
                    || (labels["owner"] == "helm" && labels["name"] == *self.name)
            };
            left.extend(
                objects.iter().filter(is_of_release).map(|object| format!("{} {}", kind.kind, object["metadata"])),
            );
        }
        left
    }
}

/// Only one test at a time has the Plugin `memcached` of this control plane.
static PLUGIN_MEMCACHED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[test]
fn a_release_serves_is_upgraded_at_work_and_rolled_back_and_leaves_only_definitions() {
    run_alone(async {
        let _turn = PLUGIN_MEMCACHED.lock().await;
        let mut release = Release::new("chart").await;
        // The definitions on this control plane were applied without Helm.
        let notes = release.install(&["--take-ownership"]);
        assert!(notes.contains("These plugins have their accounts and rights: memcached"), "{notes}");
        let mut host = release.start().await;
        release.apply_plugin().await;
        release.scene.create(memcached("cache", 2)).await;
        release.scene.available("cache").await;
        let written = release.writes_of_child().await;

        // The host is replaced by one with other values, and writes nothing that is there already.
        release
            .helm("upgrade", &[CHART, "--reuse-values", "--wait", "--set", "replicaCount=2,log.level=hotshoe=debug"]);
        let full = format!("{}-hotshoe", release.name);
        assert!(release.scene.admin.get(&BUDGET, &release.namespace, &full).await.is_ok());
        assert!(host.stop().success());
        let mut host = release.start().await;
        host.until_logged(&["the component is active"]).await;
        let change = json!({ "spec": { "size": 3 } });
        release.scene.merge(&MEMCACHED, "cache", change).await;
        release.scene.available("cache").await;
        let since = release.writes_of_child().await.split_off(written.len());
        assert_eq!(since.len(), 1, "the child is written once, when its parent has changed: {since:#?}");

        release.helm("rollback", &["1", "--wait"]);
        assert_eq!(release.deployment().await["spec"]["replicas"], 1);
        assert!(release.scene.admin.get(&BUDGET, &release.namespace, &full).await.is_err());
        assert!(host.stop().success());
        let mut host = release.start().await;
        release.scene.delete(&MEMCACHED, "cache").await;
        release.scene.gone(&MEMCACHED, "cache").await;
        release.delete_plugin().await;
        release.assert_nothing_was_forbidden().await;

        assert!(host.stop().success());
        assert!(!release.left().await.is_empty());
        let kept = release.helm("uninstall", &["--wait"]);
        assert_eq!(release.left().await, [""; 0]);
        for definition in ["plugins.hotshoe.dev", "memcacheds.cache.example.com"] {
            assert!(kept.contains(definition), "{kept}");
            assert!(release.scene.admin.get(&CRD, "", definition).await.is_ok(), "{definition}");
        }
    });
}

#[test]
fn a_release_for_one_namespace_has_rights_there_and_enough_of_them() {
    run_alone(async {
        let _turn = PLUGIN_MEMCACHED.lock().await;
        let mut release = Release::new("chart-one").await;
        let watched = format!("watchNamespaces={{{}}}", release.scene.namespace);
        release.install(&["--set", "crds.enabled=false,roles.create=false", "--set", &watched]);
        let roles = release.scene.admin.list(&CLUSTER_ROLE, "").await.expect("a list");
        let rules =
            roles.iter().filter(|role| role["metadata"]["labels"]["app.kubernetes.io/instance"] == *release.name);
        let groups: Vec<_> = rules.flat_map(|role| role["rules"].as_array().cloned().unwrap_or_default()).collect();
        assert!(groups.iter().all(|rule| rule["apiGroups"] == json!(["hotshoe.dev"])), "{groups:#?}");
        let mut host = release.start().await;
        release.apply_plugin().await;
        release.scene.create(memcached("cache", 1)).await;
        release.scene.available("cache").await;
        release.scene.delete(&MEMCACHED, "cache").await;
        release.scene.gone(&MEMCACHED, "cache").await;
        release.delete_plugin().await;
        release.assert_nothing_was_forbidden().await;
        assert!(host.stop().success());
        release.helm("uninstall", &["--wait"]);
        assert_eq!(release.left().await, [""; 0]);
    });
}

#[test]
fn the_api_server_accepts_every_object_in_a_restricted_namespace_without_a_warning() {
    run(async {
        let scene = Scene::new(ControlPlane::shared().await, "chart-dry").await;
        let labels = json!({ "metadata": { "labels": { "pod-security.kubernetes.io/warn": "restricted" } } });
        scene.admin.merge(&NAMESPACE, "", &scene.namespace, &labels).await.expect("labels");
        let all = "webhooks.enabled=true,metrics.secure=true,replicaCount=2,cache.existingClaim=cache,imagePullSecrets[0].name=registry";
        let plugins = "plugins.backup.enabled=true,plugins.default-deny.enabled=true,plugins.memcached.enabled=true,\
                       plugins.nginx.enabled=true,plugins.pdb.enabled=true,plugins.redis.enabled=true,plugins.tenant.enabled=true";
        let folder = TempDir::new().expect("a folder");
        for values in ["log.format=text", all, plugins] {
            let rendered = printed(template(&scene.namespace, &scene.namespace, &["--set", values]));
            let file = folder.path().join("rendered.yaml");
            std::fs::write(&file, rendered).expect("a file");
            let file = file.display().to_string();
            let dry = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", &file];
            let output = scene.kubectl(&dry);
            let said = said(&output);
            assert!(output.status.success() && !said.contains("Warning"), "{values}: {said}");
        }
    });
}
