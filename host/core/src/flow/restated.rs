//! Bounds how often a text is written again that other users can change as often as they like.

use std::time::{Duration, Instant};

/// The shortest time between two changes of a stated text.
pub const RESTATED_AFTER: Duration = Duration::from_secs(30);

/// A text that is stated at once, and restated or withdrawn at intervals.
#[derive(Clone, Debug, Default)]
pub struct Restated {
    stated: Option<String>,
    /// When another text may be stated.
    open: Option<Instant>,
    /// Whether another text than the stated one is true.
    is_outdated: bool,
}

impl Restated {
    /// Takes the text that is true now, `None` if there is nothing to state. Returns whether what is stated has changed.
    pub fn update(&mut self, text: Option<String>, now: Instant) -> bool {
        let differs = self.stated != text;
        let is_open = self.open.is_none_or(|open| now >= open);
        self.is_outdated = differs && !is_open;
        if differs && is_open {
            (self.stated, self.open) = (text, Some(now + RESTATED_AFTER));
        }
        differs && is_open
    }

    /// Returns the stated text.
    pub fn stated(&self) -> Option<&str> {
        self.stated.as_deref()
    }

    /// Returns the time until the stated text is replaced; `None` if it is true.
    pub fn next_due(&self, now: Instant) -> Option<Duration> {
        self.open.filter(|_| self.is_outdated).map(|open| open.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_stated_at_once_and_changes_and_goes_only_after_a_while() {
        let (mut restated, start) = (Restated::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let text = |text: &str| Some(text.to_owned());
        assert!(!restated.update(None, at(0)) && restated.stated().is_none());
        assert!(restated.update(text("one"), at(1)) && restated.stated() == Some("one"));
        assert!(!restated.update(text("one"), at(2)) && restated.next_due(at(2)).is_none());
        for (seconds, other) in [(3, text("two")), (4, None), (30, text("three"))] {
            assert!(!restated.update(other, at(seconds)) && restated.stated() == Some("one"));
            assert_eq!(restated.next_due(at(seconds)), Some(Duration::from_secs(31 - seconds)));
        }
        assert!(!restated.update(text("one"), at(30)) && restated.next_due(at(30)).is_none(), "it is true again");
        assert!(restated.update(text("two"), at(31)) && restated.stated() == Some("two"));
        assert!(!restated.update(None, at(60)) && restated.stated() == Some("two"));
        assert!(restated.update(None, at(61)) && restated.stated().is_none() && restated.next_due(at(61)).is_none());
    }

    #[test]
    fn a_thousand_changes_in_a_minute_are_stated_three_times() {
        let (mut restated, start) = (Restated::default(), Instant::now());
        let changes = (0..1_000_u64).map(|number| (number, start + Duration::from_millis(60 * number)));
        let stated = changes.filter(|(number, at)| {
            let text = (number % 2 == 0).then(|| format!("{number} objects"));
            restated.update(text, *at)
        });
        assert!((2..=3).contains(&stated.count()));
    }
}
