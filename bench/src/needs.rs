//! What it costs a host to watch one object by name for each of its parents, beside the same parents without that.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hotshoe_tests::guests::Folder;
use http::Method;
use serde_json::json;

use crate::client::{JSON, MERGE};
use crate::figure::{Figure, Target};
use crate::load;
use crate::plane::Plane;
use crate::process::{Memory, Process};
use crate::subject::{Programs, UnderTest, metrics, start_host};
use crate::{report, repository};

const PARENTS: &str = "/apis/fixtures.example.com/v1/namespaces/bench/attacks";
const NEEDED: &str = "/api/v1/namespaces/bench/configmaps";
/// The size of each object that is needed, in bytes: that of a small configuration.
const BYTES: usize = 200;
/// How many requests of the administrator are under way.
const AT_ONCE: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
const TARGET_MB: f64 = 5.0;

/// Measure the memory of watching an object for each parent
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench needs -n 1000 --runs 3")]
pub struct Args {
    /// How many parents, each of which needs an object of its own; of more than 1,000 the others are not watched
    #[arg(short = 'n', long, default_value_t = 1_000)]
    count: usize,
    /// How many rounds: in each, a host whose parents need nothing, and one whose parents do
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    under_test: UnderTest,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a run is void: a parent does not have what it needs.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.count > 0, "nothing is measured with 0 runs or 0 parents");
        println!("{}", report::on(self.count, self.runs));
        let setup = self.under_test.setup(self.count, "bench needs")?;
        let plane = Plane::up(&setup.manifests).await?;
        plane.apply(&repository("tests/fixtures/hostile/crd.yaml")).await?;
        plane.apply(&repository("bench/hostile.yaml")).await?;
        self.create(&plane).await?;
        let (mut resident, mut private) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            let [without, with] = [false, true].map(|needs| self.memory(&plane, &setup.programs, needs));
            let (without, with) = (without.await?, with.await?);
            resident.push(with.rss - without.rss);
            private.push(with.private - without.private);
        }
        plane.down().await?;
        let resident = Figure::of("needs-rss", "MB", &resident).map(|figure| figure.target(Target::AtMost(TARGET_MB)));
        let private = Figure::of("needs-private", "MB", &private);
        resident.iter().chain(&private).for_each(|figure| println!("{figure} ({})", figure.range()));
        Ok(())
    }

    async fn create(&self, plane: &Plane) -> Result<()> {
        load::each(0..self.count, AT_ONCE, |number| async move {
            let name = name(number);
            let data = json!({ "text": "x".repeat(BYTES) });
            let needed = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
            plane.admin.send(Method::POST, NEEDED, JSON, needed.to_string().into_bytes()).await?;
            let parent = json!({
                "apiVersion": "fixtures.example.com/v1", "kind": "Attack", "metadata": { "name": name }, "spec": {},
            });
            plane.admin.send(Method::POST, PARENTS, JSON, parent.to_string().into_bytes()).await
        })
        .await
    }

    /// Returns the memory of a host that has served all parents, and rests.
    async fn memory(&self, plane: &Plane, programs: &Programs, needs: bool) -> Result<Memory> {
        load::each(0..self.count, AT_ONCE, |number| async move {
            let need = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": name(number) });
            // The parents are equally large in both: one attack needs what the list names, and the other ignores it.
            let attack = if needs { "needs" } else { "silence" };
            let spec = json!({ "spec": { "attack": attack, "needs": [need] } }).to_string().into_bytes();
            plane.admin.send(Method::PATCH, &format!("{PARENTS}/{}", name(number)), MERGE, spec).await
        })
        .await?;
        let folder = Folder::of_hostile();
        let host = start_host(plane, programs, &[folder.path()], "needs").await?;
        host.until_idle().await?;
        self.served(&host, needs).await?;
        let memory = host.at_rest().await?;
        host.stop()?;
        Ok(memory)
    }

    /// Waits until the plugin has decided about all parents: with what it needs in the second call of each.
    async fn served(&self, host: &Process, needs: bool) -> Result<()> {
        let (began, calls) = (Instant::now(), self.count * if needs { 2 } else { 1 });
        while metrics(host).await?.of("hotshoe_plugin_call_seconds_count") < calls as f64 {
            ensure!(began.elapsed() < TIMEOUT, "void: not all parents are served; see {}", host.log().display());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("needed-{number}")
}
