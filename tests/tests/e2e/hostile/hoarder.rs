//! A user of a namespace who has the host hold or look at as much as he can: large objects with the label of a plugin,
//! large children of a parent of his own, and large parents that never go. Parents of other namespaces are served.

use futures::{StreamExt, stream};
use hotshoe_tests::guests::{self, Folder, attacker};
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP, DEPLOYMENT, MEMCACHED};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

use super::rig::{attack, with_spec};
use super::{HOSTILE, plane};

/// The memory that a host may have, and as many objects of 900 kB in proportion to it as 600 are to 512 MiB.
const MEMORY: &str = "96Mi";
const MEMORY_KB: u64 = 96 << 10;
const OBJECTS: usize = 112;
const OBJECT_BYTES: usize = 900_000;

/// How many objects are created at once.
const AT_ONCE: usize = 4;

/// Creates ConfigMaps with the label of a plugin and these owners.
async fn hoard(scene: &Scene, plugin: &str, owners: &Value) {
    let text = "x".repeat(OBJECT_BYTES);
    let create = |number: usize| {
        let metadata = json!({
            "name": format!("hoard-{number}"), "labels": { "hotshoe.dev/plugin": plugin }, "ownerReferences": owners,
        });
        let data = json!({ "text": &text });
        scene.create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }))
    };
    stream::iter(0..OBJECTS).map(create).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
}

/// Returns the owner references of the children of a parent.
fn owners(parent: &Value) -> Value {
    let metadata = &parent["metadata"];
    json!([{
        "apiVersion": ATTACK.api_version(), "kind": ATTACK.kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": true,
    }])
}

async fn start(scene: &mut Scene, folder: &Folder) -> Host {
    let host = scene.start().await.plugins(&[&guests::memcached(), folder.path()]).memory(MEMORY).start();
    scene.watch_log(&host);
    // The peak of a start is the lists, so it is looked at all the time.
    host.until("the host is ready", async || {
        is_within_its_memory(&host);
        match host.get("/readyz").await? {
            (200, _) => Ok(()),
            (code, text) => Err(format!("{code} {text}")),
        }
    })
    .await;
    host
}

/// Pages of files can be evicted. They are those of the program and of native code.
fn is_within_its_memory(host: &Host) {
    let anonymous = host.memory("RssAnon");
    assert!(anonymous < MEMORY_KB, "{anonymous} kB are resident");
}

/// Changes the healthy parents, and waits until their children are as desired.
async fn serves(scene: &Scene, host: &Host, size: usize) {
    scene.merge(&MEMCACHED, "cache", json!({ "spec": { "size": size } })).await;
    scene.until_object(&DEPLOYMENT, "cache", "is resized", |object| object["spec"]["replicas"] == json!(size)).await;
    is_within_its_memory(host);
}

/// Returns the value of a gauge of the plugin.
async fn gauge(host: &Host, name: &str) -> Result<u64, String> {
    let line = format!("{name}{{controller=\"{HOSTILE}\"}} ");
    let (_, metrics) = host.get("/metrics").await?;
    let value = metrics.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok());
    value.ok_or_else(|| format!("no {name}"))
}

async fn until_gauge(host: &Host, name: &str, what: &str, is_it: impl Fn(u64) -> bool) {
    host.until(&format!("{name} is {what}"), async || match gauge(host, name).await? {
        value if is_it(value) => Ok(()),
        value => Err(value.to_string()),
    })
    .await;
}

#[test]
fn large_objects_with_the_label_of_a_plugin_take_no_memory_of_a_host_that_runs_or_starts() {
    run(async {
        let mut scene = Scene::new(plane().await, "hoard-labelled").await;
        scene.plane.bind(HOSTILE, "tests-hostile", &scene.namespace).await;
        let folder = Folder::of_hostile();
        let mut host = start(&mut scene, &folder).await;
        scene.create(memcached("cache", 1)).await;
        serves(&scene, &host, 2).await;
        hoard(&scene, HOSTILE, &json!([])).await;
        until_gauge(&host, "hotshoe_plugin_objects_without_parent", "the number of all", |count| {
            count == OBJECTS as u64
        })
        .await;
        serves(&scene, &host, 1).await;
        host.stop();
        let host = start(&mut scene, &folder).await;
        serves(&scene, &host, 2).await;
        // The plugin whose label they have is not charged for them, and serves its parents.
        scene.create(attack("mine", "")).await;
        scene.until_object(&ATTACK, "mine", "is served", |object| object["status"]["word"] == "good").await;
        assert_eq!(gauge(&host, "hotshoe_plugin_objects_without_parent").await, Ok(OBJECTS as u64));
        assert_eq!(gauge(&host, "hotshoe_plugin_objects_cut").await, Ok(0));
        is_within_its_memory(&host);
    });
}

