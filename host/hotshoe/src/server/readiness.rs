//! What the probes answer. The host's thread finds out several times a second whether the host is ready, and the thread
//! of the ports reads the last result: a probe costs the host's thread nothing, and is answered while that is busy. A
//! result that is old says that the host's thread is stuck.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use parking_lot::RwLock;

use crate::server::about::About;
use hotshoe_cluster::lease_status::LeaseStatus;

/// How often it is found out whether the host is ready.
const INTERVAL: Duration = Duration::from_millis(500);
/// How old the last result may be for a host that is ready. A busy thread is seconds late at most.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How old the last result may be for a host that is alive. Later, only a restart helps.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// What was found out last.
struct Found {
    at: Instant,
    /// Why the host is not ready; none if it is.
    unready: Option<String>,
}

/// Whether the host is ready, as it was found out last.
pub(super) struct Readiness(RwLock<Found>);

impl Readiness {
    pub(super) fn new(unready: Option<String>) -> Self {
        Self(RwLock::new(Found { at: Instant::now(), unready }))
    }

    fn note(&self, unready: Option<String>) {
        *self.0.write() = Found { at: Instant::now(), unready };
    }

    /// Answers whether the host is ready.
    pub(super) fn answer(&self, now: Instant) -> (StatusCode, String) {
        let found = self.0.read();
        let age = now.saturating_duration_since(found.at);
        let unready = match &found.unready {
            _ if age > STUCK_AFTER => Some(stuck(age)),
            unready => unready.clone(),
        };
        answer(unready.map(|why| format!("not ready: {why}; `hotshoe status` says why\n")))
    }

    /// Answers whether the host is alive, ready or not.
    pub(super) fn answer_alive(&self, now: Instant) -> (StatusCode, String) {
        let age = now.saturating_duration_since(self.0.read().at);
        answer((age > DEAD_AFTER).then(|| format!("{}\n", stuck(age))))
    }
}

fn answer(failing: Option<String>) -> (StatusCode, String) {
    match failing {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

fn stuck(age: Duration) -> String {
    format!("the host's thread has done nothing for {} s", age.as_secs())
}

/// Finds out whether the host is ready, until the process ends.
pub(super) async fn keep(about: About, readiness: std::sync::Arc<Readiness>) {
    loop {
        readiness.note(unready(&about));
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns whether the API server refuses the host's credentials, the `Plugin` objects are not looked at, which plugins
/// are not [ready](hotshoe_operator::fleet::Fleet::unready) and which Leases cannot be used; none if the host is ready. A standby
/// host is.
pub(super) fn unready(about: &About) -> Option<String> {
    if about.fleet.unknown_because().is_some() {
        return Some("the Plugin objects are not known".to_owned());
    }
    let stuck = about.fleet.stuck(Instant::now()).into_iter();
    let refused = about.credentials.unready().map(str::to_owned);
    let leases = about.leases.status().into_iter().filter(|lease| lease.unusable);
    let leases = leases.map(|LeaseStatus { name, .. }| format!("Lease {name}"));
    let waiting: Vec<String> = stuck.chain(refused).chain(about.fleet.unready()).chain(leases).collect();
    (!waiting.is_empty()).then(|| waiting.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_whose_thread_is_busy_for_seconds_stays_ready_and_one_whose_thread_is_stuck_does_not() {
        let readiness = Readiness::new(None);
        let after = |seconds| {
            let now = Instant::now() + Duration::from_secs(seconds);
            (readiness.answer(now).0.as_u16(), readiness.answer_alive(now).0.as_u16())
        };
        assert_eq!([0, 10, 29, 32, 62].map(after), [(200, 200), (200, 200), (200, 200), (503, 200), (503, 503)]);
        let said = readiness.answer(Instant::now() + Duration::from_secs(40)).1;
        assert!(said.contains("the host's thread has done nothing for 40 s"), "{said}");
        readiness.note(Some("memcached".to_owned()));
        let said = readiness.answer(Instant::now()).1;
        assert_eq!(said, "not ready: memcached; `hotshoe status` says why\n");
    }
}
