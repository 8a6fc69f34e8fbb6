//! Many plugins in one host: many copies of the Memcached plugin, each with its own component, finalizer and parents.
//! They take as much memory as different plugins would, and share their watches as far as those would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hotshoe_tests::guests::reworded;
use tempfile::TempDir;

use crate::figure::Figure;
use crate::figure::Target::AtMost;
use crate::plane::{Manifests, Plane};
use crate::process::Process;
use crate::{report, repository};

/// The numbers of plugins, each with the target for the idle host's memory, in megabytes.
const FLEETS: [(usize, f64); 2] = [(20, 25.0), (100, 60.0)];
/// The time after which an idle host has released what only calls need: its threads end after ten seconds.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// The timeout for all plugins to become active: each is compiled the first time.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Measure the memory of a host at rest with 20 plugins and with 100
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench fleet --runs 3")]
pub struct Args {
    /// How many times each is measured, interleaved
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// The host
    #[arg(long, env = "HOTSHOE", value_name = "FILE", default_value_os_t = repository("target/release/hotshoe"))]
    hotshoe: PathBuf,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a host does not start, or not all of its plugins do.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0, "nothing is measured with 0 runs");
        println!("{}", report::on(FLEETS.len(), self.runs));
        let plane = Plane::up(&Manifests { host: repository("deploy/rbac.yaml") }).await?;
        let largest = FLEETS.iter().map(|(count, _)| *count).max().unwrap_or_default();
        let plugins = plugins(largest)?;
        let cache = TempDir::new()?;
        // Compiles all components first, so that no measured host has to.
        self.measure(&plane, &plugins, largest, cache.path()).await?;
        let mut found = [const { Vec::new() }; FLEETS.len()];
        for _ in 0..self.runs {
            for ((count, _), found) in FLEETS.iter().zip(&mut found) {
                found.push(self.measure(&plane, &plugins, *count, cache.path()).await?);
            }
        }
        for ((count, most), found) in FLEETS.iter().zip(&found) {
            let figure = Figure::of(&format!("memory-of-{count}-plugins"), "MB", found).context("no run")?;
            let figure = figure.target(AtMost(*most));
            println!("{figure} ({})", figure.range());
        }
        plane.down().await
    }

    /// Starts a host with so many of the plugins, and returns its memory when it is idle, in megabytes.
    async fn measure(&self, plane: &Plane, plugins: &TempDir, count: usize, cache: &Path) -> Result<f64> {
        let mut command = Command::new(&self.hotshoe);
        command.arg("run").args((0..count).map(|number| plugins.path().join(name(number))));
        // Under the administrator's account: the plugins have no accounts, and nothing is written.
        command.args(["--no-lease", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(plane.kubeconfig());
        command.arg("--cache").arg(cache).arg("--socket").arg(plane.file("socket/host"));
        let host = Process::start(command, plane.file("host.log"))?;
        let is_active = || host.output().matches("the component is active").count() == count;
        while !is_active() {
            ensure!(
                host.began().elapsed() < TIMEOUT,
                "not all of {count} plugins are active; see {}",
                host.log().display()
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        host.until_idle().await?;
        tokio::time::sleep(IDLE_TIME).await;
        let memory = host.memory()?.rss;
        host.stop()?;
        Ok(memory)
    }
}

fn name(number: usize) -> String {
    format!("memcached-{number:02}")
}

/// Creates the folders of so many plugins.
fn plugins(count: usize) -> Result<TempDir> {
    let folder = TempDir::new()?;
    let text = fs::read_to_string(repository("plugins/memcached/plugin.yaml"))?;
    let component = fs::read(repository("target/plugins/memcached.wasm"))?;
    for number in 0..count {
        let plugin = folder.path().join(name(number));
        fs::create_dir(&plugin)?;
        // It has the length of the finalizer in the component, which it replaces.
        let own = format!("cache.example.com/final-{number:03}");
        let parents = format!("    kind: Memcached\n    selector:\n      matchLabels:\n        of: {}\n", name(number));
        let text = text.replace("name: memcached\n", &format!("name: {}\n", name(number)));
        let text = text.replace("cache.example.com/finalizer", &own).replace("    kind: Memcached\n", &parents);
        fs::write(plugin.join("plugin.yaml"), text)?;
        fs::write(plugin.join("memcached.wasm"), reworded(&component, "cache.example.com/finalizer", &own))?;
    }
    Ok(folder)
}
