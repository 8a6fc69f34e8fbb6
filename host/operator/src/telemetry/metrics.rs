//! The metrics of a host, in one table. They have the names of controller-runtime where it has the same metric,
//! so that dashboards and alerts for operators work. Metrics by revision are in
//! [`by_revision`](crate::telemetry::by_revision), which explains why the totals here have no digest.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

use crate::telemetry::by_revision::{End, RevisionMetrics};
use crate::telemetry::families::{
    ByController, ByName, ByPart, ByReason, ByResult, ByRule, ByStage, ByState, Families,
};
use crate::telemetry::family::Family;
use crate::telemetry::process;
use crate::telemetry::queue_metrics::{Load, QueueCounts, QueueMetrics};
use crate::telemetry::swap_timer::Stopwatch;
use crate::telemetry::table::{Kind, Row, Table, metrics};
use crate::telemetry::webhook_metrics::WebhookMetrics;
use hotshoe_cluster::counts::Counts;
use hotshoe_cluster::rate_limit::Delays;
use hotshoe_core::check::memory_share::{Account, PARTS};
use hotshoe_core::flow::circuit::State;
use hotshoe_core::flow::circuit_breaker::BreakerStatus;
use hotshoe_core::model::digest::Digest;
use hotshoe_sandbox::error::Reason;
use hotshoe_sandbox::revision::Revision;

/// How a reconcile ends.
const RESULTS: [&str; 5] = ["error", "panic", "requeue", "requeue_after", "success"];

/// The metrics of a host.
pub struct Metrics {
    table: Table,
    families: Families,
    queues: QueueMetrics,
    revisions: RevisionMetrics,
    /// What is counted at the connection to the API server.
    counts: Counts,
    /// The requests of webhooks.
    pub webhooks: WebhookMetrics,
    /// The certificates that are read from files.
    pub certificates: CertificateReads,
}

metrics! {
    /// Counts how often the files of certificates are read.
    #[derive(Clone, Debug, Default)]
    pub struct CertificateReads {
        /// All times.
        pub all: Counter =
            total("certwatcher_read_certificate_total", "Times that a certificate was read from files");
        /// The times that there was no certificate that can be used.
        pub failed: Counter = total(
            "certwatcher_read_certificate_errors_total", "Times that the files had no certificate that can be used",
        );
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(&Counts::default())
    }
}

impl Metrics {
    /// Registers all metrics, those that are counted at a connection to the API server too.
    pub fn new(counts: &Counts) -> Self {
        let mut table = Table::default();
        process::register(&mut table);
        let (revisions, webhooks) = (RevisionMetrics::of(&mut table), WebhookMetrics::of(&mut table));
        let (queues, certificates) = (QueueMetrics::of(&mut table), CertificateReads::of(&mut table));
        let counts = counted(&mut table, counts);
        let families = Families::of(&mut table);
        Self { table, families, queues, revisions, counts, webhooks, certificates }
    }

    /// Counts a reconcile that ended.
    pub fn reconciled(&self, plugin: &str, result: &'static str, time: Duration) {
        self.families.reconciles.get_or_create(&ByResult { controller: plugin.into(), result }).inc();
        self.families.seconds.get_or_create(&by(plugin)).observe(time.as_secs_f64());
    }

    /// Counts a reconcile that failed.
    pub fn failed(&self, plugin: &str, digest: Digest, reason: &'static str) {
        self.revisions.failed(plugin, digest, reason);
        self.families.errors.get_or_create(&ByReason { controller: plugin.into(), reason: reason.into() }).inc();
    }

    /// Counts a failed reconcile that was the last try.
    pub fn failed_for_good(&self, plugin: &str) {
        self.families.last_errors.get_or_create(&by(plugin)).inc();
    }

    /// Counts a call of the plugin.
    pub fn called(&self, plugin: &str, digest: Digest, end: End, time: Duration) {
        self.revisions.called(plugin, digest, end, time);
        self.families.calls.get_or_create(&by(plugin)).observe(time.as_secs_f64());
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
        let Families { reconciles, last_errors, trapped, timed_out, panics, swaps, .. } = &self.families;
        let Families { openings, unanswered_writes, .. } = &self.families;
        for counter in [last_errors, trapped, timed_out, openings, unanswered_writes, panics] {
            drop(counter.get_or_create(&by(plugin)));
        }
        for result in RESULTS {
            drop(reconciles.get_or_create(&ByResult { controller: plugin.into(), result }));
        }
        let rolled_back = Reason::RolledBack.as_str().into();
        drop(swaps.get_or_create(&ByReason { controller: plugin.into(), reason: rolled_back }));
        self.queues.counts(plugin)
    }

