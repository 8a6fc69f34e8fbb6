//! Decides which writes that the API server did not answer in time count as failures of the plugin that they were made
//! for.
//!
//! A plugin's large writes may keep the API server so busy that they all time out. Then the small writes of other
//! plugins time out as well, which is not their fault. And an API server that is down answers no request at all.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A write of at least this [cost](crate::flow::write_cost), in tokens, may itself be what keeps the API server busy: one
/// of 64 KiB, or of 200 fields.
const LARGE_WRITE: u32 = 3;

/// For how long an unanswered write is shown in the status.
const SHOWN_FOR: Duration = Duration::from_secs(600);

/// The most unanswered writes that are counted.
const MAX_COUNTED: usize = 1_000;

/// A write that was not answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// When it was sent.
    pub sent: Instant,
    /// When the host stopped waiting for the answer.
    pub ended: Instant,
    /// Its [cost](crate::flow::write_cost), in tokens.
    pub cost: NonZeroU32,
}

/// When the API server last answered a request and last failed to answer a write, for each plugin; `""` is the host
/// itself.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// When it last answered any request.
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

    /// Notes a write that was not answered in time.
    pub fn missed(&mut self, plugin: &Arc<str>, now: Instant) {
        self.of(plugin).unanswered = Some(now);
    }

    fn of(&mut self, plugin: &Arc<str>) -> &mut Writes {
        self.writes.entry(plugin.clone()).or_default()
    }

    /// Returns whether an unanswered write counts as a failure of its plugin: the API server has answered some request
    /// since, and the write is large or other plugins wrote at the same time and all of their writes are answered.
    pub fn blame(&self, plugin: &str, write: Unanswered) -> bool {
        let is_down = self.answered.is_none_or(|answered| answered < write.ended);
        !is_down && (write.cost.get() >= LARGE_WRITE || self.others_are_answered(plugin, write.sent))
    }

    fn others_are_answered(&self, plugin: &str, since: Instant) -> bool {
        let is_since = |time: Option<Instant>| time.is_some_and(|time| time >= since);
        let mut others = self.writes.iter().filter(|(name, _)| ***name != *plugin).map(|(_, writes)| writes);
        let mut is_any = false;
        others.all(|writes| {
            is_any |= is_since(writes.answered);
            !is_since(writes.unanswered)
        }) && is_any
    }
}

/// The recent unanswered writes that count as failures of a plugin.
#[derive(Debug, Default)]
pub struct UnansweredWrites {
    times: VecDeque<Instant>,
    last: Box<str>,
}

/// [`UnansweredWrites`] as `hotshoe status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnansweredWritesStatus {
    /// The number of such writes in the last ten minutes.
    pub count: usize,
    /// The object of the last one.
    pub last: String,
    /// How many seconds ago the last one was.
    pub seconds: u64,
}

impl UnansweredWrites {
    /// Adds a write of this object.
    pub fn add(&mut self, what: &str, now: Instant) {
        if self.times.len() == MAX_COUNTED {
            self.times.pop_front();
        }
        self.times.push_back(now);
        self.last = what.into();
    }

    /// Returns the writes of the last ten minutes, if there are any.
    pub fn shown(&self, now: Instant) -> Option<UnansweredWritesStatus> {
        let age = |time: &Instant| now.saturating_duration_since(*time);
        let count = self.times.iter().filter(|time| age(time) < SHOWN_FOR).count();
        let seconds = self.times.back().map(age)?.as_secs();
        (count > 0).then(|| UnansweredWritesStatus { count, last: self.last.to_string(), seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::write_cost::tokens;
    use crate::model::limits::{BYTES_PER_TOKEN, FIELDS_PER_TOKEN};

    const WAIT: Duration = Duration::from_secs(10);
    const SMALL: NonZeroU32 = NonZeroU32::MIN;

    /// A write that was sent at `start` and given up ten seconds later.
    fn write(start: Instant, cost: NonZeroU32) -> Unanswered {
        Unanswered { sent: start, ended: start + WAIT, cost }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn no_plugin_is_blamed_while_the_api_server_answers_no_request() {
        let (start, large) = (Instant::now(), tokens(1 << 20, 0));
        assert!(!Answers::default().blame("a", write(start, large)));
        let mut answers = Answers::default();
        answers.wrote(&"b".into(), start + seconds(1));
        answers.missed(&"a".into(), start + WAIT);
        assert!(!answers.blame("a", write(start, large)), "the API server went down meanwhile");
        answers.read(start + WAIT);
        assert!(answers.blame("a", write(start, large)), "the API server is up");
    }

    #[test]
    fn a_small_write_is_blamed_where_all_writes_of_other_plugins_are_answered() {
        let start = Instant::now();
        let mut answers = Answers::default();
        answers.missed(&"a".into(), start + WAIT);
        answers.read(start + WAIT + seconds(1));
        assert!(!answers.blame("a", write(start, SMALL)), "there is no other to compare it with");
        answers.wrote(&"b".into(), start + seconds(1));
        assert!(answers.blame("a", write(start, SMALL)));
        answers.missed(&"c".into(), start + seconds(2));
        assert!(!answers.blame("a", write(start, SMALL)), "another plugin has no answer either");
    }

    #[test]
    fn a_large_write_is_blamed_whatever_happens_to_others_and_many_fields_are_as_large_as_many_bytes() {
        let start = Instant::now();
        let mut answers = Answers::default();
        answers.missed(&"b".into(), start + seconds(2));
        answers.read(start + WAIT + seconds(1));
        for (bytes, fields, is_large) in [
            (2 * BYTES_PER_TOKEN, 0, true),
            (2 * BYTES_PER_TOKEN - 1, 0, false),
            (0, 2 * FIELDS_PER_TOKEN, true),
            (0, 2 * FIELDS_PER_TOKEN - 1, false),
            (BYTES_PER_TOKEN, FIELDS_PER_TOKEN, true),
            (60_000, 6_500, true),
            (3_000, 60, false),
        ] {
            let blamed = answers.blame("a", write(start, tokens(bytes, fields)));
            assert_eq!(blamed, is_large, "{bytes} bytes and {fields} fields");
        }
    }

    #[test]
    fn answers_to_other_plugins_before_the_write_was_sent_do_not_count() {
        let start = Instant::now();
        let mut answers = Answers::default();
        answers.wrote(&"b".into(), start);
        answers.missed(&"c".into(), start + seconds(1));
        answers.read(start + seconds(30));
        assert!(!answers.blame("a", write(start + seconds(2), SMALL)), "no other wrote since");
        answers.wrote(&"b".into(), start + seconds(3));
        assert!(answers.blame("a", write(start + seconds(2), SMALL)), "and none has waited since");
    }

    #[test]
    fn writes_that_count_against_a_plugin_are_shown_for_ten_minutes() {
        let (mut writes, start) = (UnansweredWrites::default(), Instant::now());
        assert_eq!(writes.shown(start), None);
        writes.add("ConfigMap n/a", start);
        writes.add("ConfigMap n/b", start + seconds(5));
        let shown = writes.shown(start + seconds(8)).unwrap();
        assert_eq!(shown, UnansweredWritesStatus { count: 2, last: "ConfigMap n/b".to_owned(), seconds: 3 });
        assert_eq!(writes.shown(start + SHOWN_FOR + seconds(1)).unwrap().count, 1);
        assert_eq!(writes.shown(start + SHOWN_FOR + seconds(5)), None);
        (0..2 * MAX_COUNTED).for_each(|_| writes.add("ConfigMap n/c", start));
        assert_eq!(writes.times.len(), MAX_COUNTED);
    }
}
