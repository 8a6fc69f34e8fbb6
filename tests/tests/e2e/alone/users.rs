//! What users of a namespace try against parents that are another's: every row of the table in docs/src/security.md,
//! beside a parent of a namespace and one of the cluster, against each step of the host.

use futures::StreamExt;
use futures::future::join_all;
use hotshoe_tests::attacks::users::{ATTEMPTS, Attempt, Fate, Name, USERS_FINALIZER, Victim, Where};
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{
    ATTACK, CONFIG_MAP, DEPLOYMENT, EVENT, Kind, MEMCACHED, NAMESPACE, NETWORK_POLICY, QUOTA, SERVICE, TENANT,
};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{ControlPlane, Host, Kube, Scene, memcached, repository};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::run_alone;

/// The label of the namespaces that tenants may have.
const GIVEN: &str = "platform.example.com/tenants";
/// How many objects a user creates at once.
const AT_ONCE: usize = 16;

/// A host with several plugins in all namespaces, under an account with exactly the rights that `hotshoe rbac` prints.
struct Rig {
    /// The namespace of the parents.
    scene: Scene,
    /// The namespace of the user.
    evil: Scene,
    /// A user who may edit what is in both namespaces.
    user: Kube,
    host: Host,
    start: Start,
    _cache: TempDir,
}

impl Rig {
    async fn new(name: &str, folders: &[&Folder]) -> Self {
        let plane = ControlPlane::alone().await;
        let (mut scene, evil) = (Scene::new(plane, name).await, Scene::new(plane, "evil").await);
        let (account, user) = (format!("{name}-host"), format!("{name}-user"));
        plane.create_account(&user).await;
        for namespace in [&scene, &evil] {
            plane.bind(&user, "edit", &namespace.namespace).await;
        }
        let paths: Vec<_> = folders.iter().map(|folder| folder.path()).collect();
        let arguments: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        plane.apply_rights(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &account).await;
        let kubeconfig = plane.kubeconfig_of(SYSTEM, &account).await;
        let cache = TempDir::new().expect("a folder");
        let start = Start::new(plane).await.plugins(&paths).kubeconfig(&kubeconfig).cache(cache.path());
        let host = start.ready().await;
        scene.watch_log(&host);
        let user = Kube::of(&plane.kubeconfig_of(SYSTEM, &user).await).await;
        Self { scene, evil, user, host, start, _cache: cache }
    }

    /// Lets the user create objects, and delete them where they are to be held by a finalizer.
    async fn forge(&self, attempt: &Attempt, objects: Vec<Value>, kind: &Kind, plugin: &str) {
        let namespace = match attempt.forgery.place {
            Where::Elsewhere => &self.evil.namespace,
            Where::Beside => &self.scene.namespace,
        };
        let create = |mut object: Value| async move {
            object["metadata"]["namespace"] = namespace.clone().into();
            let created = match attempt.forgery.applied {
                true => self.user.apply(&format!("hotshoe/{plugin}"), &object).await,
                false => self.user.create(&object).await,
            };
            created.unwrap_or_else(|refused| panic!("{}: {}", attempt.name, refused.message));
            if attempt.forgery.held {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                drop(self.user.delete(kind, namespace, &name).await);
            }
        };
        futures::stream::iter(objects).map(create).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    }

    /// Removes the user's finalizers, so that the namespaces can go.
    async fn release(&self, kind: &Kind) {
        for namespace in [&self.scene, &self.evil] {
            for object in namespace.list(kind).await {
                if object["metadata"]["finalizers"] == json!([USERS_FINALIZER]) {
                    let name = object["metadata"]["name"].as_str().unwrap_or_default();
                    namespace.merge(kind, name, json!({ "metadata": { "finalizers": null } })).await;
                }
            }
        }
    }

    async fn metric(&self, line: &str) -> u64 {
        let (_, metrics) = self.host.get("/metrics").await.expect("metrics");
        metrics.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok()).unwrap_or(0)
    }
}

/// One row of the table beside one parent.
struct Trial<'a> {
    rig: &'a Rig,
    row: &'static Attempt,
    number: usize,
    /// Whether the parent is a Tenant and not a Memcached.
    of_cluster: bool,
    /// The second namespace of tenants.
    second: &'a Scene,
}

/// Returns each row of the table beside each kind of parent.
fn trials<'a>(rig: &'a Rig, second: &'a Scene, of_cluster: bool) -> Vec<Trial<'a>> {
    let row = |(number, row)| Trial { rig, row, number, of_cluster, second };
    ATTEMPTS.iter().enumerate().map(row).collect()
}

