//! Waiting for a condition with a deadline.

use std::future::Future;
use std::num::NonZero;
use std::sync::LazyLock;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;

/// How long a condition may take to come true unless a test says otherwise: many times what it
/// takes on an idle machine, for a component that a test alone has is compiled when nothing else runs.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// No test takes longer than this, whatever it waits for.
const LONGEST: Duration = Duration::from_secs(240);

/// One runtime for all tests of a process, driven by a thread of its own, because connections live
/// on the runtime that opened them and are shared by tests.
static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// How many tests run at once, each with a host: three to a core, for they mostly wait.
static AT_WORK: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(3 * available_parallelism().map_or(1, NonZero::get)));

/// Runs the body of a test when there is room for one more.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let _room = RUNTIME.block_on(AT_WORK.acquire()).expect("it is never closed");
    run_at_once(test)
}

/// Runs the body of a test that needs no room, for another limit is enough.
pub fn run_at_once<T>(test: impl Future<Output = T>) -> T {
    let timed = async { tokio::time::timeout(LONGEST, test).await };
    RUNTIME.block_on(timed).unwrap_or_else(|_| panic!("the test did not end within {LONGEST:?}"))
}

/// Waits until `probe` succeeds. The error is what it saw last, after the deadline.
pub async fn attempt<T>(patience: Duration, probe: impl AsyncFn() -> Result<T, String>) -> Result<T, String> {
    let began = Instant::now();
    loop {
        let left = patience.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
        let seen = match tokio::time::timeout(left, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => seen,
            Err(_) => format!("no answer within {left:?}"),
        };
        if began.elapsed() > patience {
            return Err(seen);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits until `probe` succeeds.
///
/// # Panics
/// After the deadline, with what was seen last.
pub async fn until<T>(what: &str, patience: Duration, probe: impl AsyncFn() -> Result<T, String>) -> T {
    match attempt(patience, probe).await {
        Ok(value) => value,
        Err(seen) => panic!("waited {patience:?} until {what}; seen last: {seen}"),
    }
}
