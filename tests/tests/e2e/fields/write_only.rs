//! The texts of a Secret, which the API server stores as its data.

use hotshoe_tests::dictated::{change, child, create, host, written_with_another};
use hotshoe_tests::kinds::SECRET;
use hotshoe_tests::run;
use serde_json::{Value, json};

fn secret(body: &Value) -> [Value; 1] {
    [child(&SECRET, "one", body)]
}

#[test]
fn a_secret_has_exactly_the_desired_texts_and_edits_of_them_are_reverted() {
    run(async {
        let (scene, _folder, _host) = host("texts", &SECRET).await;
        create(&scene, &secret(&json!({ "stringData": { "a": "1", "b": "2" } }))).await;
        let has = |data: Value| move |secret: &Value| secret["data"] == data;
        scene.until_object(&SECRET, "one", "has both", has(json!({ "a": "MQ==", "b": "Mg==" }))).await;
        let only = secret(&json!({ "stringData": { "a": "1" } }));
        change(&scene, &only).await;
        scene.until_object(&SECRET, "one", "has only a", has(json!({ "a": "MQ==" }))).await;
        scene.merge(&SECRET, "one", json!({ "data": { "a": "eA==" } })).await;
        scene.until_object(&SECRET, "one", "is repaired", has(json!({ "a": "MQ==" }))).await;
        scene.merge(&SECRET, "one", json!({ "data": { "theirs": "eA==" } })).await;
        assert_eq!(written_with_another(&scene, &only, ["secrets", "none"]).await, [0, 0]);
        let both = json!({ "a": "MQ==", "theirs": "eA==" });
        assert_eq!(scene.get(&SECRET, "one").await["data"], both, "what others add stays");
        change(&scene, &secret(&json!({ "data": { "a": "eA==", "c": "eA==" }, "stringData": { "a": "3" } }))).await;
        let mixed = json!({ "a": "Mw==", "c": "eA==", "theirs": "eA==" });
        scene.until_object(&SECRET, "one", "has both forms", has(mixed)).await;
    });
}

#[test]
fn a_secret_that_an_earlier_host_applied_with_texts_loses_the_keys_that_are_no_longer_desired() {
    run(async {
        let (scene, folder, mut host) = host("texts-earlier", &SECRET).await;
        let only = secret(&json!({ "stringData": { "a": "1" } }));
        create(&scene, &only).await;
        let secret = scene.until_object(&SECRET, "one", "is there", |_| true).await;
        // As a host that applied the texts themselves left it.
        host.stop();
        let metadata = json!({
            "name": "one", "labels": secret["metadata"]["labels"], "ownerReferences": secret["metadata"]["ownerReferences"],
            "annotations": { "hotshoe.dev/applied": "earlier" },
        });
        let earlier = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": { "a": "1", "b": "2" },
        });
        scene.apply("hotshoe%2Flists", earlier).await;
        assert_eq!(scene.get(&SECRET, "one").await["data"]["b"], "Mg==");
        let _host = scene.start().await.plugins(&[folder.path()]).ready().await;
        scene.until_object(&SECRET, "one", "has only a", |secret| secret["data"] == json!({ "a": "MQ==" })).await;
        assert_eq!(written_with_another(&scene, &only, ["secrets", "none"]).await, [0, 0]);
    });
}
