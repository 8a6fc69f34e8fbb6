//! What a host must not forget, even when it runs in a new Pod without any of the old files.

use hotshoe_tests::{guests, memcached, run};

use super::rig::Rig;

#[test]
fn a_host_with_an_empty_cache_knows_the_refused_approved_and_active_revisions() {
    run(async {
        let mut rig = Rig::new("remembered").await;
        let guest = rig.memcached("remembered").await;
        rig.apply(&guest).await;
        let first = rig.until_ready(&guest).await;
        rig.scene.create(memcached("served", 1)).await;
        rig.scene.available("served").await;
        guest.folder.put(&guests::reworded(guest.folder.original(), "0.1.0", "0.1.1"));
        let is_second = |object: &serde_json::Value| {
            object["status"]["digest"] != first["status"]["digest"]
                && object["status"]["revisions"][1]["state"] == "Replaced"
        };
        let second = rig.until(&guest, "has the second revision", is_second).await;
        rig.replace_host().await;
        let after = rig.until_ready(&guest).await;
        assert_eq!(after["status"]["revisions"], second["status"]["revisions"]);
        assert_eq!(after["status"]["history"], second["status"]["history"]);
        assert_eq!(after["status"]["finalizers"], second["status"]["finalizers"]);
    });
}
