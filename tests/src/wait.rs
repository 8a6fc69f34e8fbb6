//! Waiting for a condition, with a timeout.

use std::future::Future;
use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;

/// How long a condition may take to come true unless a test says otherwise. It is many times what it takes on an
/// idle machine, because a component that only one test uses is compiled only while the processors are idle.
pub const TIMEOUT: Duration = Duration::from_secs(180);
/// The time between the first two probes. It grows by half at each probe: what comes soon is seen at once, and what
/// takes long is not asked for all the time, which would slow down the other tests.
const FIRST_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum time between two probes.
const MAX_INTERVAL: Duration = Duration::from_millis(250);
/// The maximum duration of a test, whatever it waits for.
const MAX_TEST_TIME: Duration = Duration::from_secs(600);

/// One runtime for all tests of a process, driven by a thread of its own, because connections live
/// on the runtime that opened them and are shared by tests.
static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// Bounds how many tests run at once, each with a host: three to a core, because they mostly wait.
static TEST_SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(3 * available_parallelism().map_or(1, NonZero::get)));

/// Runs the body of a test as soon as fewer than the maximum number run.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let _slot = RUNTIME.block_on(TEST_SLOTS.acquire()).expect("it is never closed");
    run_at_once(test)
}

/// Runs the body of a test at once, for tests that have another limit.
pub fn run_at_once<T>(test: impl Future<Output = T>) -> T {
    let timed = async { tokio::time::timeout(MAX_TEST_TIME, test).await };
    RUNTIME.block_on(timed).unwrap_or_else(|_| panic!("the test did not end within {MAX_TEST_TIME:?}"))
}

/// Waits until `probe` succeeds. After the timeout, the error is what the probe saw last.
pub async fn attempt<T>(timeout: Duration, probe: impl AsyncFn() -> Result<T, String>) -> Result<T, String> {
    let (began, mut interval) = (Instant::now(), FIRST_INTERVAL);
    loop {
        let left = timeout.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
        let seen = match tokio::time::timeout(left, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => seen,
            Err(_) => format!("no answer within {left:?}"),
        };
        if began.elapsed() > timeout {
            return Err(seen);
        }
        tokio::time::sleep(interval).await;
        interval = MAX_INTERVAL.min(interval * 3 / 2);
    }
}

/// Waits until `probe` succeeds.
///
/// # Panics
/// After the timeout, with what the probe saw last.
pub async fn until<T>(what: &str, timeout: Duration, probe: impl AsyncFn() -> Result<T, String>) -> T {
    match attempt(timeout, probe).await {
        Ok(value) => value,
        Err(seen) => panic!("waited {timeout:?} until {what}; seen last: {seen}"),
    }
}
