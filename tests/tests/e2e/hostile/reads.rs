//! Reads that were not granted: the gate denies them before the host asks the API server, which would deny
//! them as well where the account's rights are bound by namespace.

use hotshoe_tests::attacks::forged::Place;
use hotshoe_tests::attacks::{ATTACKS, Attack, How};
use hotshoe_tests::control_plane::{HOST_USER, SYSTEM};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{ATTACK, FAULT};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Kube, repository, run};
use http::Method;
use serde_json::{Value, json};

use super::rig::{Rig, attack, with_spec};
use super::{ADMIN, HOSTILE, plane, user};

fn rows() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().filter(|row| matches!(row.how, How::Read(_)))
}

#[test]
fn the_gate_denies_a_read_that_the_account_would_be_allowed() {
    run(async {
        let rig = Rig::with("reads", ADMIN, Folder::of_hostile()).await;
        let mut names = Vec::new();
        for (number, row) in rows().enumerate() {
            let How::Read(objects) = row.how else { continue };
            let name = format!("read-{number}");
            let place = Place { namespace: &rig.scene.namespace, name: &name };
            let needs: Vec<Value> = objects(&place).iter().map(|object| object.dictated()).collect();
            rig.scene.create(with_spec(&name, json!({ "attack": "needs", "needs": needs }))).await;
            rig.reports(&name, row).await;
            rig.is_well(row.name).await;
            rig.recovers(&name).await;
            rig.forget(&name).await;
            names.push(name);
        }
        let reads = rig.scene.plane.audit_of(&user(ADMIN));
        let of_rows: Vec<_> = reads.iter().filter(|entry| entry.verb == "get" && entry.by == HOST_USER).collect();
        assert!(of_rows.is_empty(), "the API server was asked: {of_rows:#?}");
    });
}

#[test]
fn the_api_server_forbids_the_same_reads() {
    run(async {
        let plane = plane().await;
        let rig = Rig::new("reads-direct").await;
        let host = Kube::of(&plane.kubeconfig_of(SYSTEM, "hotshoe").await).await;
        let user = user(HOSTILE);
        for row in rows() {
            let How::Read(objects) = row.how else { continue };
            let place = Place { namespace: &rig.scene.namespace, name: "any" };
            for object in objects(&place) {
                let as_plugin = [("Impersonate-User", user.as_str())];
                match host.request_with(Method::GET, &object.path, &as_plugin, &Value::Null).await {
                    Ok(object) => panic!("{}: it is read: {object:#}", row.name),
                    Err(refused) => assert_eq!(refused.code, 403, "{}: {}", row.name, refused.message),
                }
            }
        }
    });
}

#[test]
fn an_object_that_is_asked_for_ten_times_is_read_once_and_counts_ten_times() {
    run(async {
        let rig = Rig::new("fetched").await;
        let data = json!({ "text": "x".repeat(1_000_000) });
        let metadata = json!({ "name": "large" });
        rig.scene.create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })).await;
        let need = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": "large" });
        rig.scene.create(with_spec("greedy", json!({ "attack": "needs", "needs": vec![need; 10] }))).await;
        let object = rig.scene.until_condition_of(&ATTACK, "greedy", "Reconciled", "False", "LimitExceeded").await;
        let message = condition_parts(&object, "Reconciled").2;
        assert!(message.contains("fetched bytes (8Mi)"), "{message}");
        // So that all earlier requests are in the audit log, too.
        drop(rig.scene.recorded_writes().await);
        let reads = rig.scene.plane.audit_of(&user(HOSTILE));
        let reads = reads
            .iter()
            .filter(|entry| entry.verb == "get" && entry.name == "large" && entry.namespace == rig.scene.namespace);
        let (reads, calls) = (reads.count() as u64, rig.calls().await);
        assert!((1..=calls).contains(&reads), "{reads} reads for {calls} calls");
        rig.is_well("an object that is asked for ten times").await;
        rig.recovers("greedy").await;
    });
}

#[test]
fn a_needed_object_as_large_as_the_api_server_stores_is_read_and_too_many_of_them_fail_their_parent_alone() {
    run(async {
        let plane = plane().await;
        plane.install_definition(&repository("tests/fixtures/faulty/crd.yaml")).await;
        let may_read = json!([{ "apiGroups": [FAULT.group], "resources": [FAULT.plural], "verbs": ["get"] }]);
        plane.grant(HOSTILE, "tests-hostile-large", &may_read).await;
        let folder = Folder::of_hostile();
        let grant = "    - {group: fixtures.example.com, kind: Fault, verbs: [get]}\n";
        folder.edit("  grants:\n", &format!("  grants:\n{grant}"));
        let rig = Rig::with("large-needed", HOSTILE, folder).await;
        let metadata = json!({ "name": "large" });
        // etcd takes 1.5 MiB in a request.
        let spec = json!({ "fault": "x".repeat(1_400_000) });
        rig.scene
            .create(
                json!({ "apiVersion": FAULT.api_version(), "kind": FAULT.kind, "metadata": metadata, "spec": spec }),
            )
            .await;
        let need = json!({ "group": FAULT.group, "version": FAULT.version, "kind": FAULT.kind, "name": "large" });
        let needs = |number: usize| json!({ "attack": "needs", "needs": vec![need.clone(); number] });
        rig.scene.create(with_spec("greedy", needs(6))).await;
        let object = rig.scene.until_condition_of(&ATTACK, "greedy", "Reconciled", "False", "LimitExceeded").await;
        let message = condition_parts(&object, "Reconciled").2;
        assert!(message.contains("fetched bytes (8Mi)"), "{message}");
        rig.scene.create(attack("modest", "")).await;
        rig.serves("modest").await;
        rig.is_well("six needed objects of 1.4 MB").await;
        // One alone reaches the plugin, which answers with more text than a status may have.
        rig.scene.merge(&ATTACK, "greedy", json!({ "spec": needs(1) })).await;
        let is_shown = |object: &Value| {
            let (_, _, message) = condition_parts(object, "Reconciled");
            message.contains("status") && !message.contains("fetched bytes")
        };
        rig.scene.until_object(&ATTACK, "greedy", "was shown the object", is_shown).await;
        rig.recovers("greedy").await;
    });
}