#[test]
fn a_parent_whose_children_do_not_fit_into_the_memory_is_not_decided_and_others_are() {
    run(async {
        let mut scene = Scene::new(plane().await, "hoard-owned").await;
        scene.plane.bind(HOSTILE, "tests-hostile", &scene.namespace).await;
        let parent = scene.create(attack("owner", "")).await;
        hoard(&scene, HOSTILE, &owners(&parent)).await;
        let folder = Folder::of_hostile();
        let host = start(&mut scene, &folder).await;
        let refused = scene.until_condition_of(&ATTACK, "owner", "Reconciled", "False", "LimitExceeded").await;
        let message = condition_parts(&refused, "Reconciled").2;
        assert!(message.contains("is not kept in memory"), "{message}");
        until_gauge(&host, "hotshoe_plugin_objects_cut", "some of them", |cut| (1..OBJECTS as u64).contains(&cut))
            .await;
        scene.create(memcached("cache", 1)).await;
        serves(&scene, &host, 2).await;
        let there = scene.list(&CONFIG_MAP).await.iter().filter(|object| object["data"]["text"].is_string()).count();
        assert_eq!(there, OBJECTS, "none is pruned by a decision about what was not seen");
        is_within_its_memory(&host);
        // Once the others fit, the parent is decided, and they are pruned.
        for number in 0..OBJECTS {
            let path = CONFIG_MAP.path(&scene.namespace, Some(&format!("hoard-{number}")));
            drop(scene.admin.request(http::Method::DELETE, &path, "application/json", &json!({})).await);
        }
        scene.until_object(&ATTACK, "owner", "is served", |object| object["status"]["word"] == "good").await;
        until_gauge(&host, "hotshoe_plugin_objects_cut", "zero", |cut| cut == 0).await;
    });
}

/// The plugins of the test with two namespaces.
const USED: usize = 7;
const OTHER: usize = 8;

/// A parent of one of these plugins.
fn parent_of(number: usize, name: &str, spec: Value) -> Value {
    let mut parent = with_spec(name, spec);
    parent["metadata"]["labels"] = json!({ "attacker": attacker(number) });
    parent
}

#[test]
fn children_forged_in_one_namespace_make_no_decision_in_another_fail() {
    /// The children of the other namespace: more than its share of `heldBytes`, and less than is left to it beside one
    /// that takes all that it may.
    const CHILDREN: usize = 5;
    const CHILD_BYTES: usize = 500_000;
    run(async {
        let plane = plane().await;
        let (greedy, mut modest) = (Scene::new(plane, "hoard-greedy").await, Scene::new(plane, "hoard-modest").await);
        let folders = [USED, OTHER].map(Folder::of_attacker);
        for name in [USED, OTHER].map(attacker) {
            plane.create_account(&name).await;
            plane.allow_impersonation(&name).await;
            for scene in [&greedy, &modest] {
                plane.bind(&name, "tests-hostile", &scene.namespace).await;
            }
        }
        folders[0].edit("    compileTime: 3s\n", "    compileTime: 3s\n    heldBytes: 8Mi\n");
        let parent = greedy.create(parent_of(USED, "owner", json!({ "attack": "" }))).await;
        hoard(&greedy, &attacker(USED), &owners(&parent)).await;
        let plugins = folders.each_ref().map(Folder::path);
        let host = Start::new(plane).await.plugins(&plugins).memory(MEMORY).ready().await;
        modest.watch_log(&host);
        // The forged children take all the room that one namespace may have, and the plugin may have less in all.
        greedy.until_condition_of(&ATTACK, "owner", "Reconciled", "False", "LimitExceeded").await;

        let body = json!({ "data": { "text": "x".repeat(CHILD_BYTES) } }).to_string();
        for name in (0..CHILDREN).map(|number| format!("large-{number}")) {
            let child = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": &name, "body": &body });
            modest.create(parent_of(USED, &name, json!({ "attack": "dictated", "children": [child] }))).await;
        }
        for name in (0..CHILDREN).map(|number| format!("large-{number}")) {
            modest.until_object(&CONFIG_MAP, &name, "is there", |_| true).await;
        }
        for (number, name) in [(USED, "mine"), (OTHER, "of-another-plugin")] {
            modest.create(parent_of(number, name, json!({ "attack": "" }))).await;
            modest.until_object(&ATTACK, name, "is served", |object| object["status"]["word"] == "good").await;
        }
        let owner = greedy.get(&ATTACK, "owner").await;
        assert_eq!(condition_parts(&owner, "Reconciled").1, "LimitExceeded");
        is_within_its_memory(&host);
    });
}

/// Returns the processor time of a host, in ticks of 10 ms.
fn ticks(host: &Host) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", host.process())).expect("the host runs");
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11).take(2);
    fields.map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

#[test]
fn probes_and_metrics_cost_nothing_by_the_large_parents_that_are_being_deleted() {
    const PARENTS: usize = 30;
    const PROBES: usize = 200;
    run(async {
        let mut scene = Scene::new(plane().await, "hoard-deleting").await;
        scene.plane.bind(HOSTILE, "tests-hostile", &scene.namespace).await;
        let text = "x".repeat(OBJECT_BYTES);
        for number in 0..PARENTS {
            let name = format!("stays-{number}");
            let mut parent = attack(&name, "");
            parent["metadata"]["finalizers"] = json!(["example.com/keep"]);
            parent["spec"]["children"] =
                json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "a", "body": text }]);
            scene.create(parent).await;
            scene.delete(&ATTACK, &name).await;
        }
        let folder = Folder::of_hostile();
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.create(attack("mine", "")).await;
        scene.until_object(&ATTACK, "mine", "is served", |object| object["status"]["word"] == "good").await;
        let before = ticks(&host);
        for _ in 0..PROBES {
            for path in ["/readyz", "/healthz", "/metrics"] {
                assert_eq!(host.get(path).await.expect("an answer").0, 200);
            }
            host.status().await.expect("a status");
        }
        // Reading the bodies of the parents takes the host 10 ms and more each time: 4 s in all.
        let taken = ticks(&host) - before;
        assert!(taken < 200, "{taken} ticks of 10 ms");
        for number in 0..PARENTS {
            scene.merge(&ATTACK, &format!("stays-{number}"), json!({ "metadata": { "finalizers": null } })).await;
        }
    });
}
