//! Counts the calls and failures of each revision of a plugin, so that a dashboard can compare the active revision with
//! the one before it. Totals do not allow that, because a rate over a swap mixes both.
//!
//! The digest is a label of unbounded cardinality, because every reload may bring another one. So at most two revisions
//! of a plugin have series here: the active one, and its canary or the one before it. The series of older ones are
//! removed. Their calls and failures are still in the totals of [`metrics`](crate::telemetry::metrics). The totals have
//! no digest for the same reason and for another one: a rate must not break off at a swap. `hotshoe_plugin_info` shows
//! which revision is active:
//!
//! ```text
//! rate(controller_runtime_reconcile_errors_total[5m]) * on(controller) group_left(digest) hotshoe_plugin_info
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::telemetry::family::Family;
use crate::telemetry::table::{Buckets, Histograms, Table, labels};
use hotshoe_core::model::digest::Digest;
use hotshoe_sandbox::revision::Revision;

/// The maximum number of revisions of a plugin that have series.
const MAX_REVISIONS: usize = 2;

/// None but infinity, because each revision of each plugin has them: sum and count show whether a revision is slower than
/// the one before it. `hotshoe_plugin_call_seconds` has more.
const CALLS: Buckets = Buckets(&[]);

labels! {
    /// The labels of `hotshoe_plugin_info`: the active revision of a plugin.
    Deciding { controller: String, digest: String, version: String }
}

