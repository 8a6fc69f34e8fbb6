//! Requeues that a plugin requests, though nothing changes.

use hotshoe_tests::faulty::{fault, scene_with_faults, start};
use hotshoe_tests::guests::{Folder, reworded};
use hotshoe_tests::kinds::FAULT;
use hotshoe_tests::{Host, Scene, run};

const WORKS: &str = "this revision works";
/// The number of ticks that a test waits for.
const TICKS: u64 = 6;

async fn calls(host: &Host) -> u64 {
    let (_, metrics) = host.get("/metrics").await.expect("metrics");
    let series = "hotshoe_plugin_call_seconds_count{controller=\"faulty\"} ";
    let found = metrics.lines().find_map(|line| line.strip_prefix(series));
    found.and_then(|count| count.parse().ok()).unwrap_or_default()
}

async fn count(scene: &Scene) -> u64 {
    let events = scene.events("clock", "Tick").await;
    assert!(events.len() <= 1, "one Event is counted: {events:#?}");
    events.first().and_then(|event| event["count"].as_u64()).unwrap_or_default()
}

/// Waits until the Event has at least this count, and returns its count and the number of calls by then.
async fn calls_at(scene: &Scene, host: &Host, least: u64) -> (u64, u64) {
    scene
        .until(&format!("the Event was emitted {least} times"), async || match count(scene).await {
            count if count >= least => Ok((count, calls(host).await)),
            count => Err(format!("it was emitted {count} times")),
        })
        .await
}

async fn one_tick_is_one_call(scene: &mut Scene, folder: &Folder) -> Host {
    let host = start(scene, folder).await;
    scene.create(fault("clock", "tick")).await;
    let (first, before) = calls_at(scene, &host, 2).await;
    let (last, after) = calls_at(scene, &host, first + TICKS).await;
    let (ticks, calls) = (last - first, after - before);
    // There may be one more or less between the reading of the two numbers.
    assert!((ticks - 1..=ticks + 1).contains(&calls), "{calls} calls for {ticks} ticks\n{}", host.log());
    host
}

#[test]
fn a_requeue_that_is_due_is_a_call_though_nothing_has_changed_and_its_event_is_counted() {
    run(async {
        let mut scene = scene_with_faults("ticks").await;
        let folder = Folder::of_faulty();
        let _host = one_tick_is_one_call(&mut scene, &folder).await;
        let writes = scene.recorded_writes().await;
        let of_status = writes.iter().filter(|write| write.is_about("faults") && write.verb == "patch").count();
        assert!(of_status <= 4, "nothing is written where nothing has changed: {writes:#?}");
    });
}

#[test]
fn a_plugin_that_states_the_time_is_called_once_a_tick() {
    run(async {
        let mut scene = scene_with_faults("clock").await;
        let folder = Folder::of_faulty();
        folder.put(&reworded(folder.original(), WORKS, "this revision knows"));
        let _host = one_tick_is_one_call(&mut scene, &folder).await;
        let word = scene.get(&FAULT, "clock").await["status"]["word"].clone();
        scene.until_object(&FAULT, "clock", "states a later time", |clock| clock["status"]["word"] != word).await;
    });
}
