//! `hotshoe test`: runs a plugin's cases on the real component under the limits of production, without any cluster.
//! With `--cluster`, `cluster_test` runs its samples on one.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;

use crate::cli::api_server::ApiServer;
use crate::cli::closed_loop::{CounterExamples, Plugin};
use crate::cli::inspect::{load_component, note_names, note_options};
use crate::cli::project::{CaseFile, Folder, shown};
use crate::cli::results::{Answer, Results, micros, text, trials};
use crate::cli::schema::files::Files;
use crate::cli::terminal::Output;
use crate::cli::{accept, admit, closed_loop, cluster_test, fresh, terminal};
use hotshoe_sandbox::revision::Revision;

/// Run a plugin's cases (cases/*.yaml) on its component, without any cluster
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe test plugins/memcached\n  \
    hotshoe test plugins/memcached resize        # those with `resize` in their name\n  \
    hotshoe test plugins/memcached --build       # build it, if its source is newer\n  \
    hotshoe test plugins/memcached --accept      # take the answers as expected\n  \
    hotshoe test plugins/memcached --save        # keep what the loop finds\n  \
    hotshoe test plugins/memcached --bench 2000  # how long one decision takes\n  \
    hotshoe test plugins/memcached --cluster     # the samples on a cluster\n\n\
    Where the project has the CRD of the parents in crds/, the samples and the objects of the cases are checked by it, as the \
    API server does before it asks a webhook.\n\n\
    Exit code: 0 when all passed, 1 otherwise.")]
pub struct Args {
    /// The plugin's folder, or its plugin.yaml [default: this folder, or the only one in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    /// Only cases with this in their name
    #[arg(value_name = "NAME")]
    filter: Option<String>,
    /// Read the component from this folder instead of where a host looks for it
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
    /// Build the component first, into target/check/, if the one there is missing or older than its source
    #[arg(long, conflicts_with = "components")]
    build: bool,
    /// Write the answers into the case files as the expected ones, if they are decisions that a host admits, and the cases
    /// into the component
    #[arg(long)]
    accept: bool,
    /// As --accept, and write failures and rejections as well
    #[arg(long)]
    accept_failures: bool,
    /// Write the smallest start from which the decisions never settle, fail later or lose children as a new case
    #[arg(long, conflicts_with_all = ["filter", "bench"])]
    save: bool,
    /// Call each case this many times, each time in a fresh instance, and print how long a call takes
    #[arg(long, value_name = "N", conflicts_with_all = ["accept", "accept_failures"])]
    bench: Option<NonZeroUsize>,
    /// How to print the results
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    on_cluster: cluster_test::Options,
}

impl Args {
    /// Runs the cases and prints their results.
    ///
    /// # Errors
    /// If the component cannot be loaded, or there is no case.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = Folder::named(self.plugin.as_deref())?;
        let components = if self.build { Some(fresh::build(&folder)?) } else { self.components.clone() };
        if self.on_cluster.cluster {
            return cluster_test::run(&folder, &self.on_cluster, components.as_deref(), self.output).await;
        }
        let cases = self.cases(&folder)?;
        let config = admit::config(folder.manifest())?;
        let revision = load_component(&folder, components.as_deref()).await?;
        if let Some(calls) = self.bench {
            return bench(&revision, &cases, calls.get()).await;
        }
        config.ensure_parent(&revision.descriptor().parent)?;
        note_options(folder.manifest());
        note_names(&config, &revision);
        let (files, plugin) = (Files::of(&folder), Plugin { revision: &revision, config: &config });
        let mut api_server = ApiServer::of(&files, &revision.descriptor().parent);
        let (trials, found) = match self.filter {
            Some(_) => Default::default(),
            None => trials(&files, &cases, plugin, &mut api_server).await,
        };
        let saved = match self.save {
            true => closed_loop::save(&found, &cases, &folder, plugin, &mut api_server).await?,
            false => Vec::new(),
        };
        let (mut answered, mut accepted) = (Vec::new(), Vec::new());
        for mut file in cases {
            let mut answer = Answer::to(&file.case, plugin, &mut api_server, self.accept_failures).await;
            if self.accept || self.accept_failures {
                accepted.extend(accept::accept(&mut file, &mut answer, self.accept_failures)?);
            }
            let report = answer.judged();
            if self.output == Output::Text {
                terminal::print(text(&file, &report))?;
            }
            answered.push((file, report));
        }
        let results = Results { cases: answered, trials };
        accept::finish(&accepted, &results, &folder, components.as_deref(), revision.digest())?;
        if self.output == Output::Text {
            results.trials.iter().try_for_each(|trial| terminal::print(trial.text()))?;
        }
        saved.iter().for_each(terminal::note);
        self.note_save(&found, &folder);
        api_server.note_unchecked();
        results.conclude(self.output)
    }

    /// Says how to keep the counter-examples of the closed loop.
    fn note_save(&self, found: &CounterExamples, folder: &Folder) {
        if !found.is_empty() && !self.save {
            let components = self.components.as_ref().map(|dir| format!(" --components {}", dir.display()));
            terminal::note(format_args!(
                "the smallest start that shows what the closed loop found becomes a case by `hotshoe test {} --save{}`",
                shown(&folder.dir).display(),
                components.unwrap_or_default()
            ));
        }
    }

    fn cases(&self, folder: &Folder) -> anyhow::Result<Vec<CaseFile>> {
        let mut cases = folder.cases()?;
        let place = folder.dir.join("cases");
        ensure!(!cases.is_empty(), "there is no case: write one as {}/NAME.yaml", shown(&place).display());
        if let Some(filter) = &self.filter {
            cases.retain(|file| file.case.name.contains(filter.as_str()));
            ensure!(!cases.is_empty(), "no case in {} has {filter:?} in its name", shown(&place).display());
        }
        Ok(cases)
    }
}

/// Measures single calls of each case: the time inside of the call, and the time until the caller has the answer.
async fn bench(revision: &Arc<Revision>, cases: &[CaseFile], calls: usize) -> anyhow::Result<ExitCode> {
    terminal::line(format_args!(
        "{calls} calls of each case, each in a fresh instance, after {} to warm up",
        calls / 10
    ))?;
    let mut floor = Vec::new();
    for call in 0..calls + calls / 10 {
        let elapsed = revision.time_describe().await?;
        if call >= calls / 10 {
            floor.push(elapsed);
        }
    }
    terminal::line(format_args!("floor, `describe`, which looks at no input: call {}", quantiles(floor)))?;
    let decisions = cases.iter().filter_map(|file| Some((file.case.call.decision()?, file)));
    for (function, file) in decisions {
        let observation = file.case.observation(revision.descriptor()).map_err(anyhow::Error::msg)?;
        let observation = Arc::new(observation);
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for call in 0..calls + calls / 10 {
            let start = std::time::Instant::now();
            let outcome = revision.decide(function, Arc::clone(&observation)).await?;
            if call >= calls / 10 {
                outside.push(start.elapsed());
                inside.push(outcome.elapsed);
            }
        }
        let (name, inside, outside) = (&file.case.name, quantiles(inside), quantiles(outside));
        terminal::line(format_args!("{name}: call {inside}; with hand-over {outside}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |per_cent: usize| times.get(times.len() * per_cent / 100).copied().map_or(0.0, micros);
    format!("p50 {:.1} µs, p99 {:.1} µs", at(50), at(99))
}
