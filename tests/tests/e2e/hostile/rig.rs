//! A host with a healthy plugin and one that attacks, and what must hold of it after every attack.

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

/// How much more than before an attack may be resident after it, kilobytes: what caches and the
/// allocator keep anyway.
const TOLERANCE: u64 = 8 * 1024;

/// The server whose size is changed to see whether the other plugin is served.
const OTHER: &str = "cache";

/// A host with both plugins in a namespace of its own.
pub(crate) struct Rig {
    pub(crate) scene: Scene,
    pub(crate) host: Host,
    /// Where the component of the plugin that attacks lies.
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
    /// With the plugin as its administrator meant it.
    pub(crate) async fn new(name: &str) -> Self {
        Self::with(name, HOSTILE, Folder::of_hostile()).await
    }

    /// With this component and `plugin.yaml`, under this account.
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
        // The memory of a host that has worked, not of one that has just started.
        rig.scene.create(attack("first", "")).await;
        rig.serves("first").await;
        rig.forget("first").await;
        rig.base = rig.resident();
        rig
    }

    /// Waits until a parent is said to fail for exactly this reason, in its condition, in an Event
    /// and in the metrics.
    pub(crate) async fn reports(&self, name: &str, what: &Attack) -> Value {
        let reason = what.reason;
        assert_ne!(reason, SERVED, "{}: it is to be served", what.name);
        let scene = &self.scene;
        let object = scene
            .until(&format!("{} is said to be {reason}", what.name), async || {
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
        assert_eq!(object["status"]["conditions"].as_array().map(Vec::len), Some(1), "{}: {object:#}", what.name);
        assert!(object["status"]["word"].is_null(), "{}: {object:#}", what.name);
        object
    }

    /// What the metrics say of this plugin's failures for a reason.
    async fn errors(&self, reason: &str) -> u64 {
        let line =
            format!("controller_runtime_reconcile_errors_total{{controller=\"{}\",reason=\"{reason}\"}} ", self.plugin);
        self.metric(&line).await
    }

    /// How often the plugin was called.
    pub(crate) async fn calls(&self) -> u64 {
        self.metric(&format!("hotshoe_plugin_call_seconds_count{{controller=\"{}\"}} ", self.plugin)).await
    }

    /// The number behind this in the metrics; 0 where it is not there.
    pub(crate) async fn metric(&self, line: &str) -> u64 {
        let (_, metrics) = self.host.get("/metrics").await.expect("metrics");
        metrics.lines().find_map(|found| found.strip_prefix(line)?.parse().ok()).unwrap_or(0)
    }

    /// Has a parent behave again, and waits until it is served.
    pub(crate) async fn heals(&self, name: &str) {
        self.scene.merge(&ATTACK, name, json!({ "spec": { "attack": "", "atTheEnd": "", "children": null } })).await;
        self.serves(name).await;
    }

    /// Waits until a parent that behaves is served.
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

    /// The host lives, has what it had before, and serves the other plugin.
    pub(crate) async fn is_well(&self, after: &str) {
        assert_eq!(self.host.get("/healthz").await.expect("an answer").0, 200, "after {after}");
        self.serves_the_other().await;
        self.rests(after).await;
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

    async fn rests(&self, after: &str) {
        let most = self.base + TOLERANCE;
        self.host
            .until(&format!("no more than {most} kB are resident after {after}"), async || {
                let now = self.resident();
                if now <= most { Ok(()) } else { Err(format!("{now} kB, {} before", self.base)) }
            })
            .await;
    }

    /// Resident memory of the host, kilobytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.host.process())).expect("the host lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Puts a component in place, and waits until it decides.
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

    /// Puts anything in the place of the component.
    pub(crate) fn offers(&self, offered: &Offered) {
        match offered {
            Offered::Bytes(bytes) => self.folder.put(bytes),
            Offered::Hole(size) => self.folder.put_hole(*size),
            Offered::Pipe => self.folder.put_pipe(),
        }
    }

    /// How the plugin is.
    pub(crate) async fn plugin(&self) -> Value {
        let status = self.host.status().await.expect("a status");
        let plugins = status["plugins"].as_array().cloned().unwrap_or_default();
        plugins.into_iter().find(|plugin| plugin["name"] == self.plugin).expect("the plugin")
    }

    /// The plugin's account has written its own parents' status, and children of parents that
    /// behaved; nothing else anywhere.
    pub(crate) async fn wrote_only(&self, children: &[String]) {
        // So that what comes before it is in the log too.
        drop(self.scene.recorded_writes().await);
        let user = user(self.plugin);
        // In scenes of their own others act as the same accounts; the one without many rights is also
        // tried outside of any, where it is forbidden everything.
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
