//! `hotshoe plan`: shows what a plugin would decide for an object, and what that would change, without a host.

mod changes;
mod decide;
mod page;
pub(super) mod plugin;
pub(super) mod preview;
mod source;
mod world;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cli::project::shown;
use crate::cli::terminal;
use changes::Changes;
use decide::{Decided, decide};
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::Kinds;
use hotshoe_core::model::decision::Event;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::plugin_manager;
use hotshoe_core::simulation::status_after;
use page::{Output, Plan};
use plugin::Plugin;
use source::Source;
use world::World;

/// The exit code if something would change.
const EXIT_CHANGES: u8 = 3;
/// The maximum size of a file with objects, in bytes: some objects of the largest size that Kubernetes stores.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How many decisions are asked for, each of which writes the status alone.
const MAX_DECISIONS: usize = 4;
/// The namespace of objects that name none, as kubectl has it.
const DEFAULT_NAMESPACE: &str = "default";

/// Show what a plugin would decide for an object, and what that would change
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    hotshoe plan plugins/memcached -f crds/samples/cache.example.com_v1_memcached.yaml\n  \
    hotshoe plan memcached.wasm -f cr.yaml -o diff\n  \
    hotshoe plan plugins/memcached --from memcached/shop -n team-a\n  \
    hotshoe plan plugins/memcached -f changed.yaml --cluster -o markdown\n\n\
    The component is asked as a host asks it: with what it declares to read, all rounds of what it needs, the grant and \
    the configuration of its plugin.yaml, and the same checks of its answer. \
    Where a decision writes the status alone, the plan shows the next one, too. Nothing is written, and no host is needed. A \
    cluster is read with your own rights.\n\n\
    The values of Secrets are hidden, and all values where the plugin is shown one. What the host adds to each child (owner \
    reference, labels, digest) is left out.\n\n\
    Exit code: 0 nothing would change, 3 something would, 1 the plugin does not decide or a host would deny it.")]
pub struct Args {
    /// A plugin: its folder, its plugin.yaml, or a component [default: the only plugin here]
    #[arg(value_name = "PLUGIN")]
    plugin: Option<PathBuf>,
    /// A file with the object, and with what exists beside it; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE", required_unless_present = "from")]
    files: Vec<PathBuf>,
    /// Plan for an object in the cluster, KIND/NAME or NAME
    #[arg(long, value_name = "KIND/NAME", conflicts_with = "files")]
    from: Option<String>,
    /// Compare with what is in the cluster, beside the object in the file
    #[arg(long, conflicts_with = "from")]
    cluster: bool,
    /// The namespace of objects that name none [default: default]
    #[arg(short, long)]
    namespace: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    connect: ConnectOptions,
}

impl Args {
    /// Asks for the decisions and prints them.
    ///
    /// # Errors
    /// When the plugin, the object or the cluster cannot be read, the plugin does not decide, or a host would deny it.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let plugin = Plugin::open(self.plugin.as_deref()).await?;
        let objects = self.objects(&plugin)?;
        let (parents, source) = self.subjects(&plugin, objects).await?;
        let mut planned = Vec::new();
        for parent in parents {
            let decided = plans(&plugin, &parent, &source).await;
            planned.extend(decided.with_context(|| format!("there is no plan for {}", name(&parent)))?);
        }
        terminal::print(self.output.of(&planned)?)?;
        let is_empty = planned.iter().all(|plan| plan.changes.is_empty());
        Ok(if is_empty { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CHANGES) })
    }

    /// Reads the objects of the files, each in a namespace if its kind has them.
    fn objects(&self, plugin: &Plugin) -> anyhow::Result<Vec<Value>> {
        let mut objects = Vec::new();
        for file in &self.files {
            let documents = read(file).with_context(|| format!("{} cannot be read", shown(file).display()))?;
            for mut object in documents {
                let reference =
                    ObjectRef::of(&object).map_err(|why| anyhow::anyhow!("{}: {why}", shown(file).display()))?;
                let is_namespaced = plugin.crds.is_namespaced(&reference.kind);
                if is_namespaced && reference.namespace.is_none() {
                    let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
                    set(object.get_mut("metadata"), "namespace", namespace.into());
                }
                objects.push(object);
            }
        }
        Ok(objects)
    }

    /// Returns the parents to plan for, and where the rest is found.
    async fn subjects(&self, plugin: &Plugin, objects: Vec<Value>) -> anyhow::Result<(Vec<Value>, Source)> {
        let kind = &plugin.revision.descriptor().parent;
        let is_parent = |object: &Value| ObjectRef::of(object).is_ok_and(|object| object.kind.is_served_as(kind));
        let (parents, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(is_parent);
        if self.from.is_none() {
            ensure!(!parents.is_empty(), "none of the files has an object of {kind}, the kind that the plugin serves");
        }
        if self.from.is_none() && !self.cluster {
            let (world, crds) = (World(others), plugin.crds.clone());
            return Ok((parents, Source::Files { world, crds }));
        }
        let cluster = Box::new(Cluster::connect(&self.connect).await?);
        let source = Source::Cluster { cluster, kinds: Kinds::default() };
        let parents = match &self.from {
            Some(name) => vec![self.stored(name, plugin, &source).await?],
            None => over_stored(parents, &source).await?,
        };
        Ok((parents, source))
    }

    /// Reads the parent that `--from` names.
    async fn stored(&self, named: &str, plugin: &Plugin, source: &Source) -> anyhow::Result<Value> {
        let kind = &plugin.revision.descriptor().parent;
        let name = match named.split_once('/') {
            None => named,
            Some((word, name)) => {
                ensure!(is_name_of(word, &kind.kind), "{word} is not {kind}, the kind that the plugin serves");
                name
            }
        };
        let is_namespaced = source.is_namespaced(kind).await.unwrap_or(true);
        let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let namespace = is_namespaced.then(|| namespace.into());
        let reference = ObjectRef { kind: kind.clone(), namespace, name: name.into() };
        source.stored(&reference).await?.with_context(|| {
            format!("there is no {reference} in the cluster; name its namespace with -n, or another kubeconfig")
        })
    }
}

