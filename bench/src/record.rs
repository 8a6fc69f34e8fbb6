//! Checks of the writes while CRs are changed and components are swapped: nothing is lost, and nothing is
//! decided twice. A pure function from what was observed from outside to the errors in it.
//!
//! All objects of a cluster share one sequence of versions, so events of several watches have one order,
//! whenever they arrive. Every change of a CR has its own number and every revision writes its own mark, and
//! both are in the Deployment: each write shows which change was decided and by which revision.
//!
//! After a swap every CR is decided again, so a second write for one change is correct if it is by a
//! newer revision. These are errors:
//!
//! - *lost*: a change that no write shows, although the next change of the same CR came only after the
//!   grace period, or never; and a CR whose last write is not its last change by the last revision;
//! - *backwards*: a write that shows an older change, or an older revision, than the write before it;
//! - *twice*: a write that shows the same change by the same revision as the write before it;
//! - *outdated*: a write by a revision that had been replaced before the change was made, or for longer
//!   than the grace period. The first write of a newer revision to any CR shows that it had been replaced. Since
//!   all CRs are decided again after a swap, two revisions decide such a change although there was no swap after
//!   it. A reconcile that began before the swap ends with the revision that it began with, but it
//!   cannot know a later change;
//! - *unknown*: a write that shows a change or a mark that was never made.

use std::collections::HashMap;
use std::time::Duration;

/// An observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// When it was seen, since the beginning of the run.
    pub at: Duration,
    /// The CR that it is about.
    pub parent: String,
    /// What was seen.
    pub what: What,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The CR had the change of this number.
    Changed(u32),
    /// The Deployment had this change, as decided by this revision; none where the mark is unknown.
    Written(u32, Option<usize>),
}

/// The errors, as messages, and the numbers of changes and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// How many changes there were.
    pub changes: usize,
    /// How many of them were not followed by another change within the grace period.
    pub stood: usize,
    /// How many writes there were.
    pub writes: usize,
    /// How many revisions wrote.
    pub revisions: usize,
    /// Writes for a change that an older revision had decided before.
    pub decided_again: usize,
    /// The times from each change until the first write that showed it, sorted.
    pub took: Vec<Duration>,
    /// Changes that were not acted upon.
    pub lost: Vec<String>,
    /// Writes that replace a newer state by an older one.
    pub backwards: Vec<String>,
    /// Writes that repeat the write before.
    pub twice: Vec<String>,
    /// Writes by a revision that had been replaced.
    pub outdated: Vec<String>,
    /// Writes that no change asked for.
    pub unknown: Vec<String>,
}

/// One change of one CR.
struct Change {
    number: u32,
    at: Duration,
    /// The newest revision that had written anything by then.
    newest: Option<usize>,
    is_shown: bool,
}

#[derive(Default)]
struct Parent {
    changes: Vec<Change>,
    /// The index of the change that the Deployment shows, and the revision.
    shown: Option<(usize, usize)>,
}

#[derive(Default)]
struct Reader {
    grace: Duration,
    parents: HashMap<String, Parent>,
    /// When each revision wrote first.
    first: Vec<(usize, Duration)>,
    findings: Findings,
}

/// Checks what was seen until `end`, where a change may take as long as the grace period.
pub fn check(mut seen: Vec<Seen>, end: Duration, grace: Duration) -> Findings {
    seen.sort_by_key(|seen| seen.version);
    let mut reader = Reader { grace, ..Reader::default() };
    for seen in &seen {
        match seen.what {
            What::Changed(number) => reader.changed(seen, number),
            What::Written(number, revision) => reader.written(seen, number, revision),
        }
    }
    reader.conclude(end)
}

impl Reader {
    fn newest(&self) -> Option<usize> {
        self.first.last().map(|(revision, _)| *revision)
    }

    fn changed(&mut self, seen: &Seen, number: u32) {
        let change = Change { number, at: seen.at, newest: self.newest(), is_shown: false };
        self.findings.changes += 1;
        self.parents.entry(seen.parent.clone()).or_default().changes.push(change);
    }

