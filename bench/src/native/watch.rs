//! The watches, their caches, and the triggers of a reconcile.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use futures::stream::{BoxStream, select_all};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{Config, applier};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{PredicateConfig, WatchStreamExt, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::pods::Pods;
use super::reconcile::{Context, on_error, reconcile};
use crate::resource::Memcached;

/// The number of concurrent reconciles.
const CONCURRENCY: u16 = 10;
/// The label selector that all children and Pods match.
const LABELS: &str = "app=memcached,app.kubernetes.io/part-of=memcached-operator";

type Woken = BoxStream<'static, Result<ObjectRef<Memcached>, watcher::Error>>;

/// Runs the operator until its watches end, which they do not.
pub async fn run(client: kube::Client, image: Option<&str>) {
    let (parents, woken_by_parents) = parents(&client);
    let (deployments, woken_by_deployments) = children(&client);
    let (services, woken_by_services) = children(&client);
    let pods = Arc::new(Pods::default());
    let woken = [woken_by_parents, woken_by_deployments, woken_by_services, woken_by_pods(&client, pods.clone())];
    let reporter = Reporter { controller: "native-memcached".to_owned(), instance: None };
    let context = Context {
        recorder: Recorder::new(client.clone(), reporter),
        client,
        deployments,
        services,
        pods,
        config: json!({ "image": image }).to_string(),
        first_statuses: Mutex::default(),
    };
    let work = |parent, context| Box::pin(reconcile(parent, context));
    let config = Config::default().concurrency(CONCURRENCY);
    applier(work, on_error, Arc::new(context), parents, select_all(woken), config)
        .for_each(|_| std::future::ready(()))
        .await;
}

fn parents(client: &kube::Client) -> (Store<Memcached>, Woken) {
    let (reader, writer) = reflector::store();
    let woken = watcher(Api::<Memcached>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|parent| parent.managed_fields_mut().clear())
        .reflect(writer)
        .applied_objects()
        .predicate_filter(concerns_us, PredicateConfig::default())
        .map_ok(|parent| ObjectRef::from_obj(&parent));
    (reader, woken.boxed())
}

/// Hashes the parts of a `Memcached` that the operator reacts to: not the status, which it writes itself.
fn concerns_us(parent: &Memcached) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    (parent.metadata.generation, parent.finalizers(), parent.metadata.deletion_timestamp.is_some()).hash(&mut hasher);
    Some(hasher.finish())
}

fn children<K>(client: &kube::Client) -> (Store<K>, Woken)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (reader, writer) = reflector::store();
    let woken = watcher(Api::<K>::all(client.clone()), watcher::Config::default().labels(LABELS))
        .default_backoff()
        .modify(|child| child.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects()
        .try_filter_map(|child| std::future::ready(Ok(parent_of(&child))));
    (reader, woken.boxed())
}

fn parent_of(child: &impl ResourceExt) -> Option<ObjectRef<Memcached>> {
    let owner = child.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "Memcached").then(|| ObjectRef::new(&owner.name).within(&child.namespace().unwrap_or_default()))
}

fn woken_by_pods(client: &kube::Client, pods: Arc<Pods>) -> Woken {
    let pods_by_name = Api::<PartialObjectMeta<Pod>>::all(client.clone());
    let events = watcher(pods_by_name, watcher::Config::default().labels(LABELS));
    events.default_backoff().try_filter_map(move |event| std::future::ready(Ok(pods.learn(event)))).boxed()
}
