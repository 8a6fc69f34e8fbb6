//! What the plugin asks the host for: as little as it can do with.

use hotshoe_sdk::apply::batch_v1::Job;
use hotshoe_sdk::{Descriptor, ResourceKind, Verb};

use crate::{api, runs};

/// Of the status, what the plugin itself wrote there. Not the conditions, which the host writes, too.
const STATUS_FIELDS: [&str; 6] = [
    "status.observedGeneration",
    "status.active",
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
        // Not to change them: a Job cannot be changed.
        .owns::<Job>(&[Verb::Create, Verb::Delete], runs::JOB_FIELDS)
        .wants_now()
}