impl Trial<'_> {
    fn fate(&self) -> Fate {
        if self.of_cluster { self.row.of_cluster } else { self.row.of_namespaced }
    }

    fn kind(&self) -> Kind {
        if self.of_cluster { TENANT } else { MEMCACHED }
    }

    fn name(&self) -> String {
        if self.of_cluster { format!("users-{}", self.number) } else { format!("m-{}", self.number) }
    }

    /// The name of a child that is deleted and must come back.
    fn child(&self) -> (Kind, String) {
        match self.of_cluster {
            true => (NETWORK_POLICY, format!("tenant-{}", self.name())),
            false => (SERVICE, format!("{}-service", self.name())),
        }
    }

    /// The kind of the forged objects, and their content.
    fn forged(&self) -> (Kind, fn(usize) -> Value) {
        match self.of_cluster {
            true => (NETWORK_POLICY, policy),
            // Services are not that large.
            false if self.row.forgery.kilobytes > 0 => (DEPLOYMENT, deployment),
            false => (SERVICE, service),
        }
    }

    async fn parent(&self) -> Result<Value, String> {
        let namespace = if self.of_cluster { "" } else { &self.rig.scene.namespace };
        self.rig.scene.admin.get(&self.kind(), namespace, &self.name()).await.map_err(|refused| refused.message)
    }

    async fn begin(&self) {
        let scene = &self.rig.scene;
        if self.of_cluster {
            let tenant = json!({
                "apiVersion": TENANT.api_version(), "kind": TENANT.kind, "metadata": { "name": self.name() },
                "spec": { "namespaces": [scene.namespace, self.second.namespace], "quota": { "pods": 100 } },
            });
            scene.admin.create(&tenant).await.expect("a tenant");
        } else {
            scene.create(memcached(&self.name(), 1)).await;
        }
        let (kind, name) = self.child();
        scene.until_object(&kind, &name, "is there", |_| true).await;
    }

    async fn forge(&self) {
        let (parent, child) = (self.parent().await.expect("the parent"), self.child().1);
        let (plugin, covered) = match self.of_cluster {
            true => ("tenant", format!("tenant-x-{}", self.number)),
            false => ("memcached", format!("x-{}-service", self.number)),
        };
        let forged = self.forged();
        let victim =
            Victim { plugin, kind: self.kind(), parent: &parent, child: forged, covered: &covered, taken: &child };
        let objects = self.row.forgery.objects(&victim, self.number);
        self.rig.forge(self.row, objects, &forged.0, plugin).await;
        if self.fate() == Fate::Deleted {
            assert_eq!(self.row.forgery.name, Name::Covered);
            self.rig.scene.gone(&forged.0, &covered).await;
        }
    }

    /// Waits until the parent says what becomes of the objects.
    async fn is_reported(&self) {
        if self.fate() != Fate::Ignored {
            return;
        }
        let count = self.row.forgery.count;
        let says = if count == 1 { "1 object ".to_owned() } else { format!("{count} objects ") };
        let what = format!("{} is reported on {}", self.row.name, self.name());
        let parent = self
            .rig
            .scene
            .until(&what, async || {
                let parent = self.parent().await?;
                let (status, reason, message) = condition_parts(&parent, "ChildrenIgnored");
                let is_it = (status, reason) == ("True", "OutsideGrant") && message.starts_with(&says);
                if is_it { Ok(parent.clone()) } else { Err(format!("{:#}", parent["status"])) }
            })
            .await;
        let message = condition_parts(&parent, "ChildrenIgnored").2;
        assert!(message.len() < 1_000 && !message.contains("names: [") && !message.contains("allow"), "{message}");
    }

    /// Changes the parent, and waits until its children follow.
    async fn reconciles(&self, value: u32) {
        let (scene, name) = (&self.rig.scene, self.name());
        if self.of_cluster {
            let pods = (100 - value).to_string();
            let patch = json!({ "spec": { "quota": { "pods": 100 - value } } });
            scene.admin.merge(&TENANT, "", &name, &patch).await.expect("a lowered quota");
            for namespace in [scene, self.second] {
                let is_lowered = |quota: &Value| quota["spec"]["hard"]["pods"] == pods.as_str();
                namespace
                    .until_object(&QUOTA, &self.child().1, &format!("is lowered beside {}", self.row.name), is_lowered)
                    .await;
            }
        } else {
            scene.merge(&MEMCACHED, &name, json!({ "spec": { "size": value } })).await;
            let is_scaled = |deployment: &Value| deployment["spec"]["replicas"] == json!(value);
            scene.until_object(&DEPLOYMENT, &name, &format!("is scaled beside {}", self.row.name), is_scaled).await;
        }
    }

    /// Deletes a child, and waits until it is back.
    async fn is_repaired(&self) {
        let (kind, name) = self.child();
        let before = self.rig.scene.get(&kind, &name).await["metadata"]["uid"].clone();
        self.rig.scene.delete(&kind, &name).await;
        let is_new = |child: &Value| child["metadata"]["uid"] != before;
        self.rig.scene.until_object(&kind, &name, &format!("is back beside {}", self.row.name), is_new).await;
    }

    /// Takes a namespace from a tenant, and waits until the children there are pruned.
    async fn prunes(&self) {
        if !self.of_cluster {
            return;
        }
        let (scene, name) = (&self.rig.scene, self.name());
        let one = json!({ "spec": { "namespaces": [scene.namespace] } });
        scene.admin.merge(&TENANT, "", &name, &one).await.expect("a change");
        self.second.gone(&NETWORK_POLICY, &self.child().1).await;
        let both = json!({ "spec": { "namespaces": [scene.namespace, self.second.namespace] } });
        scene.admin.merge(&TENANT, "", &name, &both).await.expect("a change");
        self.second.until_object(&NETWORK_POLICY, &self.child().1, "is there again", |_| true).await;
    }

    /// Checks that nothing is wrong with the parent.
    async fn is_well(&self) {
        let parent = self.parent().await.expect("the parent");
        assert_ne!(condition_parts(&parent, "Reconciled").0, "False", "{}: {:#}", self.row.name, parent["status"]);
        if self.fate() == Fate::NoChild {
            assert_eq!(condition_parts(&parent, "ChildrenIgnored").0, "", "{}: {:#}", self.row.name, parent["status"]);
        }
    }

    async fn is_deleted(&self) {
        let (scene, name) = (&self.rig.scene, self.name());
        if self.of_cluster {
            scene.admin.delete(&TENANT, "", &name).await.expect("a deletion");
            scene.gone_from_cluster(&TENANT, &name).await;
            self.second.gone(&QUOTA, &self.child().1).await;
        } else {
            scene.delete(&MEMCACHED, &name).await;
            scene.gone(&MEMCACHED, &name).await;
        }
        let (kind, child) = self.child();
        scene.gone(&kind, &child).await;
    }
}

