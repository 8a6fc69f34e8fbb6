//! Whether a component that was loaded takes over, and how. Before the verdict it is examined, as far as its past, the
//! spec and the active revision ask for it.

use std::time::Duration;

use crate::flow::probation::{CallStats, ProbationStart};
use crate::model::digest::Digest;
use crate::plugin::past::{self, Recorded};
use crate::plugin::wanted::{Mode, Rollout, Wanted};

/// Why a revision is activated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// The revision is new, and is compared with the one before it.
    Swap,
    /// The revision was active before, and is activated again for this reason.
    Return(&'a str),
    /// The revision was active when the host ended. It is active again until the component that is offered now is
    /// activated or refused.
    Restore,
}

impl Start<'_> {
    /// Returns the reason that the history records.
    pub fn why(&self) -> &str {
        match self {
            Self::Swap => "",
            Self::Return(why) => why,
            Self::Restore => "it was active when the host ended",
        }
    }
}

/// A component that was loaded, has passed its cases, and whose watches are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded<'a> {
    digest: Digest,
    start: Start<'a>,
    active: Option<Digest>,
    is_approved: bool,
    is_approved_despite_failure: bool,
    was_active: bool,
    cannot_be_canary: Option<&'a str>,
}

/// How a component is examined before the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Examination {
    /// Not at all.
    None,
    /// By decisions for the first parents: whether it fails on them.
    FirstParents,
    /// By decisions for all parents, compared with those of the active revision: what it would break.
    AllParents,
}

/// What speaks against a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The reason.
    pub why: String,
    /// Whether the reason is that it fails. Then an administrator who approves it knows that it does.
    pub fails: bool,
}

/// What is done with a component that was examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is refused, for this reason.
    Refuse(String),
    /// It is refused until it is approved, for this reason, which the history records.
    RequireApproval(Objection),
    /// It is refused until it is approved or `spec.mode` is `Active`. The history does not record that.
    Shadow,
    /// It decides for a share of the parents first.
    Begin(Rollout),
    /// It decides for all parents.
    Activate,
}

impl<'a> Loaded<'a> {
    /// Collects what follows from the past of a component.
    pub fn of(entries: &[impl Recorded], digest: Digest, start: Start<'a>, active: Option<Digest>) -> Self {
        Self {
            digest,
            start,
            active,
            is_approved: past::is_approved(entries, digest),
            is_approved_despite_failure: past::is_approved_despite_failure(entries, digest),
            was_active: active.is_none() && past::current(entries) == Some(digest),
            cannot_be_canary: None,
        }
    }

    /// Adds why it cannot decide for some parents while the active revision decides for the rest.
    pub fn which_cannot_be_canary(self, why: Option<&'a str>) -> Self {
        Self { cannot_be_canary: why, ..self }
    }

    /// Returns what is to be found out before the [verdict](Self::verdict).
    ///
    /// What was active when the host ended would fail again where it failed before, and is not called. What was
    /// approved takes over whatever it breaks.
    pub fn examination(&self, wanted: &Wanted) -> Examination {
        if self.was_active || self.is_approved_swap() || self.waits(wanted).is_some() {
            return Examination::None;
        }
        match (self.start, self.active) {
            (Start::Swap, Some(_)) => Examination::AllParents,
            _ => Examination::FirstParents,
        }
    }

    /// Decides what is done with the component, of which this was found out.
    pub fn verdict(&self, wanted: &Wanted, found: Option<Objection>) -> Verdict {
        if let Some(waits) = self.waits(wanted) {
            return waits;
        }
        match (self.start, found) {
            (Start::Swap, Some(objection)) => Verdict::RequireApproval(objection),
            (_, Some(Objection { why, .. })) => Verdict::Refuse(why),
            (_, None) => match self.rollout(wanted).filter(|_| self.cannot_be_canary.is_none()) {
                Some(rollout) => Verdict::Begin(rollout.clone()),
                None => Verdict::Activate,
            },
        }
    }

    /// Returns why the component waits for an approval whatever is found out about it.
    fn waits(&self, wanted: &Wanted) -> Option<Verdict> {
        if self.start != Start::Swap || self.is_approved {
            return None;
        }
        match self.cannot_be_canary.filter(|_| self.rollout(wanted).is_some()) {
            Some(why) => Some(Verdict::RequireApproval(Objection { why: why.to_owned(), fails: false })),
            None => (wanted.mode == Mode::Shadow && !self.was_active).then_some(Verdict::Shadow),
        }
    }

