//! One call of a plugin: a new store, a new instance, one function, and then both are dropped.
//!
//! Interrupting a guest leaves its locks locked and its heap half written. So nothing is kept after a call, whether the
//! call succeeded or not.

use std::char::DecodeUtf16Error;
use std::str::Utf8Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{Store, Trap};

use crate::bindings::{Instance, Linked};
use crate::engine::Engine;
use crate::error::CallError;
use crate::store::{Breach, Level, LogLine, Sandbox};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::flow::lanes::Lane;
use hotshoe_core::model::decision::{Answer, Descriptor, Failure};
use hotshoe_core::model::limits::Limits;
use hotshoe_core::model::sanitize;

/// The outcome of a call that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<T = Answer> {
    /// The plugin's answer, or the result of processing it.
    pub result: Result<T, Failure>,
    /// The lines that the plugin logged.
    pub logs: Vec<LogLine>,
    /// The number of lines that were dropped.
    pub logs_dropped: u32,
    /// How long the call ran, including instantiation, processing of the answer and a try that was put off, but not waiting
    /// for a thread.
    pub elapsed: Duration,
    /// The processor time that the call used.
    pub used: Duration,
    /// The peak of the call's linear memory, in bytes.
    pub memory: usize,
}

/// A call that failed, with the lines that were logged before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct Aborted {
    /// The error.
    pub error: CallError,
    /// The lines that the plugin logged; a panic's message is the last one.
    pub logs: Vec<LogLine>,
    /// The number of lines that were dropped.
    pub logs_dropped: u32,
    /// How long the call ran.
    pub elapsed: Duration,
    /// The processor time that the call used.
    pub used: Duration,
    /// The peak of the call's linear memory, in bytes.
    pub memory: usize,
}

impl From<Aborted> for CallError {
    fn from(aborted: Aborted) -> Self {
        aborted.error
    }
}

/// Calls `describe`.
///
/// # Errors
/// If the plugin traps or exceeds a limit.
pub(super) async fn describe(
    engine: &Engine,
    lane: &Lane,
    linked: &Arc<Linked>,
    limits: &Arc<Limits>,
    memory: &Account,
) -> Result<Descriptor, CallError> {
    let (worker, linked, limits, memory) = (engine.clone(), Arc::clone(linked), Arc::clone(limits), memory.clone());
    let work = move || FinishedCall::describing(&worker, &linked, &limits, &memory).result;
    engine.executor().run(lane, work).await.unwrap_or(Err(CallError::Stopped))
}

/// Runs a call on a decision thread. Its times include those of a try that was put off.
pub(super) async fn on_thread<T: Send + 'static>(
    engine: &Engine,
    lane: &Lane,
    work: impl Fn() -> Result<Outcome<T>, Aborted> + Send + 'static,
) -> Result<Outcome<T>, Aborted> {
    let mut before = (Duration::ZERO, Duration::ZERO);
    let work = move || {
        let mut called = work();
        let (elapsed, used) = match &mut called {
            Ok(Outcome { elapsed, used, .. }) | Err(Aborted { elapsed, used, .. }) => (elapsed, used),
        };
        (*elapsed, *used) = (*elapsed + before.0, *used + before.1);
        before = (*elapsed, *used);
        called
    };
    let (elapsed, used) = (Duration::ZERO, Duration::ZERO);
    let stopped = Aborted { error: CallError::Stopped, logs: Vec::new(), logs_dropped: 0, elapsed, used, memory: 0 };
    engine.executor().run(lane, work).await.unwrap_or(Err(stopped))
}

/// A finished call; its instance is gone.
pub(super) struct FinishedCall<T> {
    pub(super) result: Result<T, CallError>,
    sandbox: Sandbox,
    pub(super) start: Instant,
}

