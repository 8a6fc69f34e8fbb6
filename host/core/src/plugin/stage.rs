//! A state machine: what the rollout of one plugin is doing, and what follows each event, by the table of the
//! [page](crate::plugin). The outcome of an activation is no stage: the component is active, or refused for a reason that
//! says whether it can be approved.

use crate::flow::probation::RollbackVerdict;

/// The work that is in progress for one plugin; at most one revision is being activated at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// No work is in progress.
    #[default]
    Idle,
    /// The component that was offered is loaded, verified and activated.
    Activating,
    /// The active revision does worse than the one before it, so that one is being activated again.
    RollingBack(RollbackVerdict),
    /// An administrator asked for an earlier revision, which is being activated again.
    Returning(Interrupted),
}

/// The work that an administrator's rollback interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interrupted {
    /// None.
    Nothing,
    /// The activation of an offered component.
    Activation,
    /// A rollback from the active revision.
    Rollback(RollbackVerdict),
}

/// What happens to a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The component's file holds another component, or its component is to be offered again.
    Offered,
    /// `plugin.yaml` has changed, or what is wanted has, while what the source has is not active.
    FileChanged,
    /// The active revision does worse than the one before it.
    RollbackNeeded(RollbackVerdict),
    /// An administrator asks for an earlier revision, which exists.
    RollbackAsked,
    /// The work in progress has ended.
    Ended {
        /// Whether the work succeeded.
        succeeded: bool,
    },
}

/// What happens to the work in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The work goes on.
    Continues,
    /// The work is dropped or done, and no other begins.
    Stops,
    /// The work of the new stage begins in place of the present one.
    Begins,
    /// The work goes on, and the administrator's rollback is refused.
    Refuses,
}

/// The stage and the work that follow an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The stage.
    pub stage: Stage,
    /// What happens to the work in progress.
    pub work: Work,
    /// Whether the component's file is offered again.
    pub offers: bool,
}

impl Next {
    fn begins(stage: Stage) -> Self {
        Self { stage, work: Work::Begins, offers: false }
    }

    fn continues(stage: Stage) -> Self {
        Self { stage, work: Work::Continues, offers: false }
    }

    fn idle() -> Self {
        Self { stage: Stage::Idle, work: Work::Stops, offers: false }
    }

    fn and_offers(self) -> Self {
        Self { offers: true, ..self }
    }
}

impl Stage {
    /// Returns whether files are read and verdicts taken: not during a rollback, which a changed file must not cancel.
    pub fn takes_files(&self) -> bool {
        matches!(self, Self::Idle | Self::Activating)
    }

    /// Returns what follows an event.
    pub fn next(self, event: Event) -> Next {
        match (self, event) {
            (Self::Idle | Self::Activating, Event::Offered) => Next::begins(Self::Activating),
            (Self::Idle | Self::Activating, Event::FileChanged) => Next::idle().and_offers(),
            (Self::Idle, Event::RollbackNeeded(verdict)) => Next::begins(Self::RollingBack(verdict)),
            (Self::Activating, Event::RollbackNeeded(verdict)) => Next::begins(Self::RollingBack(verdict)).and_offers(),
            // They wait until the rollback has ended.
            (stage, Event::Offered | Event::FileChanged | Event::RollbackNeeded(_)) => Next::continues(stage),
            (Self::Idle, Event::RollbackAsked) => Next::begins(Self::Returning(Interrupted::Nothing)),
            (Self::Activating, Event::RollbackAsked) => Next::begins(Self::Returning(Interrupted::Activation)),
            (Self::RollingBack(verdict), Event::RollbackAsked) => {
                Next::begins(Self::Returning(Interrupted::Rollback(verdict)))
            }
            (returning @ Self::Returning(_), Event::RollbackAsked) => {
                Next { work: Work::Refuses, ..Next::continues(returning) }
            }
            (Self::Returning(interrupted), Event::Ended { succeeded: false }) => interrupted.resume(),
            (_, Event::Ended { .. }) => Next::idle(),
        }
    }
}

