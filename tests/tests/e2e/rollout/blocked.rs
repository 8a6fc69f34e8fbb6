//! A component whose watches the host may not open.

use hotshoe_core::model::digest::Digest;
use hotshoe_tests::faulty::{WORKS, another, scene_with_faults, serves, until_digest};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::{Scene, run};
use serde_json::json;
use tempfile::TempDir;

use super::activation::start;

const INGRESSES: &str =
    "    - group: networking.k8s.io\n      kind: Ingress\n      verbs: [get, list, watch, create]\n";

/// Grants or revokes the host's right to watch a kind that only one revision needs.
async fn may_see_ingresses(scene: &Scene, may: bool) {
    let verbs = if may { json!(["list", "watch"]) } else { json!(["get"]) };
    let rules = json!([{ "apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": verbs }]);
    scene.plane.grant("hotshoe", "tests-ingresses", &rules).await;
}

#[test]
fn a_kind_that_cannot_be_watched_delays_its_own_component_and_no_other() {
    run(async {
        let mut scene = scene_with_faults("unseen").await;
        may_see_ingresses(&scene, false).await;
        let (folder, cache) = (Folder::of_faulty(), TempDir::new().expect("a folder"));
        folder.edit("  grants:\n", &format!("  grants:\n{INGRESSES}"));
        let host = start(&mut scene, folder.path(), cache.path()).await;
        let first = host.digest().await;
        let lacking = reworded(folder.original(), WORKS, "this revision lacks");
        folder.put(&lacking);
        // The component waits for its watches for longer than a command waits.
        let (status, words) = host.ask(&["reload", "faulty"]);
        assert!(!status.success() && words.contains("is not active after") && words.contains("Ingress"), "{words}");
        let plugin = host.plugin().await;
        assert_eq!((&plugin["digest"], &plugin["ready"]), (&json!(first), &json!(true)), "{plugin:#}");
        assert!(!plugin["watches"].to_string().contains("Ingress"), "{plugin:#}");
        // Meanwhile the status says which component waits, and for what.
        let waiting = Digest::of(&lacking);
        assert!(words.contains(&format!("activating: {waiting}: ")), "{words}");
        assert_eq!(plugin["inProgress"]["digest"], waiting.full(), "{plugin:#}");
        assert!(plugin["inProgress"]["waitsFor"].to_string().contains("Ingress"), "{plugin:#}");
        let (_, words) = host.ask(&["status"]);
        assert!(words.contains(&format!("activating: {waiting}: ")) && words.contains("Ingress"), "{words}");
        host.until_logged(&["WARN", "faulty", &format!("digest={waiting}"), "is not active yet", "Ingress"]).await;
        serves(&scene, "meanwhile").await;
        may_see_ingresses(&scene, true).await;
        until_digest(&host, &lacking).await;
        assert!(host.plugin().await["inProgress"].is_null());
        let second = another(&folder, 1);
        folder.put(&second);
        until_digest(&host, &second).await;
        may_see_ingresses(&scene, false).await;
        let digest = Digest::of(&lacking).full();
        let (status, words) = host.ask(&["rollback", "faulty", "--to", &digest]);
        assert!(!status.success() && words.contains("is not ready after") && words.contains("Ingress"), "{words}");
        // The host follows the file again.
        let third = another(&folder, 2);
        folder.put(&third);
        until_digest(&host, &third).await;
        serves(&scene, "later").await;
        // A rollback does not forget the component that was being activated.
        let lines = || host.log().lines().filter(|line| line.contains("ngress")).count();
        let before = lines();
        folder.put(&lacking);
        let waits = async || if lines() > before { Ok(()) } else { Err("its watch is not logged".to_owned()) };
        host.until("it waits for its watch", waits).await;
        let (status, words) = host.ask(&["rollback", "faulty"]);
        assert!(status.success(), "{words}");
        let refused = host.plugin().await["refused"].clone();
        assert!(refused["message"].to_string().contains("while it was being activated"), "{refused:#}");
        assert_eq!(refused["digest"], digest, "{refused:#}");
    });
}
