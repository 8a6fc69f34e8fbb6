//! The metrics of a host, in one table. They have the names of controller-runtime where it has the same metric,
//! so that dashboards and alerts for operators work. Metrics by revision are in
//! [`by_revision`](crate::telemetry::by_revision), which explains why the totals here have no digest.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::by_revision::{End, RevisionMetrics};
use crate::telemetry::process;
use crate::telemetry::queue_metrics::{Load, QueueCounts, QueueMetrics};
use crate::telemetry::swap_timer::Stopwatch;
use crate::telemetry::table::{Buckets, Histograms, Kind, Row, Table, labels};
use crate::telemetry::webhook_metrics::WebhookMetrics;
use hotshoe_cluster::counts::Counts;
use hotshoe_cluster::rate_limit::Delays;
use hotshoe_core::check::memory_share::{Account, PARTS};
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::model::digest::Digest;
use hotshoe_sandbox::error::Reason;
use hotshoe_sandbox::revision::Revision;

/// Some of those of controller-runtime, and 1 ms before them. A host may have a hundred plugins, and each has them all.
const RECONCILES: Buckets = Buckets(&[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0]);
/// From 25 µs to the default time limit of a call.
const CALLS: Buckets = Buckets(&[0.000_025, 0.000_1, 0.000_25, 0.001, 0.005, 0.025, 0.1, 1.0]);
/// From 100 µs to 10 s: a stage may only store a pointer, or run the compiler.
const SWAPS: Buckets = Buckets(&[0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0]);
/// How a reconcile ends.
const RESULTS: [&str; 5] = ["error", "panic", "requeue", "requeue_after", "success"];

labels! {
    /// The labels of a metric by plugin.
    ByController { controller: String }
}

