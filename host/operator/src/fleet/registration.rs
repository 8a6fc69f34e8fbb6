//! Registers the webhooks of the plugins with the API server, if the host keeps its own certificates: whom to ask, and
//! which CAs to trust.
//!
//! Level-triggered: every few seconds, each registration is compared with what it should be. So one that was lost, or
//! changed by others, is put back. A definition whose objects are converted is watched, too: applied again, it serves
//! fewer versions until then. Of several hosts, the one that holds the Lease of the plugin writes; all answer. The
//! registration of a plugin that a `Plugin` object describes is owned by that object, and goes with it even if no host
//! is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::config::Origin;
use crate::config::manifest::{Admission, KIND};
use crate::config::plugin_resource::{GROUP, VERSION};
use crate::fleet::Fleet;
use crate::reconcile::active_revision::ActiveRevision;
use crate::rollout::managed_plugin::{ManagedPlugin, Shared};
use crate::webhooks::configuration::{self, Access, BuiltinFails, FailurePolicy, Target};
use crate::webhooks::conversion_patch::{self, ForeignConversion};
use crate::webhooks::own_certificates::{Certified, MANAGED_BY};
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::host_object::{self, HostObject};
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::object_watch;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::rbac::{Installation, Served, webhooks};
use hotshoe_platform::spans;

/// How often the registrations are looked at. A read of one object by its name costs an API server next to nothing, and
/// a watch of each would keep a connection busy.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// How many plugins are looked at at once.
const AT_ONCE: usize = 8;
/// The name of a host's account where the API server does not say which it is: the host is outside of the cluster.
const DEFAULT_ACCOUNT: &str = "hotshoe";
/// The label with the name of the plugin.
const PLUGIN_LABEL: &str = "hotshoe.dev/plugin";

/// Why a registration is not as it should be.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Api(Box<ApiError>),
    #[error(
        "{0}; apply what `hotshoe rbac --webhooks` prints (with --plugin-only for one more plugin of a host that \
         follows Plugin objects)"
    )]
    Right(Box<ApiError>),
    #[error("{0}")]
    Builtin(#[from] BuiltinFails),
    #[error("{0}")]
    Conversion(#[from] ForeignConversion),
    #[error("there is no CustomResourceDefinition {0}; create it")]
    NoDefinition(String),
    #[error(
        "the {kind} {name} is not of this plugin: it has not the labels {label}={value} and {PLUGIN_LABEL}; delete it, \
         and the host makes its own",
        label = MANAGED_BY.0, value = MANAGED_BY.1
    )]
    Foreign { kind: Arc<str>, name: String },
    #[error("the host has no certificate: {0}")]
    Uncertified(String),
}

impl Problem {
    fn of(error: ApiError) -> Self {
        let is_forbidden = error.code == 403;
        let error = Box::new(error);
        if is_forbidden { Self::Right(error) } else { Self::Api(error) }
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self::Api(Box::new(error))
    }
}

/// Registers the webhooks of a host's plugins.
pub struct Registration {
    shared: Arc<Shared>,
    fleet: Arc<Fleet>,
    certified: watch::Receiver<Certified>,
    target: Target,
    /// What is known of the plugins for which this host writes.
    known: BTreeMap<Arc<str>, Known>,
    /// Notified when a definition may have changed.
    changed: Arc<Notify>,
}

/// Which of the two configurations of a plugin may be there: the validating one and the mutating one.
type Registered = [bool; 2];

/// What is registered of a plugin that runs.
struct Kept {
    registered: Registered,
    /// The name of the definition whose objects the plugin converts.
    definition: Option<String>,
}

/// What is known of a plugin's registration.
#[derive(Default)]
struct Known {
    registered: Registered,
    /// The definition whose objects the plugin converts.
    definition: Option<Definition>,
    /// Why the registration of a plugin that is gone could not be deleted.
    failing: Option<String>,
}

/// A definition that is watched.
struct Definition {
    name: String,
    _watch: AbortOnDropHandle<()>,
}

impl Definition {
    fn watch(name: String, cluster: &Cluster, changed: &Arc<Notify>) -> Self {
        let (cluster, changed, followed) = (cluster.clone(), changed.clone(), name.clone());
        let watch = async move {
            object_watch::follow(&cluster, &definitions(), &followed, || changed.notify_one()).await;
        };
        Self { name, _watch: AbortOnDropHandle::new(tokio::spawn(watch)) }
    }
}

impl Known {
    fn is_registered(&self) -> bool {
        self.registered.contains(&true)
    }
}

