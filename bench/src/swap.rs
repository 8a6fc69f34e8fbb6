//! Another component while the host runs: what it costs to look at one first.
//!
//! One part each; what a part measures comes back as figures.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::cells::{Setup, shadow};
use crate::figure::Figure;
use crate::plane::Manifests;
use crate::subject::Programs;
use crate::{report, repository};

/// Measure what another component costs while the host runs
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many CRs a component is run in the shadow over
    #[arg(long, default_value_t = 10_000)]
    parents: usize,
    /// How many runs
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Measure only this
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// The program under test
    #[arg(long, env = "HOTSHOE", value_name = "FILE", default_value_os_t = repository("target/release/hotshoe"))]
    hotshoe: PathBuf,
    /// The manifest of the host's accounts
    #[arg(long, value_name = "FILE", default_value_os_t = repository("deploy/rbac.yaml"))]
    accounts: PathBuf,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Part {
    /// A component in the shadow of the one at work
    Shadow,
}

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a str,
    figures: &'a [Figure],
}

impl Args {
    /// Measures, prints and writes the report.
    ///
    /// # Errors
    /// When a run is void. A figure that is short is none.
    pub async fn run(self) -> Result<()> {
        for program in [&self.hotshoe, &self.accounts] {
            ensure!(program.exists(), "{} is missing; `just bench-swap` builds what is measured", program.display());
        }
        ensure!(self.runs > 0 && self.parents > 0, "nothing is measured with 0 runs or 0 CRs");
        let machine = report::on(self.parents, self.runs);
        println!("{machine}");
        let mut figures = Vec::new();
        if self.takes(Part::Shadow) {
            figures.extend(shadow::run(&self.setup(), self.runs).await?);
        }
        figures.iter().for_each(|figure| println!("{figure} ({})", figure.range()));
        let file = repository("target/bench/swap.json");
        fs::write(&file, serde_json::to_vec_pretty(&Report { machine: &machine, figures: &figures })?)?;
        println!("report {}", file.canonicalize()?.display());
        Ok(())
    }

    fn takes(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    fn setup(&self) -> Setup {
        Setup {
            count: self.parents,
            programs: Programs { host: self.hotshoe.clone(), native: PathBuf::new() },
            manifests: Manifests { host: self.accounts.clone() },
        }
    }
}