labels! {
    /// The labels of a metric by plugin and how a reconcile ended.
    ByResult { controller: String, result: &'static str }
}

labels! {
    /// The labels of a metric by plugin and reason.
    ByReason { controller: String, reason: String }
}

labels! {
    /// The labels of a metric by plugin and state of its circuit breaker.
    ByState { controller: String, state: &'static str }
}

labels! {
    /// The labels of a metric by plugin and stage of a swap.
    ByStage { controller: String, stage: &'static str }
}

labels! {
    /// The labels of a metric by plugin and purpose of the memory.
    ByPart { controller: String, part: &'static str }
}

labels! {
    /// The labels of a metric by Lease.
    ByName { name: String }
}

labels! {
    /// The labels of a metric by plugin and the rule that was violated.
    ByRule { controller: String, rule: &'static str }
}

type Seconds = Histograms<ByController>;

/// The metrics of a host.
pub struct Metrics {
    table: Table,
    reconciles: Family<ByResult, Counter>,
    errors: Family<ByReason, Counter>,
    last_errors: Family<ByController, Counter>,
    seconds: Seconds,
    trapped: Family<ByController, Counter>,
    timed_out: Family<ByController, Counter>,
    active: Family<ByController, Gauge>,
    most_active: Family<ByController, Gauge>,
    deleting: Family<ByController, Gauge>,
    cut: Family<ByController, Gauge>,
    without_parent: Family<ByController, Gauge>,
    stalled: Family<ByController, Gauge>,
    waiting: Family<ByController, Gauge>,
    calls: Seconds,
    panics: Family<ByController, Counter>,
    swaps: Family<ByReason, Counter>,
    swap_seconds: Seconds,
    swap_stages: Histograms<ByStage>,
    breaker: Family<ByState, Gauge>,
    breaker_namespaces: Family<ByController, Gauge>,
    openings: Family<ByController, Counter>,
    delayed_reads: Family<ByController, Counter>,
    delayed_writes: Family<ByController, Counter>,
    unanswered_writes: Family<ByController, Counter>,
    events_dropped: Family<ByController, Counter>,
    lines_dropped: Family<ByController, Counter>,
    denials: Family<ByRule, Counter>,
    ignored: Family<ByController, Counter>,
    memory: Family<ByPart, Gauge>,
    memory_limits: Family<ByController, Gauge>,
    leases_held: Family<ByName, Gauge>,
    lease_seconds: Family<ByName, Gauge>,
    queues: QueueMetrics,
    revisions: RevisionMetrics,
    /// What is counted at the connection to the API server.
    counts: Counts,
    /// The requests of webhooks.
    pub webhooks: WebhookMetrics,
    /// The certificates that are read from files.
    pub certificates: CertificateReads,
}

/// Counts how often the files of certificates are read.
#[derive(Clone, Debug, Default)]
pub struct CertificateReads {
    /// All times.
    pub all: Counter,
    /// The times that there was no certificate that can be used.
    pub failed: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(&Counts::default())
    }
}

impl Metrics {
    /// Registers all metrics, those that are counted at a connection to the API server too.
    pub fn new(counts: &Counts) -> Self {
        let mut all = Table::default();
        let table = &mut all;
        process::register(table);
        Self {
            revisions: RevisionMetrics::of(table),
            webhooks: WebhookMetrics::of(table),
            queues: QueueMetrics::of(table),
            certificates: CertificateReads::of(table),
            counts: counted(table, counts),
            reconciles: table.counter("controller_runtime_reconcile_total", "Reconciles by how they ended"),
            errors: table.counter("controller_runtime_reconcile_errors_total", "Failed reconciles by reason"),
            last_errors: table.counter("controller_runtime_terminal_reconcile_errors_total",
                "Failed reconciles that were the last try of spec.retry.maxTries",
            ),
            seconds: table.histogram("controller_runtime_reconcile_time_seconds",
                "Time of a reconcile",
                RECONCILES,
            ),
            trapped: table.counter(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that the plugin, or a fault of the host, ended by a trap",
            ),
            timed_out: table.counter(
                "controller_runtime_reconcile_timeouts_total",
                "Reconciles in which the plugin ran for longer than limits.callTime",
            ),
            most_active: table.gauge(
                "controller_runtime_max_concurrent_reconciles",
                "Reconciles that run at once at most; a namespace without any may have one more",
            ),
            active: table.gauge("controller_runtime_active_workers", "Reconciles that are running"),
            deleting: table.gauge("hotshoe_plugin_parents_deleting",
                "Parents that have been deleting for longer than a minute",
            ),
            stalled: table.gauge("hotshoe_plugin_parents_stalled",
                "Parents that are not tried again until they, the plugin or plugin.yaml change",
            ),
            waiting: table.gauge("hotshoe_plugin_approval_required",
                "1 while a component waits for an approval, 0 otherwise",
            ),
            cut: table.gauge("hotshoe_plugin_objects_cut",
                "Watched objects that are kept without their content, or not at all, because there is no room for them",
            ),
            without_parent: table.gauge("hotshoe_plugin_objects_without_parent",
                "Objects with the plugin's label that are no children of a parent; no content is kept of them",
            ),
            calls: table.histogram("hotshoe_plugin_call_seconds", "Time of a call of the plugin", CALLS),
            panics: table.counter("hotshoe_plugin_task_panics_total",
                "Times that the rollout or the fetch of a plugin panicked and began again",
            ),
            swaps: table.counter("hotshoe_plugin_revisions_total", "Revisions that were activated, or refused, by reason"),
            swap_seconds: table.histogram("hotshoe_swap_seconds",
                "Time from the digest of another component being known to its first decision",
                SWAPS,
            ),
            swap_stages: table.histogram("hotshoe_swap_stage_seconds",
                "The same, by stage of the rollout",
                SWAPS,
            ),
            breaker: table.gauge("hotshoe_plugin_breaker", "1 for the present state of the circuit breaker"),
            breaker_namespaces: table.gauge("hotshoe_plugin_breaker_namespaces",
                "Namespaces for whose parents the plugin is not called, because it fails for them too often",
            ),
            openings: table.counter("hotshoe_plugin_breaker_openings_total", "Times that the circuit breaker opened"),
            delayed_reads: table.counter("hotshoe_plugin_reads_delayed_total", "Reads delayed by the plugin's rate limit"),
            delayed_writes: table.counter("hotshoe_plugin_writes_delayed_total",
                "Writes delayed by the plugin's rate limit",
            ),
            unanswered_writes: table.counter("hotshoe_plugin_writes_unanswered_total",
                "Writes without an answer in time that were held against the plugin",
            ),
            events_dropped: table.counter("hotshoe_plugin_events_dropped_total",
                "Events dropped by the plugin's rate limit",
            ),
            lines_dropped: table.counter("hotshoe_plugin_log_lines_dropped_total",
                "Log lines dropped by the plugin's rate limit or the limit of a call",
            ),
            denials: table.counter("hotshoe_denied_total",
                "Violations for which decisions and deletions were denied, by rule",
            ),
            ignored: table.counter("hotshoe_children_ignored_total",
                "Objects that named a parent as their controller and were ignored, because they are outside of the grant",
            ),
            memory: table.gauge("hotshoe_plugin_memory_bytes", "Memory that the host holds for the plugin"),
            memory_limits: table.gauge("hotshoe_plugin_memory_limit_bytes",
                "Memory that the host may hold for the plugin, beside what it holds for others",
            ),
            leases_held: table.gauge("leader_election_master_status",
                "1 for a Lease that this host holds, 0 for one of another host",
            ),
            lease_seconds: table.gauge("hotshoe_lease_seconds",
                "Seconds until another host may take the Lease, unless its holder renews it",
            ),
            table: all,
        }
    }

    /// Counts a reconcile that ended.
    pub fn reconciled(&self, plugin: &str, result: &'static str, time: Duration) {
        self.reconciles.get_or_create(&ByResult { controller: plugin.into(), result }).inc();
        self.seconds.get_or_create(&by(plugin)).observe(time.as_secs_f64());
    }

    /// Counts a reconcile that failed.
    pub fn failed(&self, plugin: &str, digest: Digest, reason: &'static str) {
        self.revisions.failed(plugin, digest, reason);
        self.errors.get_or_create(&ByReason { controller: plugin.into(), reason: reason.into() }).inc();
    }

    /// Counts a failed reconcile that was the last try.
    pub fn failed_for_good(&self, plugin: &str) {
        self.last_errors.get_or_create(&by(plugin)).inc();
    }

    /// Counts a call of the plugin.
    pub fn called(&self, plugin: &str, digest: Digest, end: End, time: Duration) {
        self.revisions.called(plugin, digest, end, time);
        self.calls.get_or_create(&by(plugin)).observe(time.as_secs_f64());
    }

    /// Shows which revision is active from now on.
    pub fn decides(&self, plugin: &str, revision: &Revision) {
        self.revisions.decides(plugin, revision);
    }

    /// Shows that no revision is active from now on.
    pub fn retired(&self, plugin: &str) {
        self.revisions.forget(plugin);
    }

    /// Shows which revision is the canary from now on.
    pub fn add_canary(&self, plugin: &str, revision: &Revision) {
        self.revisions.add_canary(plugin, revision);
    }

    /// Creates the counters of a plugin that an alert or a dashboard asks for, at zero: a rate would miss the first count of
    /// a series that appears with it. Returns what the queue of the plugin counts.
    pub fn begin(&self, plugin: &str) -> QueueCounts {
        let counters =
            [&self.last_errors, &self.trapped, &self.timed_out, &self.openings, &self.unanswered_writes, &self.panics];
        for counter in counters {
            drop(counter.get_or_create(&by(plugin)));
        }
        for result in RESULTS {
            drop(self.reconciles.get_or_create(&ByResult { controller: plugin.into(), result }));
        }
        drop(
            self.swaps
                .get_or_create(&ByReason { controller: plugin.into(), reason: Reason::RolledBack.as_str().into() }),
        );
        self.queues.counts(plugin)
    }

    /// Counts a reconcile that ended by a trap.
    pub fn trapped(&self, plugin: &str) {
        self.trapped.get_or_create(&by(plugin)).inc();
    }

    /// Counts a reconcile in which the plugin ran for too long.
    pub fn timed_out(&self, plugin: &str) {
        self.timed_out.get_or_create(&by(plugin)).inc();
    }

    /// Sets what a plugin's queue holds, and how many reconciles run at once at most.
    pub fn queue(&self, plugin: &str, load: &Load, most: usize) {
        let gauge = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.queues.show(plugin, load);
        self.active.get_or_create(&by(plugin)).set(gauge(load.running));
        self.most_active.get_or_create(&by(plugin)).set(gauge(most));
    }

    /// Sets how many parents of a plugin have been deleting for longer than a minute.
    pub fn deleting(&self, plugin: &str, parents: usize) {
        self.deleting.get_or_create(&by(plugin)).set(i64::try_from(parents).unwrap_or(i64::MAX));
    }

    /// Sets how many parents of a plugin are stalled.
    pub fn stalled(&self, plugin: &str, parents: usize) {
        self.stalled.get_or_create(&by(plugin)).set(i64::try_from(parents).unwrap_or(i64::MAX));
    }

    /// Counts objects that name a parent as their controller and are outside of the plugin's grant.
    pub fn ignored(&self, plugin: &str, objects: usize) {
        if objects > 0 {
            self.ignored.get_or_create(&by(plugin)).inc_by(u64::try_from(objects).unwrap_or(u64::MAX));
        }
    }

    /// Sets whether a component of a plugin waits for an approval.
    pub fn waits_for_approval(&self, plugin: &str, waits: bool) {
        self.waiting.get_or_create(&by(plugin)).set(i64::from(waits));
    }

    /// Sets how many objects are kept without their content: those without room, and those without a parent.
    pub fn reduced(&self, plugin: &str, cut: usize, without_parent: usize) {
        let gauge = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.cut.get_or_create(&by(plugin)).set(gauge(cut));
        self.without_parent.get_or_create(&by(plugin)).set(gauge(without_parent));
    }

    /// Sets how much memory the host holds for a plugin, and how much it may hold.
    pub fn memory(&self, plugin: &str, memory: &Account) {
        let gauge = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        for part in PARTS {
            let labels = ByPart { controller: plugin.into(), part: part.as_str() };
            self.memory.get_or_create(&labels).set(gauge(memory.held_for(part)));
        }
        if let Some(may_hold) = memory.may_hold() {
            self.memory_limits.get_or_create(&by(plugin)).set(gauge(may_hold));
        }
    }

    /// Sets whether this host holds a Lease, and how many seconds are left until the Lease expires.
    pub fn lease(&self, name: &str, held: bool, seconds: Option<u64>) {
        let labels = ByName { name: name.into() };
        self.leases_held.get_or_create(&labels).set(i64::from(held));
        let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or_default();
        self.lease_seconds.get_or_create(&labels).set(seconds);
        drop(self.counts.failed_renewals_of(name));
    }

    /// Counts a task of a plugin that panicked.
    pub fn panicked(&self, plugin: &str) {
        self.panics.get_or_create(&by(plugin)).inc();
    }

    /// Counts a revision that was activated, or refused for this reason.
    pub fn revision(&self, plugin: &str, outcome: &str) {
        self.swaps.get_or_create(&ByReason { controller: plugin.into(), reason: outcome.into() }).inc();
    }

    /// Observes the time of a swap, once the new revision has made its first decision.
    pub fn swapped(&self, plugin: &str, stopwatch: &Stopwatch) {
        self.swap_seconds.get_or_create(&by(plugin)).observe(stopwatch.elapsed().as_secs_f64());
        for (stage, time) in stopwatch.stages() {
            let labels = ByStage { controller: plugin.into(), stage: stage.as_str() };
            self.swap_stages.get_or_create(&labels).observe(time.as_secs_f64());
        }
    }

    /// Sets the state of a plugin's circuit breaker.
    pub fn breaker(&self, plugin: &str, now: &BreakerStatus) {
        for state in [State::Closed, State::HalfOpen, State::Open] {
            let labels = ByState { controller: plugin.into(), state: state.as_str() };
            self.breaker.get_or_create(&labels).set(i64::from(state == now.state));
        }
        let namespaces = i64::try_from(now.namespace_count).unwrap_or(i64::MAX);
        self.breaker_namespaces.get_or_create(&by(plugin)).set(namespaces);
    }

    /// Removes the gauges of a plugin that is removed. Its counters stay, because counters must never go down.
    pub fn forget(&self, plugin: &str) {
        self.queues.forget(plugin);
        let gauges =
            [&self.most_active, &self.active, &self.deleting, &self.stalled, &self.waiting, &self.memory_limits];
        for gauge in gauges.into_iter().chain([&self.cut, &self.without_parent, &self.breaker_namespaces]) {
            gauge.remove(&by(plugin));
        }
        for part in PARTS {
            self.memory.remove(&ByPart { controller: plugin.into(), part: part.as_str() });
        }
        for state in [State::Closed, State::HalfOpen, State::Open] {
            self.breaker.remove(&ByState { controller: plugin.into(), state: state.as_str() });
        }
        self.revisions.forget(plugin);
    }

    /// Counts an opening of a plugin's circuit breaker.
    pub fn opened(&self, plugin: &str) {
        self.openings.get_or_create(&by(plugin)).inc();
    }

    /// Returns the counters of what the rate limits of a plugin delay.
    pub fn delays(&self, plugin: &str) -> Delays {
        let counter = |family: &Family<ByController, Counter>| family.get_or_create(&by(plugin)).clone();
        Delays { reads: counter(&self.delayed_reads), writes: counter(&self.delayed_writes) }
    }

    /// Counts an unanswered write that counts as a failure of its plugin.
    pub fn unanswered(&self, plugin: &str) {
        self.unanswered_writes.get_or_create(&by(plugin)).inc();
    }

    /// Counts an Event that was dropped because of the rate limit.
    pub fn event_dropped(&self, plugin: &str) {
        self.events_dropped.get_or_create(&by(plugin)).inc();
    }

    /// Counts dropped log lines of a plugin or about its failures.
    pub fn lines_dropped(&self, plugin: &str, count: u64) {
        self.lines_dropped.get_or_create(&by(plugin)).inc_by(count);
    }

    /// Counts a violation of a rule of the checks.
    pub fn denied(&self, plugin: &str, rule: &'static str) {
        self.denials.get_or_create(&ByRule { controller: plugin.into(), rule }).inc();
    }

    /// Returns the metrics with their values, and what is known of each without.
    pub fn table(&self) -> &Table {
        &self.table
    }
}

impl CertificateReads {
    fn of(table: &mut Table) -> Self {
        Self {
            all: table.total("certwatcher_read_certificate_total", "Times that a certificate was read from files"),
            failed: table.total(
                "certwatcher_read_certificate_errors_total",
                "Times that the files had no certificate that can be used",
            ),
        }
    }
}

/// Registers what is counted at a connection to the API server.
fn counted(table: &mut Table, counts: &Counts) -> Counts {
    let requests = Row {
        name: "rest_client_requests_total",
        kind: Kind::Counter,
        labels: &["code", "host", "method"],
        help: "Requests to the API server, watches included",
    };
    let renewals = Row {
        name: "leader_election_slowpath_total",
        kind: Kind::Counter,
        labels: &["name"],
        help: "Renewals of a Lease that failed, so that it was read again or lost",
    };
    table.add(requests, counts.requests.clone());
    table.add(renewals, counts.failed_renewals.clone());
    counts.clone()
}

fn by(plugin: &str) -> ByController {
    ByController { controller: plugin.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::swap_timer::Stage;
    use std::time::Instant;

    use hotshoe_core::flow::circuit::ParentRecord;
    use hotshoe_core::flow::circuit_breaker::Breaker;
    use hotshoe_core::model::kind::Key;
    use hotshoe_core::model::limits::BREAKER_STRIKES;

    /// What each plugin adds to a scrape, at most, in bytes.
    const MOST_BY_PLUGIN: usize = 7_500;

    #[test]
    fn a_hundred_plugins_add_so_many_bytes_each_and_no_more() {
        let metrics = Metrics::default();
        let alone = metrics.table().open_metrics().len();
        for number in 0..100 {
            let plugin = &format!("operator-{number:03}");
            let counts = metrics.begin(plugin);
            counts.adds.inc_by(123_456);
            for _ in 0..100 {
                counts.waited.observe(0.012_345);
                counts.worked.observe(0.002_345);
                metrics.reconciled(plugin, "success", Duration::from_micros(2_345));
                metrics.called(plugin, Digest::of(b""), End::Answered, Duration::from_micros(35));
            }
            metrics.queue(plugin, &Load::default(), 10);
            metrics.deleting(plugin, 0);
            metrics.stalled(plugin, 0);
            metrics.waits_for_approval(plugin, false);
            metrics.reduced(plugin, 0, 0);
            drop(metrics.delays(plugin));
            metrics.revision(plugin, "Activated");
            metrics.breaker(plugin, &Breaker::default().shown(Instant::now()));
            metrics.memory(plugin, &Account::default());
        }
        let each = (metrics.table().open_metrics().len() - alone) / 100;
        assert!(each <= MOST_BY_PLUGIN, "{each} bytes for each plugin");
    }

    #[test]
    fn metrics_have_the_names_that_dashboards_expect() {
        let metrics = Metrics::default();
        metrics.reconciled("memcached", "success", Duration::from_millis(3));
        metrics.failed("memcached", Digest::of(b""), "Trapped");
        let load = Load { changed: 1, running: 2, ..Load::default() };
        metrics.queue("memcached", &load, 10);
        metrics.deleting("memcached", 3);
        metrics.stalled("memcached", 2);
        metrics.panicked("memcached");
        metrics.waits_for_approval("memcached", true);
        metrics.reduced("memcached", 4, 5);
        metrics.failed_for_good("memcached");
        metrics.ignored("memcached", 3);
        let breaker = Breaker::default();
        let parent = Key::new(Some("shop"), "cache");
        for _ in 0..BREAKER_STRIKES {
            let call = breaker.admit(Instant::now(), &parent, ParentRecord::default());
            let _turned = call.map(|call| call.end(Some(1), Instant::now()));
        }
        metrics.breaker("memcached", &breaker.shown(Instant::now()));
        metrics.opened("memcached");
        let delays = metrics.delays("memcached");
        delays.reads.inc();
        delays.writes.inc();
        metrics.unanswered("memcached");
        metrics.event_dropped("memcached");
        metrics.lines_dropped("memcached", 7);
        metrics.denied("memcached", "pod-token");
        let mut stopwatch = Stopwatch::start();
        stopwatch.over(Stage::Survey);
        metrics.swapped("memcached", &stopwatch);
        let text = metrics.table().text();
        for line in [
            r#"controller_runtime_reconcile_total{controller="memcached",result="success"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="memcached",reason="Trapped"} 1"#,
            r#"hotshoe_denied_total{controller="memcached",rule="pod-token"} 1"#,
            r#"hotshoe_children_ignored_total{controller="memcached"} 3"#,
            r#"workqueue_depth{controller="memcached",name="memcached",priority="0"} 1"#,
            r#"controller_runtime_max_concurrent_reconciles{controller="memcached"} 10"#,
            r#"hotshoe_plugin_parents_deleting{controller="memcached"} 3"#,
            r#"hotshoe_plugin_parents_stalled{controller="memcached"} 2"#,
            r#"hotshoe_plugin_task_panics_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_approval_required{controller="memcached"} 1"#,
            r#"hotshoe_plugin_objects_cut{controller="memcached"} 4"#,
            r#"hotshoe_plugin_objects_without_parent{controller="memcached"} 5"#,
            r#"controller_runtime_terminal_reconcile_errors_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_breaker{controller="memcached",state="open"} 1"#,
            r#"hotshoe_plugin_breaker{controller="memcached",state="closed"} 0"#,
            r#"hotshoe_plugin_breaker_namespaces{controller="memcached"} 0"#,
            r#"hotshoe_plugin_breaker_openings_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_reads_delayed_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_writes_delayed_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_writes_unanswered_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_events_dropped_total{controller="memcached"} 1"#,
            r#"hotshoe_plugin_log_lines_dropped_total{controller="memcached"} 7"#,
            r#"hotshoe_swap_seconds_count{controller="memcached"} 1"#,
            r#"hotshoe_swap_stage_seconds_count{controller="memcached",stage="survey"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
