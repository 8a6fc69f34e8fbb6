//! What the Memcached plugin does, row by row, seen by a plain client. One host watches all
//! namespaces; each test has a namespace of its own, which enforces Pod Security `restricted`.

#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod children;
mod deletion;
mod drift;
mod first_sight;
mod foreign;
mod identity;
mod names;
mod refused;
mod schema;
mod status;

use hotshoe_tests::host::Start;
use hotshoe_tests::{ControlPlane, Host, Scene};
use tokio::sync::OnceCell;

/// The host of this test binary.
async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    HOST.get_or_init(|| async { Start::new(ControlPlane::shared().await).await.ready().await }).await
}

/// A namespace in which it is at work.
async fn scene(name: &str) -> Scene {
    let host = host().await;
    Scene::with(ControlPlane::shared().await, host, name).await
}
