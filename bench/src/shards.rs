//! Two hosts with one shard of the parents each, beside one host that has them all: how long until all parents are
//! served.
//!
//! Each host gets a small part of a processor, like a Pod with a limit. The API server runs on the same machine, and
//! would otherwise limit both: it can use the rest of the machine, and its load is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::figure::Figure;
use crate::figure::Target::AtLeast;
use crate::load::{create, list_path};
use crate::plane::{Manifests, Plane};
use crate::quota::Quota;
use crate::replica::{Deployment, Replica};
use crate::{NAMESPACE, report, repository};

/// The target for the speed of two hosts, as a multiple of one host's.
const MIN_SPEEDUP: f64 = 1.6;
/// The timeout of a run, for each parent.
const TIMEOUT_PER_PARENT: Duration = Duration::from_millis(300);
/// The timeout for compiling the component.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Measure how much faster two hosts with a shard each serve many objects than one host
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example: just bench shards -n 3000 --runs 2\n\nIt limits the hosts by control groups, as root."
)]
pub struct Args {
    /// How many objects there are
    #[arg(short = 'n', long, default_value_t = 10_000)]
    parents: usize,
    /// How many times each is measured, interleaved
    #[arg(long, default_value_t = 2)]
    runs: usize,
    /// How many processors each host may use
    #[arg(long, default_value_t = 0.03, value_name = "SHARE")]
    processors: f64,
    /// The host
    #[arg(long, env = "HOTSHOE", value_name = "FILE", default_value_os_t = repository("target/release/hotshoe"))]
    hotshoe: PathBuf,
}

/// The result of one measurement.
struct Served {
    seconds: f64,
    /// The share of the machine that the control plane used.
    busy: f64,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a host does not start, or an object is not served at all.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.parents > 0, "nothing is measured with 0 runs or objects");
        ensure!(self.processors >= 0.01, "a host needs a hundredth of a processor at least");
        println!("{}, each host on {} of a processor", report::on(self.parents, self.runs), self.processors);
        let (plugin, cache) = (plugin()?, TempDir::new()?);
        let (mut one, mut two, mut busy) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..self.runs {
            for (hosts, found) in [(1, &mut one), (2, &mut two)] {
                let served = self.measure(hosts, plugin.path(), cache.path()).await?;
                println!(
                    "run {} of {}: {hosts} of {hosts} shards served after {:.1} s, the control plane took {:.0} % of the machine",
                    run + 1,
                    self.runs,
                    served.seconds,
                    served.busy * 100.0
                );
                found.push(served.seconds);
                busy.push(served.busy);
            }
        }
        let ratios: Vec<f64> = one.iter().zip(&two).map(|(one, two)| one / two).collect();
        for (name, unit, found) in
            [("one-host", "s", &one), ("two-hosts", "s", &two), ("control-plane-share", "ratio", &busy)]
        {
            let figure = Figure::of(name, unit, found).context("no run")?;
            println!("{figure} ({})", figure.range());
        }
        let figure =
            Figure::of("two-hosts-beside-one", "ratio", &ratios).context("no run")?.target(AtLeast(MIN_SPEEDUP));
        println!("{figure} ({})", figure.range());
        Ok(())
    }

    /// Starts so many hosts, with a shard each, on a control plane with all objects, and waits until all are served.
    async fn measure(&self, hosts: usize, plugin: &Path, cache: &Path) -> Result<Served> {
        let plane = Plane::up(&Manifests { host: repository("deploy/rbac.yaml") }).await?;
        let deployment = Deployment { hotshoe: &self.hotshoe, plugin, cache, shards: hosts };
        compiled(&plane, deployment).await?;
        create(&plane.user, 0..self.parents, |_, _| ()).await?;
        let (began, before) = (Instant::now(), plane.cpu()?);
        let mut running = Vec::new();
        for number in 0..hosts {
            let quota = Quota::new(&number.to_string(), self.processors)?;
            let host = Replica::start(&plane, deployment, number).await?;
            quota.limit(host.process()?.id())?;
            // The host is dropped before its control group.
            running.push((host, quota));
        }
        let timeout = TIMEOUT_PER_PARENT * u32::try_from(self.parents)?;
        while !self.is_served(&plane).await? {
            ensure!(began.elapsed() < timeout, "not all of {} objects are served within {timeout:?}", self.parents);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let machine = seconds * available_parallelism()?.get() as f64;
        let busy = (plane.cpu()? - before) / machine;
        drop(running);
        plane.down().await?;
        Ok(Served { seconds, busy })
    }

    /// Whether each object has its child and its status. The long list of parents is read only when the number of
    /// children is right.
    async fn is_served(&self, plane: &Plane) -> Result<bool> {
        let children = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments?limit=1");
        let first = plane.admin.get(&children).await?;
        let left = first.pointer("/metadata/remainingItemCount").and_then(Value::as_u64).unwrap_or_default();
        if usize::try_from(left)? + 1 < self.parents {
            return Ok(false);
        }
        let parents = plane.admin.get(&list_path()).await?;
        let parents = parents.get("items").and_then(Value::as_array).context("a list")?;
        Ok(parents.iter().all(|parent| parent.pointer("/status/conditions").is_some()))
    }
}

/// Lets a host without a limit compile the component for all later hosts.
async fn compiled(plane: &Plane, deployment: Deployment<'_>) -> Result<()> {
    let host = Replica::start(plane, Deployment { shards: 1, ..deployment }, 0).await?;
    let host = host.process()?;
    while !host.output().contains("the component is active") {
        ensure!(host.began().elapsed() < COMPILE_TIMEOUT, "the plugin is not active; see {}", host.log().display());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Copies the Memcached plugin, with its parents sharded one by one.
fn plugin() -> Result<TempDir> {
    let folder = TempDir::new()?;
    let text = fs::read_to_string(repository("plugins/memcached/plugin.yaml"))?;
    let spread = text.replacen("\nspec:\n", "\nspec:\n  shardBy: Parent\n", 1);
    ensure!(spread != text, "plugins/memcached/plugin.yaml has no spec");
    fs::write(folder.path().join("plugin.yaml"), spread)?;
    fs::copy(repository("target/plugins/memcached.wasm"), folder.path().join("memcached.wasm"))?;
    Ok(folder)
}