impl<T> FinishedCall<T> {
    pub(super) fn of(
        engine: &Engine,
        linked: &Linked,
        limits: &Arc<Limits>,
        memory: &Account,
        function: impl FnOnce(&mut Store<Sandbox>, Instance<'_>) -> wasmtime::Result<T>,
    ) -> Self {
        let start = Instant::now();
        let _running = engine.clock();
        let mut store = Sandbox::store(engine.wasm(), limits, memory);
        let result = match linked.instantiate(&mut store) {
            Ok(instance) => function(&mut store, instance).map_err(|error| (Phase::Call, error)),
            Err(error) => Err((Phase::Instantiate, error)),
        };
        let sandbox = store.into_data();
        let result = result.map_err(|(phase, error)| explain(&error, phase, &sandbox, limits));
        Self { result, sandbox, start }
    }

    /// Checks the size of the answer and processes it with `then`, as a part of the call.
    pub(super) fn finish<A, R>(
        self,
        measure: impl FnOnce(T) -> Result<Result<A, Failure>, CallError>,
        then: impl FnOnce(A) -> R,
    ) -> Result<Outcome<R>, Aborted> {
        let Self { result, mut sandbox, start } = self;
        let time = sandbox.call_time();
        let overdue = CallError::DeadlineExceeded(time);
        let done = result.and_then(measure).and_then(|measured| match sandbox.may_continue() {
            true => Ok(measured.map(then)),
            // The call is put off and made again later, so this result is dropped.
            false => Err(overdue.clone()),
        });
        let done = done.and_then(|done| if sandbox.ends_overdue() { Err(overdue) } else { Ok(done) });
        let (elapsed, used, memory) = (start.elapsed(), sandbox.used(), sandbox.peak_memory());
        let Sandbox { logs, logs_dropped, .. } = sandbox;
        match done {
            Ok(result) => Ok(Outcome { result, logs, logs_dropped, elapsed, used, memory }),
            Err(error) => Err(Aborted { error, logs, logs_dropped, elapsed, used, memory }),
        }
    }
}

impl FinishedCall<Descriptor> {
    pub(super) fn describing(engine: &Engine, linked: &Linked, limits: &Arc<Limits>, memory: &Account) -> Self {
        Self::of(engine, linked, limits, memory, |store, instance| instance.describe(store))
    }
}

/// The phase in which a call failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Instantiate,
    Call,
}

/// Explains why a call failed, from the types of the errors and from what the limiter refused.
fn explain(error: &wasmtime::Error, phase: Phase, sandbox: &Sandbox, limits: &Limits) -> CallError {
    if let Some(breach) = error.downcast_ref::<Breach>() {
        return CallError::LimitExceeded(breach.to_string());
    }
    if error.downcast_ref::<Trap>() == Some(&Trap::Interrupt) {
        return CallError::DeadlineExceeded(limits.call_time.0);
    }
    // A growth was refused, and the guest did not cope with that.
    if let Some(breach) = sandbox.breach {
        return CallError::LimitExceeded(breach.to_string());
    }
    match error.downcast_ref::<Trap>() {
        Some(trap) if is_malformed(*trap) => CallError::invalid(trap.to_string()),
        Some(trap) => CallError::Trapped(trapped(*trap, sandbox)),
        None if is_exhausted(error) => CallError::too_large(format!("more than {} at once", limits.boundary_bytes)),
        None if error.is::<Utf8Error>() || error.is::<DecodeUtf16Error>() => {
            CallError::invalid("a text in it is no valid Unicode".to_owned())
        }
        // Imports were linked at load, so only a count of instances, tables or memories can fail now.
        None if phase == Phase::Instantiate => {
            CallError::LimitExceeded(format!("instances, tables or memories: {error}"))
        }
        None => CallError::invalid(sanitize::clean(error.to_string(), 500)),
    }
}

/// Returns whether the guest finished, but its answer lies outside its memory or does not fit its type.
fn is_malformed(trap: Trap) -> bool {
    matches!(
        trap,
        Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidDiscriminant
            | Trap::InvalidChar
            | Trap::UnalignedPointer
    )
}

/// Returns whether too many bytes crossed the boundary at once. wasmtime does not export the type of this error, but
/// the type is a unit struct, so its `Debug` form is the exact name of the type.
fn is_exhausted(error: &wasmtime::Error) -> bool {
    format!("{:?}", error.root_cause()) == "HostcallFuelExhausted"
}

/// Describes a trap with the last error that the guest logged: a panic logs its message and then executes
/// `unreachable`.
fn trapped(trap: Trap, sandbox: &Sandbox) -> String {
    let last_error = sandbox.logs.last().filter(|line| line.level == Level::Error);
    match last_error {
        Some(line) => {
            sanitize::clean(format!("{trap}: {}", line.message), hotshoe_core::model::limits::FAILURE_MESSAGE)
        }
        None => trap.to_string(),
    }
}
