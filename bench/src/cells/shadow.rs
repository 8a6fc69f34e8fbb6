//! A shadow run of a component with converged CRs: how long it takes, and how much the host grows
//! meanwhile. The component differs in a word in every CR's status, so that every CR is a line of the
//! output.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hotshoe_tests::guests::reworded;
use serde_json::Value;
use tokio::process::Command;

use super::{Setup, audit, verify};
use crate::figure::Figure;
use crate::figure::Target::AtMost;
use crate::plane::Plane;
use crate::process::Process;
use crate::subject::{Subject, socket};
use crate::watcher::Watcher;
use crate::{load, repository};

/// The timeout for the host to reconcile all CRs first, with some hundred writes a second.
const TIMEOUT: Duration = Duration::from_secs(1200);
/// How often the host's memory is read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The plugin's message when all is well, and another wording of the same length.
const WORDS: [&str; 2] = ["Nothing stands in", "Nowhere stands in"];

/// The measurements of one run.
#[derive(Clone, Copy, Debug)]
struct Took {
    /// From the start of the command line until its end.
    wall: f64,
    /// Processor time of the host, and of the compiler where it ran.
    cpu: f64,
    /// The maximum of the host's memory, in megabytes.
    rss: f64,
}

/// Measures.
///
/// # Errors
/// When a run is void: the CRs do not converge, the output is not the expected one, or something is
/// written.
pub async fn run(setup: &Setup, runs: usize) -> Result<Vec<Figure>> {
    let plane = Plane::up(&setup.manifests).await?;
    let mut audit = audit(&plane, Subject::Host)?;
    eprintln!("shadow: {} CRs are created", setup.count);
    let watcher = Watcher::start(&plane.admin);
    load::create(&plane.user, 0..setup.count, |_, _| ()).await?;
    eprintln!("shadow: the host creates their children");
    let process = Subject::Host.start(&plane, &setup.programs).await?;
    watcher.converged(setup.count, TIMEOUT).await?;
    drop(watcher);
    audit.settled().await?;
    verify(&plane, setup.count).await?;
    process.until_idle().await?;
    let (same, other) = components(&plane)?;
    let before = (audit.total()?, process.rss()?);
    // The first run of each component may have to compile it; the later ones use the cache.
    let first = shadow(setup, &process, &other, setup.count).await?;
    let unchanged = shadow(setup, &process, &same, 0).await?;
    let mut took = Vec::new();
    for number in 0..runs {
        eprintln!("shadow: run {}", number + 1);
        process.until_idle().await?;
        took.push(shadow(setup, &process, &other, setup.count).await?);
    }
    process.until_idle().await?;
    let after = process.rss()?;
    audit.settled().await?;
    ensure!(audit.total()? == before.0, "void: something was written");
    plane.down().await?;
    Ok(figures(setup.count, before.1, after, first, unchanged, &took))
}

/// The active component, and one with another word in its status.
fn components(plane: &Plane) -> Result<(std::path::PathBuf, std::path::PathBuf)> {
    let same = repository("target/plugins/memcached.wasm");
    let component = fs::read(&same).with_context(|| format!("{}", same.display()))?;
    let component = reworded(&component, WORDS[0], WORDS[1]);
    let path = plane.file("other.wasm");
    fs::write(&path, component)?;
    Ok((same, path))
}

async fn shadow(setup: &Setup, host: &Process, component: &Path, changes: usize) -> Result<Took> {
    let (cpu, began) = (host.cpu()?, Instant::now());
    let mut command = Command::new(&setup.programs.host);
    command.args(["shadow", "memcached"]).arg(component).args(["-o", "json", "--socket", &socket(host)?]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    tokio::pin!(output);
    let mut rss: f64 = 0.0;
    let output = loop {
        tokio::select! {
            output = &mut output => break output?,
            () = tokio::time::sleep(POLL_INTERVAL) => rss = rss.max(host.rss()?),
        }
    };
    let wall = began.elapsed().as_secs_f64();
    let took = Took { wall, cpu: host.cpu()? - cpu, rss };
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("void: {}", String::from_utf8_lossy(&output.stderr)))?;
    let number = |pointer: &str| answer.pointer(pointer).and_then(Value::as_u64).unwrap_or_default() as usize;
    let found = (number("/summary/parents"), number("/summary/changed"));
    ensure!(found == (setup.count, changes), "void: {found:?} looked at and changed of {}", setup.count);
    Ok(took)
}

fn figures(count: usize, before: f64, after: f64, first: Took, unchanged: Took, took: &[Took]) -> Vec<Figure> {
    let name = |what: &str| format!("shadow-{count}{what}");
    let of = |value: fn(&Took) -> f64| took.iter().map(value).collect::<Vec<_>>();
    let grown: Vec<f64> = [&first, &unchanged].into_iter().chain(took).map(|took| took.rss - before).collect();
    let most = grown.iter().copied().fold(f64::MIN, f64::max);
    let figures = [
        Figure::of(&name(""), "s", &of(|took| took.wall)).map(|figure| figure.target(AtMost(5.0))),
        Figure::of(&name("-cpu"), "s", &of(|took| took.cpu)).map(|figure| figure.target(AtMost(5.0))),
        // The maximum and not the median: the largest run is the one that would exceed a memory limit.
        Figure::of("shadow-memory", "MB", &[most]).map(|figure| figure.target(AtMost(10.0))),
        Figure::of("shadow-memory-kept", "MB", &[after - before]),
        Figure::of(&name("-first"), "s", &[first.wall]),
        Figure::of(&name("-unchanged"), "s", &[unchanged.wall]),
        Figure::of("rss-before-shadow", "MB", &[before]),
    ];
    figures.into_iter().flatten().collect()
}
