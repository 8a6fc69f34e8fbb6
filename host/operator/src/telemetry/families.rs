//! The metrics by plugin, and by Lease: their names, labels and help. What they say is found out in
//! [`metrics`](crate::telemetry::metrics).

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::family::Family;
use crate::telemetry::table::{Buckets, Histograms, labels, metrics};

/// Some of those of controller-runtime, and 1 ms before them. A host may have a hundred plugins, and each has them all.
const RECONCILES: Buckets = Buckets(&[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0]);
/// From 25 µs to the default time limit of a call.
const CALLS: Buckets = Buckets(&[0.000_025, 0.000_1, 0.000_25, 0.001, 0.005, 0.025, 0.1, 1.0]);
/// From 100 µs to 10 s: a stage may only store a pointer, or run the compiler.
const SWAPS: Buckets = Buckets(&[0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0]);

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

metrics! {
    /// The metrics by plugin, and by Lease.
    pub(super) struct Families {
        pub(super) reconciles: Family<ByResult, Counter> =
            counter("controller_runtime_reconcile_total", "Reconciles by how they ended");
        pub(super) errors: Family<ByReason, Counter> =
            counter("controller_runtime_reconcile_errors_total", "Failed reconciles by reason");
        pub(super) last_errors: Family<ByController, Counter> = counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Failed reconciles that were the last try of spec.retry.maxTries",
        );
        pub(super) seconds: Histograms<ByController> =
            histogram("controller_runtime_reconcile_time_seconds", "Time of a reconcile", RECONCILES);
        pub(super) trapped: Family<ByController, Counter> = counter(
            "controller_runtime_reconcile_panics_total",
            "Reconciles that the plugin, or a fault of the host, ended by a trap",
        );
        pub(super) timed_out: Family<ByController, Counter> = counter(
            "controller_runtime_reconcile_timeouts_total",
            "Reconciles in which the plugin ran for longer than limits.callTime",
        );
        pub(super) most_active: Family<ByController, Gauge> = gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Reconciles that run at once at most; a namespace without any may have one more",
        );
        pub(super) active: Family<ByController, Gauge> =
            gauge("controller_runtime_active_workers", "Reconciles that are running");
        pub(super) deleting: Family<ByController, Gauge> =
            gauge("hotshoe_plugin_parents_deleting", "Parents that have been deleting for longer than a minute");
        pub(super) stalled: Family<ByController, Gauge> = gauge(
            "hotshoe_plugin_parents_stalled",
            "Parents that are not tried again until they, the plugin or plugin.yaml change",
        );
        pub(super) refused: Family<ByController, Gauge> =
            gauge("hotshoe_plugin_parents_refused", "Parents with children that are refused, and tried again");
        pub(super) waiting: Family<ByController, Gauge> =
            gauge("hotshoe_plugin_approval_required", "1 while a component waits for an approval, 0 otherwise");
        pub(super) cut: Family<ByController, Gauge> = gauge(
            "hotshoe_plugin_objects_cut",
            "Watched objects that are kept without their content, or not at all, because there is no room for them",
        );
        pub(super) without_parent: Family<ByController, Gauge> = gauge(
            "hotshoe_plugin_objects_without_parent",
            "Objects with the plugin's label that are no children of a parent; no content is kept of them",
        );
        pub(super) calls: Histograms<ByController> =
            histogram("hotshoe_plugin_call_seconds", "Time of a call of the plugin", CALLS);
        pub(super) panics: Family<ByController, Counter> = counter(
            "hotshoe_plugin_task_panics_total",
            "Times that the rollout or the fetch of a plugin panicked and began again",
        );
        pub(super) swaps: Family<ByReason, Counter> =
            counter("hotshoe_plugin_revisions_total", "Revisions that were activated, or refused, by reason");
        pub(super) swap_seconds: Histograms<ByController> = histogram(
            "hotshoe_swap_seconds",
            "Time from the digest of another component being known to its first decision",
            SWAPS,
        );
        pub(super) swap_stages: Histograms<ByStage> =
            histogram("hotshoe_swap_stage_seconds", "The same, by stage of the rollout", SWAPS);
        pub(super) breaker: Family<ByState, Gauge> =
            gauge("hotshoe_plugin_breaker", "1 for the present state of the circuit breaker");
        pub(super) breaker_namespaces: Family<ByController, Gauge> = gauge(
            "hotshoe_plugin_breaker_namespaces",
            "Namespaces for whose parents the plugin is not called, because it fails for them too often",
        );
        pub(super) openings: Family<ByController, Counter> =
            counter("hotshoe_plugin_breaker_openings_total", "Times that the circuit breaker opened");
        pub(super) delayed_reads: Family<ByController, Counter> =
            counter("hotshoe_plugin_reads_delayed_total", "Reads delayed by the plugin's rate limit");
        pub(super) delayed_writes: Family<ByController, Counter> =
            counter("hotshoe_plugin_writes_delayed_total", "Writes delayed by the plugin's rate limit");
        pub(super) unanswered_writes: Family<ByController, Counter> = counter(
            "hotshoe_plugin_writes_unanswered_total",
            "Writes without an answer in time that were held against the plugin",
        );
        pub(super) events_dropped: Family<ByController, Counter> =
            counter("hotshoe_plugin_events_dropped_total", "Events dropped by the plugin's rate limit");
        pub(super) lines_dropped: Family<ByController, Counter> = counter(
            "hotshoe_plugin_log_lines_dropped_total",
            "Log lines dropped by the plugin's rate limit or the limit of a call",
        );
        pub(super) denials: Family<ByRule, Counter> =
            counter("hotshoe_denied_total", "Violations for which decisions and deletions were denied, by rule");
        pub(super) ignored: Family<ByController, Counter> = counter(
            "hotshoe_children_ignored_total",
            "Objects that named a parent as their controller and were ignored, because they are outside of the grant",
        );
        pub(super) memory: Family<ByPart, Gauge> =
            gauge("hotshoe_plugin_memory_bytes", "Memory that the host holds for the plugin");
        pub(super) memory_limits: Family<ByController, Gauge> = gauge(
            "hotshoe_plugin_memory_limit_bytes",
            "Memory that the host may hold for the plugin, beside what it holds for others",
        );
        pub(super) leases_held: Family<ByName, Gauge> =
            gauge("leader_election_master_status", "1 for a Lease that this host holds, 0 for one of another host");
        pub(super) lease_seconds: Family<ByName, Gauge> = gauge(
            "hotshoe_lease_seconds", "Seconds until another host may take the Lease, unless its holder renews it",
        );
    }
}
