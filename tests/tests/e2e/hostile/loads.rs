//! Files that cannot be loaded as a component: each is refused with a reason, and the last good component stays
//! active.

use hotshoe_tests::attacks::components::Offered;
use hotshoe_tests::attacks::{ATTACKS, How, named};
use hotshoe_tests::guests::Folder;
use hotshoe_tests::kinds::ATTACK;
use hotshoe_tests::run;
use serde_json::json;

use super::HOSTILE;
use super::rig::{Rig, attack};

#[test]
fn a_component_that_cannot_be_loaded_is_refused_with_its_reason_and_the_last_good_one_stays_active() {
    run(async {
        let rig = Rig::new("loads").await;
        rig.scene.create(attack("one", "")).await;
        rig.serves("one").await;
        let good = rig.plugin().await["digest"].clone();
        for (number, row) in ATTACKS.iter().enumerate() {
            let How::Offered(offered) = row.how else { continue };
            let offered = offered(rig.folder.original());
            let began = std::time::Instant::now();
            rig.offers(&offered);
            let refused = rig
                .host
                .until(&format!("{} is refused", row.name), async || {
                    let plugin = rig.plugin().await;
                    let found = &plugin["refused"];
                    let is_it = match &offered {
                        Offered::Bytes(bytes) => {
                            found["digest"] == hotshoe_core::model::digest::Digest::of(bytes).full()
                        }
                        _ => found["reason"] == row.reason,
                    };
                    if is_it { Ok(plugin.clone()) } else { Err(format!("{plugin:#}")) }
                })
                .await;
            println!("{}: {} after {:?}", row.name, refused["refused"]["reason"], began.elapsed());
            assert_eq!(refused["refused"]["reason"], row.reason, "{}: {refused:#}", row.name);
            assert_eq!((&refused["digest"], &refused["ready"]), (&good, &json!(true)), "{}: {refused:#}", row.name);
            let message = refused["refused"]["message"].as_str().expect("a message");
            assert!(!message.is_empty() && message.len() < 2_000 && !message.contains('\n'), "{message}");
            let (_, said) = rig.host.ask(&["status"]);
            assert!(said.contains("not activated") && said.contains(row.reason), "{}: {said}", row.name);
            rig.host.until_logged(&["ERROR", "hostile", row.reason]).await;
            let line = format!("hotshoe_plugin_revisions_total{{controller=\"hostile\",reason=\"{}\"}} ", row.reason);
            assert!(rig.metric(&line).await > 0, "{}: no metric has {}", row.name, row.reason);
            // The last good component is called, and serves.
            let calls = rig.calls().await;
            rig.scene.merge(&ATTACK, "one", json!({ "spec": { "round": number } })).await;
            rig.host
                .until("the good one is called", async || match rig.calls().await {
                    now if now > calls => Ok(()),
                    now => Err(format!("{now} calls")),
                })
                .await;
            rig.serves("one").await;
            rig.is_well(row.name).await;
        }
        rig.folder.put(rig.folder.original());
        rig.host
            .until("nothing is refused any more", async || {
                let plugin = rig.plugin().await;
                if plugin["refused"].is_null() { Ok(()) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        rig.wrote_only(&["first".to_owned(), "one".to_owned()]).await;
    });
}

#[test]
fn without_spec_parent_neither_a_pod_nor_the_parent_of_another_plugin_is_accepted() {
    run(async {
        let folder = Folder::of_hostile();
        folder.edit("  parent:\n    group: fixtures.example.com\n    kind: Attack\n", "");
        let rig = Rig::with("unnamed", HOSTILE, folder).await;
        let good = rig.plugin().await["digest"].clone();
        for (name, words) in [("parent is a Pod", "Kubernetes itself"), ("parent of another plugin", "memcached")] {
            let How::Offered(offered) = named(name).how else { panic!("{name} is no component") };
            let Offered::Bytes(component) = offered(rig.folder.original()) else { panic!("{name} is no component") };
            rig.folder.put(&component);
            let digest = hotshoe_core::model::digest::Digest::of(&component).full();
            let refused = rig
                .host
                .until(&format!("{name} is refused"), async || {
                    let plugin = rig.plugin().await;
                    if plugin["refused"]["digest"] == digest { Ok(plugin) } else { Err(format!("{plugin:#}")) }
                })
                .await;
            assert_eq!((&refused["refused"]["reason"], &refused["digest"]), (&json!("NotGranted"), &good));
            assert!(refused["refused"]["message"].to_string().contains(words), "{refused:#}");
            rig.is_well(name).await;
        }
    });
}
