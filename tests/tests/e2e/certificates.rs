//! A host that keeps the CA of its webhooks itself, and registers them. Each test has a namespace for its host, too,
//! with exactly the rights that `hotshoe rbac --webhooks` prints.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::authority::{self, SECRET_NAME as CA, SECRET_TYPE, bundle, ca_that_ends_in};
use hotshoe_tests::control_plane::ControlPlane;
use hotshoe_tests::faulty::{fault, scene_with_faults, serves, until_scale_is_refused};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{CRD, FAULT, MEMCACHED, PLUGIN, SECRET, VALIDATING_WEBHOOK};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, repository, run};
use http::{Method, Request, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep_until;

/// What a host without the rights for webhooks is to be granted.
const ADVICE: &str = "apply what `hotshoe rbac --webhooks` prints";
/// The label of the objects of one test.
const LABEL: &str = "tests.example.com/scene";

/// A plugin, and the namespace and account of a host that serves its webhooks.
struct Setting {
    scene: Scene,
    folder: Folder,
    /// The namespace of the host.
    system: String,
    /// The account of the host.
    account: String,
    /// The name of the plugin.
    plugin: String,
}

impl Setting {
    /// Prepares a host without the rights for webhooks.
    async fn without_rights(name: &str) -> Self {
        let folder = Folder::of_faulty();
        folder.edit("  grants:\n", "  admission: Enforce\n  grants:\n");
        let setting = Self::of(scene_with_faults(name).await, folder, "faulty").await;
        setting.grant(&[]).await;
        setting
    }

    async fn of(scene: Scene, folder: Folder, plugin: &str) -> Self {
        let (system, account) = (format!("{}-system", scene.namespace), format!("host-{}", scene.namespace));
        scene.plane.create_namespace(&system).await;
        Self { scene, folder, system, account, plugin: plugin.to_owned() }
    }

    async fn new(name: &str) -> Self {
        let setting = Self::without_rights(name).await;
        setting.grant(&["--webhooks"]).await;
        setting
    }

    /// Applies what `hotshoe rbac` prints for the plugin with these options.
    async fn grant(&self, options: &[&str]) {
        let folder = self.folder.path().display().to_string();
        self.grant_for(&[&[&*folder], options].concat()).await;
    }

    async fn grant_for(&self, arguments: &[&str]) {
        let places = ["--namespace", &self.system, "--watch-namespace", &self.scene.namespace];
        self.scene.plane.apply_rights(&[arguments, &places].concat(), &self.account).await;
    }

    async fn options(&self) -> Start {
        let kubeconfig = self.scene.plane.kubeconfig_of(&self.system, &self.account).await;
        self.scene.start().await.plugins(&[self.folder.path()]).kubeconfig(&kubeconfig)
    }

    /// Returns the command of a host that serves webhooks on any port.
    fn command(&self, options: &Start) -> Command {
        let mut command = options.command();
        command.args(["--service-account-namespace", &self.system]);
        command.args(["--webhooks", "127.0.0.1:0", "--webhooks-url", "https://127.0.0.1"]);
        command
    }

    /// Starts a host, and waits until it is ready.
    async fn host(&mut self) -> Host {
        let host = Host::spawn(self.command(&self.options().await));
        self.scene.watch_log(&host);
        host.ready().await;
        host
    }

    /// The name of the registration.
    fn name(&self) -> String {
        format!("{}-{}.{}", self.account, self.plugin, self.scene.namespace)
    }

    async fn registration(&self) -> Result<Value, String> {
        let found = self.scene.admin.get(&VALIDATING_WEBHOOK, "", &self.name()).await;
        found.map_err(|refused| refused.message)
    }

    /// Waits until there is a registration with a bundle, for which this holds.
    async fn until_registered(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.scene
            .until(what, async || {
                let registration = self.registration().await?;
                let is_it = !bundle(&registration).is_empty() && holds(&registration);
                if is_it { Ok(registration) } else { Err(format!("{registration:#}")) }
            })
            .await
    }

    async fn until_unregistered(&self) {
        self.scene.gone_from_cluster(&VALIDATING_WEBHOOK, &self.name()).await;
    }

    /// Creates parents that the plugin rejects until one is refused, which may take some: a decision that takes long
    /// admits.
    async fn until_refused(&self) {
        let scene = &self.scene;
        scene
            .until("a parent is refused", async || match scene.try_create(fault("bad", "reject")).await {
                Err(refused) if refused.message.contains("spec.fault: no plugin can serve this") => Ok(()),
                Err(refused) if refused.code != 409 => Err(refused.message),
                _ => {
                    scene.delete(&FAULT, "bad").await;
                    scene.gone(&FAULT, "bad").await;
                    Err("it was stored".to_owned())
                }
            })
            .await;
    }

    async fn secret(&self) -> Result<Value, String> {
        let found = self.scene.admin.get(&SECRET, &self.system, CA).await;
        found.map_err(|refused| refused.message)
    }

    /// Puts this into the Secret of the CA.
    async fn put_secret(&self, type_: &str, certificates: &str, keys: &str) {
        let secret = authority::secret(&self.system, type_, certificates, keys);
        self.scene.admin.apply("tests", &secret).await.expect("the Secret is applied");
    }

    async fn end(&self, host: Host) {
        drop(host);
        drop(self.scene.admin.delete(&VALIDATING_WEBHOOK, "", &self.name()).await);
    }
}

/// Returns whether the host owns the versions of a definition.
fn owns_versions(definition: &Value) -> bool {
    let entries = definition["metadata"]["managedFields"].as_array().expect("a list");
    let owns = |entry: &Value| entry["manager"] == "hotshoe" && entry.pointer("/fieldsV1/f:spec/f:versions").is_some();
    entries.iter().any(owns)
}

/// Asks a host's webhook as a client that trusts these CAs. Returns whether TLS succeeded.
async fn trusts(host: &Host, authorities: &[Vec<u8>]) -> Result<(), String> {
    let mut config = kube::Config::new(host.webhooks()?.parse().expect("a URL"));
    config.root_cert = Some(authorities.to_vec());
    config.default_retry = false;
    let client = kube::Client::try_from(config).expect("a client");
    let request = Request::post("/validate/faulty").body(Body::from(b"{}".to_vec())).expect("a request");
    let answer = client.send(request).await.map_err(|error| format!("{error:?}"))?;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "it is no review");
    Ok(())
}

