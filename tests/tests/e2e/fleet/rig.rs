//! A host for one test, which follows the `Plugin` objects with the test's label, and these objects.

use std::process::Command;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::{Start, program};
use hotshoe_tests::kinds::{CONFIG_MAP, EVENT, PLUGIN, SECRET};
use hotshoe_tests::proxy::Proxy;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Host, Scene, repository};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// The account of the hosts of these tests. Its rights grow with what the tests grant, so it is not the account whose
/// rights other tests check.
pub(crate) const ACCOUNT: &str = "hotshoe-fleet";
/// The account of hosts that share the work by a Lease: the only one that may write in the host's namespace.
const LEASING: &str = "hotshoe";
/// The label that distinguishes the objects of each test.
pub(crate) const LABEL: &str = "tests.example.com/scene";

pub(crate) struct Rig {
    pub(crate) scene: Scene,
    pub(crate) host: Host,
    account: &'static str,
    start: Start,
    cache: Option<TempDir>,
}

/// A plugin that is to be applied as an object: its folder, and its name, which is unique among the tests.
pub(crate) struct Guest {
    pub(crate) folder: Folder,
    pub(crate) name: String,
}

/// Returns the control plane with the CRD of `Plugin` and the rights of hosts that follow such objects.
async fn plane() -> &'static ControlPlane {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY
        .get_or_init(async || {
            plane.install_definition(&repository("crds/hotshoe.dev_plugins.yaml")).await;
            for account in [ACCOUNT, LEASING] {
                plane.apply_rights(&["--host-only"], account).await;
            }
        })
        .await;
    plane
}

impl Rig {
    pub(crate) async fn new(name: &str) -> Self {
        let scene = Scene::new(plane().await, name).await;
        let start = scene.start().await;
        Self::with(scene, ACCOUNT, start).await
    }

    /// Starts a host that watches all namespaces, including those of other tests.
    pub(crate) async fn everywhere(name: &str) -> Self {
        let scene = Scene::new(plane().await, name).await;
        let start = Start::new(scene.plane).await;
        Self::with(scene, ACCOUNT, start).await
    }

    /// Starts a host that shares the work with [others](Self::another_host) by a Lease.
    pub(crate) async fn with_lease(name: &str) -> Self {
        Self::with_shards(name, 1).await
    }

    /// Starts a host that shares the work with [others](Self::another_host) by a Lease for each shard.
    pub(crate) async fn with_shards(name: &str, shards: usize) -> Self {
        let scene = Scene::new(plane().await, name).await;
        let start = scene.start().await.shards(shards);
        Self::with(scene, LEASING, start).await
    }

    /// Starts a host whose requests pass a proxy.
    pub(crate) async fn behind_proxy(name: &str) -> (Self, Proxy) {
        let scene = Scene::new(plane().await, name).await;
        let proxy = Proxy::before(scene.plane, SYSTEM, ACCOUNT).await;
        let start = scene.start().await.kubeconfig(&proxy.kubeconfig());
        (Self::of(scene, ACCOUNT, start).await, proxy)
    }

    async fn with(scene: Scene, account: &'static str, start: Start) -> Self {
        let start = start.kubeconfig(&scene.plane.kubeconfig_of(SYSTEM, account).await);
        Self::of(scene, account, start).await
    }

    async fn of(mut scene: Scene, account: &'static str, start: Start) -> Self {
        let host = begin(&scene, &start).await;
        scene.watch_log(&host);
        Self { scene, host, account, start, cache: None }
    }

    /// Stops the host and starts another one, whose cache is empty like that of a new Pod.
    pub(crate) async fn replace_host(&mut self) {
        self.host.kill();
        let cache = TempDir::new().expect("a folder");
        self.host = begin(&self.scene, &self.start.clone().cache(cache.path())).await;
        self.cache = Some(cache);
        self.scene.watch_log(&self.host);
    }

