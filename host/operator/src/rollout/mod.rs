//! Which revision of a plugin is active, and how another one replaces it: [`driver`] orders the steps, [`install`]
//! activates a component, [`views`] opens its watches, `canary` runs a revision for some of the parents first,
//! [`rollback`] rolls back.

mod canary;
pub mod config_reload;
pub mod definition;
pub mod driver;
pub mod dry_run;
pub mod explain;
pub(crate) mod fetch;
mod followed_history;
pub mod history;
pub mod host_lock;
pub mod install;
pub mod managed_plugin;
mod present_status;
pub mod provenance;
mod recording;
pub mod rollback;
mod standby;
pub mod state;
mod step;
mod supervised;
pub mod unaccepted;
mod underway;
pub mod verify;
pub mod views;

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use crate::config::PluginConfig;
use crate::config::manifest::ShardBy;
use crate::reconcile::controller::{Controller, HostShare};
use crate::reconcile::{needed_watches, worker};
use crate::rollout::definition::Definition;
use crate::rollout::history::{Entry, History};
use crate::rollout::managed_plugin::{ManagedPlugin, Shared};
use hotshoe_cluster::apply::Writer;
use hotshoe_cluster::identity::Identity;
use hotshoe_cluster::rate_limit::RateLimit;

/// Starts the workers and the rollout of a plugin. `remembered` is the history that is kept outside of this host's
/// disk.
pub async fn start(
    plugin: PluginConfig,
    definition: Definition,
    remembered: Vec<Entry>,
    shared: Arc<Shared>,
) -> Arc<ManagedPlugin> {
    config_reload::warn_of_likely_mistakes(&plugin);
    let (requests, commands) = mpsc::channel(1);
    let place = plugin.place(&shared.cluster.identity, shared.watches.namespaces().joined().as_deref());
    let history = open_history(&shared, place, remembered).await;
    let identity = Identity::plugin(&shared.host.namespace, &plugin.name);
    let kinds = shared.watches.kinds.clone();
    let rate_limit = RateLimit::new(&plugin.limits, shared.metrics.delays(&plugin.name));
    let writer = Writer::new(&shared.cluster, kinds.clone(), &plugin.name, identity, rate_limit);
    let shards = shared.leases.shards();
    let one = (plugin.shard_by == ShardBy::Plugin).then(|| shards.of_plugin(&plugin.name));
    let (name, recorder, metrics) = (plugin.name.clone(), shared.recorder.clone(), shared.metrics.clone());
    let controller = Controller::new(name, writer, recorder, kinds, metrics, HostShare { shards, one });
    controller.pause(plugin.wanted.paused);
    let managed = Arc::new(ManagedPlugin::new(controller, shared, plugin, history, requests));
    managed.spawn(worker::run(managed.controller.clone()));
    managed.spawn(managed.controller.clone().follow_shards());
    managed.spawn(needed_watches::run(managed.controller.clone()));
    managed.spawn(managed.controller.clone().follow_schema(managed.shared.cluster.clone()));
    let (driven, commands) = (managed.clone(), Arc::new(Mutex::new(commands)));
    managed.spawn_supervised("rollout", move || driver::run(driven.clone(), definition.again(), commands.clone()));
    let fetching = managed.clone();
    managed.spawn_supervised("fetch", move || fetch::run(fetching.clone()));
    let controller = managed.controller.clone();
    managed.spawn(async move { controller.writer.check_impersonation().await });
    managed
}

/// Reads the history of a plugin on a blocking thread, because the disk may be slow.
async fn open_history(shared: &Shared, place: String, remembered: Vec<Entry>) -> History {
    let (kept, room) = (shared.kept.clone(), shared.room.clone());
    let known = remembered.clone();
    let open = move || History::open(kept.as_deref(), &place, room).or_newer(known);
    tokio::task::spawn_blocking(open).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the history of revisions cannot be read, and is not kept");
        History::default().or_newer(remembered)
    })
}
