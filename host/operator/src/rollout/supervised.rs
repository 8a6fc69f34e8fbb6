//! Begins a task of a plugin again after a panic. A panic is a fault of the host; it must cost neither the other plugins
//! anything, nor this one its rollout for good.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;

use hotshoe_core::flow::backoff::doubled;

/// The pause before a task begins again after its first panic. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How long a task runs without a panic before it is well again.
const WELL_AFTER: Duration = Duration::from_secs(120);

/// Runs a task, and again whenever it panics or ends. Reports why it ended last, and nothing once it has run for a while.
pub(super) async fn supervise<F: Future<Output = ()>>(mut task: impl FnMut() -> F, report: impl Fn(Option<&str>)) {
    let mut panics = 0;
    loop {
        let mut running = std::pin::pin!(AssertUnwindSafe(task()).catch_unwind());
        let ended = match tokio::time::timeout(WELL_AFTER, &mut running).await {
            Ok(ended) => ended,
            Err(_) => {
                report(None);
                panics = 0;
                running.await
            }
        };
        let why = ended.map_or_else(|panic| words(&*panic), |()| "it ended".to_owned());
        report(Some(&why));
        tokio::time::sleep(doubled(FIRST_PAUSE, panics, MAX_PAUSE)).await;
        panics += 1;
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_begins_again_and_is_reported_until_it_has_run_for_a_while() {
        let (runs, reports) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        let task = || async {
            match runs.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("a time that is too large"),
                1 => panic!("{} times", 2),
                2 => {}
                _ => std::future::pending().await,
            }
        };
        let report = |why: Option<&str>| reports.lock().push(why.map(str::to_owned));
        let supervised = supervise(task, report);
        assert!(tokio::time::timeout(Duration::from_secs(10), supervised).await.is_err());
        assert_eq!(runs.load(Ordering::Relaxed), 4);
        let expected = [Some("a time that is too large"), Some("2 times"), Some("it ended")];
        assert_eq!(*reports.lock(), expected.map(|why| why.map(str::to_owned)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_run_for_a_while_is_well_and_its_next_pause_is_short_again() {
        let (runs, reports) = (AtomicU32::new(0), Mutex::new(Vec::new()));
        let task = || async {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            if run == 1 {
                tokio::time::sleep(2 * WELL_AFTER).await;
            }
            assert!(run > 1, "run {run}");
            std::future::pending::<()>().await;
        };
        let report = |why: Option<&str>| reports.lock().push(why.map(str::to_owned));
        let time = FIRST_PAUSE + 2 * WELL_AFTER + FIRST_PAUSE + Duration::from_millis(1);
        assert!(tokio::time::timeout(time, supervise(task, report)).await.is_err());
        assert_eq!(runs.load(Ordering::Relaxed), 3);
        assert_eq!(*reports.lock(), [Some("run 0".to_owned()), None, Some("run 1".to_owned())]);
    }
}
