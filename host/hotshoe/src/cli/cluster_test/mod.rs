//! `hotshoe test --cluster`: the samples of a plugin on a real cluster. Each is created, its plugin makes it ready, it is
//! deleted, and nothing of it is left.

mod host;
mod made;
mod ready;
mod sample;

use std::path::Path;
use std::process::{self, ExitCode};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::inspect::{self, Inspected, LoadedPlugin};
use crate::cli::project::{Folder, shown};
use crate::cli::terminal::{self, Output};
use host::OwnHost;
use hotshoe_cluster::client::{Cluster, ConnectOptions};
use hotshoe_cluster::discovery::{self, Kinds};
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::read;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::quantity::Span;
use hotshoe_core::model::watched_namespaces::WatchedNamespaces;
use hotshoe_core::rbac::{self, Installation, Served};
use made::Made;
use sample::{Outcome, Sample, Setting};

/// How the names of the namespaces of a test begin.
const PREFIX: &str = "hotshoe-test";
/// The pause before the API server is asked again for a kind that was just defined.
const PAUSE: Duration = Duration::from_millis(200);
/// How many times the limit of a wait the clean-up may take: it removes what several waits have made.
const CLEAN_UPS: u32 = 2;

/// How samples are tried on a cluster.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Try the samples on a cluster instead of the cases: create each in a namespace of its own, wait until it is ready,
    /// delete it, and wait until nothing of it is left. A host is started for that unless one serves the plugin
    #[arg(long, conflicts_with_all = ["filter", "accept", "accept_failures", "save", "bench"])]
    pub(super) cluster: bool,
    /// How long each wait may take: until a sample is ready, and until it is gone
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "cluster")]
    timeout: Span,
    /// Leave what is there of a sample that fails, with its host's accounts, and say where
    #[arg(long, requires = "cluster")]
    keep: bool,
    /// Define the kind of the samples by the project's CRD if the cluster does not know it, and remove it in the end
    #[arg(long, requires = "cluster")]
    install_crds: bool,
    /// Start no host, because one serves the plugin on this cluster, which cannot be seen from here
    #[arg(long, requires = "cluster")]
    no_host: bool,
    #[command(flatten)]
    connect: ConnectOptions,
}

/// Tries the samples of a plugin on a cluster, and prints the results.
///
/// # Errors
/// When there is no sample, or the test cannot be prepared.
pub(super) async fn run(
    folder: &Folder,
    options: &Options,
    components: Option<&Path>,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let inspected = Inspected { plugins: vec![folder.manifest().to_owned()], components: components.map(Into::into) };
    let plugins = inspect::load(&inspected, PREFIX).await?;
    let plugin = plugins.first().context("no plugin was loaded")?;
    let samples = samples(plugin)?;
    let cluster = Cluster::connect(&options.connect).await?;
    terminal::note(format_args!("cluster: {} ({})", cluster.context, cluster.server));
    let component = folder.component(components)?;
    let name = format!("{PREFIX}-{}", unique());
    let kinds = Kinds::default();
    let trial = Trial { plugin, folder, component: &component, options, cluster: &cluster, kinds: &kinds, name: &name };
    let (mut around, mut outcomes) = (Around::default(), Vec::new());
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let tried = tokio::select! {
        tried = trial.try_all(&samples, &mut around, &mut outcomes, output) => tried,
        _ = interrupt.recv() => Err(anyhow!("it was interrupted")),
        _ = terminate.recv() => Err(anyhow!("it was terminated")),
    };
    let has_failed = tried.is_err() || outcomes.iter().any(|outcome| !outcome.passed());
    let left = match options.keep && has_failed {
        true => trial.keep(around).await,
        false => tokio::select! {
            left = trial.remove(around) => left,
            _ = interrupt.recv() => bail!("it was interrupted while it removed what it had made; what is left has {name} in its name"),
        },
    };
    left.iter().for_each(terminal::note);
    tried?;
    conclude(&outcomes, &left, output)
}

/// What a test has made around its samples.
#[derive(Default)]
struct Around {
    /// The namespace of the samples. It goes while the host still runs, which may hold finalizers.
    namespace: Made,
    host: Option<OwnHost>,
    /// What the host needs, and the definition of the kind.
    others: Made,
}

/// A test of one plugin on one cluster.
struct Trial<'a> {
    plugin: &'a LoadedPlugin,
    folder: &'a Folder,
    component: &'a Path,
    options: &'a Options,
    cluster: &'a Cluster,
    kinds: &'a Kinds,
    /// The name of the samples' namespace, by which all names begin that the test chooses.
    name: &'a str,
}

