//! Answers that are within the limits in bytes, but cost the API server or the host more than their size.

use hotshoe_tests::attacks::named;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use hotshoe_tests::webhook::HangingWebhook;

use super::rig::{Rig, attack};

/// The number of the fixture's children in this attack.
const CHILDREN: usize = 12;

#[test]
fn a_child_of_too_many_fields_is_denied_before_anything_is_written() {
    run(async {
        let rig = Rig::new("fields").await;
        let row = named("child of 110,000 keys");
        rig.scene.create(attack("bulk", "many keys")).await;
        let object = rig.reports("bulk", row).await;
        let message = condition_parts(&object, "Reconciled").2;
        for words in ["ConfigMap", "bulk", "has 110002 fields", "limits.fieldsPerChild (10000)"] {
            assert!(message.contains(words), "{message}");
        }
        assert!(rig.scene.find(&CONFIG_MAP, "bulk").await.is_none(), "a child was written");
        assert!(rig.metric("hotshoe_denied_total{controller=\"hostile\",rule=\"too-many-fields\"} ").await > 0);
        rig.recovers("bulk").await;
        rig.is_well(row.name).await;
        rig.wrote_only(&["first".to_owned(), "bulk".to_owned()]).await;
    });
}

#[test]
fn many_children_with_the_maximum_of_fields_are_written_at_the_plugins_rate() {
    run(async {
        let rig = Rig::new("large").await;
        let delayed = "hotshoe_plugin_writes_delayed_total{controller=\"hostile\"} ";
        assert_eq!(rig.metric(delayed).await, 0);
        rig.scene.create(attack("large", "many large children")).await;
        for number in 0..CHILDREN {
            let name = format!("large-{number}");
            rig.scene.until_object(&CONFIG_MAP, &name, "is written", |_| true).await;
        }
        // The write of one such child takes ninety of the hundred tokens of the rate limit.
        let waited = rig.metric(delayed).await;
        assert!(waited >= CHILDREN as u64 - 2, "{waited} waited");
        assert_eq!(rig.plugin().await["breaker"]["state"], "closed");
        rig.recovers("large").await;
        rig.scene.gone(&CONFIG_MAP, "large-0").await;
        // No check of the memory: after megabytes of children and replies, the allocator keeps more than other attacks
        // may leave.
        rig.serves_the_other().await;
    });
}

#[test]
fn a_plugin_that_keeps_desiring_invalid_children_is_not_called_for_a_while() {
    run(async {
        let rig = Rig::new("invalid").await;
        let row = named("children that the API server finds invalid, again and again");
        for number in 0..6 {
            rig.scene.create(attack(&format!("invalid-{number}"), "invalid children")).await;
        }
        rig.host
            .until("the circuit is open", async || {
                let plugin = rig.plugin().await;
                if plugin["breaker"]["state"] == "open" { Ok(()) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        // A good call closes it.
        rig.scene.create(attack("good", "")).await;
        rig.serves("good").await;
        for number in 0..6 {
            rig.scene.delete(&ATTACK, &format!("invalid-{number}")).await;
        }
        rig.is_well(row.name).await;
    });
}

#[test]
fn a_plugin_whose_writes_alone_time_out_is_not_called_for_a_while() {
    run(async {
        let rig = Rig::new("unanswered").await;
        let webhook = HangingWebhook::of(&rig.scene, &CONFIG_MAP).await;
        for number in 0..8 {
            rig.scene.create(attack(&format!("one-{number}"), "")).await;
        }
        rig.host
            .until("the circuit is open", async || {
                // The other plugin's writes are answered meanwhile.
                rig.is_well("writes without an answer").await;
                let plugin = rig.plugin().await;
                if plugin["breaker"]["state"] == "open" { Ok(()) } else { Err(format!("{plugin:#}")) }
            })
            .await;
        let plugin = rig.plugin().await;
        let last = plugin["unanswered"]["last"].as_str().unwrap_or_default();
        assert!(last.contains("ConfigMap") && last.contains("one-"), "{plugin:#}");
        assert!(rig.metric("hotshoe_plugin_writes_unanswered_total{controller=\"hostile\"} ").await >= 2);
        let (_, words) = rig.host.ask(&["status"]);
        assert!(words.contains("had no answer in time while the API server answers others"), "{words}");
        webhook.remove(&rig.scene).await;
    });
}
