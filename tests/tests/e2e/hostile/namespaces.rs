//! Parents of one namespace that have much to do delay none of another namespace.

use std::cell::Cell;

use hotshoe_tests::guests::{Folder, attacker};
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP};
use hotshoe_tests::{Host, Scene, run};
use serde_json::{Value, json};

use super::plane;
use super::rig::{attack, with_spec};

/// The attacker with many deletions.
const NUMBER: usize = 9;
/// The attacker whose answers are denied.
const DENIED: usize = 8;
/// More parents than are reconciled at once.
const PARENTS: usize = 12;
/// The children of each of these parents.
const CHILDREN: usize = 25;

/// A parent of an attacker with so many children.
fn parent(number: usize, name: &str, children: usize) -> Value {
    of_attacker(number, with_spec(name, desires(name, children)))
}

fn of_attacker(number: usize, mut parent: Value) -> Value {
    parent["metadata"]["labels"] = json!({ "attacker": attacker(number) });
    parent
}

fn desires(name: &str, children: usize) -> Value {
    let child = |number| {
        let name = format!("{name}-{number}");
        json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": name, "body": "{\"data\":{}}" })
    };
    json!({ "attack": "dictated", "children": (0..children).map(child).collect::<Vec<_>>() })
}

/// Two namespaces in which one host serves the parents of an attacker.
async fn two_namespaces(number: usize, names: [&str; 2], folder: &Folder) -> ([Scene; 2], Host) {
    let (plane, name) = (plane().await, attacker(number));
    let mut scenes = [Scene::new(plane, names[0]).await, Scene::new(plane, names[1]).await];
    plane.create_account(&name).await;
    plane.allow_impersonation(&name).await;
    for scene in &scenes {
        plane.bind(&name, "tests-hostile", &scene.namespace).await;
    }
    let host = Start::new(plane).await.plugins(&[folder.path()]).ready().await;
    scenes.iter_mut().for_each(|scene| scene.watch_log(&host));
    (scenes, host)
}

/// Returns the number of children in a namespace.
async fn children(scene: &Scene) -> usize {
    let all = scene.list(&CONFIG_MAP).await;
    all.iter().filter(|child| child["metadata"]["ownerReferences"].is_array()).count()
}

/// Waits until the number of children in a namespace is as expected.
async fn until_children(scene: &Scene, what: &str, expected: impl Fn(usize) -> bool) {
    scene
        .until(what, async || match children(scene).await {
            count if expected(count) => Ok(()),
            count => Err(format!("{count} children")),
        })
        .await;
}

#[test]
fn many_deletions_in_one_namespace_delay_no_deletion_in_another() {
    run(async {
        let folder = Folder::of_attacker(NUMBER);
        folder.edit("    compileTime: 3s\n", "    compileTime: 3s\n    deletionsPerSecond: 5\n");
        let ([busy, quiet], _host) = two_namespaces(NUMBER, ["busy", "quiet"], &folder).await;
        let names: Vec<_> = (0..PARENTS).map(|number| format!("many-{number}")).collect();
        for name in &names {
            busy.create(parent(NUMBER, name, CHILDREN)).await;
        }
        quiet.create(parent(NUMBER, "one", 2)).await;
        until_children(&busy, "all children are there", |count| count == PARENTS * CHILDREN).await;
        until_children(&quiet, "both children are there", |count| count == 2).await;

        for name in &names {
            busy.merge(&ATTACK, name, json!({ "spec": desires(name, 1) })).await;
        }
        until_children(&busy, "their deletion has begun", |count| count < PARENTS * CHILDREN).await;
        quiet.merge(&ATTACK, "one", json!({ "spec": desires("one", 1) })).await;
        until_children(&quiet, "one child is deleted", |count| count == 1).await;
        let left = children(&busy).await;
        assert!(left > PARENTS * CHILDREN / 2, "{left} children are left in the busy namespace");
    });
}

#[test]
fn an_object_that_keeps_changing_and_failing_holds_up_the_objects_of_its_own_namespace_only() {
    run(async {
        let ([evil, quiet], host) = two_namespaces(DENIED, ["evil", "neighbour"], &Folder::of_attacker(DENIED)).await;
        quiet.create(parent(DENIED, "first", 1)).await;
        until_children(&quiet, "the first object is served", |count| count == 1).await;
        evil.create(of_attacker(DENIED, attack("bad", "many conditions"))).await;
        let round = Cell::new(0);
        let open = host
            .until("the circuit of the namespace is open", async || {
                evil.merge(&ATTACK, "bad", json!({ "spec": { "round": round.get() } })).await;
                round.set(round.get() + 1);
                let circuit = circuit(&host).await?;
                if circuit["namespaces"][0].is_object() { Ok(circuit) } else { Err(format!("{circuit:#}")) }
            })
            .await;
        assert_eq!(open["namespaces"][0]["parent"], format!("{}/bad", evil.namespace), "{open:#}");
        for number in 0..10 {
            evil.merge(&ATTACK, "bad", json!({ "spec": { "round": 1_000 + number } })).await;
            quiet.create(parent(DENIED, &format!("later-{number}"), 1)).await;
            until_children(&quiet, "the next object is served", |count| count == 2 + number).await;
            let circuit = circuit(&host).await.expect("the status");
            assert_eq!(circuit["state"], "closed", "{circuit:#}");
        }
        let (status, words) = host.ask(&["status"]);
        let named = format!("namespace {0}: circuit open", evil.namespace);
        assert!(status.success() && words.contains(&named) && words.contains("/bad"), "{words}");
        evil.merge(&ATTACK, "bad", json!({ "spec": { "attack": "" } })).await;
        evil.until_condition_of(&ATTACK, "bad", "Kept", "True", "").await;
    });
}

/// Returns the state of the circuits of the only plugin of a host.
async fn circuit(host: &Host) -> Result<Value, String> {
    Ok(host.plugin_named(&attacker(DENIED)).await?["breaker"].clone())
}
