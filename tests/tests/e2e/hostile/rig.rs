//! A host with a healthy plugin and one that attacks, and the checks after every attack.

use std::cell::Cell;

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::attacks::components::Offered;
use hotshoe_tests::attacks::{Attack, SERVED};
use hotshoe_tests::audit::Entry;
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::guests::{self, Folder};
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP, DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{Host, Scene, memcached};
use serde_json::{Value, json};

use super::{HOSTILE, plane, user};

/// By how much the resident memory may be larger after an attack than before, in kilobytes: caches and the
/// allocator keep that much anyway.
const MAX_GROWTH_KB: u64 = 8 * 1024;

/// The Memcached whose size is changed to see whether the healthy plugin is served.
const OTHER: &str = "cache";

/// A host with both plugins in a namespace of its own.
pub(crate) struct Rig {
    pub(crate) scene: Scene,
    pub(crate) host: Host,
    /// The folder of the plugin that attacks.
    pub(crate) folder: Folder,
    plugin: &'static str,
    rounds: Cell<i32>,
    base: u64,
}

/// A parent that asks for this attack.
pub(crate) fn attack(name: &str, word: &str) -> Value {
    with_spec(name, json!({ "attack": word }))
}

/// A parent with this specification.
pub(crate) fn with_spec(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": ATTACK.api_version(), "kind": ATTACK.kind, "metadata": { "name": name }, "spec": spec })
}

impl Rig {
    /// Starts a host with the plugin, its own grant and its own account.
    pub(crate) async fn new(name: &str) -> Self {
        Self::with(name, HOSTILE, Folder::of_hostile()).await
    }

    /// Starts a host with the plugin in this folder, under this account.
    pub(crate) async fn with(name: &str, plugin: &'static str, folder: Folder) -> Self {
        let plane = plane().await;
        let mut scene = Scene::new(plane, name).await;
        plane.bind(HOSTILE, "tests-hostile", &scene.namespace).await;
        if plugin != HOSTILE {
            folder.edit("name: hostile\n", &format!("name: {plugin}\n"));
        }
        let host = scene.start().await.plugins(&[&guests::memcached(), folder.path()]).ready().await;
        scene.watch_log(&host);
        let mut rig = Self { scene, host, folder, plugin, rounds: Cell::new(1), base: 0 };
        rig.scene.create(memcached(OTHER, 1)).await;
        rig.serves_the_other().await;
        // The baseline is the memory of a host that has worked, not of one that has just started.
        rig.scene.create(attack("first", "")).await;
        rig.serves("first").await;
        rig.forget("first").await;
        rig.base = rig.host.memory("VmRSS");
        rig
    }

    /// Waits until the condition of a parent, an Event and the metrics report a failure with exactly this
    /// reason.
    pub(crate) async fn reports(&self, name: &str, what: &Attack) -> Value {
        let reason = what.reason;
        assert_ne!(reason, SERVED, "{}: it is to be served", what.name);
        let scene = &self.scene;
        let object = scene
            .until(&format!("{} is reported with the reason {reason}", what.name), async || {
                let object = scene.admin.get(&ATTACK, &scene.namespace, name).await.map_err(|error| error.message)?;
                let found = condition_parts(&object, "Reconciled");
                if found.0 != "False" {
                    return Err(format!("{:#}", object["status"]));
                }
                assert_eq!(found.1, reason, "{}: {}", what.name, found.2);
                Ok(object.clone())
            })
            .await;
        scene.event(name, reason, "").await;
        assert!(self.errors(reason).await > 0, "{}: no metric has {reason}", what.name);
        assert_eq!(object["status"]["conditions"].as_array().map(Vec::len), Some(3), "{}: {object:#}", what.name);
        assert!(object["status"]["word"].is_null(), "{}: {object:#}", what.name);
        object
    }

    /// Returns the number of this plugin's failures with a reason, from the metrics.
    async fn errors(&self, reason: &str) -> u64 {
        let line =
            format!("controller_runtime_reconcile_errors_total{{controller=\"{}\",reason=\"{reason}\"}} ", self.plugin);
        self.metric(&line).await
    }

    /// Returns the number of calls of the plugin.
    pub(crate) async fn calls(&self) -> u64 {
        self.metric(&format!("hotshoe_plugin_call_seconds_count{{controller=\"{}\"}} ", self.plugin)).await
    }

    /// Returns the value of a line of the metrics; 0 where there is no such line.
    pub(crate) async fn metric(&self, line: &str) -> u64 {
        let (_, metrics) = self.host.get("/metrics").await.expect("metrics");
        metrics.lines().find_map(|found| found.strip_prefix(line)?.parse().ok()).unwrap_or(0)
    }

