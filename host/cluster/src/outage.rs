//! Outages of the API server, and its answers right after one.
//!
//! An outage and its end are logged once, and not by each watch. For a while after an outage the API server forbids
//! what it will allow later, because it has not read all RBAC objects yet, and answers 429 or 503, because it has not
//! read the CRDs or filled its caches. [Watches](crate::watch) and writes treat such answers as transient.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::ApiError;
use hotshoe_core::flow::unanswered::{Answers, Unanswered};

/// How long after an outage the API server may still answer wrongly.
const STARTUP_PERIOD: Duration = Duration::from_secs(30);

/// When the API server last did not answer, whether the outage is logged, and which requests were answered.
#[derive(Default)]
pub struct Outage {
    last: Mutex<Option<Instant>>,
    logged: AtomicBool,
    answers: Mutex<Answers>,
}

impl Outage {
    /// Records that the API server does not answer.
    pub(super) fn note(&self) {
        *self.last.lock() = Some(Instant::now());
    }

    /// Records that a watch gets no answer. Returns whether to log that: once per outage, for all watches.
    pub(super) fn begins(&self) -> bool {
        self.note();
        !self.logged.swap(true, Ordering::Relaxed)
    }

    /// Records an answer. Returns whether to log the end of an outage.
    pub(super) fn ends(&self) -> bool {
        self.logged.load(Ordering::Relaxed) && self.logged.swap(false, Ordering::Relaxed)
    }

    /// Records whether a request was answered. For a write, `written` has its plugin, when it was sent, and its cost in tokens.
    #[expect(clippy::result_large_err, reason = "it passes on an error that its only caller holds anyway")]
    pub(super) fn note_answer<T>(
        &self,
        result: Result<T, ApiError>,
        written: Option<(&Arc<str>, Instant, NonZeroU32)>,
    ) -> Result<T, ApiError> {
        let (now, mut answers) = (Instant::now().into_std(), self.answers.lock());
        match (result, written) {
            (Err(error), Some((plugin, sent, cost))) if error.is_late() => {
                answers.missed(plugin, now);
                let unanswered = Unanswered { sent: sent.into_std(), ended: now, cost };
                Err(ApiError { unanswered: Some(unanswered), ..error })
            }
            (Err(error), _) if error.code == 0 => Err(error),
            (result, Some((plugin, ..))) => {
                answers.wrote(plugin, now);
                result
            }
            (result, None) => {
                answers.read(now);
                result
            }
        }
    }

    /// Returns whether an unanswered write counts against its plugin.
    pub(super) fn blame(&self, plugin: &str, write: Unanswered) -> bool {
        self.answers.lock().blame(plugin, write)
    }

    /// Marks an error as [`ApiError::after_outage`] if it comes soon after an outage.
    pub(super) fn mark_after_outage(&self, error: ApiError) -> ApiError {
        if error.code == 0 {
            self.note();
        }
        // An API server that is still reading its RBAC objects does not know that a namespace is being deleted.
        let after_outage = self.is_after_outage(error.code) && !error.is_namespace_terminating();
        ApiError { after_outage, ..error }
    }

    /// Returns whether an answer with this code may only mean that the API server has just come back.
    pub(super) fn is_after_outage(&self, code: u16) -> bool {
        let last = *self.last.lock();
        matches!(code, 401 | 403 | 429 | 503) && last.is_some_and(|outage| outage.elapsed() < STARTUP_PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::flow::write_cost::tokens;

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
        assert!(!outage.mark_after_outage(answer(403)).is_transient(), "it was never away");
        outage.mark_after_outage(answer(0));
        assert!(outage.mark_after_outage(answer(403)).is_transient());
        assert!(outage.mark_after_outage(answer(503)).after_outage, "it has not read the CRDs yet");
        assert!(!outage.mark_after_outage(answer(422)).is_transient(), "it has nothing to do with rights");
        tokio::time::advance(STARTUP_PERIOD).await;
        assert!(!outage.mark_after_outage(answer(403)).is_transient(), "by now the refusal is final");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unanswered_write_counts_against_its_plugin_once_the_api_server_answers_again() {
        let (outage, plugin, sent) = (Outage::default(), Arc::from("a"), Instant::now());
        let late = ApiError::new("apply", "a ConfigMap".into(), 0, "Timeout", String::new());
        tokio::time::advance(Duration::from_secs(10)).await;
        let written = Some((&plugin, sent, tokens(1 << 20, 0)));
        let unanswered = outage.note_answer::<()>(Err(late), written).unwrap_err().unanswered.unwrap();
        assert!(!outage.blame("a", unanswered), "no other request was answered since");
        let away = outage.note_answer::<()>(Err(answer(0)), written).unwrap_err();
        assert_eq!(away.unanswered, None, "it could not be reached");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(outage.note_answer(Ok(()), None).is_ok());
        assert!(outage.blame("a", unanswered));
    }

    #[tokio::test(start_paused = true)]
    async fn the_refusal_of_a_terminating_namespace_is_no_effect_of_an_outage() {
        let outage = Outage::default();
        outage.mark_after_outage(answer(0));
        let terminating = ApiError { cause: Some("NamespaceTerminating".to_owned()), ..answer(403) };
        let marked = outage.mark_after_outage(terminating);
        assert!(marked.is_namespace_terminating() && !marked.after_outage && !marked.is_transient());
    }
}