    /// Counts a reconcile that ended by a trap.
    pub fn trapped(&self, plugin: &str) {
        self.families.trapped.get_or_create(&by(plugin)).inc();
    }

    /// Counts a reconcile in which the plugin ran for too long.
    pub fn timed_out(&self, plugin: &str) {
        self.families.timed_out.get_or_create(&by(plugin)).inc();
    }

    /// Sets what a plugin's queue holds, and how many reconciles run at once at most.
    pub fn queue(&self, plugin: &str, load: &Load, most: usize) {
        let gauge = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.queues.show(plugin, load);
        self.families.active.get_or_create(&by(plugin)).set(gauge(load.running));
        self.families.most_active.get_or_create(&by(plugin)).set(gauge(most));
    }

    /// Sets how many parents of a plugin have been deleting for longer than a minute.
    pub fn deleting(&self, plugin: &str, parents: usize) {
        self.families.deleting.get_or_create(&by(plugin)).set(i64::try_from(parents).unwrap_or(i64::MAX));
    }

    /// Sets how many parents of a plugin are stalled.
    pub fn stalled(&self, plugin: &str, parents: usize) {
        self.families.stalled.get_or_create(&by(plugin)).set(i64::try_from(parents).unwrap_or(i64::MAX));
    }

    /// Sets how many parents of a plugin have children whose writes are refused.
    pub fn refused(&self, plugin: &str, parents: usize) {
        self.families.refused.get_or_create(&by(plugin)).set(i64::try_from(parents).unwrap_or(i64::MAX));
    }

    /// Counts objects that name a parent as their controller and are outside of the plugin's grant.
    pub fn ignored(&self, plugin: &str, objects: usize) {
        if objects > 0 {
            self.families.ignored.get_or_create(&by(plugin)).inc_by(u64::try_from(objects).unwrap_or(u64::MAX));
        }
    }

    /// Sets whether a component of a plugin waits for an approval.
    pub fn waits_for_approval(&self, plugin: &str, waits: bool) {
        self.families.waiting.get_or_create(&by(plugin)).set(i64::from(waits));
    }

    /// Sets how many objects are kept without their content: those without room, and those without a parent.
    pub fn reduced(&self, plugin: &str, cut: usize, without_parent: usize) {
        let gauge = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        self.families.cut.get_or_create(&by(plugin)).set(gauge(cut));
        self.families.without_parent.get_or_create(&by(plugin)).set(gauge(without_parent));
    }

    /// Sets how much memory the host holds for a plugin, and how much it may hold.
    pub fn memory(&self, plugin: &str, memory: &Account) {
        let gauge = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        for part in PARTS {
            let labels = ByPart { controller: plugin.into(), part: part.as_str() };
            self.families.memory.get_or_create(&labels).set(gauge(memory.held_for(part)));
        }
        if let Some(may_hold) = memory.may_hold() {
            self.families.memory_limits.get_or_create(&by(plugin)).set(gauge(may_hold));
        }
    }

    /// Sets whether this host holds a Lease, and how many seconds are left until the Lease expires.
    pub fn lease(&self, name: &str, held: bool, seconds: Option<u64>) {
        let labels = ByName { name: name.into() };
        self.families.leases_held.get_or_create(&labels).set(i64::from(held));
        let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or_default();
        self.families.lease_seconds.get_or_create(&labels).set(seconds);
        drop(self.counts.failed_renewals_of(name));
    }

    /// Counts a task of a plugin that panicked.
    pub fn panicked(&self, plugin: &str) {
        self.families.panics.get_or_create(&by(plugin)).inc();
    }

    /// Counts a revision that was activated, or refused for this reason.
    pub fn revision(&self, plugin: &str, outcome: &str) {
        self.families.swaps.get_or_create(&ByReason { controller: plugin.into(), reason: outcome.into() }).inc();
    }

