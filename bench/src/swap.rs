//! Another component while the host runs: the cost of a shadow run, the time until it decides, the delay
//! of other changes meanwhile, and whether anything is lost.
//!
//! Each of these is one part, which returns figures.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::cells::{Setup, first, pause, recorder, shadow, swapping};
use crate::figure::Figure;
use crate::subject::UnderTest;
use crate::{report, repository};

/// Measure what another component costs while the host runs
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench swap --only recorder --changes 2000 --swaps 40\n\n\
    All parts take about 15 minutes. The report is target/bench/swap.json.")]
pub struct Args {
    /// How many CRs a component is run in the shadow over
    #[arg(long, default_value_t = 10_000)]
    parents: usize,
    /// How many runs in the shadow
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// How long each run of `live` lasts
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// How many changes the recorder looks at, 33 a second
    #[arg(long, default_value_t = 10_000)]
    changes: u32,
    /// How many swaps, one in ten of them to a broken component
    #[arg(long, default_value_t = 200)]
    swaps: usize,
    /// Measure only this; may be given more than once
    #[arg(long, value_enum)]
    only: Vec<Part>,
    #[command(flatten)]
    under_test: UnderTest,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Part {
    /// A component in the shadow of the active one
    Shadow,
    /// From the digest of a component being known to its first decision
    First,
    /// What a reconcile waits for while a component is published
    Pause,
    /// 100 changes a second, with a swap every other second and without
    Live,
    /// Many changes and many swaps: whether anything is lost, or decided twice
    Recorder,
}

const PARTS: [Part; 5] = [Part::Pause, Part::First, Part::Live, Part::Recorder, Part::Shadow];

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a str,
    figures: &'a [Figure],
}

impl Args {
    /// Measures, prints and writes the report.
    ///
    /// # Errors
    /// When a run is void. A figure that misses its target is no error.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.parents > 0, "nothing is measured with 0 runs or 0 CRs");
        let setup = self.under_test.setup(self.parents, "bench swap")?;
        let machine = report::on(self.parents, self.runs);
        println!("{machine}");
        let folder = repository("target/bench");
        fs::create_dir_all(&folder)?;
        let mut figures = Vec::new();
        for part in PARTS.into_iter().filter(|part| self.only.is_empty() || self.only.contains(part)) {
            let measured = self.measure(part, &setup).await?;
            measured.iter().for_each(|figure| println!("{figure} ({})", figure.range()));
            figures.extend(measured);
        }
        let file = folder.join("swap.json");
        fs::write(&file, serde_json::to_vec_pretty(&Report { machine: &machine, figures: &figures })?)?;
        println!("report {}", file.canonicalize()?.display());
        Ok(())
    }

    async fn measure(&self, part: Part, setup: &Setup) -> Result<Vec<Figure>> {
        match part {
            Part::Shadow => shadow::run(setup, self.runs).await,
            Part::First => first::run(setup).await,
            Part::Pause => pause::run(setup).await,
            Part::Live => swapping::run(setup, Duration::from_secs(self.seconds)).await,
            Part::Recorder => recorder::run(setup, self.changes, self.swaps).await,
        }
    }
}