    /// Ends the attack of a parent, and waits until the parent is served.
    pub(crate) async fn recovers(&self, name: &str) {
        self.scene.merge(&ATTACK, name, json!({ "spec": { "attack": "", "atTheEnd": "", "children": null } })).await;
        self.serves(name).await;
    }

    /// Waits until a parent without an attack is served.
    pub(crate) async fn serves(&self, name: &str) {
        let is_served = |object: &Value| {
            condition_parts(object, "Kept").0 == "True"
                && condition_parts(object, "Kept").1 == "Kept"
                && object["status"]["word"] == "good"
                && condition(object, "Reconciled").is_none()
        };
        self.scene.until_object(&ATTACK, name, "is served", is_served).await;
        let child = self.scene.get(&CONFIG_MAP, name).await;
        assert_eq!(child["data"]["kept"], "yes", "{child:#}");
    }

    /// Deletes a parent and waits until it is gone.
    pub(crate) async fn forget(&self, name: &str) {
        self.scene.delete(&ATTACK, name).await;
        self.scene.gone(&ATTACK, name).await;
    }

    /// Checks that the host runs, has no more memory than before, and serves the other plugin.
    pub(crate) async fn is_well(&self, after: &str) {
        assert_eq!(self.host.get("/healthz").await.expect("an answer").0, 200, "after {after}");
        self.serves_the_other().await;
        self.has_shrunk(after).await;
        assert!(!self.host.log().contains("panicked; this is a fault of the host"), "{}", self.host.log());
        assert!(!self.host.log().lines().any(|line| line.starts_with("thread '")), "{}", self.host.log());
    }

    /// Changes a healthy parent, and waits until its child is as desired.
    pub(crate) async fn serves_the_other(&self) {
        let size = self.rounds.get() % 2 + 1;
        self.rounds.set(self.rounds.get() + 1);
        self.scene.merge(&MEMCACHED, OTHER, json!({ "spec": { "size": size } })).await;
        self.scene
            .until_object(&DEPLOYMENT, OTHER, "is resized", |object| object["spec"]["replicas"] == json!(size))
            .await;
    }

    async fn has_shrunk(&self, after: &str) {
        let most = self.base + MAX_GROWTH_KB;
        self.host
            .until(&format!("no more than {most} kB are resident after {after}"), async || {
                let now = self.host.memory("VmRSS");
                if now <= most { Ok(()) } else { Err(format!("{now} kB, {} before", self.base)) }
            })
            .await;
    }

    /// Puts a component in place, and waits until it is active.
    pub(crate) async fn publishes(&self, component: &[u8]) {
        let digest = Digest::of(component).full();
        self.folder.put(component);
        self.host
            .until("the component decides", async || {
                let found = self.plugin().await;
                if found["digest"] == digest { Ok(()) } else { Err(format!("{found:#}")) }
            })
            .await;
    }

    /// Puts a file of any sort in the place of the component.
    pub(crate) fn offers(&self, offered: &Offered) {
        match offered {
            Offered::Bytes(bytes) => self.folder.put(bytes),
            Offered::Hole(size) => self.folder.put_hole(*size),
            Offered::Pipe => self.folder.put_pipe(),
        }
    }

    /// Returns the status of the plugin.
    pub(crate) async fn plugin(&self) -> Value {
        self.host.plugin_named(self.plugin).await.expect("the plugin")
    }

    /// Checks that the plugin's account has written only the status of its own parents, and these children,
    /// in any namespace.
    pub(crate) async fn wrote_only(&self, children: &[String]) {
        // So that all earlier requests are in the audit log, too.
        drop(self.scene.recorded_writes().await);
        let user = user(self.plugin);
        // Other tests use the same accounts in their own scenes. The account with few rights is also
        // tried outside of all scenes, where everything is forbidden.
        let everywhere = [&self.scene.namespace, "", "default", SYSTEM];
        let places = if self.plugin == HOSTILE { &everywhere[..1] } else { &everywhere[..] };
        let is_it = |entry: &Entry| entry.is_write() && places.contains(&entry.namespace.as_str());
        let of_it = self.scene.plane.audit_of(&user).into_iter().filter(is_it);
        for write in of_it {
            let is_child = write.is_about("configmaps") && children.contains(&write.name);
            assert!(is_child || write.is_about("attacks/status"), "{write:#?}");
        }
    }
}