#[test]
fn a_host_may_read_what_a_scale_of_a_parent_sets() {
    run(async {
        let mut setting = Setting::new("ca-scales").await;
        let host = setting.host().await;
        setting.until_registered("it is registered", |_| true).await;
        let scene = &setting.scene;
        let mut large = fault("large", "large");
        large["spec"]["size"] = json!(5);
        scene.create(large).await;
        until_scale_is_refused(scene, "large", [5, 11], "spec.size: it is more than 10").await;
        setting.end(host).await;
    });
}

#[test]
fn a_host_with_its_own_ca_registers_itself_and_puts_the_registration_back() {
    run(async {
        let mut setting = Setting::new("ca-registers").await;
        let host = setting.host().await;
        let first = setting.until_registered("it is registered", |_| true).await;
        assert_eq!(bundle(&first).len(), 1);
        let url = first["webhooks"][0]["clientConfig"]["url"].as_str().expect("a URL");
        assert_eq!(url, format!("{}/validate/faulty", host.webhooks().expect("a URL")));
        setting.until_refused().await;

        let (admin, name) = (&setting.scene.admin, setting.name());
        admin.delete(&VALIDATING_WEBHOOK, "", &name).await.expect("it is deleted");
        let is_new = |registration: &Value| registration["metadata"]["uid"] != first["metadata"]["uid"];
        setting.until_registered("it is back", is_new).await;
        for (path, value) in [
            ("/webhooks/0/clientConfig/caBundle", json!("")),
            ("/webhooks/0/clientConfig/url", json!("https://127.0.0.1:1")),
            ("/webhooks", json!([])),
        ] {
            let patch = json!([{ "op": "replace", "path": path, "value": value }]);
            admin.json_patch(&VALIDATING_WEBHOOK, "", &name, &patch).await.expect("it is changed");
            let is_back = |registration: &Value| registration["webhooks"] == first["webhooks"];
            setting.until_registered(&format!("{path} is back"), is_back).await;
        }
        setting.until_refused().await;

        setting.folder.edit("admission: Enforce", "admission: Off");
        setting.until_unregistered().await;
        setting.end(host).await;
    });
}

