//! Several hosts share the work by Leases. Each test has hosts of its own, which watch a namespace of its own and so
//! have Leases of their own; all of those are in the namespace of the hosts.

mod by_hand;
mod replicas;
mod rights;
mod shards;

use std::time::Duration;

use hotshoe_tests::audit::Entry;
use hotshoe_tests::control_plane::SYSTEM;
use hotshoe_tests::host::Start;
use hotshoe_tests::kinds::LEASE;
use hotshoe_tests::{ControlPlane, Host, Scene, wait};
use serde_json::Value;

/// The maximum time until another host takes over after a crash.
const AFTER_CRASH: Duration = Duration::from_secs(15);
/// The duration of a Lease.
const DURATION: Duration = Duration::from_secs(10);

async fn scene(name: &str) -> Scene {
    Scene::new(ControlPlane::shared().await, name).await
}

/// Returns the name of the Lease of a scene's hosts.
pub(crate) fn lease_name(scene: &Scene) -> String {
    format!("hotshoe-{}", scene.namespace)
}

async fn lease(scene: &Scene) -> Option<Value> {
    match scene.admin.get(&LEASE, SYSTEM, &lease_name(scene)).await {
        Ok(lease) => Some(lease),
        Err(refused) if refused.code == 404 => None,
        Err(refused) => panic!("the Lease cannot be read: {}", refused.message),
    }
}

/// Returns the status of a host's first Lease.
async fn lease_status(host: &Host) -> Result<Value, String> {
    Ok(host.status().await?["leases"][0].clone())
}

/// Waits until a host holds its first Lease.
pub(crate) async fn holds(host: &Host, timeout: Duration) {
    let held = wait::attempt(timeout, async || {
        let lease = lease_status(host).await?;
        if lease["held"] == true { Ok(()) } else { Err(format!("{lease:#}")) }
    });
    if let Err(seen) = held.await {
        panic!("it does not hold the Lease after {timeout:?}: {seen}\n{}", host.log());
    }
}

/// Waits until a host knows that another holds its first Lease.
async fn stands_by(host: &Host) {
    host.until("it stands by", async || {
        let lease = lease_status(host).await?;
        let is_anothers = lease["held"] == false && lease["holder"].is_string();
        if is_anothers { Ok(()) } else { Err(format!("{lease:#}")) }
    })
    .await;
}

/// Starts two hosts, of which the first works, and waits until both are ready.
async fn two(start: &Start) -> (Host, Host) {
    let first = start.ready().await;
    holds(&first, wait::TIMEOUT).await;
    let second = start.ready().await;
    stands_by(&second).await;
    (first, second)
}

/// Returns the requests about the Leases of a scene that were answered, in order.
fn requests(scene: &Scene) -> Vec<Entry> {
    let name = lease_name(scene);
    let mut entries = scene.plane.audit(SYSTEM);
    entries.retain(|entry| entry.is_about("leases") && entry.name.starts_with(&name) && entry.verb != "watch");
    entries
}
