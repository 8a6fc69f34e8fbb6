//! Counts the requests of the webhooks, under the names and labels of controller-runtime. `webhook` is the path.

use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Labels for a webhook.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByWebhook {
    webhook: String,
}

/// Labels for a webhook and the HTTP status with which it answered.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCode {
    code: u16,
    webhook: String,
}

/// Labels for how the answer of a canary compared.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByComparison {
    controller: String,
    result: &'static str,
}

/// The metrics of the webhooks of all plugins.
pub struct WebhookMetrics {
    requests: Family<ByCode, Counter>,
    latency: Family<ByWebhook, Histogram, fn() -> Histogram>,
    in_flight: Family<ByWebhook, Gauge>,
    compared: Family<ByComparison, Counter>,
}

impl Default for WebhookMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            // From 100 µs to 26 s: an API server waits for 30 s at most.
            latency: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 19))),
            in_flight: Family::default(),
            compared: Family::default(),
        }
    }
}

impl WebhookMetrics {
    /// Registers these metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "controller_runtime_webhook_requests",
            "Requests of webhooks by HTTP status",
            self.requests.clone(),
        );
        registry.register(
            "controller_runtime_webhook_latency_seconds",
            "Time from a webhook's request to its answer",
            self.latency.clone(),
        );
        registry.register(
            "controller_runtime_webhook_requests_in_flight",
            "Requests of webhooks that are being answered",
            self.in_flight.clone(),
        );
        registry.register(
            "hotshoe_canary_reviews",
            "Answers of canaries about proposed parents, by how they compare with the one that was given",
            self.compared.clone(),
        );
    }

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
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn an_abandoned_request_is_neither_in_flight_nor_answered() {
        let (metrics, mut registry) = (WebhookMetrics::default(), Registry::default());
        metrics.register(&mut registry);
        let encoded = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
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
