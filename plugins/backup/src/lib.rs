//! The logic of an operator that runs a backup every so many seconds: a Job for each run, a history of them, and a
//! status with the last and the next.
//!
//! ```text
//!            ┌── validate.rs ─ can it be served?                      ┐
//!  request ──┼── runs.rs ───── which Jobs are there?                  ┼── reconcile.rs ──▶ decision
//!            ├── schedule.rs ─ what failed, and when is the next due? │
//!            └── history.rs ── which of them are kept?                ┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `api.rs` | the `Backup` resource |
//! | `descriptor.rs` | what the plugin asks the host for |
//! | `reconcile.rs` | from an observation to a decision: begin here |
//! | `finalize.rs` | the last run before a Backup goes |
//! | `validate.rs` | which Backups cannot be served, and the messages |
//! | `runs.rs` | the existing runs, read from their Jobs |
//! | `schedule.rs` | when the next run is due, whatever the clock does |
//! | `history.rs` | which finished runs are kept |
//! | `job.rs` | the Job of a run |
//! | `status.rs` | status, conditions and Events |
//! | `crd.rs` | the CRD, printed by the binary `crd` (feature `crd`) |

pub mod api;
#[cfg(feature = "crd")]
pub mod crd;
mod descriptor;
mod finalize;
mod history;
mod job;
mod reconcile;
mod runs;
mod schedule;
mod status;
mod validate;

use hotshoe_sdk::{Answer, Cleanup, Descriptor, Failure, Reconciler, Request};

/// The plugin.
pub struct Backup;

impl Reconciler for Backup {
    type Parent = api::Backup;
    type Config = ();

    fn describe() -> Descriptor {
        descriptor::describe()
    }

    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure> {
        reconcile::reconcile(request)
    }

    fn finalize(request: &Request<Self>) -> Result<Cleanup, Failure> {
        finalize::finalize(request)
    }
}

hotshoe_sdk::export!(Backup);
