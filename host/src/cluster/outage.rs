//! An API server that was away: who is told of its silence, and what it says when it is back. Watches tell
//! people once for all of them. For a moment it then forbids what it will allow, because it judges by RBAC
//! objects that it is still reading, and asks for patience, because it has not read the CRDs and has not
//! filled its caches; neither [watches](crate::cluster::watch) nor writes take that at its word.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::cluster::error::ApiError;

/// For so long after a silence the API server may not be awake yet.
const WAKING_UP: Duration = Duration::from_secs(30);

/// When the API server was silent last, and whether people were told that it is.
#[derive(Default)]
pub struct Silence {
    last: Mutex<Option<Instant>>,
    told: AtomicBool,
}

impl Silence {
    /// It is silent now.
    pub(super) fn note(&self) {
        *self.last.lock() = Some(Instant::now());
    }

    /// A watch cannot be followed for it: whether that is to be told, which is so once for all watches.
    pub(super) fn begins(&self) -> bool {
        self.note();
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// It answered: whether that is to be told.
    pub(super) fn ends(&self) -> bool {
        self.told.load(Ordering::Relaxed) && self.told.swap(false, Ordering::Relaxed)
    }

    /// What is refused soon after a silence may not be meant.
    pub(super) fn judge(&self, error: ApiError) -> ApiError {
        if error.code == 0 {
            self.note();
        }
        // No API server that is still reading its RBAC objects knows of a namespace that goes.
        let waking_up = self.is_waking_up(error.code) && !error.is_namespace_terminating();
        ApiError { waking_up, ..error }
    }

    /// Whether an answer of this code is no more than a sign that the API server has just come back.
    pub(super) fn is_waking_up(&self, code: u16) -> bool {
        let last = *self.last.lock();
        matches!(code, 401 | 403 | 429 | 503) && last.is_some_and(|silent| silent.elapsed() < WAKING_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> ApiError {
        ApiError::new("apply", "a Service".into(), code, "", String::new())
    }

    #[test]
    fn a_silence_is_told_once_and_its_end_once() {
        let silence = Silence::default();
        assert!(!silence.ends(), "it was never away");
        assert_eq!([silence.begins(), silence.begins()], [true, false]);
        assert_eq!([silence.ends(), silence.ends()], [true, false]);
        assert!(silence.begins());
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_api_server_refuses_that_has_just_come_back_passes() {
        let silence = Silence::default();
        assert!(!silence.judge(answer(403)).is_transient(), "it was never away");
        silence.judge(answer(0));
        assert!(silence.judge(answer(403)).is_transient());
        assert!(silence.judge(answer(503)).waking_up, "it has not read the CRDs yet");
        assert!(!silence.judge(answer(422)).is_transient(), "that is no matter of rights");
        tokio::time::advance(WAKING_UP).await;
        assert!(!silence.judge(answer(403)).is_transient(), "by now it means it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_being_deleted_is_no_sign_of_waking_up() {
        let silence = Silence::default();
        silence.judge(answer(0));
        let terminating = ApiError { cause: Some("NamespaceTerminating".to_owned()), ..answer(403) };
        let judged = silence.judge(terminating);
        assert!(judged.is_namespace_terminating() && !judged.waking_up && !judged.is_transient());
    }
}
