//! A kind whose conversion webhook does not answer: its objects can neither be listed nor read.

use hotshoe_tests::faulty::{fault, install_faults_of, scene_with_faults};
use hotshoe_tests::guests::{Folder, memcached as memcached_folder, reworded};
use hotshoe_tests::kinds::{CRD, FAULT, UNLISTED_FAULT};
use hotshoe_tests::{memcached, repository, run};
use serde_json::{Value, json};

#[test]
fn a_kind_whose_conversion_fails_does_not_keep_a_host_from_serving_the_others() {
    run(async {
        let mut scene = scene_with_faults("unconverted").await;
        let definition = std::fs::read_to_string(repository("tests/fixtures/faulty/crd.yaml")).expect("a CRD");
        install_faults_of(scene.plane, UNLISTED_FAULT.group, &definition).await;
        let folder = Folder::of_faulty();
        folder.edit(FAULT.group, UNLISTED_FAULT.group);
        folder.put(&reworded(folder.original(), FAULT.group, UNLISTED_FAULT.group));

        // The object is stored in a version of which only the webhook can make the other one.
        let crd = format!("faults.{}", UNLISTED_FAULT.group);
        let mut stored = scene.admin.get(&CRD, "", &crd).await.expect("the CRD")["spec"]["versions"][0].clone();
        stored["name"] = "v2".into();
        let nowhere = json!({ "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/" },
        } });
        let patch = json!([
            { "op": "replace", "path": "/spec/versions/0/storage", "value": false },
            { "op": "add", "path": "/spec/versions/-", "value": stored },
            { "op": "add", "path": "/spec/conversion", "value": nowhere },
        ]);
        scene.admin.json_patch(&CRD, "", &crd, &patch).await.expect("another version is stored");
        let mut object = fault("one", "");
        object["apiVersion"] = format!("{}/v2", UNLISTED_FAULT.group).into();
        object["metadata"]["namespace"] = scene.namespace.clone().into();
        let path = UNLISTED_FAULT.path(&scene.namespace, None).replace("/v1/", "/v2/");
        scene
            .until("the version is served", async || {
                let created = scene.admin.request(http::Method::POST, &path, "application/json", &object).await;
                created.map(drop).or_else(|refused| match refused.code {
                    409 => Ok(()),
                    _ => Err(refused.message),
                })
            })
            .await;

        let host = scene.start().await.plugins(&[&memcached_folder(), folder.path()]).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("served", 1)).await;
        scene.available("served").await;
        let broken = host
            .until("the plugin of the kind is not ready", async || {
                let plugin = host.plugin_named("faulty").await?;
                let says = plugin["waiting"].as_str().is_some_and(|why| why.contains("conversion webhook"));
                if says { Ok(plugin) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        assert_eq!(broken["ready"], Value::Bool(false), "{broken:#}");
        assert_eq!(host.get("/readyz").await.expect("an answer"), (200, "ok\n".to_owned()));
        scene.admin.delete(&CRD, "", &crd).await.expect("the CRD goes");
    });
}
