//! The table of the metrics: each is registered here, with its name, labels and help. What `/metrics` serves and what the
//! book says of it are both made of this table, so they cannot differ.
//!
//! No label has a value that a user of the cluster can choose: they are names of plugins, which administrators choose, and
//! words of a fixed set. So only an administrator can add series.

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;
use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::telemetry::family::Family;

/// The suffix in the names of counters. In OpenMetrics, only the samples have it, and not the metric.
const TOTAL: &str = "_total";

/// A gauge of seconds.
pub type SecondsGauge = Gauge<f64, AtomicU64>;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number.
    Gauge,
    /// How often a value was at most so large.
    Histogram,
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        })
    }
}

/// What is known of a metric before it has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name in queries.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// What the metric says.
    pub help: &'static str,
}

impl Row {
    /// Returns the name without the suffix of counters.
    pub(super) fn base(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix(TOTAL).unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }
}

/// The labels of a metric.
pub trait Labels: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The names of the labels.
    const NAMES: &'static [&'static str];
}

/// Declares a type for the labels of metrics. The names of its fields are those of the labels.
macro_rules! labels {
    ($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Hash, PartialEq, Eq, prometheus_client::encoding::EncodeLabelSet)]
        pub(in crate::telemetry) struct $name {
            $(pub(in crate::telemetry) $field: $kind),+
        }

        impl $crate::telemetry::table::Labels for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];
        }
    };
}
pub(in crate::telemetry) use labels;

/// Declares a type whose fields are metrics. Each is registered by a method of [`Table`], with its name, its help and, for a
/// histogram, its buckets.
macro_rules! metrics {
    ($(#[$about:meta])* $shown:vis struct $name:ident {
        $($(#[$says:meta])* $each:vis $field:ident: $metric:ty = $method:ident($($known:expr),+ $(,)?);)+
    }) => {
        $(#[$about])*
        $shown struct $name {
            $($(#[$says])* $each $field: $metric),+
        }

        impl $name {
            /// Registers these metrics, in this order.
            $shown fn of(table: &mut $crate::telemetry::table::Table) -> Self {
                Self { $($field: table.$method($($known),+)),+ }
            }
        }
    };
}
pub(in crate::telemetry) use metrics;

/// The upper bounds of the buckets of a histogram.
#[derive(Clone, Copy, Debug)]
pub struct Buckets(pub &'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Histograms by labels.
pub type Histograms<L> = Family<L, Histogram, Buckets>;

/// The metrics that are registered.
#[derive(Debug, Default)]
pub struct Table {
    registry: Registry,
    rows: Vec<Row>,
}

impl Table {
    /// Registers a counter by labels.
    pub fn counter<L: Labels>(&mut self, name: &'static str, help: &'static str) -> Family<L, Counter> {
        let family = Family::default();
        self.add(Row { name, kind: Kind::Counter, labels: L::NAMES, help }, family.clone());
        family
    }

    /// Registers a counter without labels.
    pub fn total(&mut self, name: &'static str, help: &'static str) -> Counter {
        let counter = Counter::default();
        self.add(Row { name, kind: Kind::Counter, labels: &[], help }, counter.clone());
        counter
    }

    /// Registers a gauge by labels.
    pub fn gauge<L: Labels>(&mut self, name: &'static str, help: &'static str) -> Family<L, Gauge> {
        let family = Family::default();
        self.add(Row { name, kind: Kind::Gauge, labels: L::NAMES, help }, family.clone());
        family
    }

    /// Registers a gauge of seconds by labels.
    pub fn seconds<L: Labels>(&mut self, name: &'static str, help: &'static str) -> Family<L, SecondsGauge> {
        let family = Family::default();
        self.add(Row { name, kind: Kind::Gauge, labels: L::NAMES, help }, family.clone());
        family
    }

    /// Registers a histogram by labels.
    pub fn histogram<L: Labels>(&mut self, name: &'static str, help: &'static str, buckets: Buckets) -> Histograms<L> {
        let family = Family::with(buckets);
        self.add(Row { name, kind: Kind::Histogram, labels: L::NAMES, help }, family.clone());
        family
    }

    /// Registers a metric that is counted elsewhere.
    pub fn add(&mut self, row: Row, metric: impl Metric) {
        self.registry.register(row.base(), row.help, metric);
        self.rows.push(row);
    }

    /// Registers metrics whose values are found at each scrape.
    pub fn collect(&mut self, rows: impl IntoIterator<Item = Row>, collector: impl Collector) {
        self.registry.register_collector(Box::new(collector));
        self.rows.extend(rows);
    }

    /// Returns what is known of all metrics, in the order of their names.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        rows.sort_by_key(|row| row.name);
        rows
    }

    /// Returns all metrics in the format OpenMetrics 1.0.
    pub fn open_metrics(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => format!("# metrics cannot be encoded: {error}\n"),
        }
    }

    /// Returns all metrics in the text format 0.0.4, which every scraper reads: the counters' own names have their suffix,
    /// and nothing marks the end.
    pub fn text(&self) -> String {
        let counters = self.rows.iter().filter(|row| row.kind == Kind::Counter);
        let counters: HashSet<&str> = counters.map(Row::base).collect();
        let open_metrics = self.open_metrics();
        let mut text = String::with_capacity(open_metrics.len() + TOTAL.len() * 2 * counters.len());
        for line in open_metrics.lines().filter(|line| *line != "# EOF") {
            let about = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
            let name = about.and_then(|about| about.split(' ').next()).filter(|name| counters.contains(name));
            let line = match name.and_then(|name| Some((name, line.split_once(name)?))) {
                Some((name, (before, after))) => [before, name, TOTAL, after].concat(),
                None => line.to_owned(),
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    labels! {
        /// The labels of a test.
        ByColour { colour: &'static str }
    }

    fn table() -> Table {
        let mut table = Table::default();
        let seen = table.counter::<ByColour>("lights_total", "Lights that were seen");
        seen.get_or_create(&ByColour { colour: "red" }).inc();
        table.gauge::<ByColour>("lights_on", "Lights that are on").get_or_create(&ByColour { colour: "green" }).set(2);
        table
    }

    #[test]
    fn a_row_has_the_name_of_queries_and_the_names_of_the_labels() {
        let rows = table().rows();
        assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), ["lights_on", "lights_total"]);
        assert!(rows.iter().all(|row| row.labels == ["colour"]), "{rows:?}");
    }

    #[test]
    fn both_formats_have_the_same_samples_under_the_names_that_each_wants() {
        let table = table();
        let samples = "lights_total{colour=\"red\"} 1\n";
        let open_metrics = format!("# HELP lights Lights that were seen.\n# TYPE lights counter\n{samples}");
        let text = format!("# HELP lights_total Lights that were seen.\n# TYPE lights_total counter\n{samples}");
        let on = "# HELP lights_on Lights that are on.\n# TYPE lights_on gauge\nlights_on{colour=\"green\"} 2\n";
        assert_eq!(table.open_metrics(), format!("{open_metrics}{on}# EOF\n"));
        assert_eq!(table.text(), format!("{text}{on}"));
    }
}
