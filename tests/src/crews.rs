//! The plugins that convert `Crew` between v1beta1 and v1, in a group of its own for each test: which webhook converts
//! is said once for all objects of a kind.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::guests::{Folder, reworded};
use crate::host::program;
use crate::kinds::{CRD, Kind};
use crate::kube::Refused;
use crate::{ControlPlane, Host, Scene, repository, webhook};

const JSON: &str = "application/json";
/// The group in the files of the plugin. That of a test has the same length, because it is a part of the code.
const GROUP: &str = "fixtures.example.com";
/// The text that marks the revision.
const WORKS: &str = "this revision works";

/// A namespace with Crews, and a folder with their plugin.
pub struct Crews {
    /// The namespace.
    pub scene: Scene,
    folder: Folder,
    original: Vec<u8>,
    certificate: TempDir,
    /// The name of the plugin.
    plugin: &'static str,
    group: &'static str,
    /// The address of the webhooks, once a host has one.
    address: String,
}

impl Crews {
    /// Installs the kind, which stores this version.
    pub async fn stored_in(plane: &'static ControlPlane, name: &str, version: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let group = &*format!("crews{:03}.example.com", COUNT.fetch_add(1, Ordering::Relaxed)).leak();
        install(plane, "converting", group, version).await;
        let folder = Folder::of_converting();
        folder.edit(GROUP, group);
        let original = reworded(folder.original(), GROUP, group);
        folder.put(&original);
        Self::with(plane, name, "converting", group, folder, original).await
    }

    /// Installs the kind of a plugin in `tests/fixtures`, which converts it from and to the stored v1, in the group
    /// `PLUGIN.example.com`.
    pub async fn of_fixture(plane: &'static ControlPlane, plugin: &'static str) -> Self {
        let group = &*format!("{plugin}.example.com").leak();
        install(plane, plugin, group, "v1").await;
        let folder = Folder::of_fixture(plugin);
        let original = folder.original().to_vec();
        Self::with(plane, plugin, plugin, group, folder, original).await
    }

    async fn with(
        plane: &'static ControlPlane,
        name: &str,
        plugin: &'static str,
        group: &'static str,
        folder: Folder,
        original: Vec<u8>,
    ) -> Self {
        let certificate = TempDir::new().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
        std::fs::write(certificate.path().join("tls.key"), made.signing_key.serialize_pem()).expect("a key");
        std::fs::write(certificate.path().join("tls.crt"), made.cert.pem()).expect("a certificate");
        let scene = Scene::new(plane, name).await;
        Self { scene, folder, original, certificate, plugin, group, address: "127.0.0.1:0".to_owned() }
    }

    /// The kind in the version that its plugin watches.
    pub fn v1(&self) -> Kind {
        Kind { group: self.group, version: "v1", kind: "Crew", plural: "crews" }
    }

    /// The kind in the other version.
    pub fn v1beta1(&self) -> Kind {
        Kind { version: "v1beta1", ..self.v1() }
    }

    /// The name of the definition.
    pub fn definition(&self) -> String {
        format!("crews.{}", self.group)
    }

    /// Starts a host, with webhooks at the address of the one before.
    pub async fn begin(&mut self) -> Host {
        let mut command = self.scene.start().await.plugins(&[self.folder.path()]).command();
        command.args(["--webhooks", &self.address, "--webhooks-cert-dir"]).arg(self.certificate.path());
        let host = Host::spawn(command);
        self.scene.watch_log(&host);
        let url = host.until("the host serves webhooks", async || host.webhooks()).await;
        self.address = url.trim_start_matches("https://").to_owned();
        host
    }

    /// Starts a host, and waits until it is ready.
    pub async fn host(&mut self) -> Host {
        let host = self.begin().await;
        host.ready().await;
        host
    }

