//! Counts as a host does in which plugins work, for tests and measurements of what their series cost.

use std::time::{Duration, Instant};

use crate::telemetry::by_revision::End;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::queue_metrics::Load;
use crate::telemetry::swap_timer::{Stage, Stopwatch};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::flow::circuit_breaker::Breaker;
use hotshoe_core::model::digest::Digest;

/// Gives a plugin all the series that a plugin has that was active for long and does not fail.
pub fn fill(metrics: &Metrics, plugin: &str) {
    (0..100).for_each(|_| count_reconcile(metrics, plugin));
    metrics.deleting(plugin, 0);
    metrics.stalled(plugin, 0);
    metrics.refused(plugin, 0);
    metrics.waits_for_approval(plugin, false);
    metrics.reduced(plugin, 0, 0);
    drop(metrics.delays(plugin));
    metrics.revision(plugin, "Activated");
    metrics.breaker(plugin, &Breaker::default().shown(Instant::now()));
    metrics.memory(plugin, &Account::default());
    let mut stopwatch = Stopwatch::start();
    stopwatch.over(Stage::Survey);
    metrics.swapped(plugin, &stopwatch);
}

/// Counts what one reconcile of a plugin does. The first one adds the series of the plugin.
pub fn count_reconcile(metrics: &Metrics, plugin: &str) {
    let counts = metrics.begin(plugin);
    counts.adds.inc_by(1_234);
    counts.waited.observe(0.012_345);
    counts.worked.observe(0.002_345);
    metrics.called(plugin, Digest::of(b""), End::Answered, Duration::from_micros(35));
    metrics.reconciled(plugin, "success", Duration::from_micros(2_345));
    metrics.queue(plugin, &Load::default(), 10);
}
