//! A conversion webhook that is away. While objects are stored in a version that has to be converted, that disturbs the
//! deletion of all namespaces.

use hotshoe_tests::ControlPlane;
use hotshoe_tests::crews::Crews;
use serde_json::json;

use super::run_alone;

#[test]
fn a_host_that_starts_with_nothing_cached_converts_what_its_own_watch_begins_with() {
    run_alone(async {
        let mut crews = Crews::stored_in(ControlPlane::alone().await, "converts-itself", "v1beta1").await;
        let mut host = crews.host().await;
        crews.switch_on().await;
        for number in 0..20 {
            crews.create(&crews.v1beta1(), &format!("crew-{number}"), json!({ "size": number, "port": 80 })).await;
        }
        crews.store_v1().await;
        host.kill();
        crews.scene.plane.stop_api_server();
        crews.scene.plane.start_api_server();
        // The list that it begins with is converted by itself.
        let _host = crews.host().await;
        for number in 0..20 {
            crews.seen(&format!("crew-{number}"), number).await;
        }
        crews.end().await;
    });
}

#[test]
fn while_no_host_converts_objects_are_served_in_the_stored_version_and_the_operator_goes_on() {
    run_alone(async {
        let mut crews = Crews::stored_in(ControlPlane::alone().await, "no-converter", "v1").await;
        let mut host = crews.host().await;
        crews.switch_on().await;
        crews.create(&crews.v1beta1(), "crew", json!({ "size": 1 })).await;
        crews.seen("crew", 1).await;
        // A webhook that is not served, beside the host.
        crews.switch_to("https://127.0.0.1:1").await;
        crews
            .scene
            .until("no host converts", async || match crews.try_get(&crews.v1beta1(), "crew").await {
                Err(refused) if refused.message.contains("conversion webhook for") => Ok(()),
                answer => Err(format!("{answer:?}")),
            })
            .await;
        crews.scene.merge(&crews.v1(), "crew", json!({ "spec": { "replicas": 2 } })).await;
        crews.seen("crew", 2).await;
        crews.switch_on().await;
        host.kill();
        let refused = crews.try_get(&crews.v1beta1(), "crew").await.expect_err("no host converts");
        assert!(refused.code == 500 && refused.message.contains("conversion webhook for"), "{refused:?}");
        crews.scene.merge(&crews.v1(), "crew", json!({ "spec": { "replicas": 3 } })).await;
        let _host = crews.host().await;
        crews.seen("crew", 3).await;
        assert_eq!(crews.try_get(&crews.v1beta1(), "crew").await.expect("it is converted")["spec"]["size"], 3);
        crews.end().await;
    });
}

#[test]
fn without_any_host_a_namespace_ends_whose_objects_are_stored_in_the_preferred_version() {
    run_alone(async {
        let mut crews = Crews::stored_in(ControlPlane::alone().await, "preferred-version", "v1").await;
        let mut host = crews.host().await;
        crews.switch_on().await;
        crews.create(&crews.v1beta1(), "crew", json!({ "size": 1 })).await;
        crews.seen("crew", 1).await;
        host.kill();
        crews.scene.plane.restart_controllers();
        crews.scene.admin.delete(&hotshoe_tests::kinds::NAMESPACE, "", &crews.scene.namespace).await.expect("it goes");
        crews.scene.gone_namespace().await;
        crews.end().await;
    });
}

#[test]
fn without_any_host_the_way_out_for_objects_that_are_stored_in_another_version_is_to_switch_conversion_off() {
    run_alone(async {
        let mut crews = Crews::stored_in(ControlPlane::alone().await, "way-out", "v1beta1").await;
        let mut host = crews.host().await;
        crews.switch_on().await;
        crews.create(&crews.v1beta1(), "crew", json!({ "size": 1 })).await;
        crews.store_v1().await;
        crews.seen("crew", 1).await;
        crews.create(&crews.v1beta1(), "unseen", json!({ "size": 1 })).await;
        host.kill();
        crews.scene.admin.delete(&hotshoe_tests::kinds::NAMESPACE, "", &crews.scene.namespace).await.expect("it goes");
        crews.switch_off().await;
        crews.scene.gone_namespace().await;
        crews.end().await;
    });
}
