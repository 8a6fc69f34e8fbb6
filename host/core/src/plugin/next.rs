//! What is done next for a plugin while no work is in progress for it, by the rows of the [page](crate::plugin): the
//! first that applies. An approval comes before another share, which may have to wait until it is known which namespaces
//! match.

use std::time::Instant;

use crate::plugin::attempts::Attempts;
use crate::plugin::seen::Seen;
use crate::plugin::step::Step;
use crate::plugin::wanted::Wanted;

/// Decides what is done next, by what an administrator wants, what is seen and what was tried.
pub fn next(wanted: &Wanted, seen: &Seen, tried: &Attempts, now: Instant) -> Step {
    retire(seen)
        .or_else(|| end_of_canary(wanted, seen))
        .or_else(|| fall_back(seen, tried, now))
        .or_else(|| return_to_named(wanted, seen, tried, now))
        .or_else(|| approve(wanted, seen, tried))
        .or_else(|| share(wanted, seen))
        .unwrap_or(Step::Wait)
}

/// Waits for a fetched component that is due, so that it is verified beside the active one.
fn retire(seen: &Seen) -> Option<Step> {
    (seen.active.is_some() && seen.is_unaccepted && !seen.is_offer_due).then_some(Step::Retire)
}

fn end_of_canary(wanted: &Wanted, seen: &Seen) -> Option<Step> {
    let canary = seen.canary.as_ref()?;
    if canary.is_active_elsewhere {
        return Some(Step::Promote("the host that works for the plugin has activated it"));
    }
    match (&wanted.revision, &wanted.rollout) {
        (Some(named), _) if named.is_of(canary.digest) => Some(Step::Promote("spec.revision names it")),
        (Some(_), _) => Some(Step::EndCanary("spec.revision names another revision")),
        (None, None) => Some(Step::Promote("spec.rollout is gone")),
        // Its new parents meet it before it decides for all.
        (None, Some(rollout)) if rollout.share != canary.share => None,
        (None, Some(rollout)) if canary.progress.waits(rollout.duration).is_some() => None,
        (None, Some(_)) => Some(Step::Promote("its time is over, and it did no worse than the active one")),
    }
}

fn fall_back(seen: &Seen, tried: &Attempts, now: Instant) -> Option<Step> {
    (seen.active.is_none() && seen.lacks_source && tried.may_fall_back(now)).then_some(Step::FallBack)
}

fn return_to_named(wanted: &Wanted, seen: &Seen, tried: &Attempts, now: Instant) -> Option<Step> {
    let named = wanted.revision.as_ref()?;
    if seen.active.is_some_and(|active| named.is_of(active)) || tried.pauses_return_to(named, now) {
        return None;
    }
    Some(match &seen.named {
        Some(Ok(digest)) => Step::Return(*digest),
        Some(Err(why)) if seen.offered.is_some() => Step::FailReturn(why.clone()),
        // The source was not read yet, and may have that revision.
        _ => Step::Wait,
    })
}

fn approve(wanted: &Wanted, seen: &Seen, tried: &Attempts) -> Option<Step> {
    let (approve, waiting) = (wanted.approve.as_ref()?, seen.waiting?);
    (approve.is_of(waiting.digest) && tried.is_new_approval(approve, waiting)).then_some(Step::Approve(waiting.digest))
}

