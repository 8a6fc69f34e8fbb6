//! Counts the requests of the webhooks, under the names and labels of controller-runtime. `webhook` is the path.

use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use crate::telemetry::family::Family;
use crate::telemetry::table::{Buckets, Histograms, labels, metrics};

/// Those of controller-runtime from 100 µs to 100 s: an API server waits for 30 s at most.
const LATENCIES: Buckets = Buckets(&[0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0]);

labels! {
    /// The labels of a metric by webhook.
    ByWebhook { webhook: String }
}

labels! {
    /// The labels of a metric by webhook and the HTTP status with which it answered.
    ByCode { code: u16, webhook: String }
}

labels! {
    /// The labels of a metric by how the answer of a canary compared.
    ByComparison { controller: String, result: &'static str }
}

metrics! {
    /// The metrics of the webhooks of all plugins.
    pub struct WebhookMetrics {
        requests: Family<ByCode, Counter> =
            counter("controller_runtime_webhook_requests_total", "Requests of webhooks by HTTP status");
        latency: Histograms<ByWebhook> = histogram(
            "controller_runtime_webhook_latency_seconds", "Time from a webhook's request to its answer", LATENCIES,
        );
        in_flight: Family<ByWebhook, Gauge> =
            gauge("controller_runtime_webhook_requests_in_flight", "Requests of webhooks that are being answered");
        compared: Family<ByComparison, Counter> = counter(
            "hotshoe_canary_reviews_total",
            "Answers of canaries about proposed parents, by how they compare with the one that was given",
        );
        /// Traps of plugins that were asked about a proposed parent.
        pub panics: Counter = total(
            "controller_runtime_webhook_panics_total", "Traps of plugins that were asked about a proposed parent",
        );
        /// Traps of plugins that were asked for a conversion.
        pub conversion_panics: Counter = total(
            "controller_runtime_conversion_webhook_panics_total", "Traps of plugins that were asked for a conversion",
        );
    }
}

impl WebhookMetrics {
    /// Counts how the answer of a plugin's canary compared with the one that was given.
    pub fn compared(&self, plugin: &str, result: &'static str) {
        self.compared.get_or_create(&ByComparison { controller: plugin.into(), result }).inc();
    }

    /// Counts a request that begins. It counts as answered once [`Answering::end`] is called, and as in flight until the
    /// result is dropped, for example because the client has closed its connection.
    pub fn begin(&self, webhook: String) -> Answering<'_> {
        self.in_flight.get_or_create(&ByWebhook { webhook: webhook.clone() }).inc();
        Answering { metrics: self, webhook, since: Instant::now() }
    }

    fn answered(&self, webhook: &str, code: u16, time: Duration) {
        self.requests.get_or_create(&ByCode { code, webhook: webhook.to_owned() }).inc();
        self.latency.get_or_create(&ByWebhook { webhook: webhook.to_owned() }).observe(time.as_secs_f64());
    }
}

/// A request that is being answered.
pub struct Answering<'a> {
    metrics: &'a WebhookMetrics,
    webhook: String,
    since: Instant,
}

impl Answering<'_> {
    /// Counts the answer with this HTTP status.
    pub fn end(self, code: u16) {
        self.metrics.answered(&self.webhook, code, self.since.elapsed());
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.get_or_create(&ByWebhook { webhook: self.webhook.clone() }).dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::table::Table;

    #[test]
    fn an_abandoned_request_is_neither_in_flight_nor_answered() {
        let mut table = Table::default();
        let metrics = WebhookMetrics::of(&mut table);
        let encoded = || table.text();
        let in_flight = |number: u32| {
            format!("controller_runtime_webhook_requests_in_flight{{webhook=\"/validate/memcached\"}} {number}\n")
        };
        let first = metrics.begin("/validate/memcached".into());
        let second = metrics.begin("/validate/memcached".into());
        assert!(encoded().contains(&in_flight(2)), "{}", encoded());
        drop(first);
        second.end(200);
        let text = encoded();
        for line in [
            &*in_flight(0),
            "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/validate/memcached\"} 1\n",
            "controller_runtime_webhook_latency_seconds_count{webhook=\"/validate/memcached\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
