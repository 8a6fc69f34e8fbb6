//! Compiles components to native code, in a process of its own.
//!
//! Hostile bytes may make a compiler use all memory, run for ever or be exploited, and even an ordinary compilation
//! leaves tens of megabytes behind. So each compilation runs in a [child] that is
//! [confined](hotshoe_platform::confinement) to its three streams. Its output is cached.
//!
//! While plugins are called, the child is stopped for most of the time, and otherwise runs at the lowest priority. The
//! priority alone still slowed the plugins down, and so did longer turns: with turns of 5 ms instead of 2, the p99 of
//! the plugins' decisions was 1.21 to 1.37 times what it is alone, where 1.2 is the target.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::code_cache::CodeCache;
use crate::engine;
use crate::error::LoadError;
use crate::executor::OtherCalls;
use hotshoe_core::model::limits::{Limits, NICENESS, PAUSE_FACTOR, Size, Span, WALL_TIME};
use hotshoe_platform::child::{self, Children, THIS_PROGRAM};
use hotshoe_platform::confinement::confine;

/// The hidden command of the child.
pub const VERB: &str = "compile-component";
/// The maximum number of children: two, so that a component that takes all its time to compile does not block the
/// others.
const MAX_CHILDREN: usize = 2;
/// How long the child runs before it may be stopped, while plugins are called. Short turns delay many calls a little,
/// long ones a few calls much.
const TURN: Duration = Duration::from_millis(2);

/// Compiles components, a few at a time.
#[derive(Debug)]
pub struct Compiler {
    children: Children,
    cache: Option<Arc<CodeCache>>,
    turn: Semaphore,
}

impl Compiler {
    /// Creates a compiler that runs `program` (a `hotshoe` binary) and caches below `base`, a cache directory with a
    /// total maximum of `cache_bytes`. If nothing can be cached, that is logged, and each load compiles.
    pub fn new(program: PathBuf, base: Option<&Path>, cache_bytes: Size) -> Self {
        let cache = base.and_then(|base| match CodeCache::open(base, cache_bytes) {
            Ok(cache) => Some(Arc::new(cache)),
            Err(error) => {
                tracing::warn!(
                    directory = %base.display(), %error,
                    "compiled components are not cached: give a directory that the host can write"
                );
                None
            }
        });
        Self { children: Children::of(program), cache, turn: Semaphore::new(MAX_CHILDREN) }
    }

    /// Creates a compiler that runs this very binary, and caches below `base` or else in the user's cache directory.
    pub fn of_this_binary(base: Option<&Path>, cache_bytes: Size) -> Self {
        let base = base.map(Path::to_owned).or_else(cache_dir);
        Self::new(THIS_PROGRAM.into(), base.as_deref(), cache_bytes)
    }

    /// Returns the cache, if there is one.
    pub fn cache(&self) -> Option<Arc<CodeCache>> {
        self.cache.clone()
    }

    /// Returns what starts its children, and others of the same program.
    pub fn children(&self) -> Children {
        self.children.clone()
    }

    /// Compiles in a child process, which is killed if the future is dropped, and which yields to plugins that are
    /// called.
    ///
    /// # Errors
    /// If the component is invalid or exceeds a limit.
    pub(super) async fn compile(
        &self,
        component: &[u8],
        limits: &Limits,
        others: OtherCalls,
    ) -> Result<Vec<u8>, LoadError> {
        let _turn = self.turn.acquire().await.map_err(|_| failed("the host is shutting down"))?;
        let child = self.run(component, limits, others);
        match tokio::time::timeout(limits.compile_time.0 * WALL_TIME, child).await {
            Ok(result) => result,
            Err(_) => Err(late(limits.compile_time)),
        }
    }

    async fn run(&self, component: &[u8], limits: &Limits, others: OtherCalls) -> Result<Vec<u8>, LoadError> {
        let broken = |error: io::Error| failed(&format!("{}: {error}", self.children.program().display()));
        let child = self.children.start(self.command(limits)).map_err(broken)?;
        let paused = Paused(child.pid());
        let done = child.answer(component, limits.native_bytes.0 + 1);
        let ended = tokio::select! {
            ended = done => ended.map_err(broken)?,
            never = take_turns(paused, others) => match never {},
        };
        if ended.said.as_ref().is_ok_and(|code| code.len() as u64 > limits.native_bytes.0) {
            let most = limits.native_bytes;
            return Err(failed(&format!(
                "it becomes more than {most} of native code, which grows with limits.componentBytes"
            )));
        }
        match ended.status.code() {
            Some(0) => ended.said.map_err(broken),
            Some(_) => Err(failed(&ended.errors)),
            None => Err(failed(&format!(
                "the compiler was stopped ({}): it reached its {} of processor time or {} of memory, or crashed",
                ended.status, limits.compile_time, limits.compile_memory
            ))),
        }
    }

    fn command(&self, limits: &Limits) -> Command {
        let mut command = self.children.command(VERB);
        command
            .args(["--seconds", &limits.compile_time.0.as_secs().max(1).to_string()])
            .args(["--bytes", &limits.compile_memory.0.to_string()]);
        command
    }
}

/// A child that is stopped at times. When this is dropped, the child continues, so that waiting for its end does not
/// take for ever.
struct Paused(Option<Pid>);