fn share(wanted: &Wanted, seen: &Seen) -> Option<Step> {
    let (rollout, canary) = (wanted.rollout.as_ref()?, seen.canary.as_ref()?);
    (rollout.share != canary.share).then(|| Step::Share(rollout.share.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::canary::{Progress, Share};
    use crate::model::digest::Digest;
    use crate::model::digest_prefix::DigestPrefix;
    use crate::plugin::seen::{Canary, Waiting};
    use crate::plugin::wanted::Rollout;

    const TIME: Duration = Duration::from_secs(60);
    const PERCENT: Share = Share::Percent(10);

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn named(text: &str) -> Option<DigestPrefix> {
        digest(text).full().parse().ok()
    }

    fn rolled_out(share: Share) -> Wanted {
        Wanted { rollout: Some(Rollout { share, duration: TIME }), ..Wanted::default() }
    }

    /// Returns a plugin with the active revision `a` and the canary `c`, which has decided for so long.
    fn with_canary(lasted: Duration) -> Seen {
        let progress = Progress { lasted, parents: 3, has_decided: true, is_called: true, is_paused: false };
        let canary = Canary { digest: digest("c"), share: PERCENT, is_active_elsewhere: false, progress };
        Seen { canary: Some(canary), ..active() }
    }

    fn active() -> Seen {
        Seen { active: Some(digest("a")), offered: Some(digest("a")), ..Seen::default() }
    }

    fn step(wanted: &Wanted, seen: &Seen) -> Step {
        next(wanted, seen, &Attempts::default(), Instant::now())
    }

    #[test]
    fn an_active_revision_that_verify_refuses_is_retired_unless_a_fetched_component_is_due() {
        let refused = Seen { is_unaccepted: true, ..with_canary(TIME) };
        assert_eq!(step(&Wanted::default(), &refused), Step::Retire);
        let due = Seen { is_offer_due: true, canary: None, ..refused };
        assert_eq!(step(&Wanted::default(), &due), Step::Wait);
    }

    #[test]
    fn an_administrators_settings_take_precedence_over_the_time_of_a_canary() {
        let (young, old) = (with_canary(TIME / 2), with_canary(TIME));
        let promotes =
            |step, why: &str| assert!(matches!(&step, Step::Promote(found) if found.contains(why)), "{step:?}");
        assert_eq!(step(&rolled_out(PERCENT), &young), Step::Wait);
        promotes(step(&rolled_out(PERCENT), &old), "time is over");
        let other = Share::Percent(20);
        assert_eq!(step(&rolled_out(other.clone()), &old), Step::Share(other), "its new parents meet it first");
        promotes(step(&Wanted::default(), &young), "spec.rollout is gone");
        promotes(step(&Wanted { revision: named("c"), ..rolled_out(PERCENT) }, &young), "spec.revision names it");
        for seen in [young, old] {
            let ended = step(&Wanted { revision: named("a"), ..rolled_out(PERCENT) }, &seen);
            assert!(matches!(ended, Step::EndCanary(why) if why.contains("another")), "{ended:?}");
        }
    }

    #[test]
    fn a_canary_that_another_host_has_activated_is_promoted_whatever_is_wanted() {
        let mut seen = with_canary(Duration::ZERO);
        seen.canary.iter_mut().for_each(|canary| canary.is_active_elsewhere = true);
        let wanted = Wanted { revision: named("a"), ..rolled_out(PERCENT) };
        assert!(matches!(step(&wanted, &seen), Step::Promote(why) if why.contains("the host")));
    }

    #[test]
    fn the_last_good_revision_is_activated_while_none_is_active_and_the_source_is_out_of_reach() {
        let lacking = Seen { lacks_source: true, ..Seen::default() };
        assert_eq!(step(&Wanted::default(), &lacking), Step::FallBack);
        assert_eq!(step(&Wanted::default(), &Seen { active: Some(digest("a")), ..lacking }), Step::Wait);
        assert_eq!(step(&Wanted::default(), &Seen::default()), Step::Wait);
    }

    #[test]
    fn the_named_revision_is_activated_or_the_reason_against_it_reported_once_the_source_was_read() {
        let wanted = Wanted { revision: named("b"), ..Wanted::default() };
        let is = |named| Seen { named: Some(named), ..active() };
        let unknown = || Err("no such revision".to_owned());
        assert_eq!(step(&wanted, &is(Ok(digest("b")))), Step::Return(digest("b")));
        assert_eq!(step(&wanted, &is(unknown())), Step::FailReturn("no such revision".to_owned()));
        assert_eq!(step(&wanted, &Seen { offered: None, ..is(unknown()) }), Step::Wait, "the source may have it");
        let active = Wanted { revision: named("a"), ..Wanted::default() };
        assert_eq!(step(&active, &is(Ok(digest("a")))), Step::Wait);
    }

    #[test]
    fn an_approval_comes_before_another_share_of_the_canary() {
        let wanted = Wanted { approve: named("w"), ..rolled_out(Share::Percent(20)) };
        let waiting = Some(Waiting { digest: digest("w"), was_approved: false });
        assert_eq!(step(&wanted, &Seen { waiting, ..with_canary(TIME) }), Step::Approve(digest("w")));
        assert_eq!(step(&wanted, &with_canary(TIME)), Step::Share(Share::Percent(20)));
    }
}
