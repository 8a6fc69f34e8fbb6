//! What the rollout of one plugin is doing, and what comes next. Pure: the driver carries it out.
//!
//! ```text
//! event ▶              Offered       FileChanged     Relapsed         RollbackAsked       Ended
//! Idle                 Activating    Idle, offer     RollingBack      Returning           Idle
//! Activating           Activating¹   Idle, offer     RollingBack²     Returning           Idle
//! RollingBack          -, offer      -, offer        -                Returning           Idle
//! Returning            -, offer      -, offer        -, remembered    -, refused          Idle³
//! ```
//!
//! `-` is the same stage, whose work goes on; `offer` has the component's file offered again. ¹ The newer component
//! replaces the one that was being activated. ² That one is offered again after the rollback. ³ Where the
//! return failed, what it had interrupted begins again.
//!
//! What a component comes to at the end is no stage of this: it is active, or refused for a
//! [`Reason`](crate::sandbox::error::Reason) that says whether it can be approved.

use hotshoe_core::flow::probation::RollbackVerdict;

/// What is under way for one plugin; at most one revision at a time is on its way to be active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is.
    #[default]
    Idle,
    /// The component that was offered is loaded, verified and activated.
    Activating,
    /// The active revision does worse than the one before it, which is activated again.
    RollingBack(RollbackVerdict),
    /// An administrator asked for an earlier revision, which is activated again.
    Returning(Interrupted),
}

/// What an administrator's rollback interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    Nothing,
    Activation,
    Rollback(RollbackVerdict),
}

/// What happens to a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The component's file holds another component, or was asked for again.
    Offered,
    /// `plugin.yaml` says something else.
    FileChanged,
    /// The active revision does worse than the one before it.
    Relapsed(RollbackVerdict),
    /// An administrator asks for an earlier revision that there is.
    RollbackAsked,
    /// What was under way has ended.
    Ended {
        /// Whether it did what it was to do.
        well: bool,
    },
}

/// What becomes of the work that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It goes on.
    Continues,
    /// There is none any more.
    Stops,
    /// That of the new stage begins in its place.
    Begins,
    /// It goes on, and who asked for something else is refused.
    Refuses,
}

/// What follows an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) stage: Stage,
    pub(crate) work: Work,
    /// Whether the component's file is offered again.
    pub(crate) offers: bool,
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
    /// Returns whether files are looked at: not beside a rollback, which must not be lost to one.
    pub(crate) fn takes_files(&self) -> bool {
        matches!(self, Self::Idle | Self::Activating)
    }

    /// Returns what follows an event.
    pub(crate) fn next(self, event: Event) -> Next {
        match (self, event) {
            (Self::Idle | Self::Activating, Event::Offered) => Next::begins(Self::Activating),
            (Self::Idle | Self::Activating, Event::FileChanged) => Next::idle().and_offers(),
            (Self::Idle, Event::Relapsed(relapse)) => Next::begins(Self::RollingBack(relapse)),
            (Self::Activating, Event::Relapsed(relapse)) => Next::begins(Self::RollingBack(relapse)).and_offers(),
            (Self::Returning(interrupted), Event::Relapsed(relapse)) => Next {
                offers: interrupted == Interrupted::Activation,
                ..Next::continues(Self::Returning(Interrupted::Rollback(relapse)))
            },
            (rolling @ Self::RollingBack(_), Event::Relapsed(_)) => Next::continues(rolling),
            (stage, Event::Offered | Event::FileChanged) => Next::continues(stage).and_offers(),
            (Self::Idle, Event::RollbackAsked) => Next::begins(Self::Returning(Interrupted::Nothing)),
            (Self::Activating, Event::RollbackAsked) => Next::begins(Self::Returning(Interrupted::Activation)),
            (Self::RollingBack(relapse), Event::RollbackAsked) => {
                Next::begins(Self::Returning(Interrupted::Rollback(relapse)))
            }
            (returning @ Self::Returning(_), Event::RollbackAsked) => {
                Next { work: Work::Refuses, ..Next::continues(returning) }
            }
            (Self::Returning(interrupted), Event::Ended { well: false }) => interrupted.resumes(),
            (_, Event::Ended { .. }) => Next::idle(),
        }
    }
}

impl Interrupted {
    fn resumes(self) -> Next {
        match self {
            Self::Nothing => Next::idle(),
            Self::Activation => Next::idle().and_offers(),
            Self::Rollback(relapse) => Next::begins(Stage::RollingBack(relapse)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relapse(why: &str) -> RollbackVerdict {
        RollbackVerdict { why: why.to_owned(), failed_on: Vec::new() }
    }

    fn stages() -> Vec<Stage> {
        let interrupted = [Interrupted::Nothing, Interrupted::Activation, Interrupted::Rollback(relapse("old"))];
        let mut stages = vec![Stage::Idle, Stage::Activating, Stage::RollingBack(relapse("old"))];
        stages.extend(interrupted.map(Stage::Returning));
        stages
    }

    fn events() -> [Event; 6] {
        let ended = |well| Event::Ended { well };
        let relapsed = Event::Relapsed(relapse("new"));
        [Event::Offered, Event::FileChanged, relapsed, Event::RollbackAsked, ended(true), ended(false)]
    }

    /// What follows, in the words of the table.
    fn words(Next { stage, work, offers }: Next) -> String {
        let offers = if offers { ", offer" } else { "" };
        let of = |relapse: RollbackVerdict| relapse.why;
        let stage = match stage {
            Stage::Idle => "idle".to_owned(),
            Stage::Activating => "activating".to_owned(),
            Stage::RollingBack(relapse) => format!("rolling back {}", of(relapse)),
            Stage::Returning(Interrupted::Nothing) => "returning".to_owned(),
            Stage::Returning(Interrupted::Activation) => "returning, then activation".to_owned(),
            Stage::Returning(Interrupted::Rollback(relapse)) => format!("returning, then rollback {}", of(relapse)),
        };
        format!("{work:?}: {stage}{offers}")
    }

    #[test]
    fn each_event_in_each_stage_has_its_outcome() {
        let idle = "Stops: idle";
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
            [
                "Continues: rolling back old, offer",
                "Continues: rolling back old, offer",
                "Continues: rolling back old",
                "Begins: returning, then rollback old",
                idle,
                idle,
            ],
            [
                "Continues: returning, offer",
                "Continues: returning, offer",
                "Continues: returning, then rollback new",
                "Refuses: returning",
                idle,
                idle,
            ],
            [
                "Continues: returning, then activation, offer",
                "Continues: returning, then activation, offer",
                "Continues: returning, then rollback new, offer",
                "Refuses: returning, then activation",
                idle,
                "Stops: idle, offer",
            ],
            [
                "Continues: returning, then rollback old, offer",
                "Continues: returning, then rollback old, offer",
                "Continues: returning, then rollback new",
                "Refuses: returning, then rollback old",
                idle,
                "Begins: rolling back old",
            ],
        ];
        for (stage, expected) in stages().into_iter().zip(expected) {
            let found = events().map(|event| words(stage.clone().next(event)));
            assert_eq!(found, expected.map(str::to_owned), "{stage:?}");
        }
    }

    #[test]
    fn what_is_under_way_ends_whatever_it_is_and_nothing_is_lost() {
        for stage in stages() {
            let ended = stage.clone().next(Event::Ended { well: true });
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
    fn files_wait_for_a_rollback() {
        let waits: Vec<bool> = stages().iter().map(|stage| !stage.takes_files()).collect();
        assert_eq!(waits, [false, false, true, true, true, true]);
    }
}
