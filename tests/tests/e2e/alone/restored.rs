//! The data of etcd are replaced by an earlier copy, as in a restore of a backup, while the host runs.

use std::path::Path;
use std::process::Command;

use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, SERVICE};
use hotshoe_tests::{ControlPlane, Scene, memcached};
use serde_json::{Value, json};

use super::run_alone;

#[test]
fn a_running_host_repairs_what_a_restore_of_etcd_undid() {
    run_alone(async {
        let plane = ControlPlane::alone().await;
        let mut scene = Scene::new(plane, "restored").await;
        let mut host = scene.own_host().await;
        for name in ["drifted", "resized", "deleted"] {
            scene.create(memcached(name, 1)).await;
            scene.available(name).await;
        }
        // In the copy a child differs from what is desired, and no host runs that could see it.
        let drift = json!({ "spec": { "selector": { "app": "other" } } });
        let backup = plane.file("etcd-backup");
        host.stop();
        scene.merge(&SERVICE, "drifted-service", drift).await;
        plane.while_stopped(|etcd| copy(etcd, &backup));
        let host = scene.own_host().await;
        let is_right = |service: &Value| service["spec"]["selector"]["app"] == "memcached";
        scene.until_object(&SERVICE, "drifted-service", "is repaired", is_right).await;
        scene.merge(&MEMCACHED, "resized", json!({ "spec": { "size": 3 } })).await;
        scene.until_object(&DEPLOYMENT, "resized", "is resized", |it| it["spec"]["replicas"] == 3).await;
        scene.delete(&MEMCACHED, "deleted").await;
        scene.gone(&MEMCACHED, "deleted").await;
        scene.create(memcached("lost", 1)).await;
        scene.until_object(&DEPLOYMENT, "lost", "is there", |_| true).await;

        plane.while_stopped(|etcd| {
            std::fs::remove_dir_all(etcd).expect("the data of etcd go");
            copy(&backup, etcd);
        });
        scene.until_object(&SERVICE, "drifted-service", "is repaired again", is_right).await;
        scene.until_object(&DEPLOYMENT, "resized", "is as the restored parent", |it| it["spec"]["replicas"] == 1).await;
        assert!(scene.find(&MEMCACHED, "lost").await.is_none());
        // All are served as before, and so is an object that the restore brought back.
        for name in ["drifted", "resized", "deleted"] {
            scene.merge(&MEMCACHED, name, json!({ "spec": { "size": 2 } })).await;
            scene.until_object(&DEPLOYMENT, name, "is resized", |it| it["spec"]["replicas"] == 2).await;
        }
        host.until_plugin("it has three parents", |plugin| plugin["parents"] == 3).await;
    });
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(copied.success(), "{} is not copied", from.display());
}
