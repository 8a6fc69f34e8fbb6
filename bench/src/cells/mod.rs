//! The cells: each is one measurement.
//!
//! | file | what is measured |
//! |---|---|
//! | `cold.rs` | a start with existing CRs |
//! | `live.rs` | CRs created while the subject runs |
//! | `steady.rs` | converged CRs: unchanged, annotated, after a restart, after an outage of the API server |
//! | `shadow.rs` | a shadow run of another component |
//! | `first.rs` | from the digest of another component to its first decision |
//! | `pause.rs` | the delay of a reconcile while a component is published |
//! | `swapping.rs` | changes acted upon while components are swapped |
//! | `recorder.rs` | many changes and many swaps, observed from outside |
//! | `decision.rs` | one decision, in a fresh instance and natively |

pub mod cold;
pub mod decision;
pub mod first;
pub mod live;
pub mod pause;
pub mod recorder;
pub mod shadow;
pub mod steady;
pub mod swapping;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::NAMESPACE;
use crate::audit::{Audit, Write};
use crate::plane::{Manifests, Plane};
use crate::process::{Memory, Process};
use crate::subject::{Programs, Subject, plugin_calls};

/// A run that takes longer is void.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The setup of a cell.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of CRs.
    pub count: usize,
    /// The paths of the programs.
    pub programs: Programs,
    /// The manifests that are applied to each control plane.
    pub manifests: Manifests,
}

/// The measurements of one subject: times in seconds, memory in megabytes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// How long the creation of the CRs took.
    pub created: f64,
    /// From the first request or the start until all CRs had converged.
    pub converged: f64,
    /// From the sending of a creation until the CR had converged, the median.
    pub latency_p50: f64,
    /// The same, the 99th percentile.
    pub latency_p99: f64,
    /// Processor time until nothing was written any more.
    pub cpu: f64,
    /// Processor time of the API server and etcd meanwhile.
    pub server_cpu: f64,
    /// Memory of the idle process before the CRs.
    pub idle: Memory,
    /// Memory of the idle process with the CRs.
    pub with_crs: Memory,
    /// Calls of the plugin, where there is one.
    pub plugin_calls: u64,
    /// Writes by verb, resource and code.
    pub writes: BTreeMap<String, u64>,
    /// Writes that were refused because something had changed.
    pub conflicts: u64,
    /// Writes of children that were refused.
    pub failed_creates: u64,
}

impl Outcome {
    fn count(&mut self, writes: &BTreeMap<Write, u64>) {
        for (write, count) in writes {
            self.writes.insert(write.to_string(), *count);
            if write.code == 409 {
                self.conflicts += count;
            }
            if write.failed() && !write.resource.starts_with("memcacheds") {
                self.failed_creates += count;
            }
        }
    }

    async fn record_memory_and_calls(&mut self, subject: Subject, process: &Process) -> Result<()> {
        self.with_crs = process.at_rest().await?;
        if subject == Subject::Host {
            self.plugin_calls = plugin_calls(process).await?;
        }
        Ok(())
    }

    /// Returns the number of successful writes of a resource.
    pub fn written(&self, resource: &str) -> u64 {
        let is_it = |write: &str| write.split(' ').nth(1) == Some(resource);
        self.writes.iter().filter(|(write, _)| is_it(write)).map(|(_, count)| count).sum()
    }
}

/// Begins to count a subject's writes.
fn audit(plane: &Plane, subject: Subject) -> Result<Audit> {
    Audit::of(plane.audit_log(), &[&subject.user()])
}

/// Checks that each CR has its own Deployment and Service and that there are no others; otherwise the run is void.
async fn verify(plane: &Plane, count: usize) -> Result<()> {
    for path in ["apis/apps/v1", "api/v1"] {
        let plural = if path == "api/v1" { "services" } else { "deployments" };
        let list = plane.admin.get(&format!("/{path}/namespaces/{NAMESPACE}/{plural}")).await?;
        let items = list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        ensure!(items.len() == count, "void: {} {plural} for {count} CRs", items.len());
        let owned = items.iter().filter(|item| is_owned(item)).count();
        ensure!(owned == count, "void: {owned} of {count} {plural} belong to their CR");
    }
    Ok(())
}

fn is_owned(child: &Value) -> bool {
    let text = |pointer: &str| child.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let owner = text("/metadata/ownerReferences/0/name");
    text("/metadata/ownerReferences/0/kind") == "Memcached"
        && text("/metadata/name").trim_end_matches("-service") == owner
}
