//! The model of the API server in which `hotshoe test` carries decisions out, without the plugin: how many decisions a second
//! it takes.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use hotshoe_core::check::Desired;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::simulation::Cluster;
use hotshoe_sandbox::cases::Case;
use hotshoe_tests::simulated::desired;
use serde_json::{Value, json};

use crate::figure::Figure;
use crate::figure::Target::AtLeast;
use crate::{report, repository};

const CASE: &str = "plugins/memcached/cases/available.yaml";
const TARGET: f64 = 10_000.0;

/// Measure how many decisions about a Memcached the model of the API server carries out in a second
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench model --steps 10000 --runs 5")]
pub struct Args {
    /// How many decisions in a round, each of which changes something
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// How many rounds
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

impl Args {
    /// Measures and prints the figure.
    ///
    /// # Errors
    /// When the case cannot be read, or a decision changes nothing.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.steps > 0, "nothing is measured with 0 runs or 0 steps");
        println!("{}", report::on(self.steps, self.runs));
        let case = fs::read_to_string(repository(CASE)).context(CASE)?;
        let case = Case::from_yaml(&case).map_err(|error| anyhow!("{CASE}: {error}"))?;
        let decisions = [of_replicas(&case, 3)?, of_replicas(&case, 4)?];
        let runs = (0..self.runs).map(|_| self.steps_a_second(&decisions)).collect::<Result<Vec<_>>>()?;
        let figure = Figure::of("model-steps", "/s", &runs).map(|figure| figure.target(AtLeast(TARGET)));
        figure.iter().for_each(|figure| println!("{figure} ({})", figure.range()));
        Ok(())
    }

    /// Carries out decisions in turn, with what the controllers of Kubernetes do after each, and what a plugin is shown then.
    fn steps_a_second(&self, decisions: &[Vec<Desired>]) -> Result<f64> {
        let (mut cluster, began) = (Cluster::default(), Instant::now());
        for desired in decisions.iter().cycle().take(self.steps) {
            ensure!(!cluster.carry_out(desired).is_empty(), "a decision changed nothing");
            cluster.run_controllers();
            ensure!(cluster.children().len() == desired.len(), "a child is missing");
        }
        Ok(self.steps as f64 / began.elapsed().as_secs_f64())
    }
}

/// Returns the children of the case as a plugin states them, with so many replicas.
fn of_replicas(case: &Case, replicas: u32) -> Result<Vec<Desired>> {
    let stated = |child: &Value| {
        let mut body = child.clone();
        if let Some(members) = body.as_object_mut() {
            members.remove("status");
        }
        if let Some(current) = body.pointer_mut("/spec/replicas") {
            *current = json!(replicas);
        }
        let reference = ObjectRef::of(&body).map_err(|error| anyhow!("{CASE}: {error}"))?;
        Ok(desired(reference, body))
    };
    case.children.iter().map(stated).collect()
}
