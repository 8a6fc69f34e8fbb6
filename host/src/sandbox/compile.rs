//! From component to native code, in a process of its own.
//!
//! A compiler fed with hostile bytes may use all memory, run for ever or be exploited, and even a
//! friendly compilation leaves tens of megabytes behind. So each runs in a short-lived child of
//! the same binary that has limits, no environment and nothing open but its three streams; what it
//! makes is cached.
//!
//! While plugins are called, the child has a part of the time only, and of that only what nobody
//! else wants: with a low priority alone it still slowed them down.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, kill_process, set_parent_process_death_signal, setpriority_process, setrlimit,
};
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::sandbox::code_cache::Cache;
use crate::sandbox::engine;
use crate::sandbox::error::LoadError;
use crate::sandbox::executor::Others;
use hotshoe_core::model::limits::{Limits, NICENESS, REST, Span, WALL_TIME};

/// The hidden verb that the child is called with.
pub const VERB: &str = "compile-component";
/// The child's words are cut off here, bytes.
const WORDS: u64 = 4 * 1024;
/// Two, so that a component that takes all its time to compile holds up no other.
const AT_ONCE: usize = 2;
/// How often the child's processor time is read while plugins are called. Short turns hinder many calls a
/// little: with five milliseconds those that met one took a fifth longer and more.
const TURN: Duration = Duration::from_millis(2);

/// Compiles components, a few at a time.
#[derive(Debug)]
pub struct Compiler {
    program: PathBuf,
    cache: Option<Arc<Cache>>,
    turn: Semaphore,
}

impl Compiler {
    /// A compiler that calls `program` (a `hotshoe` binary) and caches below `base`. Where nothing
    /// can be cached, that is logged, and each load compiles.
    pub fn new(program: PathBuf, base: Option<&Path>) -> Self {
        let cache = base.and_then(|base| match Cache::open(base) {
            Ok(cache) => Some(Arc::new(cache)),
            Err(error) => {
                tracing::warn!(
                    directory = %base.display(), %error,
                    "compiled components are not cached: give a directory that the host can write"
                );
                None
            }
        });
        Self { program, cache, turn: Semaphore::new(AT_ONCE) }
    }

    /// A compiler that calls this very binary, and caches below `base` or else in the user's cache
    /// directory.
    pub fn of_this_binary(base: Option<&Path>) -> Self {
        let base = base.map(Path::to_owned).or_else(cache_dir);
        // Not by its path: there may be another version by now, or none.
        Self::new("/proc/self/exe".into(), base.as_deref())
    }

    pub(super) fn cache(&self) -> Option<Arc<Cache>> {
        self.cache.clone()
    }

    /// Compiles in a child process, which dies with the future, and which rests while others are
    /// called.
    ///
    /// # Errors
    /// Where the component is invalid, or too much for the limits.
    pub(super) async fn compile(
        &self,
        component: &[u8],
        limits: &Limits,
        others: Others,
    ) -> Result<Vec<u8>, LoadError> {
        let _turn = self.turn.acquire().await.map_err(|_| failed("the host is shutting down"))?;
        let child = self.run(component, limits, others);
        match tokio::time::timeout(limits.compile_time.0 * WALL_TIME, child).await {
            Ok(result) => result,
            Err(_) => Err(late(limits.compile_time)),
        }
    }

    async fn run(&self, component: &[u8], limits: &Limits, others: Others) -> Result<Vec<u8>, LoadError> {
        let broken = |error: io::Error| failed(&format!("{}: {error}", self.program.display()));
        let mut child = self.command(limits).spawn().map_err(broken)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A child that ends early says why by other means.
                let _ = stdin.write_all(component).await;
            }
        };
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let done = async { tokio::join!(feed, read(stdout, limits.native_bytes.0 + 1), read(stderr, WORDS)) };
        let ((), code, words) = tokio::select! {
            done = done => done,
            never = take_turns(Paused(pid), others) => match never {},
        };
        if code.as_ref().is_ok_and(|code| code.len() as u64 > limits.native_bytes.0) {
            let most = limits.native_bytes;
            return Err(failed(&format!("it becomes more than {most} of native code (limits.nativeBytes)")));
        }
        let status = child.wait().await.map_err(broken)?;
        match status.code() {
            Some(0) => code.map_err(broken),
            Some(_) => Err(failed(&text(words))),
            None => Err(failed(&format!(
                "the compiler was stopped ({status}): it reached its {} of processor time or {} of memory, or crashed",
                limits.compile_time, limits.compile_memory
            ))),
        }
    }

    fn command(&self, limits: &Limits) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(VERB)
            .args(["--seconds", &limits.compile_time.0.as_secs().max(1).to_string()])
            .args(["--bytes", &limits.compile_memory.0.to_string()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the host alone. Not a session of its own: the scheduler may weigh sessions against
            // each other before it looks at the idle class.
            .process_group(0)
            .kill_on_drop(true);
        command
    }
}

