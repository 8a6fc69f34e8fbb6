//! The harness of the end-to-end tests: a real control plane, the host as a process of its own
//! under its own account, and a plain client that looks at both from outside.
//!
//! | file | contents |
//! |---|---|
//! | `control_plane.rs` | the control planes, and accounts on them |
//! | `host.rs` | the host as a process: started, killed, queried |
//! | `only_host.rs` | a host for one plugin in all namespaces, with exactly the rights that it needs |
//! | `scene.rs` | a namespace with a running host: where a test begins |
//! | `faulty.rs` | the plugin that fails as its parent asks for, and namespaces in which it runs |
//! | `crews.rs` | the plugin that converts, and its kind in a group for each test |
//! | `dictated.rs` | the plugin that desires the children in its parent's spec |
//! | `browser.rs` | a browser without windows |
//! | `guests.rs` | components: built, changed in a word, broken |
//! | `kstatus.rs` | what tools that wait for objects make of one |
//! | `kube.rs` | the plain client |
//! | `prometheus.rs` | a Prometheus as a process, which scrapes a host |
//! | `proxy.rs` | a proxy before the API server that keeps requests waiting |
//! | `registry.rs` | a registry as a process |
//! | `release.rs` | what a release consists of, and its image without an engine |
//! | `audit.rs` | who wrote what, as the API server recorded it |
//! | `webhook.rs` | a mutating webhook, served by the test |
//! | `wait.rs` | waiting for a condition with a deadline |
//!
//! A test waits for a condition and not for a time to pass; when the wait times out, it prints what was
//! seen last. Only to show that nothing happens, a test waits for a fixed time.

pub mod audit;
pub mod authority;
pub mod browser;
pub mod control_plane;
pub mod crews;
pub mod dictated;
pub mod faulty;
pub mod guests;
pub mod host;
pub mod kstatus;
pub mod kube;
pub mod only_host;
pub mod prometheus;
pub mod proxy;
pub mod registry;
pub mod release;
pub mod scene;
pub mod simulated;
pub mod wait;
pub mod webhook;

pub use control_plane::ControlPlane;
pub use host::Host;
pub use hotshoe_attacks::{self as attacks, kinds};
pub use kube::{Kube, Refused};
pub use prometheus::Prometheus;
pub use registry::Registry;
pub use scene::{Scene, memcached};
pub use wait::run;

use std::path::PathBuf;

/// Returns the absolute path of a path in the repository.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is below the root").join(path)
}

/// Returns the path of a program that `tests/install.sh` unpacks into this folder where the machine does not have it.
pub fn tool(folder: &str, program: &str) -> PathBuf {
    let unpacked = repository("target/tools").join(folder).join("bin").join(program);
    if unpacked.exists() { unpacked } else { program.into() }
}