    /// Has the API server ask the host, and waits until it does.
    pub async fn switch_on(&self) {
        self.switch_to(&format!("https://{}", self.address)).await;
        let stored = if self.stored().await == "v1" { "v1beta1" } else { "v1" };
        let other = Kind { version: stored, ..self.v1() };
        self.scene
            .until("the API server asks the host", async || {
                // A dry run is converted to the stored version and back.
                let crew = json!({
                    "apiVersion": other.api_version(), "kind": "Crew",
                    "metadata": { "generateName": "asked-" }, "spec": { "fault": "refuse" },
                });
                let path = format!("{}?dryRun=All", other.path(&self.scene.namespace, None));
                match self.scene.admin.request(http::Method::POST, &path, JSON, &crew).await {
                    Err(refused) if refused.message.contains("no version can say this") => Ok(()),
                    answer => Err(format!("{answer:?}")),
                }
            })
            .await;
    }

    /// Has the API server ask the host before it stores a Crew, too.
    pub async fn register(&self) {
        let authority = self.certificate.path().join("tls.crt");
        let url = format!("https://{}", self.address);
        webhook::register(&self.scene, self.folder.path(), &url, &authority, &self.scene.namespace, &[]).await;
    }

    /// Has the API server store Crews unasked again.
    pub async fn deregister(&self) {
        webhook::deregister(&self.scene, &self.scene.namespace).await;
    }

