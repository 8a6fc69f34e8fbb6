//! Hotshoe beside a native operator of the same logic and beside the API server's own limit, on a
//! real control plane, so that every figure is a ratio within one run.
//!
//! ```text
//!            ┌── raw writer ──────── the fewest requests that make the same end state ──┐
//!  harness ──┼── native operator ─── kube-rs with the plugin's code compiled in ────────┼──▶ API server
//!            └── hotshoe run ─────── the same code as a component ──────────────────────┘        │
//!     ▲                                                                                          │
//!     └──────────── an outside watcher says when each object has converged ◀─────────────────────┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `main.rs` | the command line |
//! | `quick.rs`, `swap.rs` | runs of several cells: which ones, in which order, and their figures |
//! | `hostile.rs` | a separate run: the host with a plugin that attacks the others |
//! | `fleet.rs` | a separate run: the memory of a host with many plugins |
//! | `model.rs` | a separate run: the model of the API server in which `hotshoe test` carries decisions out |
//! | `needs.rs` | a separate run: the memory of watching an object for each parent |
//! | `scrape.rs` | a separate run: scrapes of the metrics of many plugins |
//! | `failover.rs` | a separate run: two hosts of which one is killed again and again |
//! | `shards.rs` | a separate run: two hosts with a shard each beside one that has all |
//! | `kopf.rs` | a separate run: the nginx plugin in Python beside kopf |
//! | `admission.rs` | a separate run: creations that a webhook is asked about, beside one of controller-runtime (`webhook/`) |
//! | `conversion.rs` | a separate run: conversions, by the host and by controller-runtime |
//! | `native_webhook.rs` | the webhooks of controller-runtime, and the certificate that both have |
//! | `decisions.rs` | a separate run: one decision of the plugins in each language |
//! | `rig.rs` | the host with converged CRs, to which components are offered |
//! | `trickle.rs` | CRs changed steadily, and how long each change takes |
//! | `record.rs` | the rules that every write must follow while components are swapped |
//! | `cells/` | one measurement each: from a fresh control plane to an [`Outcome`](cells::Outcome) |
//! | `subject.rs` | the three clients in the picture, which are measured |
//! | `replica.rs`, `quota.rs` | one of several hosts, and a limit of its processor time |
//! | `raw.rs` | the raw writer |
//! | `native/` | the native operator, a process of its own (`bin/native.rs`) |
//! | `behaviour.rs`, `resource.rs` | the plugin's code called natively, and the typed resource |
//! | `plane.rs`, `client.rs`, `load.rs` | the control plane, requests to it, and the CRs created on it |
//! | `warm.rs` | the warm-up of a control plane before anything is measured on it |
//! | `watcher.rs`, `audit.rs`, `process.rs` | observations from outside: objects, requests, processor time and memory |
//! | `figure.rs`, `report.rs` | a figure with its target, and the report of all |

pub mod admission;
pub mod audit;
pub mod behaviour;
pub mod cells;
pub mod client;
pub mod conversion;
pub mod decisions;
pub mod failover;
pub mod figure;
pub mod fleet;
pub mod hostile;
pub mod kopf;
pub mod load;
pub mod model;
pub mod native;
pub mod native_webhook;
pub mod needs;
pub mod plane;
pub mod process;
pub mod quick;
pub mod quota;
pub mod raw;
pub mod record;
pub mod replica;
pub mod report;
pub mod resource;
pub mod rig;
mod rotation;
pub mod scrape;
pub mod shards;
pub mod subject;
pub mod swap;
pub mod trickle;
pub mod warm;
pub mod watcher;

use std::path::PathBuf;

/// The image that every subject puts into the Deployments.
pub const IMAGE: &str = "memcached:1.6-alpine";

/// The namespace of all CRs.
pub const NAMESPACE: &str = "bench";

/// Returns the absolute path of a path in the repository.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}
