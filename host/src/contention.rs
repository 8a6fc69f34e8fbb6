//! Whether somebody else undoes what a plugin wishes for as often as it is put right. Each repair is a write,
//! and each write may wake the other, so two that never agree go round as fast as the API server lets them.
//!
//! Beside *apply*; pure. A person who edits by hand is answered at once each time; with a controller that
//! always answers there is no end to it: an allowance tells them apart. Once it is used up, the same wish
//! waits longer and longer before it is applied to the same child again. What is remembered goes with the
//! quarrel.

use std::mem;
use std::time::{Duration, Instant};

use crate::backoff::doubled;
use crate::check::Desired;
use crate::decision::ObjectRef;
use crate::diff::{Apply, Plan};

/// What applying one wish to one child may cost at once. Afterwards it comes back as time goes by.
const ALLOWANCE: Duration = Duration::from_secs(120);
/// What one apply costs: twenty at once, then ten a minute.
const APPLY: Duration = Duration::from_secs(6);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What was applied of late to the children of one parent, at most one wish for each.
#[derive(Clone, Debug, Default)]
pub struct Contention(Vec<Applied>);

#[derive(Clone, Debug)]
struct Applied {
    child: ObjectRef,
    digest: Box<str>,
    /// When the allowance is whole again, and this is forgotten.
    whole: Instant,
    /// Pauses from which the allowance has not recovered.
    pauses: u32,
    /// Not to be applied before.
    due: Option<Instant>,
    /// What is told of it, once it was undone in a pause.
    told: Option<String>,
}

impl Contention {
    /// A wish was applied to a child.
    pub fn applied(&mut self, desired: &Desired, now: Instant) {
        let known = self.0.iter().position(|one| one.child == desired.reference).map(|index| self.0.remove(index));
        let known = known.filter(|one| one.digest == desired.digest && one.whole > now);
        let applied = known.unwrap_or_else(|| Applied {
            child: desired.reference.clone(),
            digest: desired.digest.clone(),
            whole: now,
            pauses: 0,
            due: None,
            told: None,
        });
        self.0.push(applied.once_more(now));
    }

    /// Takes out of a plan what has to wait, and forgets what came to rest: what was due and is not in it.
    pub fn hold(&mut self, plan: &mut Plan, now: Instant) -> Vec<Apply> {
        self.0.retain(|one| one.whole > now);
        for one in self.0.iter_mut().filter(|one| one.is_due(now) && !one.is_in(plan)) {
            (one.due, one.told) = (None, None);
        }
        let (due, held) = mem::take(&mut plan.apply)
            .into_iter()
            .partition(|apply| self.0.iter().all(|one| !one.is_of(&apply.desired) || one.is_due(now)));
        plan.apply = due;
        held
    }

    /// Whether nothing is slowed down.
    pub fn is_over(&self) -> bool {
        self.0.iter().all(|one| one.due.is_none())
    }

    /// Whether nothing that waited may be applied by now, or is to be looked at.
    pub fn none_due(&self, now: Instant) -> bool {
        self.0.iter().all(|one| one.due.is_none() || !one.is_due(now))
    }

    /// How long until the next may be applied, or is seen to have come to rest.
    pub fn next_due(&self, now: Instant) -> Option<Duration> {
        self.0.iter().filter_map(|one| one.due).map(|due| due.saturating_duration_since(now)).min()
    }

    /// Whether it is told of a child that it is undone again and again.
    pub fn is_told(&self, child: &ObjectRef) -> bool {
        self.0.iter().any(|one| one.child == *child && one.told.is_some())
    }

    /// Has it told.
    pub fn tell(&mut self, child: &ObjectRef, words: &str) {
        for one in self.0.iter_mut().filter(|one| one.child == *child) {
            one.told = Some(words.to_owned());
        }
    }

