//! The backup plugin, seen by a plain client: real Jobs of the real Job controller, with short intervals.

use std::collections::BTreeSet;

use futures::StreamExt;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::guests;
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{BACKUP, CLAIM, JOB, NAMESPACE, POD};
use hotshoe_tests::scene::{condition, condition_parts};
use hotshoe_tests::{ControlPlane, Host, Scene, repository, run};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const INTERVAL: i64 = 4;

async fn scene(name: &str) -> Scene {
    static READY: OnceCell<()> = OnceCell::const_new();
    let plane = ControlPlane::shared().await;
    READY.get_or_init(|| install(plane)).await;
    Scene::new(plane, name).await
}

/// Installs the CRD, and the rights that `hotshoe rbac` prints for the grant.
async fn install(plane: &ControlPlane) {
    plane.install_definition(&repository("crds/batch.example.com_backups.yaml")).await;
    plane.create_account("backup").await;
    let group = json!(["batch.example.com"]);
    let of_plugin = json!([
        { "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch", "delete"] },
        { "apiGroups": group, "resources": ["backups/status"], "verbs": ["patch"] },
        { "apiGroups": group, "resources": ["backups/finalizers"], "verbs": ["update"] },
    ]);
    let of_host = json!([
        { "apiGroups": group, "resources": ["backups"], "verbs": ["get", "list", "watch", "patch"] },
        { "apiGroups": group, "resources": ["backups/status"], "verbs": ["patch"] },
        { "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"] },
    ]);
    plane.grant("backup", "tests-backup", &of_plugin).await;
    plane.grant("hotshoe", "tests-backup-host", &of_host).await;
    plane.allow_impersonation("backup").await;
}

async fn start(scene: &mut Scene) -> Host {
    let host = scene.start().await.plugins(&[&guests::backup()]).ready().await;
    scene.watch_log(&host);
    host
}

fn backup(spec: Value) -> Value {
    json!({ "apiVersion": BACKUP.api_version(), "kind": BACKUP.kind, "metadata": { "name": "shop" }, "spec": spec })
}

fn claim(name: &str) -> Value {
    let resources = json!({ "requests": { "storage": "1Mi" } });
    json!({
        "apiVersion": "v1", "kind": CLAIM.kind, "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": resources },
    })
}

/// Returns the times of all runs whose Jobs were ever created in the namespace.
fn times(scene: &Scene) -> BTreeSet<i64> {
    let created = scene.writes().into_iter().filter(|write| write.is_about("jobs") && write.verb == "patch");
    created.filter_map(|write| write.name.strip_prefix("shop-")?.parse().ok()).collect()
}

async fn until_runs(scene: &Scene, least: usize) -> BTreeSet<i64> {
    scene
        .until(&format!("{least} runs have begun"), async || match times(scene) {
            times if times.len() >= least => Ok(times),
            times => Err(format!("{times:?}")),
        })
        .await
}

async fn ready(scene: &Scene) -> Value {
    scene.until_condition_of(&BACKUP, "shop", "Ready", "True", "RunSucceeded").await
}

fn is_in_step(times: &BTreeSet<i64>) -> bool {
    let pairs = times.iter().zip(times.iter().skip(1));
    pairs.clone().all(|(first, second)| (second - first) % INTERVAL == 0)
}