    fn is_approved_swap(&self) -> bool {
        self.start == Start::Swap && self.is_approved
    }

    fn rollout<'w>(&self, wanted: &'w Wanted) -> Option<&'w Rollout> {
        wanted.rollout_of(self.digest, self.active).filter(|_| self.start == Start::Swap)
    }

    /// Decides how its probation begins once it is active. `resumed` is for how long it had been on probation when the
    /// host ended, and the calls of the revision before it.
    pub fn probation(&self, resumed: Option<(Duration, CallStats)>) -> ProbationStart {
        match (resumed.filter(|_| self.was_active), self.start) {
            (Some((since, before)), _) => ProbationStart::Resumed(since, before),
            (None, Start::Return(_) | Start::Restore) => ProbationStart::Return,
            (None, Start::Swap) if self.is_compared() => ProbationStart::OnProbation,
            (None, Start::Swap) => ProbationStart::Unjudged,
        }
    }

    /// Decides how its probation begins as a canary beside the active revision, whose calls these are.
    pub fn probation_beside(&self, active: CallStats) -> ProbationStart {
        if self.is_compared() { ProbationStart::Beside(active) } else { ProbationStart::Unjudged }
    }

    /// Returns whether it is compared with the active revision. What was approved although it fails is not rolled back
    /// for its failures.
    fn is_compared(&self) -> bool {
        self.active.is_some() && !self.is_approved_despite_failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::canary::Share;
    use crate::plugin::past::{Entry, Event};

    const RETURN: Start<'_> = Start::Return("by command");
    const ACTIVE: [Entry; 1] = [Entry("a", Event::Activated)];
    const APPROVED: [Entry; 3] =
        [Entry("a", Event::Activated), Entry("n", Event::ApprovalRequired), Entry("n", Event::Approved)];

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    /// Returns the component `n`, beside the active revision `a` or none.
    fn loaded<'a>(entries: &[Entry], start: Start<'a>, is_beside: bool) -> Loaded<'a> {
        Loaded::of(entries, digest("n"), start, is_beside.then(|| digest("a")))
    }

    fn rollout() -> Rollout {
        Rollout { share: Share::Percent(10), duration: Duration::from_secs(60) }
    }

    fn rolled_out() -> Wanted {
        Wanted { rollout: Some(rollout()), ..Wanted::default() }
    }

    fn shadow() -> Wanted {
        Wanted { mode: Mode::Shadow, ..Wanted::default() }
    }

    fn failing() -> Option<Objection> {
        Some(Objection { why: "it fails".to_owned(), fails: true })
    }

    fn bar() -> Objection {
        Objection { why: "it has another kind of parents".to_owned(), fails: false }
    }

    #[test]
    fn a_new_component_is_examined_beside_the_active_one_or_else_on_the_first_parents() {
        let plain = Wanted::default();
        for (entries, start, is_beside, expected) in [
            (&ACTIVE[..], Start::Swap, true, Examination::AllParents),
            (&ACTIVE, Start::Swap, false, Examination::FirstParents),
            (&ACTIVE, RETURN, true, Examination::FirstParents),
            (&ACTIVE, Start::Restore, false, Examination::FirstParents),
            (&APPROVED, Start::Swap, true, Examination::None),
            (&APPROVED, Start::Swap, false, Examination::None),
            (&APPROVED, RETURN, true, Examination::FirstParents),
            (&[Entry("n", Event::Activated)], Start::Swap, false, Examination::None),
            (&[Entry("n", Event::Activated)], Start::Restore, false, Examination::None),
            (&[Entry("n", Event::Activated)], Start::Swap, true, Examination::AllParents),
        ] {
            let loaded = loaded(entries, start, is_beside);
            assert_eq!(loaded.examination(&plain), expected, "{loaded:?}");
        }
    }

    #[test]
    fn what_is_found_out_makes_a_new_component_wait_and_an_earlier_one_fail() {
        let plain = Wanted::default();
        let verdict = |start, found| loaded(&ACTIVE, start, true).verdict(&plain, found);
        assert_eq!(verdict(Start::Swap, failing()), Verdict::RequireApproval(failing().unwrap()));
        assert_eq!(verdict(RETURN, failing()), Verdict::Refuse("it fails".to_owned()));
        for start in [Start::Swap, RETURN, Start::Restore] {
            assert_eq!(verdict(start, None), Verdict::Activate);
        }
    }

    #[test]
    fn in_the_mode_shadow_a_new_component_waits_for_an_approval_without_being_examined() {
        let waiting = loaded(&ACTIVE, Start::Swap, true);
        assert_eq!(waiting.examination(&shadow()), Examination::None);
        assert_eq!(waiting.verdict(&shadow(), None), Verdict::Shadow);
        assert_eq!(loaded(&ACTIVE, Start::Swap, false).verdict(&shadow(), None), Verdict::Shadow);
        for free in [
            loaded(&APPROVED, Start::Swap, true),
            loaded(&ACTIVE, RETURN, true),
            loaded(&[Entry("n", Event::Activated)], Start::Swap, false),
        ] {
            assert_eq!(free.verdict(&shadow(), None), Verdict::Activate, "{free:?}");
        }
    }

    #[test]
    fn a_new_component_is_the_canary_first_and_waits_for_an_approval_where_it_cannot_be_one() {
        let (wanted, new) = (rolled_out(), loaded(&ACTIVE, Start::Swap, true));
        assert_eq!(new.verdict(&wanted, None), Verdict::Begin(rollout()));
        assert_eq!(loaded(&ACTIVE, RETURN, true).verdict(&wanted, None), Verdict::Activate);
        assert_eq!(loaded(&ACTIVE, Start::Swap, false).verdict(&wanted, None), Verdict::Activate);
        let (bar, approved) = (bar(), loaded(&APPROVED, Start::Swap, true));
        let [barred, barred_approved] = [new, approved].map(|one| one.which_cannot_be_canary(Some(&bar.why)));
        assert_eq!(barred.examination(&wanted), Examination::None);
        assert_eq!(barred.verdict(&wanted, None), Verdict::RequireApproval(bar.clone()));
        assert_eq!(barred.verdict(&Wanted::default(), None), Verdict::Activate, "it need not be a canary");
        assert_eq!(barred_approved.verdict(&wanted, None), Verdict::Activate, "for all parents at once");
        assert_eq!(approved.verdict(&wanted, None), Verdict::Begin(rollout()));
    }

    #[test]
    fn a_new_revision_is_on_probation_unless_none_is_there_to_compare_it_with_or_its_failures_are_approved() {
        let begins = |entries: &[Entry], start, is_beside| loaded(entries, start, is_beside).probation(None);
        assert_eq!(begins(&ACTIVE, Start::Swap, true), ProbationStart::OnProbation);
        assert_eq!(begins(&ACTIVE, Start::Swap, false), ProbationStart::Unjudged);
        assert_eq!(begins(&APPROVED, Start::Swap, true), ProbationStart::Unjudged);
        for start in [RETURN, Start::Restore] {
            assert_eq!(begins(&ACTIVE, start, true), ProbationStart::Return);
        }
        let calls = CallStats::default();
        assert_eq!(loaded(&ACTIVE, Start::Swap, true).probation_beside(calls), ProbationStart::Beside(calls));
        assert_eq!(loaded(&APPROVED, Start::Swap, true).probation_beside(calls), ProbationStart::Unjudged);
    }

    #[test]
    fn the_history_records_why_an_earlier_revision_is_active_again_and_nothing_for_a_new_one() {
        assert_eq!([Start::Swap.why(), RETURN.why()], ["", "by command"]);
        assert!(Start::Restore.why().contains("when the host ended"));
    }

    #[test]
    fn a_probation_goes_on_after_a_restart_for_the_revision_that_was_active() {
        let since = (Duration::from_secs(60), CallStats::default());
        let resumed = |entries: &[Entry], start| loaded(entries, start, false).probation(Some(since));
        for start in [Start::Swap, Start::Restore, RETURN] {
            let expected = ProbationStart::Resumed(since.0, since.1);
            assert_eq!(resumed(&[Entry("n", Event::Activated)], start), expected);
        }
        assert_eq!(resumed(&ACTIVE, Start::Swap), ProbationStart::Unjudged);
    }
}
