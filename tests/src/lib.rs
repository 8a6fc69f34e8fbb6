//! The harness of the end-to-end tests: a real control plane, the host as a process of its own
//! under its own account, and a plain client that looks at both from outside.
//!
//! | file | contents |
//! |---|---|
//! | `control_plane.rs` | the control planes, and accounts on them |
//! | `host.rs` | the host as a process: started, killed, asked |
//! | `scene.rs` | a namespace with a running host: where a test begins |
//! | `guests.rs` | components: built, changed in a word, broken |
//! | `kube.rs` | the plain client |
//! | `registry.rs` | a registry as a process |
//! | `audit.rs` | who wrote what, as the API server recorded it |
//! | `webhook.rs` | a mutating webhook, served by the test |
//! | `wait.rs` | waiting for a condition with a deadline |
//!
//! A test waits for what it expects and not for a time to pass; when a deadline ends the wait, it
//! prints what was seen last. Only where nothing is to happen it looks on for a while.

pub mod audit;
pub mod control_plane;
pub mod guests;
pub mod host;
pub mod kube;
pub mod registry;
pub mod scene;
pub mod wait;
pub mod webhook;

pub use control_plane::ControlPlane;
pub use host::Host;
pub use hotshoe_attacks::{self as attacks, kinds};
pub use kube::{Kube, Refused};
pub use registry::Registry;
pub use scene::{Scene, memcached};
pub use wait::run;

use std::path::PathBuf;

/// A path below the repository's root.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is below the root").join(path)
}
