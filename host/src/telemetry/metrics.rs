//! Everything that is counted, in one table. The names are controller-runtime's where it has one,
//! so that boards and alerts made for operators work. What is counted by revision is in
//! [`by_revision`](crate::telemetry::by_revision), which says why the totals here are not.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::sandbox::revision::Revision;
use crate::telemetry::by_revision::{End, RevisionMetrics};
use crate::telemetry::swap_timer::Stopwatch;
use hotshoe_core::flow::circuit_breaker::State;
use hotshoe_core::model::digest::Digest;

/// By plugin.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByController {
    controller: String,
}

/// By plugin and how it ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByResult {
    controller: String,
    result: &'static str,
}

/// By plugin and reason.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByReason {
    controller: String,
    reason: String,
}

/// By plugin and state of its circuit breaker.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByState {
    controller: String,
    state: &'static str,
}

/// By plugin and stage of a swap.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByStage {
    controller: String,
    stage: &'static str,
}

/// By plugin and the rule of the gate.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByRule {
    controller: String,
    rule: &'static str,
}

type Seconds = Family<ByController, Histogram, fn() -> Histogram>;

/// What is counted.
pub struct Metrics {
    registry: Registry,
    reconciles: Family<ByResult, Counter>,
    errors: Family<ByReason, Counter>,
    seconds: Seconds,
    depth: Family<ByController, Gauge>,
    active: Family<ByController, Gauge>,
    deleting: Family<ByController, Gauge>,
    calls: Seconds,
    swaps: Family<ByReason, Counter>,
    swap_seconds: Seconds,
    swap_stages: Family<ByStage, Histogram, fn() -> Histogram>,
    breaker: Family<ByState, Gauge>,
    openings: Family<ByController, Counter>,
    delayed_reads: Family<ByController, Counter>,
    delayed_writes: Family<ByController, Counter>,
    events_dropped: Family<ByController, Counter>,
    lines_dropped: Family<ByController, Counter>,
    denials: Family<ByRule, Counter>,
    revisions: RevisionMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            reconciles: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 14))),
            depth: Family::default(),
            active: Family::default(),
            deleting: Family::default(),
            calls: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_01, 2.0, 16))),
            swaps: Family::default(),
            swap_seconds: Family::new_with_constructor(swap_histogram),
            swap_stages: Family::new_with_constructor(swap_histogram),
            breaker: Family::default(),
            openings: Family::default(),
            delayed_reads: Family::default(),
            delayed_writes: Family::default(),
            events_dropped: Family::default(),
            lines_dropped: Family::default(),
            denials: Family::default(),
            revisions: RevisionMetrics::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let Self { registry, .. } = self;
        registry.register("controller_runtime_reconcile", "Reconciles by how they ended", self.reconciles.clone());
        registry.register("controller_runtime_reconcile_errors", "Failed reconciles by reason", self.errors.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Time of a reconcile", self.seconds.clone());
        registry.register("workqueue_depth", "Parents that wait for a reconcile", self.depth.clone());
        registry.register("controller_runtime_active_workers", "Reconciles that run", self.active.clone());
        registry.register(
            "hotshoe_plugin_parents_deleting",
            "Parents that have been deleting for longer than a minute",
            self.deleting.clone(),
        );
        registry.register("hotshoe_plugin_call_seconds", "Time of a call of the plugin", self.calls.clone());
        registry.register("hotshoe_plugin_revisions", "Revisions by what became of them", self.swaps.clone());
        registry.register(
            "hotshoe_swap_seconds",
            "From the digest of another component being known to its first decision",
            self.swap_seconds.clone(),
        );
        registry.register("hotshoe_swap_stage_seconds", "The same by stage", self.swap_stages.clone());
        registry.register(
            "hotshoe_plugin_breaker",
            "1 for the state that the circuit breaker is in",
            self.breaker.clone(),
        );
        registry.register("hotshoe_plugin_breaker_openings", "How often it opened", self.openings.clone());
        registry.register(
            "hotshoe_plugin_reads_delayed",
            "Reads that waited for the plugin's own rate",
            self.delayed_reads.clone(),
        );
        registry.register(
            "hotshoe_plugin_writes_delayed",
            "Writes that waited for the plugin's own rate",
            self.delayed_writes.clone(),
        );
        registry.register(
            "hotshoe_plugin_events_dropped",
            "Events that were more than are written",
            self.events_dropped.clone(),
        );
        registry.register(
            "hotshoe_plugin_log_lines_dropped",
            "Log lines that were more than are written",
            self.lines_dropped.clone(),
        );
        registry.register("hotshoe_denied", "Decisions and deletions that the gate refused", self.denials.clone());
        self.revisions.register(registry);
    }

    /// A reconcile ended.
    pub fn reconciled(&self, plugin: &str, result: &'static str, time: Duration) {
        self.reconciles.get_or_create(&ByResult { controller: plugin.into(), result }).inc();
        self.seconds.get_or_create(&by(plugin)).observe(time.as_secs_f64());
    }

    /// A reconcile failed.
    pub fn failed(&self, plugin: &str, digest: Digest, reason: &'static str) {
        self.revisions.failed(plugin, digest, reason);
        self.errors.get_or_create(&ByReason { controller: plugin.into(), reason: reason.into() }).inc();
    }

    /// The plugin was called.
    pub fn called(&self, plugin: &str, digest: Digest, end: End, time: Duration) {
        self.revisions.called(plugin, digest, end, time);
        self.calls.get_or_create(&by(plugin)).observe(time.as_secs_f64());
    }

    /// A revision is about to decide for a plugin.
    pub fn decides(&self, plugin: &str, revision: &Revision) {
        self.revisions.decides(plugin, revision);
    }

    /// The queue of a plugin.
    pub fn queue(&self, plugin: &str, waiting: usize, running: usize) {
        let gauge = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.depth.get_or_create(&by(plugin)).set(gauge(waiting));
        self.active.get_or_create(&by(plugin)).set(gauge(running));
    }

    /// So many parents of a plugin have been deleting for longer than a minute.
    pub fn deleting(&self, plugin: &str, parents: usize) {
        self.deleting.get_or_create(&by(plugin)).set(i64::try_from(parents).unwrap_or(i64::MAX));
    }

    /// A revision was published, or refused for this reason.
    pub fn revision(&self, plugin: &str, outcome: &str) {
        self.swaps.get_or_create(&ByReason { controller: plugin.into(), reason: outcome.into() }).inc();
    }

    /// Another revision has made its first decision.
    pub fn swapped(&self, plugin: &str, stopwatch: &Stopwatch) {
        self.swap_seconds.get_or_create(&by(plugin)).observe(stopwatch.elapsed().as_secs_f64());
        for (stage, time) in stopwatch.stages() {
            let labels = ByStage { controller: plugin.into(), stage: stage.as_str() };
            self.swap_stages.get_or_create(&labels).observe(time.as_secs_f64());
        }
    }

    /// The circuit breaker of a plugin is in this state.
    pub fn breaker(&self, plugin: &str, now: State) {
        for state in [State::Closed, State::HalfOpen, State::Open] {
            let labels = ByState { controller: plugin.into(), state: state.as_str() };
            self.breaker.get_or_create(&labels).set(i64::from(state == now));
        }
    }

    /// The circuit breaker of a plugin has opened.
    pub fn opened(&self, plugin: &str) {
        self.openings.get_or_create(&by(plugin)).inc();
    }

    /// A read waited, because its plugin has something read as often as it may.
    pub fn delayed_read(&self, plugin: &str) {
        self.delayed_reads.get_or_create(&by(plugin)).inc();
    }

    /// A write waited, because its plugin writes or deletes as often as it may.
    pub fn delayed_write(&self, plugin: &str) {
        self.delayed_writes.get_or_create(&by(plugin)).inc();
    }

    /// An Event was dropped, because too many were made of late.
    pub fn event_dropped(&self, plugin: &str) {
        self.events_dropped.get_or_create(&by(plugin)).inc();
    }

    /// So many lines of a plugin or about its failures were dropped, because it logged too much of late or in one
    /// call, or failed too much.
    pub fn lines_dropped(&self, plugin: &str, count: u64) {
        self.lines_dropped.get_or_create(&by(plugin)).inc_by(count);
    }

    /// The gate refused something, by this rule.
    pub fn denied(&self, plugin: &str, rule: &'static str) {
        self.denials.get_or_create(&ByRule { controller: plugin.into(), rule }).inc();
    }

    /// The text for Prometheus.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => format!("# metrics cannot be encoded: {error}\n"),
        }
    }
}

