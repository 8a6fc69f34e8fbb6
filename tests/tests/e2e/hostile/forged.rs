//! Objects that must never be written. The gate denies each of them even for an account that could write it.
//! Where RBAC, Pod Security or the policy of the host's namespace can express that, the API server forbids it
//! even without the gate.

use hotshoe_tests::attacks::forged::{Forged, Place};
use hotshoe_tests::attacks::{ATTACKS, Attack, How, Layer, named};
use hotshoe_tests::control_plane::{CLOSED, SYSTEM};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::{CONFIG_MAP, DEPLOYMENT, DOOR, SECRET};
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{Kube, Refused, Scene, run, wait};
use http::Method;
use serde_json::{Value, json};

use super::rig::{Rig, with_spec};
use super::{ADMIN, HOSTILE, plane, user};

/// Rows that need a plugin with another grant.
const SECRETS_GRANTED: [&str; 2] =
    ["a ServiceAccount's token, where Secrets are granted", "a release of Helm's, where Secrets are granted"];
/// A row that needs a plugin that owns the custom kind.
const FOREIGN_PODS: &str = "containers in a custom kind";
/// An account that may write everything everywhere and is tried without a host. It is not [`ADMIN`], because tests
/// check all writes of that account.
const EVERYWHERE: &str = "hostile-everywhere";

fn rows() -> impl Iterator<Item = (&'static Attack, fn(&Place<'_>) -> Vec<Forged>)> {
    ATTACKS.iter().filter_map(|row| match row.how {
        How::Forged(objects) => Some((row, objects)),
        _ => None,
    })
}

fn dictating(name: &str, objects: &[Forged]) -> Value {
    let children: Vec<Value> = objects.iter().map(Forged::dictated).collect();
    with_spec(name, json!({ "attack": "dictated", "children": children }))
}

#[test]
fn the_gate_denies_what_the_account_would_be_allowed() {
    run(async {
        let rig = Rig::with("forged", ADMIN, Folder::of_hostile()).await;
        let theirs = rig.scene.get(&CONFIG_MAP, "kube-root-ca.crt").await;
        let mut children = vec!["first".to_owned()];
        for (number, (row, objects)) in rows().enumerate() {
            let is_apart = SECRETS_GRANTED.contains(&row.name) || row.name == FOREIGN_PODS;
            if !row.stopped.contains(&Layer::Gate) || is_apart {
                continue;
            }
            let (name, child) = (format!("row-{number}"), format!("forged-{number}"));
            let place = Place { namespace: &rig.scene.namespace, name: &child };
            rig.scene.create(dictating(&name, &objects(&place))).await;
            rig.reports(&name, row).await;
            rig.is_well(row.name).await;
            rig.recovers(&name).await;
            rig.forget(&name).await;
            children.push(name);
        }
        let now = rig.scene.get(&CONFIG_MAP, "kube-root-ca.crt").await;
        assert_eq!(now["metadata"]["resourceVersion"], theirs["metadata"]["resourceVersion"]);
        rig.wrote_only(&children).await;
    });
}

#[test]
fn the_name_of_a_foreign_object_is_a_conflict_and_the_object_stays_as_it_is() {
    run(async {
        let rig = Rig::with("taken", ADMIN, Folder::of_hostile()).await;
        let row = named("the name of an object that is another tenant's");
        let How::Forged(objects) = row.how else { panic!("{}", row.name) };
        let theirs = rig.scene.get(&CONFIG_MAP, "kube-root-ca.crt").await;
        let place = Place { namespace: &rig.scene.namespace, name: "any" };
        rig.scene.create(dictating("one", &objects(&place))).await;
        rig.scene.event("one", row.reason, "kube-root-ca.crt").await;
        assert_eq!(rig.scene.get(&CONFIG_MAP, "kube-root-ca.crt").await, theirs);
        rig.is_well(row.name).await;
        rig.recovers("one").await;
        assert_eq!(rig.scene.get(&CONFIG_MAP, "kube-root-ca.crt").await, theirs);
    });
}

#[test]
fn the_gate_denies_a_token_and_a_release_also_where_secrets_are_granted() {
    run(async {
        let folder = Folder::of_hostile_owning(&SECRET);
        folder.edit("kind: Secret\n", "kind: Secret\n      names: [forged]\n");
        let rig = Rig::with("token", ADMIN, folder).await;
        let place = Place { namespace: &rig.scene.namespace, name: "forged" };
        for row in SECRETS_GRANTED.map(named) {
            let How::Forged(objects) = row.how else { panic!("{}", row.name) };
            rig.scene.create(dictating("one", &objects(&place))).await;
            rig.reports("one", row).await;
            assert!(rig.scene.find(&SECRET, "forged").await.is_none());
            rig.is_well(row.name).await;
            rig.recovers("one").await;
            rig.forget("one").await;
        }
    });
}