impl Trial<'_> {
    async fn try_all(
        &self,
        samples: &[Sample],
        around: &mut Around,
        outcomes: &mut Vec<Outcome>,
        output: Output,
    ) -> anyhow::Result<()> {
        let parent = &self.plugin.revision.descriptor().parent;
        let is_namespaced = self.define(parent, &mut around.others).await?;
        let serving = match self.options.no_host {
            true => Some("a host that runs".to_owned()),
            false => host::serving(self.cluster, self.kinds, &self.folder.name, parent).await?,
        };
        if let Some(serving) = &serving {
            terminal::note(format_args!("served by {serving}, with the component that is active there"));
        } else if !is_namespaced {
            self.ensure_no_parents(parent).await?;
        }
        if is_namespaced {
            around.namespace.create(self.cluster, self.kinds, &made::namespace(self.name)).await?;
        }
        if serving.is_none() {
            self.start_host(is_namespaced, around).await?;
        }
        let setting = Setting {
            cluster: self.cluster,
            kinds: self.kinds,
            descriptor: self.plugin.revision.descriptor(),
            namespace: self.name,
            timeout: self.options.timeout.0,
        };
        for sample in self.served(samples).await? {
            let outcome = sample::run(sample, &setting, self.options.keep).await;
            if output == Output::Text {
                terminal::print(outcome.text())?;
            }
            let ends = !outcome.passed() && self.options.keep;
            outcomes.push(outcome);
            if ends {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether the samples' kind is in namespaces. Defines it first, if that is asked for and the cluster does
    /// not serve it.
    async fn define(&self, parent: &Kind, others: &mut Made) -> anyhow::Result<bool> {
        let unserved = match self.kinds.find(self.cluster, parent).await {
            Ok(resource) => return Ok(resource.namespaced),
            Err(error) if error.is_not_found() => error,
            Err(error) => return Err(error).context("the samples' kind cannot be looked up"),
        };
        let definition = self.plugin.files.objects().find(|(_, object)| defines(object, parent));
        let Some((file, definition)) = definition else {
            return Err(unserved)
                .with_context(|| format!("there is no CRD of {parent} in the project; apply it first"));
        };
        ensure!(
            self.options.install_crds,
            "the cluster does not serve {parent}; run `kubectl apply -f {}`, or add --install-crds",
            shown(file).display()
        );
        others.create(self.cluster, self.kinds, definition).await?;
        let began = Instant::now();
        loop {
            match self.kinds.find_anew(self.cluster, parent).await {
                Ok(resource) => return Ok(resource.namespaced),
                Err(error) if began.elapsed() >= self.options.timeout.0 => {
                    return Err(error).with_context(|| format!("{parent} was defined and is not served"));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Returns the samples of versions that the cluster serves, or should. A version that needs a webhook is served by a
    /// project's CRD only once it has one: its samples are left out, and named.
    async fn served<'s>(&self, samples: &'s [Sample]) -> anyhow::Result<Vec<&'s Sample>> {
        let mut served = Vec::new();
        for sample in samples {
            let kind = sample.kind();
            let is_left_out = self.plugin.files.objects().any(|(_, object)| leaves_out(object, &kind));
            let found = self.kinds.find(self.cluster, &kind).await;
            if is_left_out && found.is_err_and(|error| error.is_not_found()) {
                terminal::note(format_args!(
                    "skipped {}: this cluster does not serve {}, as the project's CRD does not without a webhook",
                    shown(&sample.file).display(),
                    kind.api_version()
                ));
                continue;
            }
            served.push(sample);
        }
        ensure!(!served.is_empty(), "this cluster serves no version of which there is a sample in crds/samples");
        Ok(served)
    }

    /// Fails if a host for objects without a namespace would act on others than the samples.
    async fn ensure_no_parents(&self, parent: &Kind) -> anyhow::Result<()> {
        let selector = self.plugin.config.parent_selector().to_string();
        let found = read::first_objects(self.cluster, self.kinds, parent, None, &selector, 1).await?;
        let Some(first) = found.first() else { return Ok(()) };
        let name = first.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        bail!(
            "there is a {} {name} on this cluster, and a host for the test would act on it; name another cluster with \
             --context, or start a host that serves it, and add --no-host",
            parent.kind
        )
    }

    /// Starts a host for the samples. The plugin has the rights of its grant, by an account of its own.
    async fn start_host(&self, is_namespaced: bool, around: &mut Around) -> anyhow::Result<()> {
        if let Some(lacking) = self.plugin.lacking() {
            bail!("{lacking}");
        }
        let accounts = format!("{}-host", self.name);
        around.others.create(self.cluster, self.kinds, &made::namespace(&accounts)).await?;
        for manifest in self.rights(&accounts, is_namespaced).await? {
            around.others.create(self.cluster, self.kinds, &manifest).await?;
        }
        let plugin =
            host::Plugin { name: &self.folder.name, manifest: self.folder.manifest(), component: self.component };
        let namespace = is_namespaced.then_some(self.name);
        terminal::note(format_args!("starting a host for {}", namespace.unwrap_or("all namespaces")));
        let host = around.host.insert(OwnHost::start(&plugin, &self.options.connect, namespace, &accounts)?);
        host.serves(&self.folder.name).await
    }

    /// Returns the rights of the plugin's account: in the samples' namespace only, where the grant allows that. All names
    /// among them that count in the whole cluster begin with that of the test.
    async fn rights(&self, accounts: &str, is_namespaced: bool) -> anyhow::Result<Vec<Value>> {
        let plugin = self.plugin.as_plugin();
        let watched =
            if is_namespaced { WatchedNamespaces::named(&[self.name])? } else { WatchedNamespaces::default() };
        let installation = Installation { namespace: accounts.to_owned(), account: self.name.to_owned(), watched };
        let mut served = Vec::new();
        for kind in rbac::kinds(&plugin) {
            let found = discovery::find_in_any_version(self.cluster, self.kinds, &kind).await;
            served.push((kind.clone(), found.unwrap_or_else(|_: ApiError| discovery::conventional(&kind))));
        }
        let served = |kind: &Kind| -> Served {
            let known = served.iter().find(|(other, _)| other == kind);
            known.map_or_else(|| discovery::conventional(kind), |(_, served)| served.clone())
        };
        let rights = rbac::rights_of_plugin(plugin, &installation, &served);
        rights.manifests.iter().map(|manifest| Ok(serde_json::to_value(manifest)?)).collect()
    }

    /// Removes what the test has made. Returns what is left, and why.
    async fn remove(&self, mut around: Around) -> Vec<String> {
        let timeout = self.options.timeout.0 * CLEAN_UPS;
        let mut left = around.namespace.remove(self.cluster, self.kinds, timeout).await;
        if let Some(host) = around.host {
            host.stop().await;
        }
        left.extend(around.others.remove(self.cluster, self.kinds, timeout).await);
        left
    }

    /// Stops the host and leaves the rest. Returns how to look at it, and how to remove it.
    async fn keep(&self, around: Around) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(host) = around.host {
            notes.push(format!("the end of the host's log:{}", host.log()));
            host.stop().await;
        }
        let name = self.name;
        if !around.namespace.is_empty() {
            notes.push(format!(
                "kept: `kubectl get all,events --namespace {name}` shows what is there; `kubectl delete namespace {name}` removes it"
            ));
        }
        if !around.others.is_empty() {
            notes.push(format!(
                "kept, too: the namespace {name}-host, and Roles and ClusterRoles whose names begin with {name}"
            ));
        }
        notes
    }
}

/// Returns the samples of a plugin's parents.
///
/// # Errors
/// If there is none, or a file is no YAML.
fn samples(plugin: &LoadedPlugin) -> anyhow::Result<Vec<Sample>> {
    let parent = &plugin.revision.descriptor().parent;
    if let Some((file, why)) = plugin.files.unreadable().next() {
        bail!("{} is no YAML: {why}", shown(file).display());
    }
    let found = plugin.files.samples().map(|(file, object)| Sample { file: file.clone(), object: object.clone() });
    let found: Vec<Sample> = found.filter(|sample| sample.kind().is(&parent.group, &parent.kind)).collect();
    ensure!(!found.is_empty(), "there is no sample of {parent} in crds/samples; write one");
    Ok(found)
}

/// Returns whether an object is the CRD of a kind.
fn defines(object: &Value, kind: &Kind) -> bool {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_crd = Kind::of(text("/apiVersion"), text("/kind")) == made::crd_kind();
    is_crd && kind.is(text("/spec/group"), text("/spec/names/kind"))
}

/// Returns whether an object is the CRD of a kind, and does not serve this version of it.
fn leaves_out(object: &Value, kind: &Kind) -> bool {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let mut unserved = versions.filter(|version| version.get("served") == Some(&Value::Bool(false)));
    defines(object, kind) && unserved.any(|version| version.get("name").is_some_and(|name| *name == *kind.version))
}

/// Returns a word that no other test has.
fn unique() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let digest = Digest::of(format!("{} {}", process::id(), now.as_nanos()).as_bytes());
    digest.to_string().chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

fn conclude(outcomes: &[Outcome], left: &[String], output: Output) -> anyhow::Result<ExitCode> {
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    let records: Value = outcomes.iter().map(Outcome::record).collect();
    output.print(&records, || Ok(format!("{} passed, {failed} failed\n", outcomes.len() - failed)))?;
    Ok(if failed == 0 && left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crd_is_found_by_the_kind_that_it_defines() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": { "group": "example.com", "names": { "kind": "Test" } },
        });
        assert!(defines(&crd, &Kind::new("example.com", "v2", "Test")));
        assert!(!defines(&crd, &Kind::new("example.com", "v2", "Other")));
        assert!(!defines(&json!({ "kind": "Test" }), &Kind::new("example.com", "v2", "Test")));
    }

    #[test]
    fn a_crd_leaves_out_the_versions_that_it_does_not_serve() {
        let versions = json!([{ "name": "v1", "served": true }, { "name": "v1beta1", "served": false }]);
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": { "group": "example.com", "names": { "kind": "Test" }, "versions": versions },
        });
        let leaves_out = |kind: &str, version: &str| leaves_out(&crd, &Kind::new("example.com", version, kind));
        assert!(leaves_out("Test", "v1beta1"));
        assert!(!leaves_out("Test", "v1") && !leaves_out("Test", "v2") && !leaves_out("Other", "v1beta1"));
    }

    #[test]
    fn each_test_has_a_name_that_namespaces_may_have() {
        let (one, other) = (unique(), unique());
        assert_ne!(one, other);
        assert!(one.len() == 8 && one.chars().all(|digit| digit.is_ascii_hexdigit()), "{one}");
    }
}
