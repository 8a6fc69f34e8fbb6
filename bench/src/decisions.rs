//! One decision of the plugins in each language: all of their cases, each call in a fresh instance, as in production.
//!
//! The floor of each plugin is `describe` in a fresh instance: the time of a call without input.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::decision::{Call, Observation};
use hotshoe_core::model::limits::{CACHE_BYTES, Limits};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::engine::Engine;
use hotshoe_sandbox::revision::Revision;

use crate::figure::Target::AtMost;
use crate::figure::{Figure, quantile};
use crate::{report, repository};

/// The plugins, each with the target for its median decision, in microseconds.
const PLUGINS: [(&str, f64); 4] =
    [("memcached", 45.0), ("nginx", 40.0), ("nginx-js", 1_000.0), ("nginx-python", 1_500.0)];

/// Measure one decision of Memcached and of nginx in Rust, JavaScript and Python
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench decisions --calls 1000 --runs 5")]
pub struct Args {
    /// How many calls of each plugin in a round
    #[arg(long, default_value_t = 500)]
    calls: usize,
    /// How many rounds, each with all plugins
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// The program that compiles
    #[arg(long, env = "HOTSHOE", value_name = "FILE", default_value_os_t = repository("target/release/hotshoe"))]
    hotshoe: PathBuf,
}

/// A plugin with the requests of its cases, and its measurements: the median of each round, in microseconds.
struct Subject {
    name: &'static str,
    target: f64,
    revision: Arc<Revision>,
    requests: Vec<(Call, Arc<Observation>)>,
    decisions: Vec<f64>,
    floors: Vec<f64>,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When a component cannot be loaded or does not answer.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.calls > 0, "nothing is measured with 0 runs or 0 calls");
        println!("{}", report::on(self.calls, self.runs));
        let cache = repository("target/bench/cache");
        let (engine, compiler) = (Engine::new()?, Compiler::new(self.hotshoe, Some(&cache), CACHE_BYTES));
        let mut subjects = Vec::new();
        for (name, target) in PLUGINS {
            subjects.push(Subject::load(name, target, &engine, &compiler).await?);
        }
        // The first round warms up.
        for round in 0..=self.runs {
            for subject in &mut subjects {
                subject.measure(self.calls, round > 0).await?;
            }
        }
        let figures = subjects.iter().flat_map(Subject::figures);
        figures.for_each(|figure| println!("{figure} ({})", figure.range()));
        Ok(())
    }
}

impl Subject {
    async fn load(name: &'static str, target: f64, engine: &Engine, compiler: &Compiler) -> Result<Self> {
        let file = format!("target/plugins/{name}.wasm");
        let component = Candidate::of(fs::read(repository(&file)).context(file)?);
        let loaded =
            Revision::load(engine, compiler, component, Limits::default(), Purpose::Trial, &Account::default()).await?;
        let (revision, cases) = (loaded.revision, loaded.cases.map_err(|error| anyhow!("{name}: {error}"))?);
        let decisions = cases.iter().filter_map(|case| Some((case.call.decision()?, case)));
        let request = |(call, case): (Call, &Case)| {
            let observation = case.observation(revision.descriptor());
            let observation = observation.map_err(|error| anyhow!("{name}, case {:?}: {error}", case.name))?;
            Ok((call, Arc::new(observation)))
        };
        let requests = decisions.map(request).collect::<Result<Vec<_>>>()?;
        ensure!(!requests.is_empty(), "the component of {name} carries no case");
        Ok(Self { name, target, revision, requests, decisions: Vec::new(), floors: Vec::new() })
    }

    /// Calls the plugin with its cases in turn, and `describe` after each.
    async fn measure(&mut self, calls: usize, counts: bool) -> Result<()> {
        let (mut decisions, mut floors) = (Vec::with_capacity(calls), Vec::with_capacity(calls));
        for (call, observation) in self.requests.iter().cycle().take(calls) {
            decisions.push(self.revision.decide(*call, observation.clone()).await?.elapsed);
            floors.push(self.revision.time_describe().await?);
        }
        if counts {
            self.decisions.push(median(decisions));
            self.floors.push(median(floors));
        }
        Ok(())
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        let decision = Figure::of(&format!("decision-{}", self.name), "us", &self.decisions);
        let floor = Figure::of(&format!("decision-{}-floor", self.name), "us", &self.floors);
        [decision.map(|figure| figure.target(AtMost(self.target))), floor].into_iter().flatten()
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    quantile(&times, 0.5).as_secs_f64() * 1e6
}