    fn written(&mut self, seen: &Seen, number: u32, revision: Option<usize>) {
        self.findings.writes += 1;
        let words = || format!("{} at {:.3?}, version {}: change {number}", seen.parent, seen.at, seen.version);
        let parent = self.parents.entry(seen.parent.clone()).or_default();
        let place = parent.changes.iter().rposition(|change| change.number == number);
        let (Some(place), Some(revision)) = (place, revision) else {
            self.findings.unknown.push(format!("{} by revision {revision:?}", words()));
            return;
        };
        let Some(change) = parent.changes.get_mut(place) else { return };
        if !std::mem::replace(&mut change.is_shown, true) {
            self.findings.took.push(seen.at.saturating_sub(change.at));
        }
        let newer = self.first.iter().find(|(newer, _)| *newer > revision);
        if change.newest.is_some_and(|newest| newest > revision) {
            self.findings.outdated.push(format!("{} by revision {revision} after {:?}", words(), change.newest));
        } else if let Some((newer, since)) = newer.filter(|(_, since)| seen.at.saturating_sub(*since) > self.grace) {
            self.findings.outdated.push(format!("{} by revision {revision}, {newer} wrote at {since:.3?}", words()));
        }
        match parent.shown {
            Some((before, by)) if place < before || revision < by => {
                let before = parent.changes.get(before).map(|change| change.number);
                self.findings.backwards.push(format!("{} by revision {revision} after {before:?} by {by}", words()));
            }
            Some(before) if before == (place, revision) => {
                self.findings.twice.push(format!("{} by revision {revision}", words()));
            }
            Some((before, _)) if before == place => self.findings.decided_again += 1,
            _ => {}
        }
        parent.shown = Some((place, revision));
        if self.newest().is_none_or(|newest| newest < revision) {
            self.first.push((revision, seen.at));
        }
    }

    fn conclude(mut self, end: Duration) -> Findings {
        let newest = self.newest();
        for (name, parent) in &self.parents {
            let next = parent.changes.iter().skip(1).map(|change| change.at).chain([end]);
            for (change, next) in parent.changes.iter().zip(next) {
                let stood = next.saturating_sub(change.at) > self.grace;
                self.findings.stood += usize::from(stood);
                if stood && !change.is_shown {
                    self.findings.lost.push(format!("{name}: change {} at {:.3?}", change.number, change.at));
                }
            }
            let (last, shown) = (parent.changes.len().checked_sub(1), parent.shown);
            if shown.map(|(place, _)| place) != last || shown.map(|(_, revision)| revision) != newest {
                self.findings.lost.push(format!("{name}: in the end {shown:?} of {last:?} by {newest:?}"));
            }
        }
        self.findings.took.sort_unstable();
        self.findings.revisions = self.first.len();
        self.findings
    }
}

impl Findings {
    /// Returns the number of writes that were decided by two revisions, or twice by one.
    pub fn wrong(&self) -> usize {
        self.backwards.len() + self.twice.len() + self.outdated.len() + self.unknown.len()
    }

    /// Returns the percentile of the times until a change was acted upon, in seconds.
    pub fn took(&self, percent: usize) -> f64 {
        let index = (self.took.len() * percent / 100).min(self.took.len().saturating_sub(1));
        self.took.get(index).map_or(0.0, Duration::as_secs_f64)
    }