fn service(_: usize) -> Value {
    json!({ "ports": [{ "port": 80 }] })
}

fn policy(kilobytes: usize) -> Value {
    let values: Vec<String> = (0..kilobytes * 16).map(|number| format!("{number:063}")).collect();
    let large = json!([{ "key": "app", "operator": "In", "values": values }]);
    let expressions = if values.is_empty() { json!([]) } else { large };
    json!({
        "podSelector": { "matchLabels": { "app": "none" }, "matchExpressions": expressions },
        "policyTypes": ["Ingress"],
    })
}

fn deployment(kilobytes: usize) -> Value {
    let env = json!([{ "name": "LARGE", "value": "x".repeat(kilobytes * 1_000) }]);
    let container = json!({ "name": "c", "image": "example.com/none", "env": env });
    json!({
        "replicas": 0,
        "selector": { "matchLabels": { "app": "none" } },
        "template": { "metadata": { "labels": { "app": "none" } }, "spec": { "containers": [container] } },
    })
}

/// Returns a component with the same logic and another digest: with one more custom section.
fn another(component: &[u8]) -> Vec<u8> {
    const SECTION: &[u8] = b"\0\x05\x04more";
    [component, SECTION].concat()
}

#[test]
fn what_users_forge_stops_no_step_of_a_parent_of_a_namespace() {
    run_alone(every_row_against_every_step("users", false));
}

#[test]
fn what_users_forge_stops_no_step_of_a_parent_of_the_cluster() {
    run_alone(every_row_against_every_step("tenants", true));
}