#[test]
fn a_registration_that_is_not_the_hosts_own_is_neither_changed_nor_deleted() {
    run(async {
        let mut setting = Setting::new("ca-foreign").await;
        let foreign = json!({
            "apiVersion": VALIDATING_WEBHOOK.api_version(),
            "kind": VALIDATING_WEBHOOK.kind,
            "metadata": { "name": setting.name() },
        });
        let before = setting.scene.admin.create(&foreign).await.expect("a registration");
        let host = setting.host().await;
        host.until_logged(&["WARN", &setting.name(), "is not of this plugin"]).await;
        setting.folder.edit("admission: Enforce", "admission: Off");
        host.until_logged(&["INFO", "the webhooks of the plugin are registered again"]).await;
        assert_eq!(setting.registration().await, Ok(before));
        setting.end(host).await;
    });
}

#[test]
fn replicas_share_one_ca_and_all_of_them_are_trusted() {
    run(async {
        let mut setting = Setting::new("ca-replicas").await;
        let options = setting.options().await.shards(1);
        let hosts = [(); 2].map(|()| Host::spawn(setting.command(&options)));
        setting.scene.watch_log(&hosts[0]);
        let registration = setting.until_registered("one of them registers", |_| true).await;
        let bundle = bundle(&registration);
        assert_eq!(bundle.len(), 1);
        for host in &hosts {
            host.until("it is trusted", async || trusts(host, &bundle).await).await;
        }
        let written = hosts.iter().filter(|host| host.log().contains("is written: the API server asks"));
        assert_eq!(written.count(), 1, "the other one stands by");
        for host in hosts {
            setting.end(host).await;
        }
    });
}

#[test]
fn while_a_ca_replaces_one_that_ends_every_parent_is_stored_and_every_certificate_is_trusted() {
    run(async {
        let mut setting = Setting::new("ca-rotation").await;
        // It hands over after half of what is left.
        let (old, key) = ca_that_ends_in(Duration::from_secs(150));
        setting.put_secret(SECRET_TYPE, &old, &key).await;
        let host = setting.host().await;
        let both = bundle(&setting.until_registered("both are in the bundle", |it| bundle(it).len() == 2).await);
        let (old, new) = (&both[..1], &both[1..]);
        assert!(trusts(&host, old).await.is_ok(), "the old one still signs");
        assert!(trusts(&host, new).await.is_err());
        setting.until_refused().await;
        let scene = &setting.scene;
        // The API server asks about a dry run as about any creation, and nothing is left of it.
        let mut parent = fault("during", "");
        parent["metadata"]["namespace"] = scene.namespace.clone().into();
        scene
            .until_within(Duration::from_secs(180), "the new one signs", async || {
                let created = scene.admin.warnings_of(&parent).await;
                created.unwrap_or_else(|refused| panic!("a creation is refused: {}", refused.message));
                let registered = bundle(&setting.registration().await?);
                trusts(&host, &registered).await.unwrap_or_else(|error| panic!("it is not trusted: {error}"));
                trusts(&host, new).await
            })
            .await;
        let keys =
            setting.secret().await.expect("a Secret")["data"]["ca.key"].as_str().map(|keys| STANDARD.decode(keys));
        let keys = String::from_utf8(keys.expect("keys").expect("Base64")).expect("PEM");
        assert_eq!(keys.matches("BEGIN PRIVATE KEY").count(), 1, "the key of the old one is gone");
        setting.until_refused().await;
        setting.end(host).await;
    });
}

#[test]
fn a_host_that_slept_past_the_end_of_its_certificate_is_trusted_again_once_it_wakes() {
    run(async {
        let mut setting = Setting::new("ca-slept").await;
        let host = setting.host().await;
        let first = bundle(&setting.until_registered("it is registered", |_| true).await);
        let left = Duration::from_secs(40);
        let (ending, key) = ca_that_ends_in(left);
        let ends = Instant::now() + left;
        setting.put_secret(SECRET_TYPE, &ending, &key).await;
        let is_another = |it: &Value| bundle(it).len() == 2 && !bundle(it).contains(&first[0]);
        let both = bundle(&setting.until_registered("another CA that ends is in use", is_another).await);
        host.until("it signs", async || trusts(&host, &both[..1]).await).await;
        host.freeze();
        assert!(Instant::now() < ends, "the machine is too slow for this test");
        sleep_until(ends.into()).await;
        host.thaw();
        let alone = setting.until_registered("its successor is alone", |it| bundle(it) == both[1..]).await;
        host.until("it is trusted", async || trusts(&host, &bundle(&alone)).await).await;
        setting.until_refused().await;
        setting.end(host).await;
    });
}

