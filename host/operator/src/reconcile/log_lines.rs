//! Limits the log lines about one plugin, which chooses how many there are and how long.

use hotshoe_core::flow::rate_limit::OutputLimit;
use hotshoe_core::model::limits::{LOGGED_AT_ONCE, LOGGED_PER_SECOND};

/// The length of a log line without its message, in bytes: time, level, plugin, revision and object.
const LINE_OVERHEAD_BYTES: usize = 200;

/// A limit on the bytes of log lines of one origin.
pub struct LogLines {
    pub(super) limit: OutputLimit,
    /// What is logged now and then while lines are dropped.
    pub(super) excess: &'static str,
}

impl LogLines {
    /// Limits the lines of a plugin.
    pub fn of_plugin() -> Self {
        Self::new("the plugin logs more than its rate limit allows; some of its lines were dropped")
    }

    /// Limits the host's lines about what it does for a plugin.
    pub fn of_acts() -> Self {
        Self::new("the host does more for the plugin than the rate limit of log lines allows; some lines were dropped")
    }

    /// Limits the host's lines about the failures of a plugin.
    pub fn of_failures() -> Self {
        Self::new(
            "the plugin fails more often than its rate limit of log lines allows; some of its failures were not logged",
        )
    }

    fn new(excess: &'static str) -> Self {
        Self { limit: OutputLimit::new(LOGGED_PER_SECOND, LOGGED_AT_ONCE), excess }
    }

    /// Returns whether a line with a message of so many bytes is within the limit.
    pub fn allows(&self, bytes: usize) -> bool {
        self.limit.allows(LINE_OVERHEAD_BYTES + bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::reconcile::controller::{Controller, HostShare};
    use crate::served;
    use crate::telemetry::metrics::Metrics;
    use hotshoe_cluster::apply::Writer;
    use hotshoe_cluster::events::Recorder;
    use hotshoe_cluster::identity::Identity;
    use hotshoe_cluster::rate_limit::RateLimit;
    use hotshoe_cluster::shards::Shards;
    use hotshoe_core::model::limits::Limits;

    async fn controller(metrics: &Arc<Metrics>) -> Controller {
        let cluster = served::at("127.0.0.1:1").await;
        let rate_limit = RateLimit::new(&Limits::default(), metrics.delays("demo"));
        let identity = Identity::plugin("hotshoe", "demo");
        let writer = Writer::new(&cluster, Arc::default(), "demo", identity, rate_limit);
        let share = HostShare { shards: Shards::alone().into(), one: None };
        Controller::new("demo".into(), writer, Recorder::start(cluster), Arc::default(), metrics.clone(), share)
    }

    #[tokio::test]
    async fn a_line_that_is_not_logged_is_counted_whoever_wrote_it() {
        let metrics = Arc::default();
        let controller = controller(&metrics).await;
        for lines in [&controller.lines, &controller.act_lines, &controller.failure_lines] {
            assert!(controller.may_log(lines, 100));
            assert!(!controller.may_log(lines, LOGGED_AT_ONCE as usize), "{}", lines.excess);
        }
        controller.note_dropped(&controller.lines, 4);
        let counted = r#"hotshoe_plugin_log_lines_dropped_total{controller="demo"} 7"#;
        assert!(metrics.table().text().contains(counted));
    }
}
