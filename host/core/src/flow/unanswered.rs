//! Writes that the API server did not answer in time: which of them are held against the plugin that they were made
//! for.
//!
//! One plugin's large writes may take an API server so long that they all time out, and so may those of the plugins
//! beside it, whose writes are small. And an API server that is away answers nobody.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A write of more bytes than this may be what keeps the API server busy.
const LARGE: usize = 64 * 1024;

/// For how long a write without an answer is shown.
const SHOWN: Duration = Duration::from_secs(600);

/// The most that are counted.
const COUNTED: usize = 1_000;

/// A write without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// When it was sent.
    pub sent: Instant,
    /// When it was given up.
    pub ended: Instant,
    /// Its body, bytes.
    pub bytes: usize,
}

/// When the API server last answered, and last let wait, by the plugin for which it was asked; `""` is the host itself.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The last answer to any request.
    answered: Option<Instant>,
    writes: BTreeMap<Arc<str>, Writes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    answered: Option<Instant>,
    unanswered: Option<Instant>,
}

impl Answers {
    /// Notes an answer to a read.
    pub fn read(&mut self, now: Instant) {
        self.answered = self.answered.max(Some(now));
    }

    /// Notes an answer to a write.
    pub fn wrote(&mut self, plugin: &Arc<str>, now: Instant) {
        self.read(now);
        self.of(plugin).answered = Some(now);
    }

    /// Notes a write without an answer.
    pub fn missed(&mut self, plugin: &Arc<str>, now: Instant) {
        self.of(plugin).unanswered = Some(now);
    }

    fn of(&mut self, plugin: &Arc<str>) -> &mut Writes {
        self.writes.entry(plugin.clone()).or_default()
    }

    /// Returns whether a write without an answer is held against its plugin: the API server has answered since, and the
    /// write is large, or those of other plugins are all answered.
    pub fn blame(&self, plugin: &str, write: Unanswered) -> bool {
        let is_away = self.answered.is_none_or(|answered| answered < write.ended);
        !is_away && (write.bytes > LARGE || self.others_are_answered(plugin, write.sent))
    }

    fn others_are_answered(&self, plugin: &str, since: Instant) -> bool {
        let is_since = |time: Option<Instant>| time.is_some_and(|time| time >= since);
        let mut others = self.writes.iter().filter(|(name, _)| ***name != *plugin).map(|(_, writes)| writes).peekable();
        let mut is_any = false;
        others.all(|writes| {
            is_any |= is_since(writes.answered);
            !is_since(writes.unanswered)
        }) && is_any
    }
}

/// The last writes of a plugin that were held against it.
#[derive(Debug, Default)]
pub struct Held {
    times: VecDeque<Instant>,
    last: Box<str>,
}

/// The same, as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldStatus {
    /// How many in the last ten minutes.
    pub count: usize,
    /// What the last one was.
    pub last: String,
    /// How many seconds ago that was.
    pub seconds: u64,
}

impl Held {
    /// Adds one.
    pub fn add(&mut self, what: &str, now: Instant) {
        if self.times.len() == COUNTED {
            self.times.pop_front();
        }
        self.times.push_back(now);
        self.last = what.into();
    }

    /// Returns those of the last ten minutes, if there are any.
    pub fn shown(&self, now: Instant) -> Option<HeldStatus> {
        let age = |time: &Instant| now.saturating_duration_since(*time);
        let count = self.times.iter().filter(|time| age(time) < SHOWN).count();
        let seconds = self.times.back().map(age)?.as_secs();
        (count > 0).then(|| HeldStatus { count, last: self.last.to_string(), seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    /// A write that was sent at `start` and given up ten seconds later.
    fn write(start: Instant, bytes: usize) -> Unanswered {
        Unanswered { sent: start, ended: start + WAIT, bytes }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn nobody_is_blamed_while_the_api_server_answers_nobody() {
        let (start, large) = (Instant::now(), LARGE + 1);
        assert!(!Answers::default().blame("a", write(start, large)));
        let mut answers = Answers::default();
        answers.wrote(&"b".into(), start + seconds(1));
        answers.missed(&"a".into(), start + WAIT);
        assert!(!answers.blame("a", write(start, large)), "it went away meanwhile");
        answers.read(start + WAIT + seconds(1));
        assert!(answers.blame("a", write(start, large)), "it is there");
    }

    #[test]
    fn a_small_write_is_blamed_where_those_of_others_are_answered() {
        let start = Instant::now();
        let mut answers = Answers::default();
        answers.missed(&"a".into(), start + WAIT);
        answers.read(start + WAIT + seconds(1));
        assert!(!answers.blame("a", write(start, 1_000)), "there is no other to compare it with");
        answers.wrote(&"b".into(), start + seconds(1));
        assert!(answers.blame("a", write(start, 1_000)));
        answers.missed(&"c".into(), start + seconds(2));
        assert!(!answers.blame("a", write(start, 1_000)), "others wait in vain, too");
        assert!(answers.blame("a", write(start, LARGE + 1)), "this may be why");
    }

    #[test]
    fn what_others_met_before_it_was_sent_says_nothing() {
        let start = Instant::now();
        let mut answers = Answers::default();
        answers.wrote(&"b".into(), start);
        answers.missed(&"c".into(), start + seconds(1));
        answers.read(start + seconds(30));
        assert!(!answers.blame("a", write(start + seconds(2), 1_000)), "no other wrote since");
        answers.wrote(&"b".into(), start + seconds(3));
        assert!(answers.blame("a", write(start + seconds(2), 1_000)), "and none has waited since");
    }

    #[test]
    fn what_was_held_against_a_plugin_is_shown_for_ten_minutes() {
        let (mut held, start) = (Held::default(), Instant::now());
        assert_eq!(held.shown(start), None);
        held.add("ConfigMap n/a", start);
        held.add("ConfigMap n/b", start + seconds(5));
        let shown = held.shown(start + seconds(8)).unwrap();
        assert_eq!(shown, HeldStatus { count: 2, last: "ConfigMap n/b".to_owned(), seconds: 3 });
        assert_eq!(held.shown(start + SHOWN + seconds(1)).unwrap().count, 1);
        assert_eq!(held.shown(start + SHOWN + seconds(5)), None);
        (0..2 * COUNTED).for_each(|_| held.add("ConfigMap n/c", start));
        assert_eq!(held.times.len(), COUNTED);
    }
}