#[test]
fn the_gate_denies_containers_in_a_custom_kind_until_they_are_granted() {
    run(async {
        let row = named(FOREIGN_PODS);
        let How::Forged(objects) = row.how else { panic!("{}", row.name) };
        let rig = Rig::with("foreign-pods", ADMIN, Folder::of_hostile_owning(&DOOR)).await;
        let place = Place { namespace: &rig.scene.namespace, name: "forged" };
        rig.scene.create(dictating("one", &objects(&place))).await;
        rig.reports("one", row).await;
        rig.scene.event("one", row.reason, "foreignPods").await;
        assert!(rig.scene.find(&DOOR, "forged").await.is_none());
        rig.is_well(row.name).await;
        rig.folder.edit("kind: Door\n", "kind: Door\n      foreignPods: true\n");
        rig.scene.until_object(&DOOR, "forged", "is there", |door| door["spec"]["containers"][0].is_object()).await;
        rig.recovers("one").await;
    });
}

/// Sends the same write under the plugin's account, without a host.
async fn written(host: &Kube, plugin: &str, object: &Forged) -> Result<Value, Refused> {
    let user = user(plugin);
    let of = |content_type| [("Content-Type", content_type), ("Impersonate-User", user.as_str())];
    if object.kind.plural.is_empty() && !object.path.ends_with("/scale") {
        // A subresource that is written by a POST request.
        return host.request_with(Method::POST, &object.path, &of("application/json"), &object.applied()).await;
    }
    let path = format!("{}?fieldManager=hotshoe%2F{plugin}&force=true", object.path);
    host.request_with(Method::PATCH, &path, &of("application/apply-patch+yaml"), &object.applied()).await
}

#[test]
fn the_api_server_forbids_what_it_can_without_any_gate() {
    run(async {
        let plane = plane().await;
        let scene = Scene::new(plane, "no-gate").await;
        plane.bind(HOSTILE, "tests-hostile", &scene.namespace).await;
        let host = Kube::of(&plane.kubeconfig_of(SYSTEM, "hotshoe").await).await;
        // Its rights are in force, and suffice for what it was granted.
        let fine = Forged {
            path: CONFIG_MAP.path(&scene.namespace, Some("fine")),
            kind: CONFIG_MAP,
            namespace: None,
            name: "fine".into(),
            body: json!({ "data": { "a": "b" } }),
        };
        written(&host, HOSTILE, &fine).await.expect("what was granted is allowed");
        for (number, (row, objects)) in rows().enumerate() {
            let by_rbac = [Layer::Rbac, Layer::RbacByNamespace].iter().any(|layer| row.stopped.contains(layer));
            if !by_rbac && !row.stopped.contains(&Layer::PodSecurity) {
                continue;
            }
            let name = format!("forged-{number}");
            for object in objects(&Place { namespace: &scene.namespace, name: &name }) {
                let answer = written(&host, HOSTILE, &object).await;
                if object.kind.kind == DEPLOYMENT.kind && !by_rbac {
                    answer.unwrap_or_else(|refused| panic!("{}: {}", row.name, refused.message));
                    has_no_pods(&scene, &name).await;
                    continue;
                }
                let refused = answer.err().unwrap_or_else(|| panic!("{}: it is written", row.name));
                assert_eq!(refused.code, 403, "{}: {}", row.name, refused.message);
                let words = if by_rbac { "cannot" } else { "violates PodSecurity" };
                assert!(refused.message.contains(words), "{}: {}", row.name, refused.message);
            }
        }
    });
}

/// Checks that a workload has no Pods: Pod Security admits the workload itself and refuses its Pods.
async fn has_no_pods(scene: &Scene, name: &str) {
    let object = scene.until_condition_of(&DEPLOYMENT, name, "ReplicaFailure", "True", "FailedCreate").await;
    assert!(condition_parts(&object, "ReplicaFailure").2.contains("violates PodSecurity"), "{object:#}");
    let pods = scene.list(&hotshoe_tests::kinds::POD).await;
    assert!(!pods.iter().any(|pod| pod["metadata"]["name"].as_str().is_some_and(|pod| pod.starts_with(name))));
}

#[test]
fn the_policy_forbids_the_namespace_of_the_host_to_an_account_that_may_write_everywhere() {
    run(async {
        let plane = plane().await;
        let scene = Scene::new(plane, "everywhere").await;
        plane.create_account(EVERYWHERE).await;
        plane.allow_impersonation(EVERYWHERE).await;
        let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
        plane.grant(EVERYWHERE, "tests-hostile-everywhere", &everything).await;
        plane.until_closed().await;
        let host = Kube::of(&plane.kubeconfig_of(SYSTEM, "hotshoe").await).await;
        for (row, objects) in rows().filter(|(row, _)| row.stopped.contains(&Layer::Policy)) {
            for object in objects(&Place { namespace: &scene.namespace, name: "any" }) {
                // New rights take a moment to be in force.
                wait::until(row.name, wait::TIMEOUT, async || match written(&host, EVERYWHERE, &object).await {
                    Err(Refused { code: 403, message, .. }) if message.contains(CLOSED) => Ok(()),
                    answer => Err(format!("{answer:?}")),
                })
                .await;
            }
        }
    });
}
