//! The administrator's control over a plugin's revisions: which one is active, how another one takes over, and whether
//! parents are reconciled at all.

use anyhow::{anyhow, ensure};

use crate::config::manifest::{self, PluginSpec};
use hotshoe_core::flow::canary::{self, Share};
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::plugin::wanted::{Rollout, Wanted};

/// Moves the control keys out of a spec. They do not change what a revision decides, so a change of them must not
/// change the digest of the spec and so reconcile all parents again.
///
/// # Errors
/// When a digest or a canary is invalid.
pub(super) fn take(spec: &mut PluginSpec) -> anyhow::Result<Wanted> {
    let wanted = Wanted {
        mode: std::mem::take(&mut spec.mode),
        paused: std::mem::take(&mut spec.paused),
        approve: spec.approve.take(),
        revision: spec.revision.take(),
        rollout: spec
            .rollout
            .take()
            .map(|rollout| validated(&rollout))
            .transpose()
            .map_err(|error| anyhow!("spec.rollout.{error}"))?,
    };
    for (key, digest) in [("approve", &wanted.approve), ("revision", &wanted.revision)] {
        let is_valid = digest.as_ref().is_none_or(DigestPrefix::is_lasting);
        ensure!(is_valid, "spec.{key} is no digest; 8 to 64 hexadecimal digits are wanted, as the status has them");
    }
    Ok(wanted)
}

fn validated(wanted: &manifest::Rollout) -> Result<Rollout, String> {
    let share = match &wanted.canary {
        manifest::Canary { percent: Some(percent), namespaces: None } => {
            if !(1..=99).contains(percent) {
                return Err(format!(
                    "canary.percent is {percent}, but 1 to 99 can be given; leave spec.rollout out to have a component decide for all parents at once"
                ));
            }
            Share::Percent(*percent)
        }
        manifest::Canary { percent: None, namespaces: Some(selector) } => {
            if selector.is_empty() {
                return Err(
                    "canary.namespaces names no label, which would select every namespace; name some in matchLabels"
                        .to_owned(),
                );
            }
            selector.validate().map_err(|error| format!("canary.namespaces: {error}"))?;
            Share::Namespaces(selector.clone())
        }
        _ => return Err("canary must have exactly one of percent and namespaces".to_owned()),
    };
    let duration = wanted.duration.map_or(canary::DEFAULT_DURATION, |span| span.0);
    let (least, most) = (canary::MIN_DURATION, canary::MAX_DURATION);
    if !(least..=most).contains(&duration) {
        let hours = most.as_secs() / 3600;
        return Err(format!("duration is {duration:?}, but {least:?} to {hours}h can be given"));
    }
    Ok(Rollout { share, duration })
}