async fn every_row_against_every_step(name: &str, of_cluster: bool) {
    let plane = ControlPlane::alone().await;
    plane.install_definition(&repository("crds/platform.example.com_tenants.yaml")).await;
    let folders = [Folder::of_memcached(), Folder::of_plugin("tenant")];
    folders[0].edit("      kind: Service\n", "      kind: Service\n      names: [\"*-service\"]\n");
    let mut rig = Rig::new(name, &folders.each_ref()).await;
    let second = Scene::new(plane, "users-second").await;
    for namespace in [&rig.scene, &second] {
        let given = json!({ "metadata": { "labels": { GIVEN: "true" } } });
        plane.admin.merge(&NAMESPACE, "", &namespace.namespace, &given).await.expect("a label");
    }
    let all = trials(&rig, &second, of_cluster);
    join_all(all.iter().map(Trial::begin)).await;
    for trial in &all {
        trial.forge().await;
    }
    join_all(all.iter().map(Trial::is_reported)).await;
    join_all(all.iter().map(|trial| trial.reconciles(2))).await;
    join_all(all.iter().map(Trial::is_repaired)).await;
    join_all(all.iter().map(Trial::prunes)).await;
    join_all(all.iter().map(Trial::is_well)).await;
    let plugin = if of_cluster { "tenant" } else { "memcached" };
    let ignored = rig.metric(&format!("hotshoe_children_ignored_total{{controller=\"{plugin}\"}}")).await;
    assert!(ignored >= 500, "{plugin}: {ignored}");
    let of_500 = all.iter().filter(|trial| trial.row.forgery.count == 500 && !trial.of_cluster);
    let names: Vec<String> = of_500.map(Trial::name).collect();
    let conditions = rig.scene.recorded_writes().await.into_iter().filter(|entry| {
        entry.is_about("memcacheds/status")
            && entry.user.ends_with(&format!(":{name}-host"))
            && names.contains(&entry.name)
    });
    // 500 objects are stated with the first of them and once or twice later, and not for each object.
    assert!(conditions.count() < 20);

    for (folder, plugin) in folders.iter().zip(["memcached", "tenant"]) {
        let before = rig.host.plugin_named(plugin).await.expect("the plugin")["digest"].clone();
        folder.put(&another(folder.original()));
        rig.host
            .until("another component decides", async || {
                let now = rig.host.plugin_named(plugin).await?;
                if now["digest"] == before { Err(format!("{now:#}")) } else { Ok(()) }
            })
            .await;
    }
    join_all(all.iter().map(|trial| trial.reconciles(3))).await;
    join_all(all.iter().map(Trial::is_well)).await;

    drop(all);
    rig.host.stop();
    rig.host = rig.start.ready().await;
    let log = rig.host.log_file();
    let all = trials(&rig, &second, of_cluster);
    join_all(all.iter().map(|trial| trial.reconciles(1))).await;
    join_all(all.iter().map(Trial::is_reported)).await;
    join_all(all.iter().map(Trial::is_well)).await;
    join_all(all.iter().map(Trial::is_deleted)).await;
    drop(all);
    for kind in [SERVICE, NETWORK_POLICY] {
        rig.release(&kind).await;
    }
    assert!(!std::fs::read_to_string(log).unwrap_or_default().contains("panicked"), "{}", rig.host.log());
}

#[test]
fn a_memcached_and_its_namespace_go_while_a_forged_child_in_another_namespace_stays() {
    run_alone(async {
        let folder = Folder::of_memcached();
        let rig = Rig::new("neighbour", &[&folder]).await;
        let cache = rig.scene.create(memcached("cache", 1)).await;
        rig.scene.available("cache").await;
        let mut forged = held_child("memcached", &cache, &SERVICE, &rig.evil.namespace);
        forged["spec"] = service(0);
        rig.user.create(&forged).await.expect("a user may create it");
        // The garbage collector finds no owner in this namespace, and the finalizer keeps the object.
        let is_held = |object: &Value| object["metadata"]["deletionTimestamp"].is_string();
        rig.evil.until_object(&SERVICE, "forged", "is being deleted", is_held).await;
        rig.scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": 3 } })).await;
        rig.scene.available("cache").await;
        rig.scene.delete(&MEMCACHED, "cache").await;
        rig.scene.gone(&MEMCACHED, "cache").await;
        plane_deletes(&rig.scene).await;
        rig.scene.gone_namespace().await;
        assert!(rig.evil.find(&SERVICE, "forged").await.is_some());
        rig.release_evil(&SERVICE).await;
    });
}

/// Returns a forged child of a plugin's parent, without its content, which is held by a finalizer.
fn held_child(plugin: &str, parent: &Value, kind: &Kind, namespace: &str) -> Value {
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {
            "name": "forged", "namespace": namespace, "finalizers": [USERS_FINALIZER],
            "labels": { "hotshoe.dev/plugin": plugin },
            "ownerReferences": [{
                "apiVersion": parent["apiVersion"], "kind": parent["kind"], "name": parent["metadata"]["name"],
                "uid": parent["metadata"]["uid"], "controller": true,
            }],
        },
    })
}

