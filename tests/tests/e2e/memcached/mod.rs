//! What the Memcached plugin does, row by row, seen by a plain client. One host watches all
//! namespaces; each test has a namespace of its own, which enforces Pod Security `restricted`.

mod children;
mod first_sight;
mod scale;
mod schema;

use hotshoe_tests::host::Start;
use hotshoe_tests::{ControlPlane, Host, Scene};
use tokio::sync::OnceCell;

/// The host of this test binary.
pub(crate) async fn host() -> &'static Host {
    static HOST: OnceCell<Host> = OnceCell::const_new();
    HOST.get_or_init(|| async { Start::new(ControlPlane::of_one_host().await).await.ready().await }).await
}

/// Creates a namespace that the host watches.
pub(crate) async fn scene(name: &str) -> Scene {
    let host = host().await;
    Scene::with(ControlPlane::of_one_host().await, host, name).await
}