impl Paused {
    fn signal(&self, signal: Signal) {
        // The child may have ended.
        let _ = self.0.map(|pid| kill_process(pid, signal));
    }

    /// Returns the processor time that the child has used; none if the system does not count that.
    fn ran(&self) -> Option<Duration> {
        let statistics = std::fs::read_to_string(format!("/proc/{}/schedstat", self.0?.as_raw_nonzero())).ok()?;
        let nanoseconds = statistics.split(' ').next()?.parse().ok().filter(|ran| *ran > 0)?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

/// Stops the child while plugins are called, [`PAUSE_FACTOR`] times as long as it ran. That is the time that it had a
/// processor: on a machine that is busy otherwise it would hardly ever be done.
async fn take_turns(child: Paused, mut others: OtherCalls) -> Infallible {
    let mut known = Duration::ZERO;
    loop {
        tokio::time::sleep(TURN).await;
        let ran = child.ran().unwrap_or(known + TURN);
        let turn = ran.saturating_sub(known);
        known = ran;
        if others.are_called() && !turn.is_zero() {
            child.signal(Signal::STOP);
            tokio::time::sleep(turn * PAUSE_FACTOR).await;
            child.signal(Signal::CONT);
        }
    }
}

/// Runs in the child: sets limits for its process, confines it, and only then reads and compiles `input` to `output`.
/// Where the process cannot be fully confined, it compiles all the same, and reports to the host what is missing before it
/// reads the component.
///
/// # Errors
/// If the component cannot be compiled.
pub fn compile_stream(mut input: impl Read, mut output: impl Write, seconds: u64, bytes: u64) -> anyhow::Result<()> {
    lower_priority();
    child::limit(bytes, Some(seconds))?;
    // Before the confinement, because it detects the features of the processor, on some of them by reading a file.
    let engine = wasmtime::Engine::new(&engine::config()).map_err(anyhow::Error::msg)?;
    child::report(&confine());
    let mut component = Vec::new();
    input.read_to_end(&mut component)?;
    let code = engine.precompile_component(&component).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    output.write_all(&code)?;
    output.flush()?;
    Ok(())
}

/// Gives this process the lowest priority: a component that is hard to compile must not slow down other processes. If
/// that fails, the process compiles all the same: the host may already have a lower priority, which cannot be raised.
fn lower_priority() {
    // A thread that wakes preempts this scheduling class at once, but a nice value only after some milliseconds. Later
    // threads of this process inherit it. The nice value is for systems that refuse the class.
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    let _ = setpriority_process(None, NICENESS);
}

/// Returns `$XDG_CACHE_HOME/hotshoe` or `~/.cache/hotshoe`.
pub fn cache_dir() -> Option<PathBuf> {
    let directory = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?;
    Some(caches.join("hotshoe"))
}

fn late(limit: Span) -> LoadError {
    failed(&format!(
        "the compiler was not done after {WALL_TIME} times the {limit} of a processor that it may use; raise \
         limits.compileTime if the component is only large, or give the host more of a processor"
    ))
}

fn failed(message: &str) -> LoadError {
    LoadError::CompileFailed(message.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::process::Child;

    use super::*;
    use crate::executor::Executor;
    use hotshoe_core::flow::lanes::Lane;

    fn pid_of(child: &Child) -> Pid {
        child.id().and_then(|id| Pid::from_raw(id as i32)).unwrap()
    }

    fn is_stopped(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }

    async fn until(holds: impl Fn() -> bool) {
        let wait = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap();
    }

    /// Lets `child` take turns with calls of plugins, until `holds` returns true or so many calls were made.
    async fn run_beside_calls(child: &Child, calls: usize, holds: impl Fn(Pid) -> bool) {
        let pid = pid_of(child);
        let threads = Executor::start(|| ()).unwrap();
        let called = async {
            for _ in 0..calls {
                threads.run(&Lane::default(), || ()).await.unwrap();
                tokio::time::sleep(TURN / 5).await;
            }
        };
        tokio::select! {
            never = take_turns(Paused(Some(pid)), threads.others()) => match never {},
            () = called => {}
            () = until(|| holds(pid)) => {}
        }
    }

    #[tokio::test]
    async fn a_child_is_stopped_while_plugins_are_called_and_never_left_stopped() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).kill_on_drop(true).spawn().unwrap();
        run_beside_calls(&child, usize::MAX, is_stopped).await;
        until(|| !is_stopped(pid_of(&child))).await;
        child.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_child_that_used_no_processor_time_is_not_stopped() {
        let mut child = Command::new("sleep").arg("60").kill_on_drop(true).spawn().unwrap();
        let paused = Paused(Some(pid_of(&child)));
        until(|| paused.ran().is_some()).await;
        drop(paused);
        let stopped = std::cell::Cell::new(0);
        run_beside_calls(&child, 200, |pid| {
            stopped.set(stopped.get() + usize::from(is_stopped(pid)));
            false
        })
        .await;
        // The child is stopped once, for the time that it ran until it slept.
        assert!(stopped.get() < 100, "stopped at {} of some 200 checks", stopped.get());
        child.kill().await.unwrap();
    }
}
