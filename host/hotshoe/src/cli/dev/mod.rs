//! `hotshoe dev`: at each save, builds a plugin, runs its cases, shows what would change on the cluster, and has a host on
//! this machine activate it.

mod builder;
mod history;
mod host;
mod round;
mod screen;
mod watched;

use std::cell::Cell;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::OnceCell;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::build::rust;
use crate::cli::host_client::HostOptions;
use crate::cli::project::{Folder, shown};
use crate::cli::terminal;
use history::named;
use hotshoe_cluster::client::ConnectOptions;
use round::{Found, Setting, Step};
use screen::Screen;
use watched::{Files, POLL_INTERVAL, Saves};

/// At each save, build a plugin, run its cases, and have the running host activate it
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe dev plugins/memcached\n  \
    hotshoe dev plugins/memcached -v   # with all output of the build\n\n\
    It watches the sources, the cases and the plugin.yaml of a plugin, the crates of this machine that it is built with, \
    and the project's crds/. After a save it builds the \
    component quickly (`hotshoe build --quick`), runs the cases, and shows what would change for the first 10 objects on the \
    cluster, read with your own rights. Where all cases pass, a host on this machine that serves the plugin from this folder \
    activates the component. Otherwise the active one stays. A save during a build stops it, and the build begins again.\n\n\
    Each save becomes one line. An error is shown once, until it changes. Ctrl-C ends it. Before you ship the component, \
    build it with `hotshoe build`.\n\n\
    Exit code: 0 when it is ended by a signal, 1 if it cannot begin.")]
pub struct Args {
    /// The plugin's folder, or its plugin.yaml [default: this folder, or the only one in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    /// Print all output of the build
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// A round that goes on, and when it began.
struct Running<'a> {
    began: Instant,
    saved: String,
    round: Pin<Box<dyn Future<Output = Found> + 'a>>,
}

impl Args {
    /// Tries the plugin now and after each save, until a signal.
    ///
    /// # Errors
    /// When the plugin cannot be read, or has too many files.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = Folder::named(self.plugin.as_deref())?;
        let setting =
            Setting { connect: self.connect, host: self.host, verbose: self.verbose, cluster: OnceCell::new() };
        let screen = Screen::new();
        terminal::line(format_args!("{} in {}", folder.name, shown(&folder.dir).display()))?;
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            ended = follow(&folder, &setting, screen) => ended?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        terminal::set_bottom("")?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Begins a round at once and after each save. A save ends the round before it, whose result would be about files that
/// have changed: waiting for that would delay the answer about the present ones.
async fn follow(folder: &Folder, setting: &Setting, mut screen: Screen) -> anyhow::Result<()> {
    let step = Cell::new(Step::default());
    let begin = |saved: String| {
        step.set(Step::default());
        Running { began: Instant::now(), saved, round: Box::pin(round::run(folder.manifest(), setting, &step)) }
    };
    let mut crates = rust::local_crates(folder).await;
    let mut saves = Saves::new(Files::of(folder, &crates)?);
    let mut running = Some(begin("begin".to_owned()));
    let mut polls = interval(POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            found = finished(&mut running) => {
                let ended = running.take();
                saves.tried();
                show(&mut screen, &ended.map(|ended| ended.saved).unwrap_or_default(), found)?;
            }
            _ = polls.tick() => {
                if let Some(saved) = saves.next(Files::of(folder, &crates)?) {
                    // The processes of the round before end first.
                    drop(running.take());
                    running = Some(begin(named(saved, &folder.dir, folder.root())));
                    if saved.iter().any(|file| file.ends_with("Cargo.toml")) {
                        crates = rust::local_crates(folder).await;
                    }
                }
            }
        }
        match &running {
            Some(running) => screen.working(step.get().text(), running.began.elapsed())?,
            None => screen.waiting(&folder.name, saves.watched())?,
        }
    }
}

/// Waits until the round ends, if there is one; otherwise for ever.
async fn finished(running: &mut Option<Running<'_>>) -> Found {
    match running {
        Some(running) => running.round.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Prints what a round has found.
fn show(screen: &mut Screen, saved: &str, found: Found) -> anyhow::Result<()> {
    let Found { outcome, no_cluster, no_host, took } = found;
    let problem = outcome.problem.as_deref().map(str::trim).filter(|problem| !problem.is_empty());
    let is_known = screen.is_known(problem);
    screen.line(&outcome.line(SystemTime::now(), saved, took, is_known))?;
    if let Some(problem) = problem.filter(|_| !is_known) {
        screen.problem(problem)?;
    }
    screen.notes([no_cluster, no_host])
}
