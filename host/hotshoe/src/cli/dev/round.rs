//! What follows a save: build, run the cases, show what would change on the cluster, and have a host activate the
//! component.
//!
//! A round is dropped where it stands when another save comes, because nothing that it finds would be about what is in
//! the files by then. Each step leaves a whole state: the component that hosts read is replaced at once, and only by one
//! whose cases pass.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::builder;
use super::history::{Activation, Cases, Outcome};
use super::host::Serving;
use crate::cli::host_client::HostOptions;
use crate::cli::plan::plugin::Plugin;
use crate::cli::plan::preview::Preview;
use crate::cli::project::{self, Folder};
use crate::cli::results::Results;
use crate::cli::schema::files::Files;
use crate::cli::{admit, inspect};
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_operator::config::PluginConfig;
use hotshoe_sandbox::revision::Revision;

/// Where components are built before their cases have passed, below the root of the project: no host reads them there.
const TRIED: &str = "target/dev/";

/// A step of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    Building,
    Testing,
    Comparing,
    Activating,
}

impl Step {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Testing => "running the cases",
            Self::Comparing => "comparing with the cluster",
            Self::Activating => "activating",
        }
    }
}

/// What the author has chosen, and what lasts for many rounds.
pub(super) struct Setting {
    pub(super) connect: ConnectOptions,
    pub(super) host: HostOptions,
    pub(super) verbose: bool,
    pub(super) cluster: tokio::sync::OnceCell<Cluster>,
}

/// What a round has found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) outcome: Outcome,
    /// Why changes on the cluster are not shown.
    pub(super) no_cluster: Option<String>,
    /// Why no host activates the component.
    pub(super) no_host: Option<String>,
    pub(super) took: Duration,
}

/// Tries what is in the files now, and reports each step.
pub(super) async fn run(manifest: &Path, setting: &Setting, step: &Cell<Step>) -> Found {
    let (began, mut found) = (Instant::now(), Found::default());
    if let Err(error) = go(manifest, setting, step, &mut found).await {
        found.outcome.problem = Some(format!("{error:#}"));
    }
    found.took = began.elapsed();
    found
}

async fn go(manifest: &Path, setting: &Setting, step: &Cell<Step>, found: &mut Found) -> anyhow::Result<()> {
    let folder = Folder::open(manifest)?;
    let config = admit::config(folder.manifest())?;
    let tried = folder.out(folder.root().join(TRIED));
    builder::build(&folder, &tried, setting.verbose).await?;
    found.outcome.is_built = true;
    step.set(Step::Testing);
    let revision = inspect::load_file(&tried, &folder.limits).await?;
    let results = Results::of(&folder, &config, &revision).await?;
    let (passed, failures) = (results.passed(), results.failures());
    found.outcome.cases = Some(Cases { passed, failed: failures.len() });
    if let Some(first) = failures.into_iter().next() {
        found.outcome.problem = Some(first);
        return Ok(());
    }
    step.set(Step::Comparing);
    preview(&folder, config, &revision, setting, found).await;
    step.set(Step::Activating);
    project::write(&folder.product(), &project::read(&tried)?)?;
    activate(&folder, &revision, setting, found).await
}

/// Looks what would change on the cluster. Where that cannot be found out, the round goes on without.
async fn preview(
    folder: &Folder,
    config: PluginConfig,
    revision: &Arc<Revision>,
    setting: &Setting,
    found: &mut Found,
) {
    let plugin = Plugin::quiet(config, revision.clone(), Files::of(folder));
    let previewed = async {
        let cluster = setting.cluster.get_or_try_init(|| Cluster::connect(&setting.connect)).await?;
        Preview::of(&plugin, cluster).await
    };
    match previewed.await {
        Ok(preview) => {
            found.outcome.problem = preview.problem.clone();
            found.outcome.preview = Some(preview);
        }
        Err(why) => found.no_cluster = Some(format!("note: changes on a cluster are not shown: {why:#}")),
    }
}

async fn activate(
    folder: &Folder,
    revision: &Arc<Revision>,
    setting: &Setting,
    found: &mut Found,
) -> anyhow::Result<()> {
    let serving = match Serving::find(&setting.host, folder).await {
        Ok(serving) => serving,
        Err(why) => {
            found.outcome.activation = Activation::NoHost;
            found.no_host = Some(format!("note: {why:#}"));
            return Ok(());
        }
    };
    let (activation, why) = serving.activate(revision.digest()).await.context("not activated")?;
    found.outcome.activation = activation;
    found.outcome.problem = why.or(found.outcome.problem.take());
    Ok(())
}
