//! `hotshoe simulate`: follows the decisions about an object in a model of the API server, without any cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use serde_json::{Map, Value, json};

use crate::cli::api_server::ApiServer;
use crate::cli::as_stored::as_stored;
use crate::cli::closed_loop::{Plugin, Simulated};
use crate::cli::project::{Folder, shown};
use crate::cli::schema::files::Files;
use crate::cli::terminal::Output;
use crate::cli::{admit, documents, fresh, inspect};
use hotshoe_operator::config::PluginConfig;
use hotshoe_sandbox::cases::{Case, Function};

/// The namespace of objects that name none, as kubectl has it.
const DEFAULT_NAMESPACE: &str = "default";

/// Follow the decisions about an object until nothing changes, in a model of the API server
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe simulate plugins/memcached -f crds/samples/cache_v1_memcached.yaml\n  \
    hotshoe simulate plugins/memcached -f plugins/memcached/cases/resized.yaml\n  \
    hotshoe simulate plugins/memcached --build -f - -o json <start.yaml\n\n\
    Each decision is carried out in the model in which `hotshoe test` closes the loop, under the grant and the limits of the \
    plugin.yaml, until one changes nothing. The file is an object of the plugin's kind, of which nothing exists yet, or a \
    case: its children and related objects exist, `call: finalize` follows a clean-up, and `steady` bounds the decisions. \
    Defaults are filled in first. The configuration is that of the case, or otherwise of the plugin.yaml.\n\n\
    The libraries for tests of the SDKs call this, with -o json.\n\n\
    Exit code: 0 nothing changes any more, 1 something still does, or the plugin or a host refuses.")]
pub struct Args {
    /// The plugin's folder, or its plugin.yaml [default: this folder, or the only one in plugins/]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    /// A file with the object or the case; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// Read the component from this folder instead of where a host looks for it
    #[arg(long, value_name = "DIR")]
    components: Option<PathBuf>,
    /// Build the component first, into target/check/, if the one there is missing or older than its source
    #[arg(long, conflicts_with = "components")]
    build: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Follows the decisions and prints them, with the end.
    ///
    /// # Errors
    /// When the component cannot be loaded, or the file is neither an object nor a case.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let folder = Folder::named(self.plugin.as_deref())?;
        let config = admit::config(folder.manifest())?;
        let components = if self.build { Some(fresh::build(&folder)?) } else { self.components };
        let revision = inspect::load_component(&folder, components.as_deref()).await?;
        config.ensure_parent(&revision.descriptor().parent)?;
        let files = Files::of(&folder);
        let mut case = start(&self.file, &config)?;
        let kind = &revision.descriptor().parent;
        if files.is_namespaced(kind) {
            in_some_namespace(&mut case.parent);
        }
        let stored = as_stored(&case.parent, &case.config, &revision, &ApiServer::of(&files, kind)).await;
        case.parent = stored.map_err(anyhow::Error::msg)?.object;
        let simulated = Simulated::of(&case, Plugin { revision: &revision, config: &config }).await;
        let simulated = simulated.map_err(anyhow::Error::msg)?;
        self.output.print(&simulated, || Ok(simulated.to_string()))?;
        Ok(if simulated.settled { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Reads where to begin.
fn start(file: &Path, config: &PluginConfig) -> anyhow::Result<Case> {
    let text = documents::text(file)?;
    let read = || -> Result<Case, String> {
        let given: Map<String, Value> = serde_saphyr::from_str(&text).map_err(|error| error.to_string())?;
        let mut case = match given.contains_key("kind") {
            true => Case { now: Some(now()), ..Case::of_parent("simulate".to_owned(), Value::Object(given.clone())) },
            false => Case::from_yaml(&text)?,
        };
        if !given.contains_key("config") {
            case.config = serde_json::from_str(&config.config).map_err(|error| error.to_string())?;
        }
        Ok(case)
    };
    let place = shown(file).display();
    let case = read().map_err(|why| anyhow::anyhow!("{place} is neither an object nor a valid case: {why}"))?;
    let decides = matches!(case.call, Function::Reconcile | Function::Finalize);
    ensure!(decides, "{place}: it calls a function that makes no decision; have it call reconcile or finalize");
    Ok(case)
}

/// Returns the time in milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn in_some_namespace(parent: &mut Value) {
    if let Some(metadata) = parent.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("namespace").or_insert_with(|| json!(DEFAULT_NAMESPACE));
    }
}
