//! The metrics of the work queues, under the names and labels of controller-runtime: its label `name` is the name of the
//! queue, which is that of the controller. Its priority 0 is that of what has changed, and -100 that of what is decided
//! again because the plugin has changed.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::telemetry::family::Family;
use crate::telemetry::table::{Buckets, Histograms, SecondsGauge, labels, metrics};

/// Those of controller-runtime from 1 ms to 100 s: what is shorter is of no interest, and an alert comes before what is
/// longer.
const TIMES: Buckets = Buckets(&[0.001, 0.01, 0.1, 1.0, 10.0, 100.0]);
/// The priorities, as labels.
const CHANGED: &str = "0";
const SWEPT: &str = "-100";

labels! {
    /// The labels of a metric by queue.
    ByQueue { controller: String, name: String }
}

labels! {
    /// The labels of a metric by queue and priority.
    ByPriority { controller: String, name: String, priority: &'static str }
}

metrics! {
    /// The metrics of all queues.
    pub struct QueueMetrics {
        adds: Family<ByQueue, Counter> = counter("workqueue_adds_total", "Parents that were added to the queue");
        retries: Family<ByQueue, Counter> =
            counter("workqueue_retries_total", "Parents that are to be reconciled again after a pause");
        waited: Histograms<ByQueue> =
            histogram("workqueue_queue_duration_seconds", "Time that a parent waited until it was reconciled", TIMES);
        worked: Histograms<ByQueue> = histogram(
            "workqueue_work_duration_seconds", "Time from when a parent left the queue until its reconcile ended", TIMES,
        );
        depth: Family<ByPriority, Gauge> = gauge("workqueue_depth", "Parents that wait for a reconcile");
        unfinished: Family<ByQueue, SecondsGauge> = seconds(
            "workqueue_unfinished_work_seconds",
            "For how long the parents that are being reconciled have been, together",
        );
        longest: Family<ByQueue, SecondsGauge> = seconds(
            "workqueue_longest_running_processor_seconds",
            "For how long the parent has been reconciled that was begun first",
        );
    }
}

/// What one queue counts.
#[derive(Clone, Debug)]
pub struct QueueCounts {
    /// Parents that were added.
    pub adds: Counter,
    /// Parents that are to be reconciled again after a pause.
    pub retries: Counter,
    /// How long parents waited, in seconds.
    pub waited: Histogram,
    /// How long parents were worked on, in seconds.
    pub worked: Histogram,
}

impl Default for QueueCounts {
    /// Returns counts that are in no table.
    fn default() -> Self {
        let times = || TIMES.new_metric();
        Self { adds: Counter::default(), retries: Counter::default(), waited: times(), worked: times() }
    }
}

/// What a queue holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The parents that wait because something has changed.
    pub changed: usize,
    /// The parents that wait because the plugin has changed.
    pub swept: usize,
    /// The parents that are being reconciled.
    pub running: usize,
    /// For how long these have been reconciled, together.
    pub unfinished: Duration,
    /// For how long the first of these has been reconciled.
    pub longest: Duration,
}

impl QueueMetrics {
    /// Returns what the queue of a plugin counts.
    pub fn counts(&self, plugin: &str) -> QueueCounts {
        let queue = by(plugin);
        QueueCounts {
            adds: self.adds.get_or_create(&queue),
            retries: self.retries.get_or_create(&queue),
            waited: self.waited.get_or_create(&queue),
            worked: self.worked.get_or_create(&queue),
        }
    }

    /// Sets what the queue of a plugin holds.
    pub fn show(&self, plugin: &str, load: &Load) {
        for (priority, waiting) in [(CHANGED, load.changed), (SWEPT, load.swept)] {
            self.depth.get_or_create(&at(plugin, priority)).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
        self.unfinished.get_or_create(&by(plugin)).set(load.unfinished.as_secs_f64());
        self.longest.get_or_create(&by(plugin)).set(load.longest.as_secs_f64());
    }

    /// Removes the gauges of a plugin that is removed.
    pub fn forget(&self, plugin: &str) {
        for priority in [CHANGED, SWEPT] {
            self.depth.remove(&at(plugin, priority));
        }
        for gauge in [&self.unfinished, &self.longest] {
            gauge.remove(&by(plugin));
        }
    }
}

fn by(plugin: &str) -> ByQueue {
    ByQueue { controller: plugin.into(), name: plugin.into() }
}

fn at(plugin: &str, priority: &'static str) -> ByPriority {
    ByPriority { controller: plugin.into(), name: plugin.into(), priority }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::table::Table;

    #[test]
    fn a_queue_is_shown_until_its_plugin_is_removed_and_its_counters_stay() {
        let mut table = Table::default();
        let metrics = QueueMetrics::of(&mut table);
        metrics.counts("memcached").adds.inc();
        let seconds = Duration::from_secs;
        let load = Load { changed: 1, swept: 2, running: 2, unfinished: seconds(5), longest: seconds(4) };
        metrics.show("memcached", &load);
        let queue = "controller=\"memcached\",name=\"memcached\"";
        let gauges = [
            format!("workqueue_depth{{{queue},priority=\"0\"}} 1\n"),
            format!("workqueue_depth{{{queue},priority=\"-100\"}} 2\n"),
            format!("workqueue_unfinished_work_seconds{{{queue}}} 5.0\n"),
            format!("workqueue_longest_running_processor_seconds{{{queue}}} 4.0\n"),
        ];
        let added = format!("workqueue_adds_total{{{queue}}} 1\n");
        let text = table.text();
        assert!(gauges.iter().chain([&added]).all(|line| text.contains(line)), "{text}");
        metrics.forget("memcached");
        let text = table.text();
        assert!(!gauges.iter().any(|line| text.contains(line)) && text.contains(&added), "{text}");
    }
}
