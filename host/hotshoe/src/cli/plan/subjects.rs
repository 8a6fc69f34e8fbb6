//! The objects that a plan is made for, as they are stored or would be.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::plugin::Plugin;
use super::source::Source;
use super::world::World;
use crate::cli::api_server::ApiServer;
use crate::cli::as_stored::{Stored, as_stored};
use crate::cli::project::shown;
use crate::cli::schema::files::Files;
use crate::cli::{documents, terminal};
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::error::ApiError;
use hotshoe_core::compare::json_diff::{Field, Rules, compare};
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::sanitize::clean;

/// The namespace of objects that name none, as kubectl has it.
const DEFAULT_NAMESPACE: &str = "default";
/// The maximum number of fields that are listed as filled in.
const MAX_FILLED_IN: usize = 200;
/// The maximum length of a printed list of fields, in bytes.
const MAX_TEXT_BYTES: usize = 2_000;

/// What a user names.
#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("object").required(true).multiple(true)))]
pub(super) struct Named {
    /// A file with the object, and with what exists beside it; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE", group = "object")]
    files: Vec<PathBuf>,
    /// Plan for an object in the cluster, KIND/NAME or NAME
    #[arg(long, value_name = "KIND/NAME", group = "object", conflicts_with = "files")]
    from: Option<String>,
    /// Compare with what is in the cluster, beside the object in the file
    #[arg(long, conflicts_with = "from")]
    cluster: bool,
    /// The namespace of objects that name none [default: default]
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// An object that a plan is made for.
pub(super) struct Subject {
    pub(super) parent: Value,
    /// The defaults that were filled in.
    pub(super) filled_in: Vec<Field>,
}

impl Named {
    /// Returns the objects to plan for, and where the rest is found.
    ///
    /// # Errors
    /// When a file or the cluster cannot be read, or has no object of the plugin's kind.
    pub(super) async fn subjects(&self, plugin: &Plugin) -> anyhow::Result<(Vec<Subject>, Source)> {
        if let Some(name) = &self.from {
            let source = self.cluster(plugin).await?;
            let stored = self.stored(name, plugin, &source).await?;
            return Ok((vec![Subject { parent: stored, filled_in: Vec::new() }], source));
        }
        let (parents, others) = self.objects(plugin)?;
        if !self.cluster {
            let source = Source::Files { world: World(others), crds: plugin.crds.clone() };
            return Ok((filled_in(parents, plugin, &plugin.crds).await?, source));
        }
        let source = self.cluster(plugin).await?;
        let crds = source.definition(&plugin.revision.descriptor().parent).await;
        let parents = over_stored(parents, &source).await?;
        Ok((filled_in(parents, plugin, crds.as_ref().unwrap_or(&plugin.crds)).await?, source))
    }

    async fn cluster(&self, plugin: &Plugin) -> anyhow::Result<Source> {
        let (cluster, kinds) = (Box::new(Cluster::connect(&self.connect).await?), Kinds::default());
        let found = kinds.find(&cluster, &plugin.revision.descriptor().parent).await;
        if let Some(error) = found.err().filter(ApiError::is_of_outage) {
            bail!(
                "the API server {} of the context {} does not answer: {error}; name another cluster with --context or \
                 --kubeconfig",
                cluster.server,
                cluster.context
            );
        }
        Ok(Source::Cluster { cluster, kinds })
    }

    /// Reads the objects of the files, each in a namespace if its kind has them: those of the plugin's kind, and the others.
    fn objects(&self, plugin: &Plugin) -> anyhow::Result<(Vec<Value>, Vec<Value>)> {
        let kind = &plugin.revision.descriptor().parent;
        let (mut parents, mut others) = (Vec::new(), Vec::new());
        for file in &self.files {
            for mut object in documents::objects(file)? {
                let reference =
                    ObjectRef::of(&object).map_err(|why| anyhow::anyhow!("{}: {why}", shown(file).display()))?;
                let is_namespaced = plugin.crds.is_namespaced(&reference.kind);
                if is_namespaced && reference.namespace.is_none() {
                    let namespace = self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
                    set(object.get_mut("metadata"), "namespace", namespace.into());
                }
                let side = if reference.kind.is_served_as(kind) { &mut parents } else { &mut others };
                side.push(object);
            }
        }
        ensure!(!parents.is_empty(), "none of the files has an object of {kind}, the kind that the plugin serves");
        Ok((parents, others))
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

/// Fills in the defaults with which the API server would store each object, by these CRDs.
async fn filled_in(parents: Vec<Value>, plugin: &Plugin, crds: &Files) -> anyhow::Result<Vec<Subject>> {
    let config = serde_json::from_str(&plugin.config.config).context("the configuration of the plugin is no JSON")?;
    let api_server = ApiServer::of(crds, &plugin.revision.descriptor().parent);
    let mut subjects = Vec::new();
    for parent in parents {
        let stored = as_stored(&parent, &config, &plugin.revision, &api_server).await;
        let Stored { object, unknown } = stored.map_err(|why| anyhow::anyhow!("{}: {why}", name(&parent)))?;
        if !unknown.is_empty() {
            let fields = clean(unknown.join(", "), MAX_TEXT_BYTES);
            terminal::note(format_args!(
                "warning: {}: the API server would leave out what the CRD does not know: {fields}",
                name(&parent)
            ));
        }
        let mut filled_in = compare(Some(&parent), Some(&object), MAX_FILLED_IN, Rules::default()).listed;
        // What is left out is no default, and a status is not applied.
        filled_in.retain(|field| field.new.is_some() && !field.path.starts_with("status"));
        subjects.push(Subject { parent: object, filled_in });
    }
    Ok(subjects)
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
pub(super) fn set(object: Option<&mut Value>, member: &str, value: Value) {
    if let Some(members) = object.and_then(Value::as_object_mut) {
        members.insert(member.to_owned(), value);
    }
}

/// Returns the name of an object, with its kind and namespace.
pub(super) fn name(object: &Value) -> String {
    ObjectRef::of(object).map(|object| object.to_string()).unwrap_or_default()
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