labels! {
    /// The labels of a metric by revision and how a call ended.
    ByEnd { controller: String, digest: String, result: &'static str }
}

labels! {
    /// The labels of a metric by revision and reason.
    ByReason { controller: String, digest: String, reason: &'static str }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The plugin answered, even if only that it cannot decide.
    Answered,
    /// The call failed: by a trap, a limit, or an answer that cannot be read.
    Aborted,
}

impl End {
    const ALL: [End; 2] = [End::Answered, End::Aborted];
}

/// The metrics by revision of every plugin.
pub struct RevisionMetrics {
    info: Family<Deciding, Gauge>,
    calls: Histograms<ByEnd>,
    failures: Family<ByReason, Counter>,
    shown: Mutex<HashMap<String, Vec<Shown>>>,
}

/// A revision that has series.
struct Shown {
    digest: Digest,
    version: String,
    /// The histogram of its calls that were answered. It is kept here because each call adds to it.
    answered: Histogram,
    /// The reasons for which it has failed so far.
    reasons: BTreeSet<&'static str>,
}

impl RevisionMetrics {
    /// Registers these metrics.
    pub fn of(table: &mut Table) -> Self {
        Self {
            info: table.gauge("hotshoe_plugin_info", "1 for the active revision"),
            calls: table.histogram(
                "hotshoe_plugin_revision_call_seconds",
                "Time of a call, by revision and how it ended; of the active revision and the one before it",
                CALLS,
            ),
            failures: table.counter(
                "hotshoe_plugin_revision_failures_total",
                "Failed reconciles by revision and reason; of the active revision and the one before it",
            ),
            shown: Mutex::default(),
        }
    }

    /// Notes that a revision is about to become active.
    pub fn decides(&self, plugin: &str, revision: &Revision) {
        self.present(plugin, revision.digest(), &revision.descriptor().version);
    }

    /// Notes that a revision is about to become the canary. Its series replace those of the revision before the active
    /// one.
    pub fn add_canary(&self, plugin: &str, revision: &Revision) {
        self.beside(plugin, revision.digest(), &revision.descriptor().version);
    }

    fn beside(&self, plugin: &str, digest: Digest, version: &str) {
        let mut shown = self.lock();
        let revisions = shown.entry(plugin.to_owned()).or_default();
        let present = match revisions.iter().position(|known| known.digest == digest) {
            Some(known) => revisions.remove(known),
            None => self.begin(plugin, digest, version),
        };
        revisions.insert(1.min(revisions.len()), present);
        for old in revisions.drain(MAX_REVISIONS.min(revisions.len())..) {
            self.remove(plugin, &old);
        }
    }

    fn present(&self, plugin: &str, digest: Digest, version: &str) {
        let mut shown = self.lock();
        let revisions = shown.entry(plugin.to_owned()).or_default();
        if let Some(before) = revisions.first() {
            self.info.remove(&before.deciding(plugin));
        }
        let present = match revisions.iter().position(|known| known.digest == digest) {
            Some(known) => revisions.remove(known),
            None => self.begin(plugin, digest, version),
        };
        self.info.get_or_create(&present.deciding(plugin)).set(1);
        revisions.insert(0, present);
        for old in revisions.drain(MAX_REVISIONS.min(revisions.len())..) {
            self.remove(plugin, &old);
        }
    }

    fn begin(&self, plugin: &str, digest: Digest, version: &str) -> Shown {
        let answered = self.calls.get_or_create(&by_end(plugin, digest, End::Answered));
        Shown { digest, version: version.to_owned(), answered, reasons: BTreeSet::new() }
    }

    /// Counts a call that ended. A late call of a revision without series is not counted here.
    pub fn called(&self, plugin: &str, digest: Digest, end: End, time: Duration) {
        let mut shown = self.lock();
        if let Some(revision) = find(&mut shown, plugin, digest) {
            let seconds = time.as_secs_f64();
            match end {
                End::Answered => revision.answered.observe(seconds),
                End::Aborted => self.calls.get_or_create(&by_end(plugin, digest, end)).observe(seconds),
            }
        }
    }

    /// Counts a reconcile that failed.
    pub fn failed(&self, plugin: &str, digest: Digest, reason: &'static str) {
        let mut shown = self.lock();
        if let Some(revision) = find(&mut shown, plugin, digest) {
            revision.reasons.insert(reason);
            self.failures.get_or_create(&by_reason(plugin, digest, reason)).inc();
        }
    }

    /// Removes the series of a plugin that is removed.
    pub fn forget(&self, plugin: &str) {
        let revisions = self.lock().remove(plugin).unwrap_or_default();
        for revision in &revisions {
            self.info.remove(&revision.deciding(plugin));
            self.remove(plugin, revision);
        }
    }

    fn remove(&self, plugin: &str, old: &Shown) {
        for end in End::ALL {
            self.calls.remove(&by_end(plugin, old.digest, end));
        }
        for reason in &old.reasons {
            self.failures.remove(&by_reason(plugin, old.digest, reason));
        }
    }

    /// Locks the revisions. A panic under this lock leaves at worst one series too many.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Shown>>> {
        self.shown.lock()
    }
}

impl Shown {
    fn deciding(&self, plugin: &str) -> Deciding {
        Deciding { controller: plugin.into(), digest: self.digest.to_string(), version: self.version.clone() }
    }
}

fn find<'a>(shown: &'a mut HashMap<String, Vec<Shown>>, plugin: &str, digest: Digest) -> Option<&'a mut Shown> {
    shown.get_mut(plugin)?.iter_mut().find(|revision| revision.digest == digest)
}

fn by_end(plugin: &str, digest: Digest, end: End) -> ByEnd {
    let result = match end {
        End::Answered => "answered",
        End::Aborted => "aborted",
    };
    ByEnd { controller: plugin.into(), digest: digest.to_string(), result }
}