/// Returns whether a word is the name of a kind, in the singular or plural, as kubectl takes it.
fn is_name_of(word: &str, kind: &str) -> bool {
    let word = word.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let kind = kind.to_ascii_lowercase();
    word == kind
        || word.strip_prefix(&*kind).is_some_and(|rest| matches!(rest, "s" | "es"))
        || word == kind.replace('y', "ies")
}

/// Lays the objects of files over the stored ones, as an update would: status and identity are those that are stored.
async fn over_stored(parents: Vec<Value>, source: &Source) -> anyhow::Result<Vec<Value>> {
    let mut merged = Vec::new();
    for mut parent in parents {
        let reference = ObjectRef::of(&parent).map_err(anyhow::Error::msg)?;
        if let Some(stored) = source.stored(&reference).await? {
            for member in ["uid", "resourceVersion", "generation", "finalizers", "managedFields"] {
                if let Some(value) = stored.pointer(&format!("/metadata/{member}")) {
                    set(parent.get_mut("metadata"), member, value.clone());
                }
            }
            if let Some(status) = stored.get("status") {
                set(Some(&mut parent), "status", status.clone());
            }
        }
        merged.push(parent);
    }
    Ok(merged)
}

/// Sets a member of an object.
fn set(object: Option<&mut Value>, member: &str, value: Value) {
    if let Some(members) = object.and_then(Value::as_object_mut) {
        members.insert(member.to_owned(), value);
    }
}

fn name(object: &Value) -> String {
    ObjectRef::of(object).map(|object| object.to_string()).unwrap_or_default()
}

/// Reads the objects of a file; those of a list count each.
fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let mut text = String::new();
    let from: Box<dyn Read> =
        if file.as_os_str() == "-" { Box::new(std::io::stdin().lock()) } else { Box::new(std::fs::File::open(file)?) };
    let size = from.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    ensure!(size as u64 <= MAX_FILE_BYTES, "it has more than {MAX_FILE_BYTES} bytes");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text)?;
    let objects = documents.into_iter().filter(|document| !document.is_null()).flat_map(|document| {
        match document.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![document],
        }
    });
    Ok(objects.collect())
}

/// Asks for a decision about a parent, and compares it with what exists. A first decision often states a condition
/// only, and the next one has children: so the plan goes on as if the status were written.
async fn plans(plugin: &Plugin, parent: &Value, source: &Source) -> anyhow::Result<Vec<Plan>> {
    let mut parent = parent.clone();
    let mut plans: Vec<Plan> = Vec::new();
    while plans.len() < MAX_DECISIONS {
        let (mut one, status) = plan(plugin, &parent, source).await?;
        let is_next = one.changes.writes_status_alone();
        one.follows = !plans.is_empty();
        plans.push(one);
        if !is_next {
            break;
        }
        set(Some(&mut parent), "status", status);
    }
    // What follows and changes nothing more says nothing.
    if plans.len() > 1 && plans.last().is_some_and(|plan| plan.changes.is_empty()) {
        plans.pop();
    }
    Ok(plans)
}

async fn plan(plugin: &Plugin, parent: &Value, source: &Source) -> anyhow::Result<(Plan, Value)> {
    let Decided { admitted, children, is_tainted } = decide(plugin, parent, source).await?;
    let (makers, manager) = (plugin.config.makers(), plugin_manager(&plugin.config.name));
    let changes = Changes::of(&admitted, parent, &children, (&makers, &manager), is_tainted);
    let shown = |event: &Event| format!("{} {}: {}", event.severity.as_str(), event.reason, event.message);
    let events = if is_tainted { Vec::new() } else { admitted.decision.events.iter().map(shown).collect() };
    let status = status_after(&admitted, parent);
    let planned = Plan {
        parent: ObjectRef::of(parent).map_err(anyhow::Error::msg)?,
        follows: false,
        plugin: plugin.config.name.to_string(),
        digest: plugin.revision.digest().to_string(),
        changes,
        events,
        requeue_after_seconds: admitted.decision.requeue_after.map(|after| after.as_secs()),
    };
    Ok((planned, status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_as_kubectl_takes_it() {
        for word in ["memcached", "Memcached", "memcacheds", "memcacheds.cache.example.com"] {
            assert!(is_name_of(word, "Memcached"), "{word}");
        }
        assert!(is_name_of("policies", "Policy") && is_name_of("boxes", "Box"));
        assert!(!is_name_of("redis", "Memcached") && !is_name_of("memcachedx", "Memcached"));
    }
}
