//! Something that a plugin needs is removed while it serves, and comes back: a condition says what is missing, there
//! are no requests in a hot loop, and the plugin continues to serve by itself.

use std::cell::Cell;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::faulty::{fault, install_faults_of};
use hotshoe_tests::guests::reworded;
use hotshoe_tests::kinds::{CRD, FAULT, FLOW_SCHEMA, Kind, MEMCACHED, PRIORITY_LEVEL, REMOVED_FAULT, RENAMED_FAULT};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Host, Registry, guests, memcached, repository, run};
use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::images::push;
use super::rig::{Guest, Rig, file};

/// The faulty plugin, for parents of a kind whose CRD only one test uses.
async fn with_own_kind(rig: &Rig, kind: &Kind) -> Guest {
    install_faults_of(rig.scene.plane, kind.group, &definition()).await;
    let guest = rig.faulty("gone").await;
    guest.folder.edit(FAULT.group, kind.group);
    guest.folder.put(&reworded(guest.folder.original(), FAULT.group, kind.group));
    rig.grant(&guest).await;
    guest
}

fn definition() -> String {
    std::fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD")
}

/// A parent of that plugin.
fn fault_of(kind: &Kind, name: &str) -> Value {
    let mut object = fault(name, "");
    object["apiVersion"] = kind.api_version().into();
    object
}

async fn remove_definition(rig: &Rig, kind: &Kind) {
    let name = format!("{}.{}", kind.plural, kind.group);
    // Its objects are deleted with it, after their finalizers are removed.
    rig.scene.admin.delete(&CRD, "", &name).await.expect("the definition is there");
    rig.scene.gone_from_cluster(&CRD, &name).await;
}

fn is_kept(object: &Value) -> bool {
    condition_parts(object, "Kept").0 == "True"
}

#[test]
fn a_crd_that_is_removed_and_recreated_disturbs_no_other_plugin() {
    run(async {
        let rig = Rig::new("gone").await;
        let (guest, other) = (with_own_kind(&rig, &REMOVED_FAULT).await, rig.memcached("beside").await);
        rig.apply(&guest).await;
        rig.apply(&other).await;
        rig.until_ready(&guest).await;
        rig.until_ready(&other).await;
        let object = fault_of(&REMOVED_FAULT, "one");
        rig.scene.create(object.clone()).await;
        rig.scene.until_object(&REMOVED_FAULT, "one", "is served", is_kept).await;

        remove_definition(&rig, &REMOVED_FAULT).await;
        rig.until(&guest, "says which kind is missing", |object| {
            let (status, _, message) = condition_parts(object, "Ready");
            status == "False" && message.contains("the kind Fault of crdsgone.example.com/v1")
        })
        .await;
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        rig.until_ready(&other).await;

        install_faults_of(rig.scene.plane, REMOVED_FAULT.group, &definition()).await;
        rig.until_ready(&guest).await;
        rig.scene.create(object).await;
        rig.scene.until_object(&REMOVED_FAULT, "one", "is served again", is_kept).await;
    });
}

#[test]
fn a_crd_that_is_recreated_with_another_plural_is_served_under_it_once_rights_are_granted() {
    const RENAMED: Kind = Kind { plural: "mishaps", ..RENAMED_FAULT };
    run(async {
        let rig = Rig::new("renamed").await;
        let guest = with_own_kind(&rig, &RENAMED_FAULT).await;
        rig.apply(&guest).await;
        rig.until_ready(&guest).await;
        rig.scene.create(fault_of(&RENAMED_FAULT, "one")).await;
        rig.scene.until_object(&RENAMED_FAULT, "one", "is served", is_kept).await;

        remove_definition(&rig, &RENAMED_FAULT).await;
        let renamed = definition().replace("name: faults.", "name: mishaps.");
        let renamed = renamed.replace("plural: faults, singular: fault", "plural: mishaps, singular: mishap");
        install_faults_of(rig.scene.plane, RENAMED.group, &renamed).await;
        let path = RENAMED.path(&rig.scene.namespace, None);
        let made = fault_of(&RENAMED, "two");
        rig.scene.admin.request(Method::POST, &path, "application/json", &made).await.expect("it is served");
        rig.until(&guest, "says which right is missing", |object| {
            condition_parts(object, "Ready").2.contains("mishaps")
        })
        .await;
        rig.grant_as_served(&guest).await;
        rig.until_ready(&guest).await;
        rig.scene.until_object(&RENAMED, "two", "is served", is_kept).await;
    });
}

