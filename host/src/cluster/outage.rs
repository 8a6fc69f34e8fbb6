//! Outages of the API server, and its answers right after one.
//!
//! An outage and its end are logged once, and not by each watch. For a while after it the API server forbids what it
//! will allow, because it has not read all RBAC objects yet, and answers 429 or 503, because it has not read the CRDs
//! or filled its caches; [watches](crate::cluster::watch) and writes treat such answers as transient.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::error::ApiError;

/// How long after an outage the API server may still answer wrongly.
const WAKING_UP: Duration = Duration::from_secs(30);

/// When the API server last did not answer, and whether that is logged.
#[derive(Default)]
pub struct Outage {
    last: Mutex<Option<Instant>>,
    logged: AtomicBool,
}

impl Outage {
    /// Notes that the API server does not answer.
    pub(super) fn note(&self) {
        *self.last.lock() = Some(Instant::now());
    }

    /// Notes that a watch gets no answer. Returns whether to log that: once an outage, for all watches.
    pub(super) fn begins(&self) -> bool {
        self.note();
        !self.logged.swap(true, Ordering::Relaxed)
    }

    /// Notes an answer. Returns whether to log the end of an outage.
    pub(super) fn ends(&self) -> bool {
        self.logged.load(Ordering::Relaxed) && self.logged.swap(false, Ordering::Relaxed)
    }

    /// Marks an error as [`ApiError::after_outage`] if it comes soon after an outage.
    pub(super) fn judge(&self, error: ApiError) -> ApiError {
        if error.code == 0 {
            self.note();
        }
        // An API server that is still reading its RBAC objects does not know that a namespace is being deleted.
        let after_outage = self.is_after_outage(error.code) && !error.is_namespace_terminating();
        ApiError { after_outage, ..error }
    }

    /// Whether an answer of this code may only mean that the API server has just come back.
    pub(super) fn is_after_outage(&self, code: u16) -> bool {
        let last = *self.last.lock();
        matches!(code, 401 | 403 | 429 | 503) && last.is_some_and(|outage| outage.elapsed() < WAKING_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> ApiError {
        ApiError::new("apply", "a Service".into(), code, "", String::new())
    }

    #[test]
    fn an_outage_is_logged_once_and_its_end_once() {
        let outage = Outage::default();
        assert!(!outage.ends(), "it was never away");
        assert_eq!([outage.begins(), outage.begins()], [true, false]);
        assert_eq!([outage.ends(), outage.ends()], [true, false]);
        assert!(outage.begins());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_by_an_api_server_that_has_just_restarted_is_transient() {
        let outage = Outage::default();
        assert!(!outage.judge(answer(403)).is_transient(), "it was never away");
        outage.judge(answer(0));
        assert!(outage.judge(answer(403)).is_transient());
        assert!(outage.judge(answer(503)).after_outage, "it has not read the CRDs yet");
        assert!(!outage.judge(answer(422)).is_transient(), "that is no matter of rights");
        tokio::time::advance(WAKING_UP).await;
        assert!(!outage.judge(answer(403)).is_transient(), "by now it means it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_being_deleted_is_no_effect_of_an_outage() {
        let outage = Outage::default();
        outage.judge(answer(0));
        let terminating = ApiError { cause: Some("NamespaceTerminating".to_owned()), ..answer(403) };
        let judged = outage.judge(terminating);
        assert!(judged.is_namespace_terminating() && !judged.after_outage && !judged.is_transient());
    }
}