    /// Returns all errors, one line each.
    pub fn lines(&self) -> Vec<String> {
        let kinds = [
            ("backwards", &self.backwards),
            ("twice", &self.twice),
            ("outdated", &self.outdated),
            ("unknown", &self.unknown),
            ("lost", &self.lost),
        ];
        kinds.iter().flat_map(|(kind, found)| found.iter().map(move |words| format!("{kind}: {words}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::What::{Changed, Written};
    use super::*;

    const GRACE: Duration = Duration::from_secs(1);

    /// Checks observations of `a` and `b` that are one version and 100 ms apart, with a long time after them.
    fn findings(seen: &[(&str, What)]) -> Findings {
        let seen = seen.iter().zip(0_u32..).map(|(&(parent, what), number)| Seen {
            version: number.into(),
            at: number * Duration::from_millis(100),
            parent: parent.into(),
            what,
        });
        let mut seen: Vec<Seen> = seen.collect();
        // In another order, as they may arrive from several watches.
        seen.reverse();
        check(seen, Duration::from_secs(60), GRACE)
    }

    #[test]
    fn a_change_that_is_decided_once_and_again_after_a_swap_is_right() {
        let findings = findings(&[
            ("a", Changed(1)),
            ("a", Written(1, Some(0))),
            ("b", Changed(2)),
            ("b", Written(2, Some(0))),
            ("a", Changed(3)),
            ("a", Written(3, Some(1))),
            ("b", Written(2, Some(1))),
        ]);
        assert_eq!(findings.lines(), Vec::<String>::new());
        assert_eq!((findings.changes, findings.writes, findings.revisions), (3, 4, 2));
        assert_eq!((findings.decided_again, findings.took.len(), findings.took(100)), (1, 3, 0.1));
    }

    #[test]
    fn a_reconcile_that_began_before_the_swap_may_end_after_it() {
        let findings = findings(&[
            ("a", Changed(1)),
            ("b", Changed(2)),
            ("a", Written(1, Some(1))),
            ("b", Written(2, Some(0))),
            ("b", Written(2, Some(1))),
        ]);
        assert_eq!(findings.lines(), Vec::<String>::new());
    }

    #[test]
    fn a_change_that_was_never_acted_upon_is_lost() {
        let last = findings(&[("a", Changed(1)), ("a", Written(1, Some(0))), ("a", Changed(2))]);
        assert_eq!(last.lost.len(), 2, "{:?}", last.lost);
        let seen = |version: u64, seconds, what| {
            let (at, parent) = (Duration::from_secs(seconds), "a".to_owned());
            Seen { version, at, parent, what }
        };
        let between = |pause: u64| {
            let then = 1 + pause;
            vec![seen(1, 1, Changed(1)), seen(2, then, Changed(2)), seen(3, then, Written(2, Some(0)))]
        };
        assert_eq!(check(between(2), GRACE * 60, GRACE).lost, ["a: change 1 at 1.000s"]);
        assert_eq!(check(between(1), GRACE * 60, GRACE).lost, Vec::<String>::new(), "it had no time");
    }

    #[test]
    fn a_parent_that_the_last_revision_did_not_decide_is_lost() {
        let findings =
            findings(&[("a", Changed(1)), ("b", Changed(2)), ("a", Written(1, Some(0))), ("b", Written(2, Some(1)))]);
        assert_eq!(findings.lost, ["a: in the end Some((0, 0)) of Some(0) by Some(1)"]);
    }

    #[test]
    fn an_older_answer_after_a_newer_one_is_wrong() {
        let revision = findings(&[("a", Changed(1)), ("a", Written(1, Some(1))), ("a", Written(1, Some(0)))]);
        assert_eq!(revision.backwards.len(), 1);
        let change = findings(&[
            ("a", Changed(1)),
            ("a", Changed(2)),
            ("a", Written(2, Some(0))),
            ("a", Written(1, Some(0))),
            ("a", Written(2, Some(0))),
        ]);
        assert_eq!(change.backwards.len(), 1, "{:?}", change.lines());
    }

    #[test]
    fn the_same_answer_again_is_wrong() {
        let findings = findings(&[("a", Changed(1)), ("a", Written(1, Some(0))), ("a", Written(1, Some(0)))]);
        assert_eq!((findings.twice.len(), findings.wrong()), (1, 1));
    }

    #[test]
    fn a_change_that_the_old_revision_decides_after_a_swap_is_wrong() {
        let findings = findings(&[
            ("a", Changed(1)),
            ("a", Written(1, Some(1))),
            ("b", Changed(2)),
            ("b", Written(2, Some(0))),
            ("b", Written(2, Some(1))),
        ]);
        assert_eq!(findings.outdated.len(), 1, "{:?}", findings.lines());
    }

    #[test]
    fn a_revision_that_writes_long_after_it_was_replaced_is_wrong() {
        let mut seen = vec![("b", Changed(2)), ("a", Changed(1)), ("a", Written(1, Some(1)))];
        // More than a second passes.
        seen.extend((0..12).map(|number| ("a", Changed(10 + number))));
        seen.extend([("a", Written(21, Some(1))), ("b", Written(2, Some(0))), ("b", Written(2, Some(1)))]);
        let findings = findings(&seen);
        assert_eq!(findings.lines().len(), 1, "{:?}", findings.lines());
        assert_eq!(findings.outdated.len(), 1);
    }

    #[test]
    fn a_write_that_was_not_desired_is_wrong() {
        let findings = findings(&[
            ("a", Changed(1)),
            ("a", Written(7, Some(0))),
            ("a", Written(1, None)),
            ("a", Written(1, Some(0))),
        ]);
        assert_eq!((findings.unknown.len(), findings.lost.len()), (2, 0));
    }
}