async fn plane_deletes(scene: &Scene) {
    scene.admin.delete(&NAMESPACE, "", &scene.namespace).await.expect("a deletion");
}

impl Rig {
    async fn release_evil(&self, kind: &Kind) {
        self.evil.merge(kind, "forged", json!({ "metadata": { "finalizers": null } })).await;
    }
}

#[test]
fn a_policy_of_a_namespace_comes_back_whatever_policies_its_users_forge() {
    const LABEL: &str = "network.example.com/default-deny";
    const POLICY: &str = "default-deny";
    run_alone(async {
        let folder = Folder::of_plugin("default-deny");
        let rig = Rig::new("denied", &[&folder]).await;
        let (scene, about) = (&rig.scene, rig.scene.namespace.clone());
        let relabel = async |value: Value| {
            let patch = json!({ "metadata": { "labels": { LABEL: value } } });
            scene.admin.merge(&NAMESPACE, "", &about, &patch).await.expect("a label")
        };
        let parent = relabel("all".into()).await;
        scene.until_object(&NETWORK_POLICY, POLICY, "is there", |_| true).await;
        let mut held = held_child("default-deny", &parent, &NETWORK_POLICY, &about);
        held["spec"] = policy(0);
        let mut other = held.clone();
        other["metadata"]["name"] = "x".into();
        other["metadata"]["finalizers"] = json!([]);
        for forged in [other, held] {
            rig.user.create(&forged).await.expect("a user may create it");
        }
        let is_it =
            |event: &Value| event["involvedObject"]["name"] == about.as_str() && event["reason"] == "OutsideGrant";
        let message = scene
            .until("an Event reports the forged policies", async || {
                let events = scene.admin.list(&EVENT, "default").await.map_err(|refused| refused.message)?;
                let found = events.iter().find(|event| is_it(event)).map(|event| event["message"].clone());
                found.ok_or_else(|| format!("{} Events", events.len()))
            })
            .await;
        assert!(!message.to_string().contains("names: ["), "{message}");

        let before = scene.get(&NETWORK_POLICY, POLICY).await["metadata"]["uid"].clone();
        scene.delete(&NETWORK_POLICY, POLICY).await;
        scene.until_object(&NETWORK_POLICY, POLICY, "is back", |policy| policy["metadata"]["uid"] != before).await;
        relabel("ingress".into()).await;
        let is_narrow = |policy: &Value| policy["spec"]["policyTypes"] == json!(["Ingress"]);
        scene.until_object(&NETWORK_POLICY, POLICY, "follows the label", is_narrow).await;
        relabel(Value::Null).await;
        scene.gone(&NETWORK_POLICY, POLICY).await;
        assert!(scene.find(&NETWORK_POLICY, "x").await.is_some(), "it is not the plugin's to delete");
        scene.merge(&NETWORK_POLICY, "forged", json!({ "metadata": { "finalizers": null } })).await;
    });
}

#[test]
fn a_clean_up_waits_for_no_forged_child_of_another_namespace_even_where_the_grant_covers_all() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        plane.install_definition(&repository("tests/fixtures/hostile/crd.yaml")).await;
        let folder = Folder::of_hostile();
        folder.edit("      kind: ConfigMap\n", "      kind: ConfigMap\n      namespaces: cluster\n");
        let rig = Rig::new("waits", &[&folder]).await;
        let attack = json!({
            "apiVersion": ATTACK.api_version(), "kind": ATTACK.kind, "metadata": { "name": "one" },
            "spec": { "attack": "", "atTheEnd": "done at once" },
        });
        let parent = rig.scene.create(attack).await;
        rig.scene.until_object(&CONFIG_MAP, "one", "is there", |_| true).await;
        let mut forged = held_child("hostile", &parent, &CONFIG_MAP, &rig.evil.namespace);
        forged["data"] = json!({ "kept": "no" });
        rig.user.create(&forged).await.expect("a user may create it");
        rig.scene.delete(&ATTACK, "one").await;
        rig.scene.gone(&ATTACK, "one").await;
        assert!(rig.evil.find(&CONFIG_MAP, "forged").await.is_some());
        rig.release_evil(&CONFIG_MAP).await;
    });
}
