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
    const SHARE: Share = Share::Percent(10);
    const OTHER_SHARE: Share = Share::Percent(20);

    const ELSEWHERE: Step = Step::Promote("the host that works for the plugin has activated it");
    const NAMED: Step = Step::Promote("spec.revision names it");
    const OTHER_IS_NAMED: Step = Step::EndCanary("spec.revision names another revision");
    const NO_ROLLOUT: Step = Step::Promote("spec.rollout is gone");
    const TIME_IS_OVER: Step = Step::Promote("its time is over, and it did no worse than the active one");

    /// A sentence about what is wanted and seen, and the step that follows.
    type Row<'a> = (&'a str, Wanted, Seen, Step);

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn prefix(text: &str) -> DigestPrefix {
        digest(text).full().parse().unwrap()
    }

    fn nothing() -> Wanted {
        Wanted::default()
    }

    fn rollout(share: Share) -> Wanted {
        Wanted { rollout: Some(Rollout { share, duration: TIME }), ..nothing() }
    }

    fn naming(text: &str) -> Wanted {
        Wanted { revision: Some(prefix(text)), ..nothing() }
    }

    fn approving(text: &str) -> Wanted {
        Wanted { approve: Some(prefix(text)), ..nothing() }
    }

    /// Returns a plugin with the active revision `a`, which the source has.
    fn active() -> Seen {
        Seen { active: Some(digest("a")), offered: Some(digest("a")), ..Seen::default() }
    }

    /// Returns a plugin with the active revision `a` and the canary `c`, which has decided for so long.
    fn canary(lasted: Duration) -> Seen {
        let progress = Progress { lasted, parents: 3, has_decided: true, is_called: true, is_paused: false };
        let canary = Canary { digest: digest("c"), share: SHARE, is_active_elsewhere: false, progress };
        Seen { canary: Some(canary), ..active() }
    }

    /// Returns a plugin with a canary whose time is over, and of which this is true, too.
    fn old(change: impl Fn(&mut Canary)) -> Seen {
        let mut seen = canary(TIME);
        seen.canary.iter_mut().for_each(change);
        seen
    }

    fn elsewhere() -> Seen {
        old(|canary| canary.is_active_elsewhere = true)
    }

    /// Returns a plugin without an active revision, whose source cannot be fetched.
    fn unfetched() -> Seen {
        Seen { lacks_source: true, ..Seen::default() }
    }

    /// Returns a plugin that was searched for the revision `n`, and had it or not.
    fn searched(has_it: bool) -> Seen {
        let named = if has_it { Ok(digest("n")) } else { Err("it is not kept".to_owned()) };
        Seen { named: Some(named), ..active() }
    }

    /// Returns a plugin whose component `w` can be approved.
    fn waiting(was_approved: bool) -> Seen {
        Seen { waiting: Some(Waiting { digest: digest("w"), was_approved }), ..active() }
    }

    fn fails() -> Step {
        Step::FailReturn("it is not kept".to_owned())
    }

    fn returns() -> Step {
        Step::Return(digest("n"))
    }

    fn approves() -> Step {
        Step::Approve(digest("w"))
    }

    fn check<const N: usize>(rows: [Row<'_>; N]) {
        check_after(&Attempts::default(), Instant::now(), rows);
    }

    fn check_after<const N: usize>(tried: &Attempts, now: Instant, rows: [Row<'_>; N]) {
        for (sentence, wanted, seen, step) in rows {
            assert_eq!(next(&wanted, &seen, tried, now), step, "{sentence}: {wanted:?}, {seen:?}");
        }
    }

    #[test]
    fn an_active_revision_that_verify_refuses_is_retired() {
        let refused = |seen| Seen { is_unaccepted: true, ..seen };
        let due = |seen| Seen { is_offer_due: true, ..seen };
        check([
            ("verify refuses the active revision", nothing(), refused(active()), Step::Retire),
            ("verify accepts it", nothing(), active(), Step::Wait),
            ("verify refuses a revision, and none is active", nothing(), refused(Seen::default()), Step::Wait),
            ("a fetched component is due, and is verified beside it", nothing(), due(refused(active())), Step::Wait),
            ("there is a canary, too, which is active elsewhere", nothing(), refused(elsewhere()), Step::Retire),
            ("there is a canary, and a component is due", nothing(), due(refused(canary(TIME))), NO_ROLLOUT),
            ("another revision is named", naming("n"), refused(searched(true)), Step::Retire),
            ("another component is approved", approving("w"), refused(waiting(false)), Step::Retire),
        ]);
    }

    #[test]
    fn a_canary_is_promoted_once_its_time_is_over() {
        let young = || canary(TIME - Duration::from_millis(1));
        let without_parents =
            |has_decided| old(move |canary| (canary.progress.parents, canary.progress.has_decided) = (0, has_decided));
        check([
            ("its time is over", rollout(SHARE), canary(TIME), TIME_IS_OVER),
            ("its time is not over", rollout(SHARE), young(), Step::Wait),
            ("the plugin is paused", rollout(SHARE), old(|canary| canary.progress.is_paused = true), Step::Wait),
            ("its circuit is open", rollout(SHARE), old(|canary| canary.progress.is_called = false), Step::Wait),
            ("it has not decided", rollout(SHARE), old(|canary| canary.progress.has_decided = false), Step::Wait),
            ("it has no parents to decide about", rollout(SHARE), without_parents(false), TIME_IS_OVER),
            ("it is to have other parents first", rollout(OTHER_SHARE), canary(TIME), Step::Share(OTHER_SHARE)),
            ("there is no canary", rollout(SHARE), active(), Step::Wait),
        ]);
    }

    #[test]
    fn a_canary_ends_at_once_by_what_an_administrator_or_another_host_has_done() {
        let naming = |text| Wanted { revision: Some(prefix(text)), ..rollout(SHARE) };
        let young = || canary(Duration::ZERO);
        check([
            ("spec.rollout is gone", nothing(), young(), NO_ROLLOUT),
            ("spec.rollout is there", rollout(SHARE), young(), Step::Wait),
            ("spec.revision names it", naming("c"), young(), NAMED),
            ("spec.revision names it, without spec.rollout", self::naming("c"), young(), NAMED),
            ("spec.revision names the active one", naming("a"), young(), OTHER_IS_NAMED),
            ("spec.revision names the active one, and its time is over", naming("a"), canary(TIME), OTHER_IS_NAMED),
            ("spec.revision names another, without spec.rollout", self::naming("n"), young(), OTHER_IS_NAMED),
            ("another host has activated it", rollout(SHARE), elsewhere(), ELSEWHERE),
            (
                "another host has activated it, and another share is wanted",
                rollout(OTHER_SHARE),
                elsewhere(),
                ELSEWHERE,
            ),
            ("another host has activated it, and another revision is named", naming("a"), elsewhere(), ELSEWHERE),
        ]);
    }

    #[test]
    fn the_last_good_revision_is_activated_while_none_is_active_and_the_source_cannot_be_fetched() {
        let named = || Seen { named: Some(Ok(digest("n"))), ..unfetched() };
        check([
            ("none is active, and the source cannot be fetched", nothing(), unfetched(), Step::FallBack),
            ("one is active", nothing(), Seen { lacks_source: true, ..active() }, Step::Wait),
            ("the source can be fetched", nothing(), Seen::default(), Step::Wait),
            ("spec.revision names one, which comes first then", naming("n"), named(), Step::FallBack),
        ]);
        let (mut tried, start) = (Attempts::default(), Instant::now());
        tried.note(&nothing(), &unfetched(), &Step::FallBack, start);
        let late = start + Duration::from_secs(60);
        check_after(&tried, late, [("it was tried a minute ago", nothing(), unfetched(), Step::FallBack)]);
        let early = late - Duration::from_millis(1);
        check_after(
            &tried,
            early,
            [
                ("it was tried less than a minute ago", nothing(), unfetched(), Step::Wait),
                ("it was tried just now, and one is named", naming("n"), named(), returns()),
            ],
        );
    }

    #[test]
    fn the_named_revision_is_activated_or_the_reason_against_it_reported() {
        let unread = |seen| Seen { offered: None, ..seen };
        check([
            ("the named revision is known", naming("n"), searched(true), returns()),
            ("it is known, and the source was not read", naming("n"), unread(searched(true)), returns()),
            ("none is active", naming("n"), Seen { active: None, ..searched(true) }, returns()),
            ("it is active", naming("a"), searched(true), Step::Wait),
            ("none is named", nothing(), searched(true), Step::Wait),
            ("it is not known", naming("n"), searched(false), fails()),
            ("the source was not read, and may have it", naming("n"), unread(searched(false)), Step::Wait),
            ("it was not searched for", naming("n"), active(), Step::Wait),
        ]);
    }

    #[test]
    fn a_revision_that_could_not_be_activated_is_tried_again_after_a_pause() {
        let (mut tried, start) = (Attempts::default(), Instant::now());
        tried.failed(prefix("n"), "it is gone".to_owned(), start);
        let late = start + Duration::from_secs(30);
        let early = late - Duration::from_millis(1);
        check_after(&tried, late, [("it failed half a minute ago", naming("n"), searched(true), returns())]);
        let both = Wanted { approve: Some(prefix("w")), ..naming("n") };
        let seen = || Seen { waiting: waiting(false).waiting, ..searched(true) };
        check_after(
            &tried,
            early,
            [
                ("it failed less than half a minute ago", naming("n"), searched(true), Step::Wait),
                ("it failed just now, and is still not known", naming("n"), searched(false), Step::Wait),
                ("another one failed just now", naming("m"), searched(true), returns()),
                ("it failed just now, and another component is approved", both.clone(), seen(), approves()),
            ],
        );
        check([("none failed, and another component is approved", both, seen(), returns())]);
    }

    #[test]
    fn the_component_that_waits_is_approved_once() {
        let canary = |was_approved| Seen { canary: canary(TIME).canary, ..waiting(was_approved) };
        let both = || Wanted { approve: Some(prefix("w")), ..rollout(OTHER_SHARE) };
        check([
            ("spec.approve names the component that waits", approving("w"), waiting(false), approves()),
            ("spec.approve names another one", approving("v"), waiting(false), Step::Wait),
            ("spec.approve is absent", nothing(), waiting(false), Step::Wait),
            ("nothing waits", approving("w"), active(), Step::Wait),
            ("it was approved before the host started, maybe by this value", approving("w"), waiting(true), Step::Wait),
            ("the canary is to have another share, too", both(), canary(false), approves()),
            (
                "it was approved before, and the canary is to have another share",
                both(),
                canary(true),
                Step::Share(OTHER_SHARE),
            ),
        ]);
        let mut tried = Attempts::default();
        tried.note(&approving("w"), &waiting(false), &approves(), Instant::now());
        let other_form = format!("sha256:{}", digest("w").full()).parse().ok();
        check_after(
            &tried,
            Instant::now(),
            [
                ("this value was acted upon", approving("w"), waiting(true), Step::Wait),
                ("this value was acted upon, and not recorded", approving("w"), waiting(false), Step::Wait),
                ("another value was", Wanted { approve: other_form, ..nothing() }, waiting(true), approves()),
            ],
        );
        tried.note(&nothing(), &waiting(true), &Step::Wait, Instant::now());
        let again = ("spec.approve was absent since", approving("w"), waiting(true), approves());
        check_after(&tried, Instant::now(), [again]);
    }

    #[test]
    fn the_canary_decides_for_the_share_that_is_wanted() {
        let young = || canary(Duration::ZERO);
        check([
            ("another share is wanted", rollout(OTHER_SHARE), young(), Step::Share(OTHER_SHARE)),
            ("it has that share", rollout(SHARE), young(), Step::Wait),
            ("there is no canary", rollout(OTHER_SHARE), active(), Step::Wait),
            ("nothing is wanted or seen", nothing(), Seen::default(), Step::Wait),
        ]);
    }
}
