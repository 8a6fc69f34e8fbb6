//! What an API server that was away says when it is back. It forbids what it will allow in a moment, for
//! it judges by RBAC objects that it is still reading.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::ApiError;

/// For so long after a silence the API server may not be awake yet.
const WAKING_UP: Duration = Duration::from_secs(30);

/// When the API server was silent last.
#[derive(Default)]
pub struct Silence(Mutex<Option<Instant>>);

impl Silence {
    /// It is silent now.
    pub(super) fn note(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// What is forbidden soon after a silence may not be meant.
    pub(super) fn judge(&self, error: ApiError) -> ApiError {
        if error.code == 0 {
            self.note();
        }
        let known = *self.0.lock();
        let woke_up = known.is_some_and(|silent| silent.elapsed() < WAKING_UP);
        ApiError { waking_up: woke_up && matches!(error.code, 401 | 403), ..error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> ApiError {
        ApiError::new("apply", "a Service".into(), code, "", String::new())
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_api_server_forbids_that_has_just_come_back_passes() {
        let silence = Silence::default();
        assert!(!silence.judge(answer(403)).is_transient(), "it was never away");
        silence.judge(answer(0));
        assert!(silence.judge(answer(403)).is_transient());
        assert!(!silence.judge(answer(422)).is_transient(), "that is no matter of rights");
        tokio::time::advance(WAKING_UP).await;
        assert!(!silence.judge(answer(403)).is_transient(), "by now it means it");
    }
}
