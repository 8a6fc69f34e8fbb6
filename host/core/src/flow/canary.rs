//! Which parents a canary decides for, and when it ends. Pure.
//!
//! A canary is a new revision that decides for a share of the parents while the active one decides for the rest.
//! [`probation`](crate::flow::probation) compares it with the active one, as after a swap. This module chooses the
//! revision for each parent, and says when the canary takes over the rest.

use std::fmt;
use std::time::{Duration, Instant};

use crate::model::digest::Digest;
use crate::model::label_selector::LabelSelector;
use crate::model::object::Object;

/// How long a canary lasts at least, by default.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(600);
/// The shortest duration that can be asked for. A shorter canary would prove nothing.
pub const MIN_DURATION: Duration = Duration::from_secs(1);
/// The longest duration that can be asked for: a week.
pub const MAX_DURATION: Duration = Duration::from_secs(7 * 24 * 3600);

/// The parents that a canary decides for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// A percentage, by a hash of the component's digest and the parent's uid: a parent stays in or out of the share
    /// for as long as both stay the same.
    Percent(u8),
    /// The parents in namespaces with these labels.
    Namespaces(LabelSelector),
}

impl Share {
    /// Returns whether a parent with this uid is in the share. `namespace` is the parent's namespace with its labels; a
    /// parent whose namespace is not known is in no share of namespaces.
    pub fn has(&self, canary: Digest, uid: &str, namespace: Option<&Object>) -> bool {
        match self {
            Self::Percent(percent) => percentile(canary, uid) < u32::from(*percent),
            Self::Namespaces(selector) => {
                namespace.is_some_and(|namespace| selector.matches(|key| namespace.label(key)))
            }
        }
    }

    /// Returns the selector, if the share is chosen by namespaces.
    pub fn namespaces(&self) -> Option<&LabelSelector> {
        match self {
            Self::Percent(_) => None,
            Self::Namespaces(selector) => Some(selector),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Namespaces(selector) => write!(f, "namespaces with {selector}"),
        }
    }
}

/// Returns a number below 100 for a parent. The number depends on the component, so that not always the same parents
/// are the first to get a new one.
fn percentile(canary: Digest, uid: &str) -> u32 {
    canary.and(uid.as_bytes()).remainder(100)
}

/// The time during which a canary did not decide, because its plugin was paused.
#[derive(Clone, Copy, Debug)]
pub struct PausedTime {
    total: Duration,
    /// The total at the end of the last pause.
    ended: Duration,
    updated: Instant,
}

impl PausedTime {
    /// Begins to measure.
    pub fn begin(now: Instant) -> Self {
        Self { total: Duration::ZERO, ended: Duration::ZERO, updated: now }
    }

    /// Counts the time since the last update as paused, or not. Returns the whole paused time.
    pub fn update(&mut self, now: Instant, is_paused: bool) -> Duration {
        if is_paused {
            self.total += now.saturating_duration_since(self.updated);
        } else {
            self.ended = self.total;
        }
        self.updated = now;
        self.total
    }

    /// Returns the paused time up to the end of the last pause. It stays the same during a pause.
    pub fn of_ended_pauses(&self) -> Duration {
        self.ended
    }
}

/// The state of a canary, from which the host decides whether it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// For how long it has decided.
    pub lasted: Duration,
    /// For how many parents it decides.
    pub parents: usize,
    /// Whether it has decided about one of them.
    pub has_decided: bool,
    /// Whether its circuit is closed.
    pub is_called: bool,
    /// Whether an administrator has paused the plugin.
    pub is_paused: bool,
}

/// Why a canary does not end yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Its time is not over.
    Time,
    /// The plugin is paused.
    Paused,
    /// It fails so often that it is not called.
    Circuit,
    /// It has decided about none of its parents.
    Decision,
}

impl Waits {
    /// Returns a message that says why a canary goes on though its time is over.
    pub fn overdue(self) -> Option<&'static str> {
        match self {
            Self::Time => None,
            Self::Paused => Some("its time is over, but the plugin is paused"),
            Self::Circuit => Some("its time is over, but it fails so often that it is not called; roll it back"),
            Self::Decision => Some("its time is over, but it has decided about none of its parents yet"),
        }
    }
}

