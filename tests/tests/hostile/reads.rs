//! What a plugin asks to be shown and was not granted: it is denied before anybody asks the API
//! server, which would deny it as well.

use hotshoe_tests::attacks::forged::Place;
use hotshoe_tests::attacks::{ATTACKS, Attack, How};
use hotshoe_tests::control_plane::{HOST_USER, SYSTEM};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::{Kube, run};
use http::Method;
use serde_json::{Value, json};

use crate::stand::{Stand, with_spec};
use crate::{ADMIN, HOSTILE, plane, user};

fn rows() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().filter(|row| matches!(row.how, How::Read(_)))
}

#[test]
fn the_gate_denies_a_read_that_the_account_would_be_allowed() {
    run(async {
        let stand = Stand::with("reads", ADMIN, Folder::of_hostile()).await;
        let mut names = Vec::new();
        for (number, row) in rows().enumerate() {
            let How::Read(objects) = row.how else { continue };
            let name = format!("read-{number}");
            let place = Place { namespace: &stand.scene.namespace, name: &name };
            let needs: Vec<Value> = objects(&place).iter().map(|object| object.dictated()).collect();
            stand.scene.create(with_spec(&name, json!({ "attack": "needs", "needs": needs }))).await;
            stand.reports(&name, row).await;
            stand.is_well(row.name).await;
            stand.heals(&name).await;
            stand.forget(&name).await;
            names.push(name);
        }
        let reads = stand.scene.plane.audit_of(&user(ADMIN));
        let of_rows: Vec<_> = reads.iter().filter(|entry| entry.verb == "get" && entry.by == HOST_USER).collect();
        assert!(of_rows.is_empty(), "the API server was asked: {of_rows:#?}");
    });
}

#[test]
fn the_api_server_forbids_the_same_reads() {
    run(async {
        let plane = plane().await;
        let stand = Stand::new("reads-direct").await;
        let host = Kube::of(&plane.kubeconfig_of(SYSTEM, "hotshoe").await).await;
        let user = user(HOSTILE);
        for row in rows() {
            let How::Read(objects) = row.how else { continue };
            let place = Place { namespace: &stand.scene.namespace, name: "any" };
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
