//! Reads and changes the `Plugin` objects of a cluster, as the caller of the command.

use anyhow::Context;
use serde_json::Value;

use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::plugin_object;
use hotshoe_operator::config::manifest::KIND;
use hotshoe_operator::config::plugin_resource::{GROUP, PLURAL, VERSION};

/// The `Plugin` objects of a cluster.
pub(super) struct Objects {
    cluster: Cluster,
    resource: Resource,
}

impl Objects {
    pub(super) fn of(cluster: Cluster) -> Self {
        Self { cluster, resource: plugin_object::resource(GROUP, VERSION, KIND, PLURAL) }
    }

    pub(super) async fn get(&self, name: &str) -> anyhow::Result<Value> {
        let object = plugin_object::read(&self.cluster, &self.resource, Some(name)).await;
        object.with_context(|| format!("the Plugin {name} cannot be read; `kubectl hotshoe status` lists all Plugins"))
    }

    pub(super) async fn list(&self) -> anyhow::Result<Vec<Value>> {
        let list = plugin_object::read(&self.cluster, &self.resource, None).await;
        let list = list.context("the Plugin objects cannot be listed; is the kind installed? `hotshoe crd --host | kubectl apply -f -` does that")?;
        Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    pub(super) async fn patch(&self, name: &str, spec: Value) -> anyhow::Result<()> {
        let patched = plugin_object::patch_spec(&self.cluster, &self.resource, name, &spec).await;
        patched.with_context(|| format!("the Plugin {name} cannot be changed"))?;
        Ok(())
    }
}