impl Progress {
    /// Returns why the canary does not decide for all parents yet; none once it should. A canary without parents cannot
    /// prove anything, so it is activated after its time as it would be without a canary.
    pub fn waits(&self, duration: Duration) -> Option<Waits> {
        if self.lasted < duration {
            return Some(Waits::Time);
        }
        if self.is_paused {
            return Some(Waits::Paused);
        }
        if !self.is_called {
            return Some(Waits::Circuit);
        }
        (self.parents > 0 && !self.has_decided).then_some(Waits::Decision)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::model::object::KeptFields;
    use crate::model::projection::Projection;

    fn uid(number: u64) -> String {
        format!("{number:08x}-0000-4000-8000-000000000000")
    }

    fn namespace(labels: &serde_json::Value) -> Object {
        let kept_fields =
            KeptFields { projection: Projection::new::<&str>(&[]), labels: vec!["tier".into()], status: false };
        let json = json!({ "metadata": { "name": "n", "uid": "1", "resourceVersion": "1", "labels": labels } });
        Object::read(&json.to_string(), &kept_fields).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]

        #[test]
        fn a_share_has_about_its_percentage_of_ten_thousand_parents(component: u64, percent in 1_u8..100) {
            let (canary, share) = (Digest::of(&component.to_be_bytes()), Share::Percent(percent));
            let among = (0..10_000_u64).filter(|number| share.has(canary, &uid(*number), None)).count();
            let expected = usize::from(percent) * 100;
            prop_assert!(among.abs_diff(expected) <= 250, "{among} instead of {expected}");
        }

        #[test]
        fn a_parent_stays_in_its_group_and_no_larger_share_drops_it(component: u64, parent: u64, percent in 1_u8..99) {
            let (canary, uid) = (Digest::of(&component.to_be_bytes()), uid(parent));
            let is_in = |percent| Share::Percent(percent).has(canary, &uid, None);
            prop_assert_eq!(is_in(percent), is_in(percent));
            prop_assert!(!is_in(percent) || is_in(percent + 1));
        }
    }

    #[test]
    fn another_component_is_tried_on_other_parents_first() {
        let share = Share::Percent(10);
        let of = |component: &str| -> Vec<u64> {
            (0..10_000).filter(|number| share.has(Digest::of(component.as_bytes()), &uid(*number), None)).collect()
        };
        let (one, other) = (of("one"), of("other"));
        let both = one.iter().filter(|number| other.contains(number)).count();
        assert!((800..=1_200).contains(&one.len()) && both < 200, "{both} of {}", one.len());
    }

    #[test]
    fn a_percentage_of_n_has_those_whose_number_is_below_n() {
        let (canary, uid) = (Digest::of(b"new"), uid(7));
        let number = u8::try_from(percentile(canary, &uid)).unwrap();
        assert!(!Share::Percent(number).has(canary, &uid, None));
        assert!(Share::Percent(number + 1).has(canary, &uid, None));
    }

    #[test]
    fn a_share_names_what_it_is_chosen_by() {
        let selector: LabelSelector = serde_json::from_value(json!({ "matchLabels": { "tier": "canary" } })).unwrap();
        let by_namespace = Share::Namespaces(selector.clone());
        assert_eq!((by_namespace.namespaces(), Share::Percent(10).namespaces()), (Some(&selector), None));
        assert_eq!(by_namespace.to_string(), "namespaces with tier=canary");
        assert_eq!(Share::Percent(10).to_string(), "10%");
        assert_eq!(MAX_DURATION.as_secs(), 604_800, "a week");
    }

    #[test]
    fn a_namespace_is_in_a_share_by_its_labels_and_never_while_it_is_unknown() {
        let canary = Digest::of(b"new");
        for (selector, labels, is_in) in [
            (json!({ "matchLabels": { "tier": "canary" } }), json!({ "tier": "canary" }), true),
            (json!({ "matchLabels": { "tier": "canary" } }), json!({ "tier": "prod" }), false),
            (json!({ "matchLabels": { "tier": "canary" } }), json!({}), false),
            (json!({ "matchExpressions": [{ "key": "tier", "operator": "DoesNotExist" }] }), json!({}), true),
        ] {
            let share = Share::Namespaces(serde_json::from_value(selector).unwrap());
            assert_eq!(share.has(canary, "1", Some(&namespace(&labels))), is_in, "{share}");
            assert!(!share.has(canary, "1", None), "{share}");
        }
    }

    #[test]
    fn the_time_of_a_pause_is_counted_and_shown_once_it_has_ended() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut paused = PausedTime::begin(start);
        assert_eq!(paused.update(start + second, false), Duration::ZERO);
        assert_eq!(paused.update(start + 3 * second, true), 2 * second);
        assert_eq!(paused.update(start + 4 * second, true), 3 * second);
        assert_eq!(paused.of_ended_pauses(), Duration::ZERO);
        assert_eq!(paused.update(start + 9 * second, false), 3 * second);
        assert_eq!(paused.of_ended_pauses(), 3 * second);
        assert_eq!(paused.update(start + 10 * second, true), 4 * second);
    }

    #[test]
    fn a_canary_ends_after_its_time_once_it_has_decided_and_is_called() {
        let duration = Duration::from_secs(60);
        let good = Progress { lasted: duration, parents: 3, has_decided: true, is_called: true, is_paused: false };
        for (progress, waits) in [
            (good, None),
            (Progress { lasted: Duration::from_secs(59), ..good }, Some(Waits::Time)),
            (Progress { is_paused: true, ..good }, Some(Waits::Paused)),
            (Progress { is_called: false, ..good }, Some(Waits::Circuit)),
            (Progress { has_decided: false, ..good }, Some(Waits::Decision)),
            (Progress { has_decided: false, parents: 0, ..good }, None),
        ] {
            assert_eq!(progress.waits(duration), waits, "{progress:?}");
            assert_eq!(waits.and_then(Waits::overdue).is_some(), waits.is_some_and(|waits| waits != Waits::Time));
        }
    }
}