impl Registration {
    /// Creates the task of a host that serves its webhooks at this target.
    pub fn new(shared: Arc<Shared>, fleet: Arc<Fleet>, certified: watch::Receiver<Certified>, target: Target) -> Self {
        Self { shared, fleet, certified, target, known: BTreeMap::new(), changed: Arc::default() }
    }

    /// Keeps the registrations until the process ends. They stay then: another host may answer.
    pub async fn run(mut self) {
        loop {
            let pass = self.pass();
            self.keep(&pass).await;
            self.remove_left(&pass).await;
            tokio::select! {
                Ok(()) = self.certified.changed() => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    fn pass(&mut self) -> Pass {
        let certified = self.certified.borrow_and_update().clone();
        let host = &self.shared.host;
        let account = host.account.get().cloned().unwrap_or_else(|| DEFAULT_ACCOUNT.to_owned());
        let watched = self.shared.watches.namespaces().clone();
        let installation = Installation { namespace: host.namespace.to_string(), account, watched };
        let access = match certified.certificates {
            Some(certificates) => Ok(Access {
                target: self.target.clone(),
                authorities: Some(certificates.bundle.as_bytes().to_vec()),
                certificate: None,
                failure_policy: FailurePolicy::Ignore,
            }),
            None => Err(certified.problem.unwrap_or_else(|| "it is being made".to_owned())),
        };
        Pass { shared: self.shared.clone(), installation, access }
    }

    /// Looks at the registrations of the plugins that run, as far as this host writes for them.
    async fn keep(&mut self, pass: &Pass) {
        let plugins = self.fleet.all().into_iter().filter_map(|plugin| {
            let permit = self.permit(&plugin.controller.name)?;
            let known = self.known.get(&plugin.controller.name);
            Some((plugin, permit, known.map_or([true; 2], |known| known.registered)))
        });
        let looked_at = futures::stream::iter(plugins).map(async |(plugin, permit, registered)| {
            let span = spans::plugin(&plugin.controller.name);
            let (kept, problem) = match pass.keep(&plugin, registered, &permit).instrument(span.clone()).await {
                Ok(kept) => (Some(kept), None),
                Err(problem) => (None, Some(problem.to_string())),
            };
            span.in_scope(|| plugin.note_unregistered(problem));
            (plugin.controller.name.clone(), kept)
        });
        let looked_at: Vec<_> = looked_at.buffer_unordered(AT_ONCE).collect().await;
        for (name, kept) in looked_at {
            self.note(name, kept);
        }
    }

    /// Notes what is registered of a plugin that runs: anything may be, if that failed.
    fn note(&mut self, name: Arc<str>, kept: Option<Kept>) {
        let known = self.known.entry(name).or_default();
        known.failing = None;
        let Some(Kept { registered, definition }) = kept else {
            known.registered = [true; 2];
            return;
        };
        known.registered = registered;
        if known.definition.as_ref().map(|known| &known.name) != definition.as_ref() {
            let watch = |name| Definition::watch(name, &self.shared.cluster, &self.changed);
            known.definition = definition.map(watch);
        }
    }

    /// Deletes the registrations of plugins that do not run any more.
    async fn remove_left(&mut self, pass: &Pass) {
        let mut known = std::mem::take(&mut self.known);
        for (name, known) in &mut known {
            // Of what another host writes, nothing is known.
            let Some(permit) = self.permit(name) else {
                known.registered = [false; 2];
                continue;
            };
            if self.fleet.find(name).is_ok() || !known.is_registered() {
                continue;
            }
            let span = spans::plugin(name);
            let failing = match pass.remove_all(name, known.registered, &permit).instrument(span.clone()).await {
                Ok(()) => {
                    known.registered = [false; 2];
                    None
                }
                Err(problem) => Some(problem.to_string()),
            };
            if let Some(why) = failing.as_ref().filter(|why| known.failing.as_ref() != Some(why)) {
                span.in_scope(|| tracing::warn!("the registration of a plugin that is gone cannot be deleted: {why}"));
            }
            known.failing = failing;
        }
        known.retain(|name, known| {
            known.is_registered() || (self.fleet.find(name).is_ok() && self.permit(name).is_some())
        });
        self.known = known;
    }

    /// Returns the permit to write for a plugin, if this host holds its Lease.
    fn permit(&self, plugin: &str) -> Option<Permit> {
        let shards = self.shared.leases.shards();
        shards.permit(shards.of_plugin(plugin))
    }
}

/// One look at all registrations.
struct Pass {
    shared: Arc<Shared>,
    installation: Installation,
    /// How the API server is to reach and trust the host, or why it cannot.
    access: Result<Access, String>,
}

impl Pass {
    /// Makes the registration of a plugin what it should be. Returns what is registered.
    async fn keep(&self, plugin: &ManagedPlugin, registered: Registered, permit: &Permit) -> Result<Kept, Problem> {
        let name = &*plugin.controller.name;
        // Without an active revision, it is not known what to ask about.
        let Some(active) = plugin.controller.active() else { return Ok(Kept { registered, definition: None }) };
        let config = plugin.plugin();
        let is_asked = config.admission != Admission::Off;
        if !is_asked && !active.revision.converts() {
            let registered = self.keep_configurations(name, [None, None], registered, permit).await?;
            return Ok(Kept { registered, definition: None });
        }
        let access = self.access.as_ref().map_err(|why| Problem::Uncertified(why.clone()))?;
        let kinds = &self.shared.watches.kinds;
        let found = kinds.find(&self.shared.cluster, active.parent_kind()).await?;
        let served = found.served();
        let wanted = match is_asked {
            true => self.configurations(name, &active, &config.origin, (access, &served))?,
            false => [None, None],
        };
        let registered = self.keep_configurations(name, wanted, registered, permit).await?;
        let definition = active.revision.converts().then(|| webhooks::definition(active.parent_kind(), &served));
        if let Some(definition) = &definition {
            self.convert(name, definition, access, permit).await?;
        }
        Ok(Kept { registered, definition })
    }

    /// Returns the configurations of a plugin that is asked about its parents.
    fn configurations(
        &self,
        plugin: &str,
        active: &ActiveRevision,
        origin: &Origin,
        (access, served): (&Access, &Served),
    ) -> Result<[Option<Value>; 2], Problem> {
        let (parent, installation) = (active.parent_kind(), &self.installation);
        let validating = configuration::validating(plugin, parent, served, access, installation)?;
        let mutates = active.revision.defaults();
        let mutating = mutates.then(|| configuration::mutating(plugin, parent, served, access, installation));
        Ok([Some(owned(validating, origin)), mutating.flatten().map(|mutating| owned(mutating, origin))])
    }

    /// Writes the configurations that are wanted, and deletes those that are not.
    async fn keep_configurations(
        &self,
        plugin: &str,
        wanted: [Option<Value>; 2],
        mut registered: Registered,
        permit: &Permit,
    ) -> Result<Registered, Problem> {
        for ((resource, wanted), is_registered) in resources().iter().zip(wanted).zip(&mut registered) {
            *is_registered = match wanted {
                Some(wanted) => self.write(plugin, resource, &wanted, permit).await.map(|()| true)?,
                None if *is_registered => match self.remove(plugin, resource, permit).await {
                    // A host that may not read it has not written it either.
                    Ok(()) | Err(Problem::Right(_)) => false,
                    Err(problem) => return Err(problem),
                },
                None => false,
            };
        }
        Ok(registered)
    }

    /// Writes a configuration, unless it is there already.
    async fn write(&self, plugin: &str, resource: &Resource, wanted: &Value, permit: &Permit) -> Result<(), Problem> {
        let key = self.key(plugin);
        let object = self.object(resource, &key);
        let live = object.read().await.map_err(Problem::of)?;
        if let Some(live) = &live {
            ensure_own(live, plugin, resource)?;
        }
        if live.is_some_and(|live| conversion_patch::covers(&live, wanted)) {
            return Ok(());
        }
        object.apply(wanted, permit).await.map_err(Problem::of)?;
        tracing::info!("the {} {} is written: the API server asks about parents", resource.kind.kind, key.name);
        Ok(())
    }

    /// Has the API server convert the objects of a definition by the plugin.
    async fn convert(&self, plugin: &str, definition: &str, access: &Access, permit: &Permit) -> Result<(), Problem> {
        let (key, resource) = (Key::new(None, definition), definitions());
        let object = self.object(&resource, &key);
        let live = object.read().await.map_err(Problem::of)?;
        let live = live.ok_or_else(|| Problem::NoDefinition(definition.to_owned()))?;
        let wanted = configuration::conversion(plugin, access, &self.installation);
        let converting = conversion_patch::of(&live, &wanted, &configuration::conversion_path(plugin))?;
        let converts = converting.is_none();
        let Some(patch) = converting.or_else(|| conversion_patch::giving_up_versions(&live)) else { return Ok(()) };
        match object.patch(&patch, permit).await {
            // The next look sees what the other writer wrote.
            Err(error) if error.is_failed_test() => return Ok(()),
            patched => patched.map_err(Problem::of)?,
        };
        if !converts {
            tracing::info!("the CustomResourceDefinition {definition} is patched: the plugin converts its objects");
        }
        Ok(())
    }

    /// Deletes what is registered of a plugin.
    async fn remove_all(&self, plugin: &str, registered: Registered, permit: &Permit) -> Result<(), Problem> {
        for (resource, _) in resources().iter().zip(registered).filter(|(_, is_registered)| *is_registered) {
            self.remove(plugin, resource, permit).await?;
        }
        Ok(())
    }

    /// Deletes a configuration of a plugin, if there is one.
    async fn remove(&self, plugin: &str, resource: &Resource, permit: &Permit) -> Result<(), Problem> {
        let key = self.key(plugin);
        let object = self.object(resource, &key);
        let Some(live) = object.read().await.map_err(Problem::of)? else { return Ok(()) };
        if ensure_own(&live, plugin, resource).is_err() {
            return Ok(());
        }
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        object.delete(uid, permit).await.map_err(Problem::of)?;
        tracing::info!("the {} {} is deleted", resource.kind.kind, key.name);
        Ok(())
    }

    fn key(&self, plugin: &str) -> Key {
        Key::new(None, &webhooks::registration(plugin, &self.installation))
    }

    fn object<'a>(&'a self, resource: &'a Resource, key: &'a Key) -> HostObject<'a> {
        HostObject { cluster: &self.shared.cluster, resource, key }
    }
}

/// Returns the object, owned by the `Plugin` object that describes the plugin, if one does.
fn owned(mut object: Value, origin: &Origin) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let (Origin::Object { name, uid }, Some(metadata)) = (origin, metadata) {
        let owner = json!({ "apiVersion": format!("{GROUP}/{VERSION}"), "kind": KIND, "name": name, "uid": uid });
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    object
}

/// Fails if a registration is not the plugin's.
fn ensure_own(live: &Value, plugin: &str, resource: &Resource) -> Result<(), Problem> {
    let labels = live.pointer("/metadata/labels");
    let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
    if label(MANAGED_BY.0) == Some(MANAGED_BY.1) && label(PLUGIN_LABEL) == Some(plugin) {
        return Ok(());
    }
    let name = live.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    Err(Problem::Foreign { kind: resource.kind.kind.clone(), name })
}

/// Returns the resources of both configurations.
fn resources() -> [Resource; 2] {
    let group = "admissionregistration.k8s.io";
    [
        resource(group, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
        resource(group, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    ]
}

/// Returns the resource of the definitions of kinds.
fn definitions() -> Resource {
    resource("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions")
}

/// Returns the resource of a kind without namespaces.
fn resource(group: &str, kind: &str, plural: &str) -> Resource {
    host_object::resource(Kind::new(group, "v1", kind), plural, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_goes_with_the_object_of_its_plugin_and_stays_without_one() {
        let object = json!({ "metadata": { "name": "hotshoe-demo" } });
        let origin = Origin::Object { name: "demo".into(), uid: "u".into() };
        let owner = json!({ "apiVersion": "hotshoe.dev/v1alpha1", "kind": "Plugin", "name": "demo", "uid": "u" });
        assert_eq!(owned(object.clone(), &origin)["metadata"]["ownerReferences"], json!([owner]));
        assert_eq!(owned(object.clone(), &Origin::File("plugin.yaml".into())), object);
    }

    #[test]
    fn what_has_not_the_labels_of_the_plugin_is_not_touched() {
        let live = |labels| json!({ "metadata": { "name": "hotshoe-demo", "labels": labels } });
        let own = json!({ MANAGED_BY.0: MANAGED_BY.1, PLUGIN_LABEL: "demo" });
        assert!(ensure_own(&live(own), "demo", &resources()[0]).is_ok());
        for labels in
            [json!({}), json!({ MANAGED_BY.0: MANAGED_BY.1, PLUGIN_LABEL: "other" }), json!({ PLUGIN_LABEL: "demo" })]
        {
            let error = ensure_own(&live(labels), "demo", &resources()[0]).unwrap_err().to_string();
            assert!(error.contains("hotshoe-demo is not of this plugin") && error.contains("delete it"), "{error}");
        }
    }
}
