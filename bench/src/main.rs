//! The command line of the benchmarks.

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Hotshoe beside a native operator of the same logic and beside the API server's own limit
#[derive(Parser)]
#[command(after_help = "Example: just bench quick -n 300 --runs 3\n\nThe report is in target/bench/.")]
enum Args {
    Quick(hotshoe_bench::quick::Args),
    Hostile(hotshoe_bench::hostile::Args),
    Swap(hotshoe_bench::swap::Args),
    Kopf(hotshoe_bench::kopf::Args),
    Decisions(hotshoe_bench::decisions::Args),
    Model(hotshoe_bench::model::Args),
    Needs(hotshoe_bench::needs::Args),
    Fleet(hotshoe_bench::fleet::Args),
    Scrape(hotshoe_bench::scrape::Args),
    Failover(hotshoe_bench::failover::Args),
    Shards(hotshoe_bench::shards::Args),
    Admission(hotshoe_bench::admission::Args),
    Conversion(hotshoe_bench::conversion::Args),
}

/// Runs a benchmark. A figure that misses its target is no failure; a run without a result is one.
fn main() -> ExitCode {
    let args = Args::parse();
    let measure = async {
        match args {
            Args::Quick(quick) => quick.run().await,
            Args::Hostile(hostile) => hostile.run().await,
            Args::Swap(swap) => swap.run().await,
            Args::Kopf(kopf) => kopf.run().await,
            Args::Decisions(decisions) => decisions.run().await,
            Args::Model(model) => model.run().await,
            Args::Needs(needs) => needs.run().await,
            Args::Fleet(fleet) => fleet.run().await,
            Args::Scrape(scrape) => scrape.run().await,
            Args::Failover(failover) => failover.run().await,
            Args::Shards(shards) => shards.run().await,
            Args::Admission(admission) => admission.run().await,
            Args::Conversion(conversion) => conversion.run().await,
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(measure)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