#[test]
fn a_revision_that_neither_the_cache_nor_the_registry_has_is_named_and_the_active_one_stays() {
    run(async {
        let (mut rig, registry, docker) =
            (Rig::new("lost").await, Registry::start(), TempDir::new().expect("a folder"));
        let guest = rig.memcached("lost").await;
        let image = push(&registry, guest.folder.original(), "1", docker.path());
        rig.create(&rig.object(&guest, json!({ "oci": image, "interval": "10s" }))).await;
        let first = rig.until_ready(&guest).await;
        push(&registry, &guests::reworded(guest.folder.original(), "0.1.0", "0.1.1"), "1", docker.path());
        let is_second = |object: &Value| {
            object["status"]["digest"] != first["status"]["digest"] && condition_parts(object, "Ready").0 == "True"
        };
        let second = rig.until(&guest, "has the second revision", is_second).await;
        // The next host has the component neither in its cache nor from the registry.
        let source = first["status"]["source"].as_str().expect("the image by its digest");
        let manifest = source.rsplit_once("sha256:").expect("a digest").1.parse().expect("a digest");
        registry.delete("plugins/memcached", manifest);
        rig.replace_host().await;
        rig.until_ready(&guest).await;
        rig.merge(&guest, json!({ "spec": { "revision": first["status"]["digest"] } })).await;
        let is_stalled = |object: &Value| {
            let (status, reason, message) = condition_parts(object, "Stalled");
            (status, reason) == ("True", "RevisionUnavailable")
                && message.contains(source)
                && object["status"]["digest"] == second["status"]["digest"]
        };
        rig.until(&guest, "says that the revision is not available, and has the second", is_stalled).await;
        // A host that starts with this pin has the second revision as well.
        rig.replace_host().await;
        rig.host
            .until_plugin("it has the second revision", |plugin| plugin["digest"] == second["status"]["digest"])
            .await;
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        rig.merge(&guest, json!({ "spec": { "revision": null } })).await;
        rig.until(&guest, "is well", |object| condition_parts(object, "Stalled").0 == "False").await;
    });
}

const PARENTS: usize = 12;

/// Makes the API server serve one request of an account at a time, and answer the others with 429, by API Priority and
/// Fairness.
async fn throttle(rig: &Rig, account: &str) {
    let level = json!({
        "apiVersion": PRIORITY_LEVEL.api_version(), "kind": PRIORITY_LEVEL.kind, "metadata": { "name": account },
        "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": { "type": "Reject" },
        } },
    });
    let schema = json!({
        "apiVersion": FLOW_SCHEMA.api_version(), "kind": FLOW_SCHEMA.kind, "metadata": { "name": account },
        "spec": {
            "priorityLevelConfiguration": { "name": account }, "matchingPrecedence": 2,
            "rules": [{
                "subjects": [{ "kind": "ServiceAccount", "serviceAccount": { "namespace": SYSTEM, "name": account } }],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true,
                }],
            }],
        },
    });
    rig.create(&level).await;
    rig.create(&schema).await;
}

#[test]
fn an_account_that_the_api_server_throttles_is_served_at_its_pace_and_delays_no_other() {
    run(async {
        let rig = Rig::new("throttled").await;
        let [guest, other] = [rig.memcached("throttled").await, rig.memcached("unlimited").await];
        for (guest, of) in [(&guest, "throttled"), (&other, "unlimited")] {
            let parents = format!("    kind: Memcached\n    selector: {{matchLabels: {{of: {of}}}}}\n");
            guest.folder.edit("    kind: Memcached\n", &parents);
            // Two plugins of one host need different finalizers, which must be as long as the one in the component.
            let finalizer = format!("cache.example.com/{of}");
            guest.folder.edit("cache.example.com/finalizer", &finalizer);
            guest.folder.put(&reworded(guest.folder.original(), "cache.example.com/finalizer", &finalizer));
            rig.grant(guest).await;
            rig.create(&rig.object(guest, file(guest))).await;
            rig.until_ready(guest).await;
        }
        throttle(&rig, &guest.name).await;
        let labelled = |name: &str, of: &str| {
            let mut object = memcached(name, 1);
            object["metadata"]["labels"] = json!({ "of": of });
            object
        };
        let names: Vec<_> = (0..PARENTS).map(|number| format!("slow-{number}")).collect();
        for name in &names {
            rig.scene.create(labelled(name, "throttled")).await;
        }
        // The API server takes a moment to enforce it.
        let size = Cell::new(1);
        rig.scene
            .until("the API server refuses what the plugin writes", async || {
                size.set(3 - size.get());
                for name in &names {
                    rig.scene.merge(&MEMCACHED, name, json!({ "spec": { "size": size.get() } })).await;
                }
                let refused = refused(&rig.host);
                if refused > 0 { Ok(()) } else { Err("nothing is refused".to_owned()) }
            })
            .await;
        let before = refused(&rig.host);
        rig.scene.create(labelled("quick", "unlimited")).await;
        rig.scene.available("quick").await;
        rig.until_ready(&other).await;
        for name in &names {
            rig.scene.merge(&MEMCACHED, name, json!({ "spec": { "size": 1 } })).await;
        }
        for name in &names {
            let is_served = |object: &Value| object["status"]["nodes"].as_array().is_some_and(|pods| pods.len() == 1);
            rig.scene.until_object(&MEMCACHED, name, "is served", is_served).await;
        }
        let tries = refused(&rig.host) - before;
        assert!(tries <= 10 * PARENTS, "{tries} requests were refused");
    });
}

/// Returns the number of the host's writes that were refused with 429.
fn refused(host: &Host) -> usize {
    host.log().matches("Too many requests").count()
}
