//! Whether the API server answers, and accepts the host's credentials. A token that is dead gets 401 for everything,
//! which looks like a quiet cluster: watches fail one after the other, and nothing is written.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long the API server may refuse the credentials before the host is not ready: a token may be being renewed.
const GRACE: Duration = Duration::from_secs(30);

/// When the API server answered last, and since when it refuses the host's credentials.
#[derive(Debug, Default)]
pub struct Credentials(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    last: Option<Instant>,
    refused_since: Option<Instant>,
}

impl Credentials {
    /// Notes the status code of an answer.
    pub(super) fn note_answer(&self, code: u16, now: Instant) {
        let mut answers = self.0.lock();
        answers.last = Some(now);
        answers.refused_since = (code == 401).then(|| answers.refused_since.unwrap_or(now));
    }

    /// Returns whether there was an answer to any request since then.
    pub(super) fn has_answered_since(&self, since: Instant) -> bool {
        self.0.lock().last.is_some_and(|last| last >= since)
    }

    /// Returns for how long the API server has refused the credentials.
    pub(super) fn refused_for(&self, now: Instant) -> Option<Duration> {
        self.0.lock().refused_since.map(|since| now.saturating_duration_since(since))
    }

    /// Returns why the credentials keep the host from being ready, if they do.
    pub fn unready(&self) -> Option<&'static str> {
        let is_dead = self.refused_for(Instant::now()).is_some_and(|refused| refused >= GRACE);
        is_dead.then_some(UNAUTHORIZED)
    }
}

/// The message about credentials that the API server refuses.
pub(super) const UNAUTHORIZED: &str =
    "the API server does not accept the host's credentials (401); renew its token or kubeconfig";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn credentials_that_are_refused_for_long_make_the_host_unready_until_they_are_accepted() {
        let credentials = Credentials::default();
        let answer = |code| credentials.note_answer(code, Instant::now());
        answer(200);
        answer(401);
        tokio::time::advance(GRACE / 2).await;
        answer(401);
        assert_eq!(credentials.unready(), None, "a token may be being renewed");
        tokio::time::advance(GRACE / 2).await;
        assert!(credentials.unready().is_some_and(|why| why.contains("401")));
        answer(403);
        assert_eq!(credentials.unready(), None, "it knows who asks");
    }
}
