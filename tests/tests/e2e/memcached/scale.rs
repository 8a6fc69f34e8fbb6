//! `kubectl scale`, and what autoscalers see.

use hotshoe_tests::kinds::{MEMCACHED, MEMCACHED_V1ALPHA1, POD};
use hotshoe_tests::{memcached, run};
use serde_json::{Value, json};

use super::scene;

#[test]
fn kubectl_scale_sets_the_size_and_autoscalers_find_the_pods() {
    run(async {
        let scene = scene("scale").await;
        scene.create(memcached("cache", 1)).await;
        scene.available("cache").await;
        let scaled = scene.kubectl(&["scale", "memcached", "cache", "--replicas", "5"]);
        assert!(scaled.status.success(), "{}", String::from_utf8_lossy(&scaled.stderr));
        let object = scene.available("cache").await;
        assert_eq!((&object["spec"]["size"], &object["status"]["replicas"]), (&json!(5), &json!(5)));
        for kind in [MEMCACHED, MEMCACHED_V1ALPHA1] {
            let path = format!("{}/scale", kind.path(&scene.namespace, Some("cache")));
            let scale = scene.admin.request(http::Method::GET, &path, "application/json", &Value::Null).await;
            let scale = scale.expect("a scale");
            assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(5), &json!(5)));
            let selector = scale["status"]["selector"].as_str().expect("a selector");
            let path = format!("{}?labelSelector={}", POD.path(&scene.namespace, None), selector.replace('=', "%3D"));
            let pods = scene.admin.request(http::Method::GET, &path, "application/json", &Value::Null).await;
            assert_eq!(pods.expect("Pods")["items"].as_array().map(Vec::len), Some(5), "{selector}");
        }
        for (replicas, words) in [("0", "Size must be between 1 and 10."), ("11", "Size must be between 1 and 10.")] {
            let refused = scene.kubectl(&["scale", "memcached", "cache", "--replicas", replicas]);
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(!refused.status.success() && said.contains(words), "{said}");
        }
    });
}
