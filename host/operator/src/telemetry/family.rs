//! Metrics of one name by their labels. A scrape, which takes milliseconds where there are many plugins, locks nothing
//! meanwhile: what a reconcile counts never waits for it.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Metrics of one name by their labels. A clone has the same series.
///
/// The family of prometheus-client keeps its lock while it is encoded. A thread that adds a series waits for that, and
/// all others that count wait for this thread.
#[derive(Clone, Debug)]
pub struct Family<L, M, C = fn() -> M> {
    /// A scrape encodes what it finds here without the lock. A series that is added meanwhile goes into a copy.
    series: Arc<RwLock<Arc<HashMap<L, M>>>>,
    constructor: C,
}

impl<L, M: Default> Default for Family<L, M> {
    fn default() -> Self {
        Self::with(M::default)
    }
}

impl<L, M, C> Family<L, M, C> {
    /// Creates a family whose metrics are made by this constructor.
    pub fn with(constructor: C) -> Self {
        Self { series: Arc::default(), constructor }
    }
}

impl<L: Clone + Eq + Hash, M: Clone, C: MetricConstructor<M>> Family<L, M, C> {
    /// Returns the metric with these labels, which is created if there is none.
    pub fn get_or_create(&self, labels: &L) -> M {
        if let Some(metric) = self.series.read().get(labels) {
            return metric.clone();
        }
        let mut series = self.series.write();
        let metric = Arc::make_mut(&mut *series).entry(labels.clone());
        metric.or_insert_with(|| self.constructor.new_metric()).clone()
    }

    /// Removes the metric with these labels, if there is one.
    pub fn remove(&self, labels: &L) {
        let mut series = self.series.write();
        if series.contains_key(labels) {
            Arc::make_mut(&mut *series).remove(labels);
        }
    }
}

impl<L: EncodeLabelSet, M: EncodeMetric + TypedMetric, C> EncodeMetric for Family<L, M, C> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let series = self.series.read().clone();
        series.iter().try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.series.read().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::registry::{Metric, Registry};

    use super::*;

    type Colour = [(&'static str, &'static str); 1];

    const RED: Colour = [("colour", "red")];
    const GREEN: Colour = [("colour", "green")];

    /// Returns the samples of a family.
    fn samples(family: &(impl Metric + Clone)) -> Vec<String> {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register("lights", "", family.clone());
        encode(&mut text, &registry).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// A counter that changes its own family the first time that it is encoded.
    #[derive(Clone, Debug, Default)]
    struct Changing {
        counter: Counter,
        family: Arc<Mutex<Option<Family<Colour, Changing>>>>,
    }

    impl TypedMetric for Changing {
        const TYPE: MetricType = MetricType::Counter;
    }

    impl EncodeMetric for Changing {
        fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
            if let Some(family) = self.family.lock().take() {
                assert!(family.series.try_write().is_some(), "its lock is held");
                family.get_or_create(&GREEN).counter.inc();
                family.remove(&RED);
            }
            self.counter.encode(encoder)
        }

        fn metric_type(&self) -> MetricType {
            Self::TYPE
        }
    }

    #[test]
    fn series_are_added_and_removed_while_others_are_encoded() {
        let family = Family::<Colour, Changing>::default();
        let red = family.get_or_create(&RED);
        red.counter.inc();
        *red.family.lock() = Some(family.clone());
        assert_eq!(samples(&family), ["lights_total{colour=\"red\"} 1"], "as it was when it was begun");
        assert_eq!(samples(&family), ["lights_total{colour=\"green\"} 1"]);
    }

    #[test]
    fn all_who_ask_for_the_same_labels_count_together_until_the_series_is_removed() {
        let family = Family::<Colour, Counter>::default();
        assert!(samples(&family).is_empty());
        family.get_or_create(&RED).inc();
        family.clone().get_or_create(&RED).inc();
        family.remove(&GREEN);
        assert_eq!(samples(&family), ["lights_total{colour=\"red\"} 2"]);
        family.remove(&RED);
        assert!(samples(&family).is_empty());
    }
}