    /// Starts another host beside it.
    pub(crate) async fn another_host(&self) -> Host {
        begin(&self.scene, &self.start).await
    }

    /// Starts a host with a Lease of its own, which follows the objects with this value of the tests' label.
    pub(crate) async fn host_of_lease(&self, lease: &str, label: &str) -> Host {
        let mut command = self.start.clone().plugins(&[]).command();
        command.args(["--lease-name", lease, "--plugin-selector", &format!("{LABEL}={label}")]);
        let host = Host::spawn(command);
        host.ready().await;
        host
    }

    /// Starts a host of another namespace, which runs a guest from its folder.
    pub(crate) async fn host_of_folder(&self, scene: &Scene, guest: &Guest) -> Host {
        let kubeconfig = scene.plane.kubeconfig_of(SYSTEM, self.account).await;
        scene.start().await.kubeconfig(&kubeconfig).plugins(&[guest.folder.path()]).ready().await
    }

    /// The Memcached plugin under a name that only this test uses, with the rights that it needs.
    pub(crate) async fn memcached(&self, word: &str) -> Guest {
        let name = format!("{word}-{}", self.scene.namespace);
        let folder = Folder::of_memcached();
        folder.edit("name: memcached\n", &format!("name: {name}\n"));
        let guest = Guest { folder, name };
        self.grant(&guest).await;
        guest
    }

    /// The faulty plugin under a name that only this test uses.
    pub(crate) async fn faulty(&self, word: &str) -> Guest {
        self.scene.plane.install_definition(&repository("tests/fixtures/faulty/crd.yaml")).await;
        let name = format!("{word}-{}", self.scene.namespace);
        let folder = Folder::of_faulty();
        folder.edit("name: faulty\n", &format!("name: {name}\n"));
        let guest = Guest { folder, name };
        self.grant(&guest).await;
        guest
    }

    /// Applies the rights that a guest needs by its `plugin.yaml`.
    pub(crate) async fn grant(&self, guest: &Guest) {
        let folder = guest.folder.path().display().to_string();
        self.scene.plane.apply_rights(&of_plugin(&folder), self.account).await;
    }

    /// Does the same as [`Self::grant`], with the plural names that the API server serves the kinds under now.
    pub(crate) async fn grant_as_served(&self, guest: &Guest) {
        let folder = guest.folder.path().display().to_string();
        self.scene.plane.apply_rights_as_served(&of_plugin(&folder), self.account).await;
    }

    /// Builds the `Plugin` that a guest's `plugin.yaml` describes, with this source.
    pub(crate) fn object(&self, guest: &Guest, source: Value) -> Value {
        let text = std::fs::read_to_string(guest.folder.plugin_file()).expect("plugin.yaml is read");
        let mut object = hotshoe_tests::kube::documents(&text).remove(0);
        object["metadata"]["labels"] = json!({ LABEL: self.scene.namespace });
        object["spec"]["source"] = source;
        object
    }

    /// Applies a guest whose source is its file.
    pub(crate) async fn apply(&self, guest: &Guest) -> Value {
        self.create(&self.object(guest, file(guest))).await
    }

    pub(crate) async fn create(&self, object: &Value) -> Value {
        let created = self.scene.admin.create(object).await;
        created.unwrap_or_else(|refused| panic!("{object:#} is refused: {}", refused.message))
    }

    pub(crate) async fn merge(&self, guest: &Guest, patch: Value) -> Value {
        let merged = self.scene.admin.merge(&PLUGIN, "", &guest.name, &patch).await;
        merged.unwrap_or_else(|refused| panic!("{patch:#} is refused: {}", refused.message))
    }

    pub(crate) async fn delete(&self, guest: &Guest) {
        self.scene.admin.delete(&PLUGIN, "", &guest.name).await.expect("the Plugin is there");
    }