/// From 20 µs to 10 s: a stage may be a store of a pointer, or the compiler.
fn swap_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_02, 2.0, 20))
}

fn by(plugin: &str) -> ByController {
    ByController { controller: plugin.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::swap_timer::Stage;

    #[test]
    fn metrics_have_the_names_that_boards_know() {
        let metrics = Metrics::default();
        metrics.reconciled("memcached", "success", Duration::from_millis(3));
        metrics.failed("memcached", Digest::of(b""), "Trapped");
        metrics.queue("memcached", 1, 2);
        metrics.deleting("memcached", 3);
        metrics.breaker("memcached", State::Open);
        metrics.opened("memcached");
        metrics.delayed_read("memcached");
        metrics.delayed_write("memcached");
        metrics.event_dropped("memcached");
        metrics.lines_dropped("memcached", 7);
        metrics.denied("memcached", "pod-token");
        let mut stopwatch = Stopwatch::start();
        stopwatch.over(Stage::Survey);
        metrics.swapped("memcached", &stopwatch);
        let text = metrics.encode();
        for line in [
            r#"controller_runtime_reconcile_total{controller="memcached",result="success"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="memcached",reason="Trapped"} 1"#,
            r#"hotshoe_denied_total{controller="memcached",rule="pod-token"} 1"#,
            r#"workqueue_depth{controller="memcached"} 1"#,
            r#"hotshoe_plugin_parents_deleting{controller="memcached"} 3"#,
            r#"hotshoe_plugin_breaker{controller="memcached",state="open"} 1"#,
            r#"hotshoe_plugin_breaker{controller="memcached",state="closed"} 0"#,
            r#"hotshoe_plugin_breaker_openings_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_reads_delayed_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_writes_delayed_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_events_dropped_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_log_lines_dropped_total{controller="memcached"} 7"#,
            r#"hotshoe_swap_seconds_count{controller="memcached"} 1"#,
            r#"hotshoe_swap_stage_seconds_count{controller="memcached",stage="survey"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
