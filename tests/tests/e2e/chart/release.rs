//! A release of the chart on a control plane. Pods are simulated there: a process of the test stands in for that of the
//! Pod, with its arguments, its environment and its account.

use std::process::Command;

use hotshoe_tests::audit::Entry;
use hotshoe_tests::guests::{caches, memcached};
use hotshoe_tests::host::{in_session_of_tests, program};
use hotshoe_tests::kinds::{
    ADMISSION_BINDING, ADMISSION_POLICY, BUDGET, CLUSTER_ROLE, CLUSTER_ROLE_BINDING, DEPLOYMENT, Kind, MEMCACHED,
    NETWORK_POLICY, PLUGIN, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
};
use hotshoe_tests::kube::documents;
use hotshoe_tests::prometheus::free_address;
use hotshoe_tests::{ControlPlane, Host, Scene, repository};
use serde_json::{Value, json};

use super::{CHART, helm, printed};

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
pub(super) struct Release {
    /// Its name, which is that of the namespace of the parents.
    pub(super) name: String,
    /// Its namespace.
    pub(super) namespace: String,
    /// The namespace of the parents.
    pub(super) scene: Scene,
    /// Where its Pod serves metrics.
    pub(super) address: String,
}

impl Release {
    /// Makes the namespaces of a release.
    pub(super) async fn new(name: &str) -> Self {
        // A plugin that is removed takes its finalizer off all parents, also off those of another host.
        let plane = ControlPlane::alone().await;
        plane.install_definition(&repository("crds/hotshoe.dev_plugins.yaml")).await;
        let scene = Scene::new(plane, name).await;
        let name = scene.namespace.clone();
        let namespace = format!("{name}-host");
        plane.create_namespace(&namespace).await;
        Self { name, namespace, scene, address: free_address() }
    }

    /// Runs a command of Helm about this release.
    pub(super) fn helm(&self, verb: &str, arguments: &[&str]) -> String {
        let mut command = helm(&[verb, &self.name, "--namespace", &self.namespace]);
        command.arg("--kubeconfig").arg(self.scene.plane.file("kubeconfig")).args(arguments);
        printed(command)
    }

    /// Installs it with values that every installation here has: only this test's Plugin is followed.
    pub(super) fn install(&self, values: &[&str]) -> String {
        let selector = format!("pluginSelector={LABEL}={}", self.name);
        let image = ["--set", "extraEnv[0].name=MEMCACHED_IMAGE,extraEnv[0].value=memcached:1.6-alpine"];
        let plugin = ["--set", "plugins.memcached.enabled=true", "--set-string", &selector];
        self.helm("install", &[&[CHART, "--wait", "--timeout", "5m"], &plugin[..], &image, values].concat())
    }

    /// Returns its Deployment.
    pub(super) async fn deployment(&self) -> Value {
        let name = format!("{}-hotshoe", self.name);
        self.scene.admin.get(&DEPLOYMENT, &self.namespace, &name).await.expect("the Deployment")
    }

    /// Starts the process of the release's Pod.
    pub(super) async fn start(&mut self) -> Host {
        let pod = self.deployment().await["spec"]["template"]["spec"].clone();
        let container = &pod["containers"][0];
        let mut command = Command::new("setsid");
        command.arg(program());
        let arguments = container["args"].as_array().expect("arguments").iter().filter_map(Value::as_str);
        for argument in arguments {
            match argument {
                "/plugins" => command.arg(memcached()),
                "0.0.0.0:8080" => command.arg(&self.address),
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
    pub(super) async fn apply_plugin(&self) {
        let text = std::fs::read_to_string(memcached().join("plugin.yaml")).expect("plugin.yaml");
        let mut plugin = documents(&text).remove(0);
        plugin["metadata"]["labels"] = json!({ LABEL: self.name });
        plugin["spec"]["parent"]["namespaces"] = json!([self.scene.namespace]);
        self.scene.admin.create(&plugin).await.expect("the Plugin is created");
        let what = |object: &Value| hotshoe_tests::scene::condition_parts(object, "Ready").0 == "True";
        self.scene.until_object(&PLUGIN, "memcached", "is ready", what).await;
    }

    /// Deletes the parent `cache` and the Plugin, stops the host and uninstalls the release. Checks that nothing is left
    /// and that no right was missing. Returns what Helm prints.
    pub(super) async fn uninstall(&self, mut host: Host) -> String {
        self.scene.delete(&MEMCACHED, "cache").await;
        self.scene.gone(&MEMCACHED, "cache").await;
        self.scene.admin.delete(&PLUGIN, "", "memcached").await.expect("the Plugin is there");
        self.scene.gone_from_cluster(&PLUGIN, "memcached").await;
        self.assert_nothing_was_forbidden().await;
        assert!(host.stop().success());
        assert!(!self.left().await.is_empty());
        let printed = self.helm("uninstall", &["--wait"]);
        assert_eq!(self.left().await, [""; 0]);
        printed
    }

    /// Returns the requests of the release's accounts that the API server has answered.
    pub(super) async fn requests(&self) -> Vec<Entry> {
        drop(self.scene.recorded_writes().await);
        let user = |account: &str| format!("system:serviceaccount:{}:{account}", self.namespace);
        let host = self.scene.plane.audit_of(&user(&format!("{}-hotshoe", self.name)));
        host.into_iter().chain(self.scene.plane.audit_of(&user("memcached"))).collect()
    }

    /// Returns the requests of the plugin that wrote the Deployment of its parent.
    pub(super) async fn writes_of_child(&self) -> Vec<Entry> {
        let mut requests = self.requests().await;
        requests.retain(|entry| entry.is_write() && entry.is_about("deployments"));
        requests
    }

    /// Checks that the release's accounts have all the rights that they used.
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
pub(super) static PLUGIN_MEMCACHED: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
