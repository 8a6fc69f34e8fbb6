//! Which Backups cannot be served, and the messages. The schema of the CRD has the same rules, but an object may have
//! been stored before the schema had them.

use std::ops::RangeInclusive;

use hotshoe_sdk::{Failure, Request};

use crate::Backup;
use crate::api::BackupSpec;

/// The longest interval or delay, in seconds: a year.
const MAX_SECONDS: i64 = 31_536_000;
/// The maximum length of a name. A dash and ten digits are added to name a Job, and the name of a Job is a label value
/// of its Pods.
const MAX_NAME_CHARS: usize = 63 - 11;

pub(crate) fn validate(request: &Request<Backup>) -> Result<(), Failure> {
    let (name, spec) = (request.name(), &request.parent.spec);
    if name.len() > MAX_NAME_CHARS {
        return Err(Failure::reject_field(
            "metadata.name",
            format!(
                "it has {} characters and may have {MAX_NAME_CHARS}, so that its Jobs can be named after it; create it again under another name",
                name.len()
            ),
        ));
    }
    validate_numbers(spec)?;
    if spec.image.is_empty() {
        return Err(Failure::reject_field("spec.image", "it is empty; name an image"));
    }
    if spec.command.is_empty() && (spec.source.is_none() || spec.target.is_none()) {
        return Err(Failure::reject_field(
            "spec.command",
            "there is nothing to run; name a command, or source and target for an archive of the one in the other",
        ));
    }
    Ok(())
}

fn validate_numbers(spec: &BackupSpec) -> Result<(), Failure> {
    let (limit, retry) = (spec.history_limit, spec.failure.retry);
    within("spec.intervalSeconds", spec.interval_seconds, 1..=MAX_SECONDS)?;
    within("spec.runAsUser", spec.run_as_user, 0..=i64::from(i32::MAX))?;
    within("spec.historyLimit.successful", limit.successful, 1..=100)?;
    within("spec.historyLimit.failed", limit.failed, 1..=100)?;
    within("spec.failure.deadlineSeconds", spec.failure.deadline_seconds.unwrap_or(1), 1..=MAX_SECONDS)?;
    within("spec.failure.retry.baseDelaySeconds", retry.base_delay_seconds, 1..=MAX_SECONDS)?;
    within("spec.failure.retry.maxDelaySeconds", retry.max_delay_seconds, 1..=MAX_SECONDS)?;
    within("spec.failure.retry.maxTries", retry.max_tries, 1..=1000)
}

fn within(field: &str, number: i64, bounds: RangeInclusive<i64>) -> Result<(), Failure> {
    if bounds.contains(&number) {
        return Ok(());
    }
    let (least, most) = (bounds.start(), bounds.end());
    Err(Failure::reject_field(field, format!("it is {number}; give a number from {least} to {most}")))
}
