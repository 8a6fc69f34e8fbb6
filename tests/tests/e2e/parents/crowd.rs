//! Many objects, first changing and then unchanged.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, stream};
use hotshoe_tests::audit::Entry;
use hotshoe_tests::faulty::scene;
use hotshoe_tests::kinds::{DEPLOYMENT, MEMCACHED, SERVICE};
use hotshoe_tests::scene::is_settled;
use hotshoe_tests::{Host, Scene, memcached, run};
use serde_json::{Value, json};

const OBJECTS: usize = 200;
const QUIET_PERIOD: Duration = Duration::from_secs(20);

async fn create(scene: &Scene, count: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("cache-{number}")).collect();
    let created = stream::iter(&names).map(|name| scene.create(memcached(name, 1)));
    created.buffer_unordered(16).collect::<Vec<_>>().await;
}

async fn all_settled(scene: &Scene, count: usize) {
    scene
        .until_within(Duration::from_secs(150), &format!("{count} are available"), async || {
            let objects = scene.admin.list(&MEMCACHED, &scene.namespace).await.map_err(|refused| refused.message)?;
            let settled = objects.iter().filter(|object| is_settled(object)).count();
            if settled == count { Ok(()) } else { Err(format!("{settled} of {}", objects.len())) }
        })
        .await;
}

/// The sum of a metric over its labels.
async fn metric(host: &Host, name: &str) -> Result<f64, String> {
    let (_, text) = host.get("/metrics").await?;
    let of_name = text.lines().filter(|line| line.starts_with(name));
    Ok(of_name.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}

/// Waits until a host that has just been started has reconciled at least so many objects.
async fn has_looked_at(host: &Host, count: f64) {
    host.until(&format!("{count} objects were looked at"), async || {
        let looked = metric(host, "controller_runtime_reconcile_total").await?;
        let waiting =
            metric(host, "workqueue_depth").await? + metric(host, "controller_runtime_active_workers").await?;
        if looked >= count && waiting == 0.0 { Ok(()) } else { Err(format!("{looked}, and {waiting} to do")) }
    })
    .await;
}

fn assert_minimal(writes: &[Entry]) {
    let refused: Vec<_> = writes.iter().filter(|write| write.code >= 400).collect();
    assert!(refused.is_empty(), "{} writes are refused, such as {:#?}", refused.len(), refused.first());
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for write in writes {
        *counts.entry((&write.resource, &write.subresource)).or_default() += 1;
    }
    for once in [("memcacheds", ""), ("deployments", ""), ("services", "")] {
        assert_eq!(counts[&once], OBJECTS, "{once:?} in {counts:?}");
    }
    // The steps are: started, Deployment exists, Pod exists, ready. Some of them coincide.
    let statuses = counts[&("memcacheds", "status")];
    assert!((2 * OBJECTS..=5 * OBJECTS).contains(&statuses), "{statuses} writes of the status");
    assert_eq!(counts.len(), 4, "nothing else is written: {counts:?}");
}

#[test]
fn two_hundred_objects_cost_as_much_as_one_each_and_nothing_once_settled() {
    run(async {
        let mut scene = scene("crowd").await;
        let mut host = scene.own_host().await;
        create(&scene, OBJECTS).await;
        all_settled(&scene, OBJECTS).await;
        for (kind, suffix) in [(DEPLOYMENT, ""), (SERVICE, "-service")] {
            let mut names: Vec<_> =
                scene.list(&kind).await.iter().map(|child| child["metadata"]["name"].to_string()).collect();
            names.sort();
            let mut expected: Vec<_> = (0..OBJECTS).map(|number| format!("\"cache-{number}{suffix}\"")).collect();
            expected.sort();
            assert_eq!(names, expected);
        }
        let writes = scene.recorded_writes().await;
        assert_minimal(&writes);

        tokio::time::sleep(QUIET_PERIOD).await;
        let later = scene.recorded_writes().await;
        assert_eq!(later.len(), writes.len(), "{:#?}", later.get(writes.len()..));

        let calls = metric(&host, "hotshoe_plugin_call_seconds_count").await.unwrap();
        for number in 0..20 {
            let touch = json!({ "metadata": { "annotations": { "touched": "yes" } } });
            scene.merge(&MEMCACHED, &format!("cache-{number}"), touch).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let later = scene.recorded_writes().await;
        assert_eq!(later.len(), writes.len(), "a touch is no reason to write: {:#?}", later.get(writes.len()..));
        let calls = metric(&host, "hotshoe_plugin_call_seconds_count").await.unwrap() - calls;
        assert!(calls <= 20.0, "{calls} calls of the plugin for 20 touches");

        host.kill();
        let host = scene.own_host().await;
        has_looked_at(&host, 200.0).await;
        let later = scene.recorded_writes().await;
        assert_eq!(later.len(), writes.len(), "a restart is no reason to write: {:#?}", later.get(writes.len()..));
    });
}

#[test]
fn objects_that_wait_for_the_host_are_served_when_it_starts() {
    run(async {
        let mut scene = scene("waiting").await;
        create(&scene, 30).await;
        let _host = scene.own_host().await;
        all_settled(&scene, 30).await;
        let writes = scene.recorded_writes().await;
        assert!(writes.iter().all(|write| write.code < 400), "{writes:#?}");
    });
}

#[test]
fn a_resize_of_many_at_once_reaches_them_all() {
    run(async {
        let mut scene = scene("resizes").await;
        let _host = scene.own_host().await;
        create(&scene, 20).await;
        let names: Vec<String> = (0..20).map(|number| format!("cache-{number}")).collect();
        for size in [3, 1, 2] {
            let resized =
                stream::iter(&names).map(|name| scene.merge(&MEMCACHED, name, json!({ "spec": { "size": size } })));
            resized.buffer_unordered(8).collect::<Vec<Value>>().await;
        }
        all_settled(&scene, 20).await;
        let sizes: Vec<_> =
            scene.list(&DEPLOYMENT).await.iter().map(|child| child["spec"]["replicas"].clone()).collect();
        assert!(sizes.iter().all(|size| *size == 2), "{sizes:?}");
    });
}