    /// Waits until the object is as expected.
    pub(crate) async fn until(&self, guest: &Guest, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.scene
            .until(&format!("the Plugin {} {what}", guest.name), async || {
                let object = self.scene.admin.get(&PLUGIN, "", &guest.name).await.map_err(|refused| refused.message)?;
                if holds(&object) { Ok(object) } else { Err(format!("{:#}", object["status"])) }
            })
            .await
    }

    /// Waits until a condition has this status and reason.
    pub(crate) async fn until_condition(&self, guest: &Guest, condition: &str, status: &str, reason: &str) -> Value {
        let what = format!("has {condition} {status} for {reason}");
        self.until(guest, &what, |object| {
            let (is, why, _) = condition_parts(object, condition);
            (is, why) == (status, reason)
        })
        .await
    }

    pub(crate) async fn until_ready(&self, guest: &Guest) -> Value {
        self.until_condition(guest, "Ready", "True", "Active").await
    }

    /// Waits for an Event about the object with this reason, whose message has these words.
    pub(crate) async fn until_event(&self, guest: &Guest, reason: &str, words: &str) -> Value {
        let what = format!("there is an Event {reason} about the Plugin {} that says {words}", guest.name);
        self.scene
            .until(&what, async || {
                let events = self.scene.admin.list(&EVENT, "default").await.map_err(|refused| refused.message)?;
                let about: Vec<&Value> =
                    events.iter().filter(|event| event["involvedObject"]["name"] == *guest.name).collect();
                let is_it = |event: &&&Value| {
                    event["reason"] == reason && event["message"].as_str().is_some_and(|said| said.contains(words))
                };
                about.iter().find(is_it).map(|event| (*event).clone()).ok_or_else(|| format!("{about:#?}"))
            })
            .await
    }

    pub(crate) async fn until_gone(&self, guest: &Guest) {
        self.scene.gone_from_cluster(&PLUGIN, &guest.name).await;
    }

    /// Puts a component into a ConfigMap of the host's namespace.
    pub(crate) async fn put_config_map(&self, name: &str, key: &str, component: &[u8]) {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(component);
        let object = json!({
            "apiVersion": "v1", "kind": CONFIG_MAP.kind,
            "metadata": { "name": name, "namespace": SYSTEM },
            "binaryData": { key: text },
        });
        self.scene.admin.apply("tests", &object).await.expect("the ConfigMap is applied");
    }
}

impl Rig {
    /// Puts a pull secret into the host's namespace.
    pub(crate) async fn put_pull_secret(&self, name: &str, docker: &str) {
        let object = json!({
            "apiVersion": "v1", "kind": SECRET.kind, "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name, "namespace": SYSTEM },
            "stringData": { ".dockerconfigjson": docker },
        });
        self.scene.admin.apply("tests", &object).await.expect("the Secret is applied");
    }
}

/// Returns the arguments of `hotshoe rbac` for a plugin with a copy of its component in its folder.
fn of_plugin(folder: &str) -> [&str; 4] {
    ["--plugin-only", folder, "--components", folder]
}

/// The source of a guest whose component is its file.
pub(crate) fn file(guest: &Guest) -> Value {
    json!({ "file": guest.folder.component() })
}

async fn begin(scene: &Scene, start: &Start) -> Host {
    let mut command = start.clone().plugins(&[]).command();
    command.args(["--plugin-selector", &format!("{LABEL}={}", scene.namespace)]);
    let host = Host::spawn(command);
    host.ready().await;
    host
}

/// Runs the program as `kubectl hotshoe` does.
pub(crate) fn kubectl_hotshoe(scene: &Scene, arguments: &[&str]) -> (Option<i32>, String) {
    let folder = TempDir::new().expect("a folder");
    let plugin = folder.path().join("kubectl-hotshoe");
    std::os::unix::fs::symlink(program(), &plugin).expect("a link");
    let output = Command::new(&plugin).args(arguments).env("KUBECONFIG", scene.plane.file("kubeconfig")).output();
    let output = output.expect("the program runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}
