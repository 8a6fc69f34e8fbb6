//! The quick run: which cells, in which order, and their figures.
//!
//! Subjects are interleaved, forwards in one round and backwards in the next, so that a machine
//! that gets slower or faster meanwhile does not favour one of them.

use anyhow::{Result, ensure};
use serde::Serialize;

use crate::cells::decision::{self, Times};
use crate::cells::steady::{self, Steadiness};
use crate::cells::{Outcome, Setup, cold, live};
use crate::report;
use crate::subject::{Subject, UnderTest};

/// Measure the host beside a native operator and a raw writer
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many CRs
    #[arg(short = 'n', long, default_value_t = 1000)]
    count: usize,
    /// How many rounds
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Leave the 60 quiet seconds out
    #[arg(long)]
    no_quiet: bool,
    /// Measure only this
    #[arg(long, value_enum)]
    only: Option<Part>,
    #[command(flatten)]
    under_test: UnderTest,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Part {
    /// The start with CRs waiting
    Cold,
    /// CRs created while the subject runs, and what follows
    Live,
    /// One decision, which is always measured
    Decision,
}

/// What is measured afterwards on the host's converged CRs.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Follows {
    Nothing,
    Disturbances,
    QuietAndDisturbances,
}

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Measured {
    /// How many CRs.
    pub count: usize,
    /// A start with CRs waiting, by round.
    pub cold: Vec<Round>,
    /// CRs created while the subject runs, by round.
    pub live: Vec<Round>,
    /// The measurements after the last of these.
    pub steady: Option<Steadiness>,
    /// One decision.
    pub decision: Option<Times>,
}

/// One round: each subject once.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Round {
    /// The raw writer, where it takes part.
    pub raw: Option<Outcome>,
    /// The native operator.
    pub native: Option<Outcome>,
    /// The host.
    pub host: Option<Outcome>,
}

impl Args {
    /// Measures, prints and writes the report.
    ///
    /// # Errors
    /// When a run is void: not converged, or with another end state. A figure that misses its target is no error.
    pub async fn run(self) -> Result<()> {
        ensure!(self.runs > 0 && self.count > 0, "nothing is measured with 0 runs or 0 CRs");
        let setup = self.under_test.setup(self.count, "bench quick")?;
        report::machine(self.count, self.runs);
        // This comes first, because it also compiles the component, which a host does only once.
        let decision = decision::run(&setup.programs.host).await?;
        let mut measured = Measured { count: self.count, decision: Some(decision), ..Measured::default() };
        for round in 0..self.runs {
            if self.takes(Part::Cold) {
                measured.cold.push(cold_round(&setup, round).await?);
            }
            if self.takes(Part::Live) {
                let follows = if round + 1 < self.runs { Follows::Nothing } else { self.follows() };
                measured.live.push(live_round(&setup, round, follows, &mut measured.steady).await?);
            }
        }
        report::write(&measured)
    }

    fn takes(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    fn follows(&self) -> Follows {
        if self.no_quiet { Follows::Disturbances } else { Follows::QuietAndDisturbances }
    }
}

async fn cold_round(setup: &Setup, number: usize) -> Result<Round> {
    let mut round = Round::default();
    for subject in in_turn([Subject::Raw, Subject::Native, Subject::Host], number) {
        progress("cold", subject);
        *round.of(subject) = Some(cold::run(subject, setup).await?);
    }
    Ok(round)
}

async fn live_round(
    setup: &Setup,
    number: usize,
    follows: Follows,
    steadiness: &mut Option<Steadiness>,
) -> Result<Round> {
    let mut round = Round::default();
    for subject in in_turn([Subject::Native, Subject::Host], number) {
        progress("live", subject);
        let live = live::run(subject, setup).await?;
        *round.of(subject) = Some(live.outcome.clone());
        if subject != Subject::Host || follows == Follows::Nothing {
            live.plane.down().await?;
            continue;
        }
        progress("steady", subject);
        *steadiness = Some(steady::run(live, setup, follows == Follows::QuietAndDisturbances).await?);
    }
    Ok(round)
}

fn in_turn<const N: usize>(mut subjects: [Subject; N], round: usize) -> [Subject; N] {
    if round % 2 == 1 {
        subjects.reverse();
    }
    subjects
}

fn progress(cell: &str, subject: Subject) {
    eprintln!("{cell}: {}", subject.name());
}

impl Round {
    fn of(&mut self, subject: Subject) -> &mut Option<Outcome> {
        match subject {
            Subject::Raw => &mut self.raw,
            Subject::Native => &mut self.native,
            Subject::Host => &mut self.host,
        }
    }
}