#[test]
fn a_backup_runs_at_its_interval_as_jobs_of_its_own_and_keeps_a_few_of_them() {
    run(async {
        let mut scene = scene("backup").await;
        let _host = start(&mut scene).await;
        scene.create(claim("data")).await;
        scene.create(claim("backups")).await;
        let limit = json!({ "successful": 2 });
        let parent = scene
            .create(backup(json!({
                "intervalSeconds": INTERVAL, "historyLimit": limit,
                "source": { "claimName": "data" }, "target": { "claimName": "backups" },
            })))
            .await;
        let status = ready(&scene).await["status"].clone();
        assert!(status["lastSuccessfulTime"].is_string() && status["lastRunTime"].is_string(), "{status:#}");
        let times = until_runs(&scene, 4).await;
        assert!(is_in_step(&times), "{times:?}");
        scene
            .until("no more Jobs are kept than the spec says, and the one that runs", async || {
                let jobs = scene.list(&JOB).await;
                let names: Vec<_> = jobs.iter().map(|job| &job["metadata"]["name"]).collect();
                if jobs.len() <= 3 { Ok(()) } else { Err(format!("{names:?}")) }
            })
            .await;
        let jobs = scene.list(&JOB).await;
        let job = jobs.first().expect("a Job is kept");
        let owner = &job["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["uid"], &owner["controller"]), (&parent["metadata"]["uid"], &json!(true)));
        let template = &job["spec"]["template"]["spec"];
        assert_eq!(template["volumes"][0]["persistentVolumeClaim"]["claimName"], "data", "{template:#}");
        let written = scene.recorded_writes().await;
        let changed = written.iter().filter(|write| write.is_about("jobs") && write.verb == "patch").count();
        assert_eq!(changed, self::times(&scene).len(), "each Job is written once and never changed: {written:#?}");

        scene.delete(&BACKUP, "shop").await;
        scene.gone(&BACKUP, "shop").await;
        for kind in [JOB, POD] {
            scene
                .until(&format!("each {} is gone", kind.kind), async || match scene.list(&kind).await {
                    left if left.is_empty() => Ok(()),
                    left => Err(format!("{} are left", left.len())),
                })
                .await;
        }
    });
}

#[test]
fn a_host_that_is_killed_and_started_again_doubles_no_run() {
    run(async {
        let mut scene = scene("backup-restart").await;
        let mut host = start(&mut scene).await;
        scene.create(backup(json!({ "command": ["true"], "intervalSeconds": INTERVAL }))).await;
        for least in [1, 2, 3, 4] {
            until_runs(&scene, least).await;
            host.kill();
            host = start(&mut scene).await;
        }
        let times = until_runs(&scene, 5).await;
        assert!(is_in_step(&times), "{times:?}");
        ready(&scene).await;
    });
}

#[test]
fn runs_that_fail_are_tried_again_and_after_the_last_try_the_backup_is_stalled_until_its_spec_changes() {
    run(async {
        let mut scene = scene("backup-failing").await;
        let _host = start(&mut scene).await;
        let retry = json!({ "baseDelaySeconds": 1, "maxTries": 2 });
        // A Pod waits for ever for a missing claim, so that the Job controller ends the Job at its deadline.
        scene
            .create(backup(json!({
                "command": ["true"], "source": { "claimName": "missing" },
                "failure": { "deadlineSeconds": 1, "retry": retry },
            })))
            .await;
        let object = scene.until_condition_of(&BACKUP, "shop", "Stalled", "True", "TriesExhausted").await;
        assert!(condition_parts(&object, "Stalled").2.contains("2 tries in a row failed"), "{object:#}");
        assert!(condition_parts(&object, "Ready").2.contains("DeadlineExceeded"), "{object:#}");
        assert!(object["status"]["nextRunTime"].is_null() && object["status"]["failedTries"] == 2, "{object:#}");
        assert!(object["status"]["lastSuccessfulTime"].is_null(), "{object:#}");
        scene.event("shop", "RunFailed", "DeadlineExceeded").await;
        scene.event("shop", "TriesExhausted", "2 tries in a row failed").await;
        assert_eq!(times(&scene).len(), 2);

        let change = json!({ "source": null, "failure": { "deadlineSeconds": null } });
        scene.merge(&BACKUP, "shop", json!({ "spec": change })).await;
        let object = ready(&scene).await;
        assert!(condition(&object, "Stalled").is_none() && object["status"]["failedTries"] == 0, "{object:#}");
        assert_eq!(times(&scene).len(), 3);
    });
}

#[test]
fn while_it_is_suspended_no_run_begins() {
    run(async {
        let mut scene = scene("backup-suspended").await;
        let _host = start(&mut scene).await;
        scene.create(backup(json!({ "command": ["true"], "intervalSeconds": INTERVAL }))).await;
        ready(&scene).await;
        scene.merge(&BACKUP, "shop", json!({ "spec": { "suspend": true } })).await;
        scene.until_condition_of(&BACKUP, "shop", "Running", "False", "Suspended").await;
        let before = times(&scene);
        assert!(scene.get(&BACKUP, "shop").await["status"]["nextRunTime"].is_null());
        let two = u64::try_from(2 * INTERVAL).expect("a short time");
        tokio::time::sleep(std::time::Duration::from_secs(two)).await;
        assert_eq!(times(&scene), before);
        scene.merge(&BACKUP, "shop", json!({ "spec": { "suspend": false } })).await;
        let after = until_runs(&scene, before.len() + 1).await;
        assert!(is_in_step(&after), "{before:?} {after:?}");
    });
}

/// A Backup whose first run begins at once, the next one never in a test, and a last one when it is deleted.
fn with_final_run() -> Value {
    backup(json!({ "command": ["true"], "finalRun": true }))
}

#[test]
fn a_deleted_backup_makes_a_last_run_and_goes_once_that_has_ended() {
    run(async {
        let mut scene = scene("backup-final").await;
        let _host = start(&mut scene).await;
        scene.create(with_final_run()).await;
        ready(&scene).await;
        let mut changes = scene.watch(&BACKUP).await;
        scene.delete(&BACKUP, "shop").await;
        let mut last = Value::Null;
        while let Some((what, object)) = changes.next().await {
            if what == "DELETED" {
                break;
            }
            last = object;
        }
        assert!(last["metadata"]["deletionTimestamp"].is_string(), "{last:#}");
        let job = last["status"]["finalJob"].as_str().expect("the last run was seen");
        assert_eq!(condition_parts(&last, "Running").1, "Deleted", "{last:#}");
        let (_, reason, message) = condition_parts(&last, "Ready");
        assert_eq!((reason, message), ("RunSucceeded", &*format!("the run {job} succeeded")), "{last:#}");
        assert_eq!(times(&scene).len(), 2, "one run before the deletion, and one after it");
        scene
            .until("the garbage collector deletes the last Job", async || match scene.list(&JOB).await {
                left if left.is_empty() => Ok(()),
                left => Err(format!("{} are left", left.len())),
            })
            .await;
    });
}

#[test]
fn in_a_namespace_that_is_being_deleted_a_backup_goes_though_its_last_run_is_refused() {
    run(async {
        let mut scene = scene("backup-going").await;
        let host = start(&mut scene).await;
        let mut object = with_final_run();
        // The first run waits for a claim, and the last one for the first: it is wanted only once Jobs are refused.
        object["spec"]["source"] = json!({ "claimName": "missing" });
        scene.create(object).await;
        scene.until_condition_of(&BACKUP, "shop", "Running", "True", "Running").await;
        scene.admin.delete(&NAMESPACE, "", &scene.namespace).await.expect("a deletion");
        scene.gone_namespace().await;
        let is_refused = |write: &Entry| write.is_about("jobs") && write.verb == "patch" && write.code == 403;
        let refused = scene.writes().into_iter().filter(is_refused).count();
        assert!((1..=5).contains(&refused), "it is no loop: {refused} times");
        let log = host.log();
        let of_namespace =
            |line: &&str| line.contains(&scene.namespace) && (line.contains("WARN") || line.contains("ERROR"));
        let said: Vec<_> = log.lines().filter(of_namespace).collect();
        assert!(said.is_empty(), "{said:#?}");
    });
}

#[test]
fn a_last_run_of_a_kind_that_spec_finalize_does_not_have_is_denied_until_it_has_it() {
    run(async {
        let mut scene = scene("backup-denied").await;
        let folder = Folder::of_plugin("backup");
        folder.edit("  finalize:\n    - group: batch\n      kind: Job\n", "");
        let host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.create(with_final_run()).await;
        ready(&scene).await;
        scene.delete(&BACKUP, "shop").await;
        let object = scene.until_condition_of(&BACKUP, "shop", "Reconciled", "False", "Denied").await;
        let (_, _, message) = condition_parts(&object, "Reconciled");
        assert!(message.contains("finalize: [{group: batch, kind: Job}]"), "{message}");
        assert_eq!(times(&scene).len(), 1, "no last run begins");
        folder.edit("  grants:\n", "  finalize: [{group: batch, kind: Job}]\n  grants:\n");
        scene.gone(&BACKUP, "shop").await;
        assert_eq!(times(&scene).len(), 2);
    });
}

#[test]
fn the_schema_refuses_invalid_intervals_and_a_backup_that_does_nothing() {
    run(async {
        let scene = scene("backup-schema").await;
        for (spec, says) in [
            (json!({ "command": ["true"], "intervalSeconds": -5 }), "spec.intervalSeconds"),
            (json!({ "command": ["true"], "intervalSeconds": 0 }), "spec.intervalSeconds"),
            (json!({ "command": ["true"], "intervalSeconds": 1e12 }), "spec.intervalSeconds"),
            (json!({ "command": ["true"], "intervalSeconds": "1h" }), "spec.intervalSeconds"),
            (json!({ "command": ["true"], "historyLimit": { "failed": 0 } }), "spec.historyLimit.failed"),
            (json!({ "command": ["true"], "failure": { "retry": { "maxTries": 0 } } }), "spec.failure.retry.maxTries"),
            (json!({ "source": { "claimName": "data" } }), "Name a command"),
            (json!({}), "Name a command"),
        ] {
            let refused = scene.try_create(backup(spec.clone())).await.expect_err(&spec.to_string());
            assert!(refused.code == 422 && refused.message.contains(says), "{spec}: {refused:?}");
        }
        let stored = scene.create(backup(json!({ "command": ["true"] }))).await;
        assert_eq!(stored["spec"]["intervalSeconds"], 3600);
        assert_eq!(stored["spec"]["failure"]["retry"]["maxTries"], 5, "{stored:#}");
    });
}