    /// Tries a dry run, and returns its warnings.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn warnings_of(&self, kind: &Kind, spec: Value) -> Result<Vec<String>, Refused> {
        let metadata = json!({ "generateName": "dry-", "namespace": self.scene.namespace });
        let crew = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec });
        self.scene.admin.warnings_of_a(kind, &crew).await
    }

    /// Has the API server ask another address.
    pub async fn switch_to(&self, url: &str) {
        let authority = std::fs::read(self.certificate.path().join("tls.crt")).expect("a certificate");
        let client = json!({ "url": format!("{url}/convert/{}", self.plugin), "caBundle": STANDARD.encode(authority) });
        let webhook = json!({ "clientConfig": client, "conversionReviewVersions": ["v1"] });
        self.set_conversion(json!({ "strategy": "Webhook", "webhook": webhook })).await;
    }

    /// Has the API server convert nothing but `apiVersion`.
    pub async fn switch_off(&self) {
        self.set_conversion(json!({ "strategy": "None", "webhook": null })).await;
    }

    async fn set_conversion(&self, conversion: Value) {
        let patch = json!({ "spec": { "conversion": conversion } });
        self.scene.admin.merge(&CRD, "", &self.definition(), &patch).await.expect("the definition is changed");
    }

    /// Returns the version that is stored.
    pub async fn stored(&self) -> String {
        let crd = self.scene.admin.get(&CRD, "", &self.definition()).await.expect("the definition");
        let versions = crd["spec"]["versions"].as_array().expect("versions");
        let stored = versions.iter().find(|version| version["storage"] == true).expect("a stored version");
        stored["name"].as_str().expect("a name").to_owned()
    }

    /// Returns the versions in which objects may be stored.
    pub async fn stored_versions(&self) -> Value {
        let crd = self.scene.admin.get(&CRD, "", &self.definition()).await.expect("the definition");
        crd["status"]["storedVersions"].clone()
    }

    /// Stores v1 instead of v1beta1.
    pub async fn store_v1(&self) {
        self.store(true).await;
    }

    /// Stores v1beta1 instead of v1.
    pub async fn store_v1beta1(&self) {
        self.store(false).await;
    }

    async fn store(&self, v1: bool) {
        let patch = json!([
            { "op": "replace", "path": "/spec/versions/0/storage", "value": v1 },
            { "op": "replace", "path": "/spec/versions/1/storage", "value": !v1 },
        ]);
        let patched = self.scene.admin.json_patch(&CRD, "", &self.definition(), &patch).await;
        patched.expect("the definition is changed");
    }

    /// Tries to create a Crew.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn try_create(&self, kind: &Kind, name: &str, spec: Value) -> Result<Value, Refused> {
        let crew = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name }, "spec": spec,
        });
        let path = kind.path(&self.scene.namespace, None);
        self.scene.admin.request(http::Method::POST, &path, JSON, &crew).await
    }

    /// Creates a Crew.
    pub async fn create(&self, kind: &Kind, name: &str, spec: Value) -> Value {
        let created = self.try_create(kind, name, spec).await;
        created.unwrap_or_else(|refused| panic!("{name} is refused: {}", refused.message))
    }

    /// Tries to read a Crew.
    ///
    /// # Errors
    /// The API server's error response.
    pub async fn try_get(&self, kind: &Kind, name: &str) -> Result<Value, Refused> {
        self.scene.admin.get(kind, &self.scene.namespace, name).await
    }

    /// Waits until the host has written the status of a Crew, as it is read in v1.
    pub async fn seen(&self, name: &str, replicas: u32) {
        self.scene.until_object(&self.v1(), name, "is seen", |crew| crew["status"]["seen"] == replicas).await;
    }

    /// Puts another revision of the same logic into the folder, and returns it.
    pub fn swap(&self, number: usize) -> Vec<u8> {
        self.put(&format!("this revision w{number:04}"))
    }

    /// Puts the revision with these words into the folder, and returns it.
    pub fn put(&self, words: &str) -> Vec<u8> {
        self.put_renamed(WORKS, words)
    }

    /// Puts a component into the folder that has another text of the same length, such as the name of an interface, and
    /// returns it.
    pub fn put_renamed(&self, text: &str, other: &str) -> Vec<u8> {
        let component = reworded(&self.original, text, other);
        self.folder.put(&component);
        component
    }

    /// Sends a request to the webhook as a client that is not the API server. Returns the code and the text.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn post(&self, path: &str, body: Vec<u8>) -> Result<(u16, String), String> {
        let (url, authority) = (format!("https://{}", self.address), self.certificate.path().join("tls.crt"));
        webhook::post(&url, &authority, path, body).await
    }

    /// Returns the command that migrates the objects, as the administrator.
    pub fn migration(&self, more: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["storage-migrate", &self.definition()]).args(more);
        command.arg("--kubeconfig").arg(self.scene.plane.file("kubeconfig"));
        command
    }

    /// Migrates the objects.
    pub fn migrate(&self, more: &[&str]) -> Output {
        self.migration(more).output().expect("the program runs")
    }

    /// Removes the kind, so that its objects keep no namespace from being deleted.
    pub async fn end(self) {
        self.switch_off().await;
        self.scene.admin.delete(&CRD, "", &self.definition()).await.expect("the definition goes");
    }
}

async fn install(plane: &ControlPlane, plugin: &str, group: &str, stored: &str) {
    let definition = std::fs::read_to_string(repository("tests/fixtures/converting/crd.yaml")).expect("a CRD");
    let mut definition = definition.replace(GROUP, group);
    if stored != "v1" {
        definition = definition.replace("storage: true", "storage: ").replace("storage: false", "storage: true");
        definition = definition.replace("storage: \n", "storage: false\n");
    }
    let folder = TempDir::new().expect("a folder");
    let file: &Path = &folder.path().join("crd.yaml");
    std::fs::write(file, definition).expect("a CRD is written");
    plane.install_definition(file).await;
    plane.create_account(plugin).await;
    plane.allow_impersonation(plugin).await;
    let groups = json!([group]);
    let of_plugin = json!([{ "apiGroups": groups, "resources": ["crews/status"], "verbs": ["patch"] }]);
    let of_host = json!([
        { "apiGroups": groups, "resources": ["crews"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": groups, "resources": ["crews/status"], "verbs": ["patch"] },
    ]);
    plane.grant(plugin, &format!("tests-{group}"), &of_plugin).await;
    plane.grant("hotshoe", &format!("tests-{group}-host"), &of_host).await;
}