#[test]
fn rubbish_in_the_hosts_own_secret_is_replaced_and_a_secret_of_others_is_named() {
    run(async {
        let mut setting = Setting::new("ca-rubbish").await;
        setting.put_secret("Opaque", "theirs", "theirs").await;
        let before = setting.secret().await.expect("a Secret");
        let host = setting.host().await;
        host.until_logged(&["WARN", CA, "is not the host's own", "delete it"]).await;
        assert_eq!(setting.secret().await, Ok(before));

        setting.scene.admin.delete(&SECRET, &setting.system, CA).await.expect("it is deleted");
        let first = bundle(&setting.until_registered("a CA is made", |_| true).await);
        setting.put_secret(SECRET_TYPE, "rubbish", "rubbish").await;
        host.until_logged(&["WARN", CA, "is removed"]).await;
        setting.until_registered("there is another CA", |registration| bundle(registration) != first).await;
        setting.until_refused().await;
        setting.end(host).await;
    });
}

#[test]
fn a_host_without_the_rights_serves_says_what_it_lacks_and_registers_once_it_has_them() {
    run(async {
        let mut setting = Setting::without_rights("ca-rights").await;
        let host = setting.host().await;
        host.until_logged(&["WARN", "the CA of the webhooks cannot be kept", "secrets", "forbidden", ADVICE]).await;
        host.until_logged(&["WARN", "the webhooks of the plugin are not registered", "no certificate"]).await;
        serves(&setting.scene, "served").await;
        setting.grant(&["--webhooks"]).await;
        setting.until_refused().await;
        setting.end(host).await;
    });
}

#[test]
fn the_registration_of_a_plugin_object_goes_with_it_and_what_is_wrong_with_it_is_in_the_status() {
    run(async {
        let mut setting = Setting::without_rights("ca-object").await;
        let plane: &ControlPlane = setting.scene.plane;
        plane.install_definition(&repository("crds/hotshoe.dev_plugins.yaml")).await;
        setting.plugin = format!("faulty-{}", setting.scene.namespace);
        setting.folder.edit("name: faulty\n", &format!("name: {}\n", setting.plugin));
        setting.grant_for(&["--host-only", "--webhooks"]).await;
        let folder: PathBuf = setting.folder.path().to_owned();
        let folder = folder.display().to_string();
        let of_plugin = ["--plugin-only", &folder, "--components", &folder];
        setting.grant_for(&of_plugin).await;

        let options = setting.options().await.plugins(&[]);
        let mut command = setting.command(&options);
        command.args(["--plugin-selector", &format!("{LABEL}={}", setting.scene.namespace)]);
        let host = Host::spawn(command);
        setting.scene.watch_log(&host);
        let text = std::fs::read_to_string(setting.folder.plugin_file()).expect("plugin.yaml is read");
        let mut object = hotshoe_tests::kube::documents(&text).remove(0);
        object["metadata"]["labels"] = json!({ LABEL: setting.scene.namespace });
        object["spec"]["source"] = json!({ "file": setting.folder.component() });
        setting.scene.admin.create(&object).await.expect("a Plugin");
        setting
            .scene
            .until("the status says what is missing", async || {
                let found = setting.scene.admin.get(&PLUGIN, "", &setting.plugin).await;
                let object = found.map_err(|refused| refused.message)?;
                let (_, _, message) = condition_parts(&object, "Ready");
                let says = message.contains("its webhooks are not registered") && message.contains(ADVICE);
                if says { Ok(()) } else { Err(format!("{:#}", object["status"])) }
            })
            .await;
        host.until_logged(&["WARN", "the webhooks of the plugin are not registered", ADVICE]).await;
        setting.grant_for(&[&of_plugin[..], &["--webhooks"]].concat()).await;
        let registration = setting.until_registered("it is registered", |_| true).await;
        assert_eq!(registration["metadata"]["ownerReferences"][0]["name"], *setting.plugin);
        setting.scene.admin.delete(&PLUGIN, "", &setting.plugin).await.expect("it is deleted");
        setting.until_unregistered().await;
        setting.end(host).await;
    });
}

