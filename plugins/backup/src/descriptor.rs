//! What the plugin asks the host for: only what it needs.

use hotshoe_sdk::apply::batch_v1::Job;
use hotshoe_sdk::{Descriptor, ResourceKind, Verb};

use crate::{api, runs};

const FINALIZER: &str = "batch.example.com/backup";

/// The status fields that the plugin itself writes. Conditions are not among them, since the host writes some, too.
const STATUS_FIELDS: [&str; 7] = [
    "status.observedGeneration",
    "status.active",
    "status.finalJob",
    "status.lastRunTime",
    "status.lastSuccessfulTime",
    "status.nextRunTime",
    "status.failedTries",
];

pub(crate) fn describe() -> Descriptor {
    let parent = ResourceKind::new(api::GROUP, api::VERSION, api::KIND);
    Descriptor::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), parent)
        .parent_fields(&["metadata.creationTimestamp"])
        .parent_fields(&STATUS_FIELDS)
        // Without `Verb::Update`: a Job cannot be changed.
        .owns::<Job>(&[Verb::Create, Verb::Delete], runs::JOB_FIELDS)
        .finalizer(FINALIZER)
        .wants_now()
}