impl Interrupted {
    fn resume(self) -> Next {
        match self {
            Self::Nothing => Next::idle(),
            Self::Activation => Next::idle().and_offers(),
            Self::Rollback(verdict) => Next::begins(Stage::RollingBack(verdict)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(why: &str) -> RollbackVerdict {
        RollbackVerdict { why: why.to_owned(), failed_on: Vec::new() }
    }

    fn stages() -> Vec<Stage> {
        let interrupted = [Interrupted::Nothing, Interrupted::Activation, Interrupted::Rollback(verdict("old"))];
        let mut stages = vec![Stage::Idle, Stage::Activating, Stage::RollingBack(verdict("old"))];
        stages.extend(interrupted.map(Stage::Returning));
        stages
    }

    fn events() -> [Event; 6] {
        let ended = |succeeded| Event::Ended { succeeded };
        let needed = Event::RollbackNeeded(verdict("new"));
        [Event::Offered, Event::FileChanged, needed, Event::RollbackAsked, ended(true), ended(false)]
    }

    /// Formats what follows an event, in the terms of the table above.
    fn formatted(Next { stage, work, offers }: Next) -> String {
        let offers = if offers { ", offer" } else { "" };
        let of = |verdict: RollbackVerdict| verdict.why;
        let stage = match stage {
            Stage::Idle => "idle".to_owned(),
            Stage::Activating => "activating".to_owned(),
            Stage::RollingBack(verdict) => format!("rolling back {}", of(verdict)),
            Stage::Returning(Interrupted::Nothing) => "returning".to_owned(),
            Stage::Returning(Interrupted::Activation) => "returning, then activation".to_owned(),
            Stage::Returning(Interrupted::Rollback(verdict)) => format!("returning, then rollback {}", of(verdict)),
        };
        format!("{work:?}: {stage}{offers}")
    }

    #[test]
    fn each_event_in_each_stage_has_its_outcome() {
        let idle = "Stops: idle";
        let waits = |stage: &'static str, asked, failed| [stage, stage, stage, asked, idle, failed];
        let expected: [[&str; 6]; 6] = [
            ["Begins: activating", "Stops: idle, offer", "Begins: rolling back new", "Begins: returning", idle, idle],
            [
                "Begins: activating",
                "Stops: idle, offer",
                "Begins: rolling back new, offer",
                "Begins: returning, then activation",
                idle,
                idle,
            ],
            waits("Continues: rolling back old", "Begins: returning, then rollback old", idle),
            waits("Continues: returning", "Refuses: returning", idle),
            waits("Continues: returning, then activation", "Refuses: returning, then activation", "Stops: idle, offer"),
            waits(
                "Continues: returning, then rollback old",
                "Refuses: returning, then rollback old",
                "Begins: rolling back old",
            ),
        ];
        for (stage, expected) in stages().into_iter().zip(expected) {
            let found = events().map(|event| formatted(stage.clone().next(event)));
            assert_eq!(found, expected.map(str::to_owned), "{stage:?}");
        }
    }

    #[test]
    fn every_stage_ends_in_idle_and_no_event_is_lost() {
        for stage in stages() {
            let ended = stage.clone().next(Event::Ended { succeeded: true });
            assert_eq!((ended.stage, ended.work), (Stage::Idle, Work::Stops), "{stage:?}");
            for event in events() {
                let is_end = matches!(event, Event::Ended { .. });
                let next = stage.clone().next(event.clone());
                let goes_on = next.work != Work::Stops || next.offers || next.stage != Stage::Idle;
                assert!(goes_on || is_end, "{event:?} is lost in {stage:?}");
                assert_eq!(next.work == Work::Stops, next.stage == Stage::Idle, "{event:?} in {stage:?}");
            }
        }
    }

    #[test]
    fn files_and_verdicts_wait_for_a_rollback() {
        let waits: Vec<bool> = stages().iter().map(|stage| !stage.takes_files()).collect();
        assert_eq!(waits, [false, false, true, true, true, true]);
    }
}
