//! Lists that are never answered, as over a connection that a load balancer has dropped without a reset.

use std::time::Duration;

use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::faulty::scene;
use hotshoe_tests::kinds::MEMCACHED;
use hotshoe_tests::proxy::Proxy;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::{memcached, run};
use serde_json::json;

use crate::fleet::rig::Rig;

/// How long something may take that a hanging list must not delay: less than the time limit of the list.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_list_that_is_never_answered_holds_up_no_other_plugin() {
    run(async {
        let (rig, proxy) = Rig::behind_proxy("hanging").await;
        let (hung, other) = (rig.memcached("hung").await, rig.faulty("other").await);
        for guest in [&hung, &other] {
            rig.apply(guest).await;
            rig.until_ready(guest).await;
        }
        proxy.hold_lists("memcacheds");
        rig.delete(&hung).await;
        rig.host.until("the list waits", async || (proxy.held() > 0).then_some(()).ok_or("not yet".to_owned())).await;

        rig.merge(&other, json!({ "spec": { "paused": true } })).await;
        let third = rig.faulty("third").await;
        rig.apply(&third).await;
        let paused = rig.until_condition(&other, "Ready", "False", "Paused");
        tokio::time::timeout(SOON, paused).await.expect("another plugin is paused meanwhile");
        let taken = rig.until_condition(&third, "Stalled", "True", "ParentsTaken");
        tokio::time::timeout(SOON, taken).await.expect("a new plugin has a status meanwhile");
        let (code, text) = rig.host.get("/readyz").await.expect("an answer");
        assert_eq!(code, 200, "{text}");

        let stalled = rig.until_condition(&hung, "Stalled", "True", "ParentsUnknown").await;
        let message = condition_parts(&stalled, "Stalled").2;
        assert!(message.contains("no answer for 30 s"), "{message}");
        proxy.answer();
        rig.until_gone(&hung).await;
    });
}

#[test]
fn a_watch_whose_relist_is_never_answered_says_so_and_recovers() {
    run(async {
        let mut scene = scene("relisted").await;
        let proxy = Proxy::before(scene.plane, SYSTEM, "hotshoe").await;
        let host = scene.start().await.kubeconfig(&proxy.kubeconfig()).ready().await;
        scene.watch_log(&host);
        scene.create(memcached("served", 1)).await;
        scene.available("served").await;

        proxy.hold_lists("memcacheds");
        proxy.end_watches();
        host.until("the list waits", async || (proxy.held() > 0).then_some(()).ok_or("not yet".to_owned())).await;
        scene.merge(&MEMCACHED, "served", json!({ "spec": { "size": 2 } })).await;
        host.until_logged(&["WARN", "no answer for 30 s"]).await;
        let plugin = host.plugin().await;
        assert!(plugin["waiting"].as_str().is_some_and(|why| why.contains("no answer for 30 s")), "{plugin:#}");
        assert_eq!(plugin["ready"], false, "{plugin:#}");

        proxy.answer();
        scene.available("served").await;
        host.ready().await;
    });
}