#[test]
fn a_kind_is_converted_by_its_plugin_as_soon_as_the_host_has_registered_that() {
    run(async {
        // In another group, of the same length, for the definition is the cluster's.
        let (former, group) = (MEMCACHED.group, "coach.example.com");
        let scene = scene_with_faults("ca-converts").await;
        let folder = Folder::of_memcached();
        folder.edit(former, group);
        folder.put(&reworded(folder.original(), former, group));
        let definition = std::fs::read_to_string(repository("crds/cache.example.com_memcacheds.yaml")).expect("a CRD");
        let definition = definition.replace(former, group);
        let file = folder.path().join("crd.yaml");
        std::fs::write(&file, &definition).expect("a CRD is written");
        scene.plane.install_definition(&file).await;
        let mut setting = Setting::of(scene, folder, "memcached").await;
        setting.grant(&["--webhooks"]).await;
        let host = setting.host().await;

        let (admin, namespace) = (&setting.scene.admin, &setting.scene.namespace);
        let path = |version: &str| format!("/apis/{group}/{version}/namespaces/{namespace}/memcacheds");
        let object = json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": MEMCACHED.kind,
            "metadata": { "name": "cache" }, "spec": { "replicas": 2 },
        });
        setting
            .scene
            .until("the other version is served", async || {
                match admin.request(Method::POST, &path("v1beta1"), "application/json", &object).await {
                    Err(refused) if refused.code != 409 => Err(refused.message),
                    _ => Ok(()),
                }
            })
            .await;
        let read = |version: &str| {
            let path = format!("{}/cache", path(version));
            async move { admin.request(Method::GET, &path, "application/json", &Value::Null).await }
        };
        setting
            .scene
            .until("it is read in both versions", async || {
                let (stored, written) = (read("v1").await, read("v1beta1").await);
                let (Ok(stored), Ok(written)) = (&stored, &written) else {
                    return Err(format!("{stored:?} {written:?}"));
                };
                assert_eq!((&stored["spec"]["size"], &written["spec"]["replicas"]), (&json!(2), &json!(2)));
                Ok(())
            })
            .await;

        let name = format!("memcacheds.{group}");
        let served = |crd: &Value| crd.pointer("/spec/versions/1/served") == Some(&json!(true));
        let definition = &hotshoe_tests::kube::documents(&definition)[0];
        assert!(!served(definition), "applied again, it takes v1beta1 away");
        for _ in 0..2 {
            setting
                .scene
                .until("v1beta1 is served, and the host owns no versions", async || {
                    let crd = admin.get(&CRD, "", &name).await.map_err(|refused| refused.message)?;
                    if served(&crd) && !owns_versions(&crd) { Ok(()) } else { Err(format!("{crd:#}")) }
                })
                .await;
            let path = format!("{}?fieldManager=kubectl", CRD.path("", Some(&name)));
            let applied = admin.request(Method::PATCH, &path, "application/apply-patch+yaml", definition).await;
            assert!(!served(&applied.expect("it conflicts with nothing")));
        }
        let none = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
        admin.merge(&CRD, "", &name, &none).await.expect("it is switched off");
        setting
            .scene
            .until("it is switched on again", async || {
                let crd = admin.get(&CRD, "", &name).await.map_err(|refused| refused.message)?;
                let conversion = &crd["spec"]["conversion"];
                if conversion["strategy"] == "Webhook" { Ok(()) } else { Err(conversion.to_string()) }
            })
            .await;
        drop(host);
        // The API server records a watch when it ends.
        let account = format!("system:serviceaccount:{}:{}", setting.system, setting.account);
        setting
            .scene
            .until("the host has watched the definition", async || {
                let requests = setting.scene.plane.audit_of(&account);
                let is_watch = |entry: &&Entry| entry.verb == "watch" && entry.is_about("customresourcedefinitions");
                let found = requests.iter().find(is_watch).map(|watch| watch.code);
                found.filter(|code| *code == 200).map(drop).ok_or_else(|| format!("{found:?}"))
            })
            .await;
        admin.delete(&CRD, "", &name).await.expect("the CRD goes");
    });
}