    /// What is told for as long as it lasts.
    pub fn told(&self) -> Option<String> {
        let told: Vec<&str> = self.0.iter().filter_map(|one| one.told.as_deref()).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

impl Applied {
    fn once_more(mut self, now: Instant) -> Self {
        self.whole += APPLY;
        if self.whole > now + ALLOWANCE {
            let due = now + doubled(FIRST_PAUSE, self.pauses, LONGEST_PAUSE);
            self.pauses = self.pauses.saturating_add(1);
            self.due = Some(due);
            // What passes in the pause is no rest.
            self.whole = due + ALLOWANCE;
        }
        self
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    fn is_of(&self, desired: &Desired) -> bool {
        self.child == desired.reference && self.digest == desired.digest
    }

    fn is_in(&self, plan: &Plan) -> bool {
        plan.apply.iter().any(|apply| self.is_of(&apply.desired))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::decision::Kind;
    use crate::diff::Precondition;

    const AT_ONCE: u64 = 20;
    const SECOND: Duration = Duration::from_secs(1);

    fn wish(name: &str, digest: &str) -> Desired {
        let kind = Kind::new("", "v1", "ConfigMap");
        let reference = ObjectRef { kind, namespace: Some("n".into()), name: name.into() };
        Desired { reference, body: Arc::new(json!({})), digest: digest.into() }
    }

    fn plan(desired: &Desired) -> Plan {
        let apply = Apply { desired: desired.clone(), precondition: Precondition::Absent };
        Plan { apply: vec![apply], prune: Vec::new() }
    }

    fn is_held(contention: &mut Contention, desired: &Desired, now: Instant) -> bool {
        let mut plan = plan(desired);
        let held = contention.hold(&mut plan, now);
        assert_eq!(held.len() + plan.apply.len(), 1);
        plan.apply.is_empty()
    }

    /// When a wish is applied in so much time, where somebody undoes it at once each time.
    fn applies(lasting: Duration) -> Vec<Duration> {
        let (mut contention, desired, begin) = (Contention::default(), wish("a", "d"), Instant::now());
        let (mut at, mut passed) = (Vec::new(), Duration::ZERO);
        while passed < lasting {
            let now = begin + passed;
            if !is_held(&mut contention, &desired, now) {
                contention.applied(&desired, now);
                at.push(passed);
            }
            passed += Duration::from_millis(10);
        }
        at
    }

    #[test]
    fn a_dozen_edits_in_a_minute_are_put_back_at_once_for_as_long_as_it_goes_on() {
        let (mut contention, desired, mut now) = (Contention::default(), wish("a", "d"), Instant::now());
        for _ in 0..120 {
            assert!(!is_held(&mut contention, &desired, now));
            contention.applied(&desired, now);
            now += 6 * SECOND;
        }
        let (mut contention, now) = (Contention::default(), Instant::now());
        for _ in 0..AT_ONCE {
            assert!(!is_held(&mut contention, &desired, now));
            contention.applied(&desired, now);
        }
        assert!(contention.is_over() && contention.next_due(now).is_none());
    }

    #[test]
    fn who_always_answers_is_answered_more_and_more_seldom_and_never_given_up() {
        let at = applies(Duration::from_secs(600));
        let in_the_first = at.iter().filter(|at| **at < 60 * SECOND).count();
        assert!((26..=28).contains(&in_the_first), "{at:?}");
        let pauses: Vec<_> = at.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        assert!(pauses.iter().skip(AT_ONCE as usize).is_sorted(), "{pauses:?}");
        assert_eq!(pauses.last(), Some(&LONGEST_PAUSE), "{pauses:?}");
    }

    #[test]
    fn when_the_other_stops_it_is_over_and_an_edit_is_soon_put_back_at_once_again() {
        let (mut contention, desired, now) = (Contention::default(), wish("a", "d"), Instant::now());
        (0..=AT_ONCE).for_each(|_| contention.applied(&desired, now));
        assert!(is_held(&mut contention, &desired, now) && contention.none_due(now) && !contention.is_over());
        contention.tell(&desired.reference, "it is undone");
        assert_eq!(contention.told().as_deref(), Some("it is undone"));
        let due = now + contention.next_due(now).unwrap();
        assert!(!contention.none_due(due), "it is to be looked at");
        assert_eq!(contention.hold(&mut Plan::default(), due).len(), 0);
        assert!(contention.is_over() && contention.told().is_none() && contention.next_due(due).is_none());
        let later = due + APPLY;
        assert!(!is_held(&mut contention, &desired, later));
        contention.applied(&desired, later);
        assert!(contention.is_over());
        contention.hold(&mut Plan::default(), due + 2 * ALLOWANCE);
        assert!(contention.0.is_empty(), "nothing is remembered");
    }

    #[test]
    fn a_pause_in_which_nothing_was_undone_is_not_told_and_what_is_told_stays_between_two_pauses() {
        let (mut contention, desired, now) = (Contention::default(), wish("a", "d"), Instant::now());
        (0..=AT_ONCE).for_each(|_| contention.applied(&desired, now));
        assert!(!contention.is_told(&desired.reference) && contention.told().is_none());
        contention.tell(&desired.reference, "it is undone");
        let due = now + FIRST_PAUSE;
        assert!(!is_held(&mut contention, &desired, due));
        contention.applied(&desired, due);
        assert!(contention.is_told(&desired.reference));
        assert_eq!(contention.next_due(due), Some(2 * FIRST_PAUSE));
    }

    #[test]
    fn another_wish_and_another_child_do_not_wait() {
        let (mut contention, now) = (Contention::default(), Instant::now());
        (0..=AT_ONCE).for_each(|_| contention.applied(&wish("a", "d"), now));
        contention.tell(&wish("a", "d").reference, "it is undone");
        assert!(!is_held(&mut contention, &wish("b", "d"), now));
        assert!(!is_held(&mut contention, &wish("a", "other"), now));
        contention.applied(&wish("a", "other"), now);
        assert!(contention.is_over() && contention.told().is_none());
    }
}
