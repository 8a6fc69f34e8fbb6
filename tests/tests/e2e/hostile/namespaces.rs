//! Parents of one namespace that have much to do delay none of another namespace.

use hotshoe_tests::guests::{Folder, attacker};
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP};
use hotshoe_tests::{Scene, run};
use serde_json::{Value, json};

use super::plane;
use super::rig::with_spec;

/// The attacker of this test.
const NUMBER: usize = 9;
/// More parents than are reconciled at once.
const PARENTS: usize = 12;
/// The children of each of these parents.
const CHILDREN: usize = 25;

/// A parent with so many children.
fn parent(name: &str, children: usize) -> Value {
    let mut parent = with_spec(name, desires(name, children));
    parent["metadata"]["labels"] = json!({ "attacker": attacker(NUMBER) });
    parent
}

fn desires(name: &str, children: usize) -> Value {
    let child = |number| {
        let name = format!("{name}-{number}");
        json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": name, "body": "{\"data\":{}}" })
    };
    json!({ "attack": "dictated", "children": (0..children).map(child).collect::<Vec<_>>() })
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
        let (plane, name) = (plane().await, attacker(NUMBER));
        let (mut busy, mut quiet) = (Scene::new(plane, "busy").await, Scene::new(plane, "quiet").await);
        plane.create_account(&name).await;
        plane.allow_impersonation(&name).await;
        for scene in [&busy, &quiet] {
            plane.bind(&name, "tests-hostile", &scene.namespace).await;
        }
        let folder = Folder::of_attacker(NUMBER);
        folder.edit("    compileTime: 3s\n", "    compileTime: 3s\n    deletionsPerSecond: 5\n");
        let host = Start::new(plane).await.plugins(&[folder.path()]).ready().await;
        busy.watch_log(&host);
        quiet.watch_log(&host);
        let names: Vec<_> = (0..PARENTS).map(|number| format!("many-{number}")).collect();
        for name in &names {
            busy.create(parent(name, CHILDREN)).await;
        }
        quiet.create(parent("one", 2)).await;
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