fn by_reason(plugin: &str, digest: Digest, reason: &'static str) -> ByReason {
    ByReason { controller: plugin.into(), digest: digest.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Duration = Duration::from_micros(30);

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn metrics() -> (Table, RevisionMetrics) {
        let mut table = Table::default();
        let metrics = RevisionMetrics::of(&mut table);
        (table, metrics)
    }

    /// Returns the lines with values about a revision.
    fn lines_about(table: &Table, digest: Digest) -> Vec<String> {
        let label = format!("digest=\"{digest}\"");
        table.text().lines().filter(|line| line.contains(&label)).map(str::to_owned).collect()
    }

    #[test]
    fn the_series_of_a_canary_replace_those_of_the_revision_before_the_active_one() {
        let (table, metrics) = metrics();
        let [before, active, canary] = ["before", "active", "canary"].map(digest);
        metrics.present("demo", before, "1");
        metrics.present("demo", active, "2");
        metrics.beside("demo", canary, "3");
        for revision in [active, canary] {
            metrics.called("demo", revision, End::Answered, CALL);
        }
        let is_active = |digest| lines_about(&table, digest).iter().any(|line| line.starts_with("hotshoe_plugin_info"));
        assert!(lines_about(&table, before).is_empty() && is_active(active) && !is_active(canary));
        assert!(lines_about(&table, canary).iter().any(|line| line.contains("calls") || line.contains("call_seconds")));
        metrics.present("demo", canary, "3");
        assert!(is_active(canary) && !is_active(active) && !lines_about(&table, active).is_empty());
    }

    #[test]
    fn series_name_the_revision_by_its_short_digest() {
        let (table, metrics) = metrics();
        metrics.present("memcached", digest("a"), "0.1.0");
        metrics.called("memcached", digest("a"), End::Answered, CALL);
        metrics.called("memcached", digest("a"), End::Aborted, CALL);
        metrics.failed("memcached", digest("a"), "Trapped");
        let text = table.text();
        let labels = format!("controller=\"memcached\",digest=\"{}\"", digest("a"));
        for line in [
            format!("hotshoe_plugin_info{{{labels},version=\"0.1.0\"}} 1"),
            format!("hotshoe_plugin_revision_call_seconds_count{{{labels},result=\"answered\"}} 1"),
            format!("hotshoe_plugin_revision_call_seconds_count{{{labels},result=\"aborted\"}} 1"),
            format!("hotshoe_plugin_revision_failures_total{{{labels},reason=\"Trapped\"}} 1"),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn only_the_active_revision_has_an_info() {
        let (table, metrics) = metrics();
        for (name, version) in [("a", "1"), ("b", "2"), ("a", "1")] {
            metrics.present("memcached", digest(name), version);
            metrics.present("other", digest("c"), "3");
            let text = table.text();
            let infos: Vec<_> = text.lines().filter(|line| line.starts_with("hotshoe_plugin_info{")).collect();
            assert_eq!(infos.len(), 2, "one a plugin: {infos:?}");
            assert!(infos.iter().any(|line| line.contains(&digest(name).to_string())), "{infos:?}");
        }
    }

    #[test]
    fn two_hundred_swaps_leave_the_series_of_two_revisions() {
        let (table, metrics) = metrics();
        let mut sizes = BTreeSet::new();
        for number in 0..200 {
            let digest = digest(&number.to_string());
            metrics.present("memcached", digest, &format!("0.1.{number}"));
            metrics.called("memcached", digest, End::Answered, CALL);
            metrics.called("memcached", digest, End::Aborted, CALL);
            metrics.failed("memcached", digest, "Trapped");
            metrics.failed("memcached", digest, "Denied");
            if number > 0 {
                sizes.insert(table.text().lines().count());
            }
        }
        assert_eq!(sizes.len(), 1, "as many lines after each swap: {sizes:?}");
        assert!(lines_about(&table, digest("197")).is_empty());
        assert!(!lines_about(&table, digest("198")).is_empty());
    }

    #[test]
    fn a_late_call_of_an_older_revision_does_not_recreate_its_series() {
        let (table, metrics) = metrics();
        for name in ["a", "b", "c"] {
            metrics.present("memcached", digest(name), "1");
        }
        metrics.called("memcached", digest("a"), End::Answered, CALL);
        metrics.failed("memcached", digest("a"), "Trapped");
        assert!(lines_about(&table, digest("a")).is_empty());
    }

    #[test]
    fn a_revision_that_is_rolled_back_to_keeps_its_series_beside_the_one_it_replaces() {
        let (table, metrics) = metrics();
        metrics.present("memcached", digest("a"), "1");
        metrics.failed("memcached", digest("a"), "Trapped");
        metrics.present("memcached", digest("b"), "1");
        metrics.failed("memcached", digest("b"), "Trapped");
        metrics.present("memcached", digest("a"), "1");
        metrics.failed("memcached", digest("a"), "Trapped");
        let failures =
            |name| lines_about(&table, digest(name)).into_iter().find(|line| line.contains("failures_total"));
        assert!(failures("a").unwrap().ends_with(" 2"));
        assert!(failures("b").unwrap().ends_with(" 1"));
    }
}
