//! Attacks of several calls, and answers that the host clamps or cleans.

use std::time::{Duration, Instant};

use hotshoe_tests::attacks::named;
use hotshoe_tests::audit::Entry;
use hotshoe_tests::kinds::{ATTACK, CONFIG_MAP};
use hotshoe_tests::run;
use hotshoe_tests::scene::condition_parts;
use serde_json::{Value, json};

use super::rig::{Rig, attack};

/// How long a test watches for something that must not happen.
const OBSERVATION_TIME: Duration = Duration::from_secs(4);

/// Whether a text has no invisible character and no control character.
fn is_clean(text: &str) -> bool {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    !text.contains(steers)
}

#[test]
fn terminal_escape_sequences_are_removed_wherever_a_text_goes() {
    run(async {
        let rig = Rig::new("escapes").await;
        let row = named("escape sequences in log, Event and condition");
        rig.scene.create(attack("one", "escapes")).await;
        let object =
            rig.scene.until_object(&ATTACK, "one", "is served", |object| object["status"]["word"] == "escapes").await;
        let message = condition_parts(&object, "Kept").2;
        assert!(is_clean(message) && message.contains("red"), "{message:?}");
        let event = rig.scene.event("one", "Escaping", "red").await;
        assert!(is_clean(event["message"].as_str().unwrap()), "{event:#}");
        rig.host.until_logged(&["escapes", "forged line"]).await;
        rig.is_well(row.name).await;
        let row = named("escape sequences in a failure");
        rig.scene.create(attack("two", "escapes in a failure")).await;
        let object = rig.reports("two", row).await;
        let message = condition_parts(&object, "Reconciled").2;
        assert!(is_clean(message) && message.contains("red"), "{message:?}");
        let log = rig.host.log();
        assert!(log.lines().all(is_clean), "control characters are gone from the log");
        assert!(!log.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z ERROR")), "a line was forged");
        rig.recovers("two").await;
    });
}

#[test]
fn a_flood_of_log_lines_is_cut_short() {
    run(async {
        let rig = Rig::new("log-flood").await;
        let row = named("flood of log lines");
        rig.scene.create(attack("one", "log lines")).await;
        rig.scene
            .until("it is served", async || rig.scene.find(&CONFIG_MAP, "one").await.map(drop).ok_or("no child".into()))
            .await;
        rig.host.until_logged(&["flood 0 "]).await;
        let log = rig.host.log();
        let calls = log.lines().filter(|line| line.contains("flood 0 ")).count();
        let lines = log.lines().filter(|line| line.contains("flood ")).count();
        assert!(lines <= 100 * calls, "{lines} lines of {calls} calls");
        rig.is_well(row.name).await;
        rig.recovers("one").await;
    });
}

#[test]
fn state_that_a_plugin_keeps_is_gone_at_the_next_call() {
    run(async {
        let rig = Rig::new("hidden").await;
        rig.scene.create(attack("one", "hidden state")).await;
        let says_one = |object: &Value| object["status"]["word"] == "call 1 of this instance";
        rig.scene.until_object(&ATTACK, "one", "is served", says_one).await;
        for round in 0..10 {
            let calls = rig.calls().await;
            rig.scene.merge(&ATTACK, "one", json!({ "spec": { "round": round } })).await;
            rig.host
                .until("it is called again", async || match rig.calls().await {
                    now if now > calls => Ok(()),
                    now => Err(format!("{now} calls")),
                })
                .await;
            let object = rig.scene.get(&ATTACK, "one").await;
            assert!(says_one(&object), "{:#}", object["status"]);
        }
        rig.is_well(named("state kept for the next call").name).await;
        rig.recovers("one").await;
    });
}

#[test]
fn a_requeue_is_neither_a_loop_nor_an_overflow() {
    run(async {
        let rig = Rig::new("requeue").await;
        for (word, most) in [("soon", 6), ("never", 0)] {
            rig.scene.create(attack(word, word)).await;
            rig.scene
                .until("it is served", async || {
                    rig.scene.find(&CONFIG_MAP, word).await.map(drop).ok_or("no child".to_owned())
                })
                .await;
            // The calls that its own writes cause come first.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let before = rig.calls().await;
            tokio::time::sleep(OBSERVATION_TIME).await;
            let calls = rig.calls().await - before;
            assert!(calls <= most, "{word}: {calls} calls in {OBSERVATION_TIME:?}");
            rig.is_well(word).await;
            rig.recovers(word).await;
            rig.forget(word).await;
        }
        let row = named("retry after u64::MAX");
        rig.scene.create(attack("late", "retry at the end of time")).await;
        rig.reports("late", row).await;
        rig.is_well(row.name).await;
        rig.recovers("late").await;
    });
}

#[test]
fn a_plugin_that_turns_bad_after_a_hundred_calls_leaves_its_last_good_child() {
    run(async {
        let rig = Rig::new("hundred").await;
        let row = named("a trap after a hundred good calls");
        rig.scene.create(attack("one", "a hundred good calls")).await;
        rig.scene.until_condition_of(&ATTACK, "one", "Reconciled", "False", row.reason).await;
        rig.scene.event("one", row.reason, "that was enough").await;
        assert_eq!(rig.scene.get(&CONFIG_MAP, "one").await["data"]["calls"], "100");
        rig.is_well(row.name).await;
        rig.recovers("one").await;
    });
}

#[test]
fn children_are_not_deleted_all_at_once_even_after_good_decisions() {
    run(async {
        let rig = Rig::new("prune").await;
        let row = named("no children after a good life");
        rig.scene.create(attack("one", "")).await;
        rig.serves("one").await;
        let before = rig.scene.get(&CONFIG_MAP, "one").await;
        rig.scene.merge(&ATTACK, "one", json!({ "spec": { "attack": "nothing" } })).await;
        rig.scene.until_condition_of(&ATTACK, "one", "Reconciled", "False", row.reason).await;
        rig.scene.event("one", row.reason, "pruneAll").await;
        rig.is_well(row.name).await;
        assert_eq!(rig.scene.get(&CONFIG_MAP, "one").await["metadata"], before["metadata"], "nothing was written");
        rig.recovers("one").await;
    });
}

/// A server-side apply removes the fields that it leaves out, and the API server refuses a status without
/// any field.
#[test]
fn a_status_that_is_left_out_is_left_alone() {
    run(async {
        let rig = Rig::new("silent").await;
        rig.scene.create(attack("one", "")).await;
        rig.serves("one").await;
        rig.scene.merge(&ATTACK, "one", json!({ "spec": { "attack": "silence" } })).await;
        let is_silent =
            |object: &Value| condition_parts(object, "Kept").0.is_empty() && object["status"]["word"] == "good";
        rig.scene.until_object(&ATTACK, "one", "is silent", is_silent).await;
        // Where the plugin never stated a status, the host's own condition is removed, too.
        rig.scene.create(attack("two", "panic")).await;
        rig.scene.until_condition_of(&ATTACK, "two", "Reconciled", "False", "Trapped").await;
        rig.scene.merge(&ATTACK, "two", json!({ "spec": { "attack": "silence" } })).await;
        rig.scene
            .until_object(&ATTACK, "two", "is well", |object| condition_parts(object, "Reconciled").0.is_empty())
            .await;
        let writes = rig.scene.recorded_writes().await.len();
        rig.scene.merge(&ATTACK, "two", json!({ "spec": { "round": 1 } })).await;
        rig.is_well("silence").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let later = rig.scene.recorded_writes().await;
        let again: Vec<_> = later[writes..].iter().filter(|write| write.name == "two" || write.name == "one").collect();
        assert!(again.is_empty(), "the status is left alone: {again:#?}");
        // A write of the healthy plugin may conflict with that of a controller.
        let is_overtaken = |write: &&Entry| write.code == 409 && write.user.ends_with(":memcached");
        assert!(later.iter().all(|write| write.code < 400 || is_overtaken(&write)), "{later:#?}");
        // And the parent is deleted at once.
        let began = Instant::now();
        rig.forget("one").await;
        rig.forget("two").await;
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    });
}

#[test]
fn a_plugin_that_decides_differently_each_time_delays_no_other() {
    run(is_slowed_down("flip", "another decision at every call", 20.0));
}

#[test]
fn a_plugin_whose_calls_never_end_delays_no_other() {
    run(is_slowed_down("count", "a new decision at every call, for ever", 3.0));
}

async fn is_slowed_down(attack_name: &str, row: &str, most: f64) {
    let rig = Rig::new(attack_name).await;
    let row = named(row);
    rig.scene.create(attack("one", attack_name)).await;
    rig.host.until_logged(&["WARN", "slowed down", "one"]).await;
    rig.is_well(row.name).await;
    let (before, began) = (rig.scene.recorded_writes().await.len(), Instant::now());
    tokio::time::sleep(OBSERVATION_TIME).await;
    let writes = rig.scene.recorded_writes().await.len() - before;
    let rate = writes as f64 / began.elapsed().as_secs_f64();
    println!("{}: {rate:.1} writes a second", row.name);
    assert!(rate <= most, "{rate:.1} writes a second");
    rig.is_well(row.name).await;
    rig.recovers("one").await;
}