/// A child that is stopped now and then. It goes on when this goes, or its end would be waited for
/// in vain.
struct Paused(Option<Pid>);

impl Paused {
    fn tell(&self, signal: Signal) {
        // A child that has ended hears nothing.
        let _ = self.0.map(|pid| kill_process(pid, signal));
    }

    /// How long a processor was its so far; nothing where the system does not count that.
    fn ran(&self) -> Option<Duration> {
        let told = std::fs::read_to_string(format!("/proc/{}/schedstat", self.0?.as_raw_nonzero())).ok()?;
        let nanoseconds = told.split(' ').next()?.parse().ok().filter(|ran| *ran > 0)?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.tell(Signal::CONT);
    }
}

/// Has the child rest while plugins are called, [`REST`] times as long as it ran: not as it was let run,
/// or on a machine that is busy with other things it would hardly ever be done.
async fn take_turns(child: Paused, mut others: Others) -> Infallible {
    let mut known = Duration::ZERO;
    loop {
        tokio::time::sleep(TURN).await;
        let ran = child.ran().unwrap_or(known + TURN);
        let turn = ran.saturating_sub(known);
        known = ran;
        if others.are_called() && !turn.is_zero() {
            child.tell(Signal::STOP);
            tokio::time::sleep(turn * REST).await;
            child.tell(Signal::CONT);
        }
    }
}

/// What the child does: compiles what it reads and writes the result, under limits that it lays
/// on itself before it reads the first byte.
///
/// # Errors
/// Where the component cannot be compiled.
pub fn compile_stream(mut input: impl Read, mut output: impl Write, seconds: u64, bytes: u64) -> anyhow::Result<()> {
    step_back();
    let at_most = |bound| Rlimit { current: Some(bound), maximum: Some(bound) };
    setrlimit(Resource::As, at_most(bytes))?;
    setrlimit(Resource::Cpu, at_most(seconds))?;
    setrlimit(Resource::Core, at_most(0))?;
    let mut component = Vec::new();
    input.read_to_end(&mut component)?;
    let engine = wasmtime::Engine::new(&engine::config()).map_err(anyhow::Error::msg)?;
    let code = engine.precompile_component(&component).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    output.write_all(&code)?;
    output.flush()?;
    Ok(())
}

/// Gives this process a low priority, and makes it the first to go where memory is short: a component
/// that is hard to compile must not be what makes the others slow, or ends them. It goes with its host,
/// too, which may be killed while it is stopped. Each of these may fail, and then it compiles all the
/// same: the whole host may have a lower priority already, which nobody may raise.
fn step_back() {
    // A nice value is looked at when a turn is over, some milliseconds later. From this class a thread
    // that wakes takes the processor at once. Later threads of this process are of it too. The nice value
    // is for where the class is not to be had.
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
    let _ = setpriority_process(None, NICENESS);
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// `$XDG_CACHE_HOME/hotshoe` or `~/.cache/hotshoe`.
pub fn cache_dir() -> Option<PathBuf> {
    let directory = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = directory("XDG_CACHE_HOME").or_else(|| Some(directory("HOME")?.join(".cache")))?;
    Some(caches.join("hotshoe"))
}

/// Reads to the end or the cap; both are the child's to choose.
async fn read(stream: Option<impl AsyncRead + Unpin>, cap: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(cap).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn text(words: io::Result<Vec<u8>>) -> String {
    let words = words.unwrap_or_default();
    hotshoe_core::model::sanitize::clean(String::from_utf8_lossy(&words).trim().to_owned(), 1_000)
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
    use crate::sandbox::executor::Threads;

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

    /// Has `child` take its turns while others are called, until it holds what is waited for or so many
    /// calls were made.
    async fn take_turns_beside_calls(child: &Child, calls: usize, holds: impl Fn(Pid) -> bool) {
        let pid = pid_of(child);
        let threads = Threads::start().unwrap();
        let called = async {
            for _ in 0..calls {
                threads.run(threads.lane(), || ()).await.unwrap();
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
    async fn a_child_rests_while_others_are_called_and_is_never_left_stopped() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).kill_on_drop(true).spawn().unwrap();
        take_turns_beside_calls(&child, usize::MAX, is_stopped).await;
        until(|| !is_stopped(pid_of(&child))).await;
        child.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_child_that_could_not_run_does_not_rest() {
        let mut child = Command::new("sleep").arg("60").kill_on_drop(true).spawn().unwrap();
        let paused = Paused(Some(pid_of(&child)));
        until(|| paused.ran().is_some()).await;
        drop(paused);
        let stopped = std::cell::Cell::new(0);
        take_turns_beside_calls(&child, 200, |pid| {
            stopped.set(stopped.get() + usize::from(is_stopped(pid)));
            false
        })
        .await;
        // What it ran until it slept it rests for, once.
        assert!(stopped.get() < 100, "stopped at {} of some 200 looks", stopped.get());
        child.kill().await.unwrap();
    }
}
