//! The workers of one controller per plugin. Its component is followed by [`driver`](crate::rollout::driver) and
//! taken by [`rollout`](crate::rollout::install).

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::cluster::apply::Writer;
use crate::cluster::identity::Identity;
use crate::cluster::rate_limit::RateLimit;
use crate::config::PluginConfig;
use crate::reconcile::controller::Controller;
use crate::reconcile::worker;
use crate::rollout::config_reload;
use crate::rollout::driver;
use crate::rollout::history::History;
use crate::rollout::managed_plugin::{Shared, Supervised};

/// Starts a plugin.
pub fn start(plugin: PluginConfig, shared: Arc<Shared>) -> Arc<Supervised> {
    config_reload::tell_unset(&plugin);
    let (requests, wishes) = mpsc::channel(1);
    let history = History::open(shared.kept.as_deref(), &plugin.place(&shared.cluster.identity));
    let identity = Identity::plugin(&shared.host.namespace, &plugin.name);
    let kinds = shared.watches.kinds.clone();
    let rate_limit = RateLimit::new(&plugin.name, &plugin.limits, shared.metrics.clone());
    let writer = Writer::new(&shared.cluster, kinds.clone(), &plugin.name, identity, rate_limit);
    let controller =
        Controller::new(plugin.name.clone(), writer, shared.recorder.clone(), kinds, shared.metrics.clone());
    let supervised = Arc::new(Supervised::new(controller, shared, plugin, history, requests));
    tokio::spawn(worker::run(supervised.controller.clone()));
    tokio::spawn(driver::follow(supervised.clone(), wishes));
    supervised
}