    /// Observes the time of a swap, once the new revision has made its first decision.
    pub fn swapped(&self, plugin: &str, stopwatch: &Stopwatch) {
        self.families.swap_seconds.get_or_create(&by(plugin)).observe(stopwatch.elapsed().as_secs_f64());
        for (stage, time) in stopwatch.stages() {
            let labels = ByStage { controller: plugin.into(), stage: stage.as_str() };
            self.families.swap_stages.get_or_create(&labels).observe(time.as_secs_f64());
        }
    }

    /// Sets the state of a plugin's circuit breaker.
    pub fn breaker(&self, plugin: &str, now: &BreakerStatus) {
        for state in [State::Closed, State::HalfOpen, State::Open] {
            let labels = ByState { controller: plugin.into(), state: state.as_str() };
            self.families.breaker.get_or_create(&labels).set(i64::from(state == now.state));
        }
        let namespaces = i64::try_from(now.namespace_count).unwrap_or(i64::MAX);
        self.families.breaker_namespaces.get_or_create(&by(plugin)).set(namespaces);
    }

    /// Removes the gauges of a plugin that is removed. Its counters stay, because counters must never go down.
    pub fn forget(&self, plugin: &str) {
        self.queues.forget(plugin);
        let Families { most_active, active, deleting, stalled, refused, waiting, .. } = &self.families;
        let Families { memory_limits, cut, without_parent, breaker_namespaces, .. } = &self.families;
        let gauges = [most_active, active, deleting, stalled, refused, waiting, memory_limits];
        for gauge in gauges.into_iter().chain([cut, without_parent, breaker_namespaces]) {
            gauge.remove(&by(plugin));
        }
        for part in PARTS {
            self.families.memory.remove(&ByPart { controller: plugin.into(), part: part.as_str() });
        }
        for state in [State::Closed, State::HalfOpen, State::Open] {
            self.families.breaker.remove(&ByState { controller: plugin.into(), state: state.as_str() });
        }
        self.revisions.forget(plugin);
    }

    /// Counts an opening of a plugin's circuit breaker.
    pub fn opened(&self, plugin: &str) {
        self.families.openings.get_or_create(&by(plugin)).inc();
    }

    /// Returns the counters of what the rate limits of a plugin delay.
    pub fn delays(&self, plugin: &str) -> Delays {
        let counter = |family: &Family<ByController, Counter>| family.get_or_create(&by(plugin));
        Delays { reads: counter(&self.families.delayed_reads), writes: counter(&self.families.delayed_writes) }
    }

    /// Counts an unanswered write that counts as a failure of its plugin.
    pub fn unanswered(&self, plugin: &str) {
        self.families.unanswered_writes.get_or_create(&by(plugin)).inc();
    }

    /// Counts an Event that was dropped because of the rate limit.
    pub fn event_dropped(&self, plugin: &str) {
        self.families.events_dropped.get_or_create(&by(plugin)).inc();
    }

    /// Counts dropped log lines of a plugin or about its failures.
    pub fn lines_dropped(&self, plugin: &str, count: u64) {
        self.families.lines_dropped.get_or_create(&by(plugin)).inc_by(count);
    }

    /// Counts a violation of a rule of the checks.
    pub fn denied(&self, plugin: &str, rule: &'static str) {
        self.families.denials.get_or_create(&ByRule { controller: plugin.into(), rule }).inc();
    }

    /// Returns the metrics with their values, and what is known of each without.
    pub fn table(&self) -> &Table {
        &self.table
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
    use std::time::Instant;

    use super::*;
    use crate::telemetry::exercise;
    use crate::telemetry::swap_timer::Stage;

    use hotshoe_core::flow::circuit::ParentRecord;
    use hotshoe_core::flow::circuit_breaker::Breaker;
    use hotshoe_core::model::kind::Key;
    use hotshoe_core::model::limits::BREAKER_STRIKES;

    /// What each plugin that was swapped adds to a scrape, at most, in bytes.
    const MOST_BY_PLUGIN: usize = 8_000;

    #[test]
    fn a_hundred_plugins_add_so_many_bytes_each_and_no_more() {
        let metrics = Metrics::default();
        let alone = metrics.table().open_metrics().len();
        (0..100).for_each(|number| exercise::fill(&metrics, &format!("operator-{number:03}")));
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
        metrics.refused("memcached", 6);
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
            r#"hotshoe_plugin_parents_refused{controller="memcached"} 6"#,
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
