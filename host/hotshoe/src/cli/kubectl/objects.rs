//! Reads and changes the `Plugin` objects of a cluster, as the caller of the command.

use anyhow::Context;
use serde_json::Value;

use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::plugin_object;
use hotshoe_operator::config::manifest::KIND;
use hotshoe_operator::config::plugin_resource::{GROUP, PLURAL, Pending, VERSION};
use hotshoe_sandbox::error::Reason;

/// The `Plugin` objects of a cluster.
pub(super) struct Objects {
    cluster: Cluster,
    resource: Resource,
}

/// An object that was changed.
pub(super) struct Patched<'a> {
    /// Its name.
    pub(super) plugin: &'a str,
    /// The generation with the change, from which on the status is about it.
    pub(super) generation: i64,
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

    /// Changes members of the spec.
    pub(super) async fn patch<'a>(&self, plugin: &'a str, spec: Value) -> anyhow::Result<Patched<'a>> {
        let patched = plugin_object::patch_spec(&self.cluster, &self.resource, plugin, &spec).await;
        let patched = patched.with_context(|| format!("the Plugin {plugin} cannot be changed"))?;
        let object: Value = serde_json::from_str(&patched).unwrap_or_default();
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        Ok(Patched { plugin, generation })
    }
}

/// Returns whether an approval activates a component that is not activated.
pub(super) fn can_be_approved(pending: &Pending) -> bool {
    serde_json::from_value(pending.reason.as_str().into()).is_ok_and(Reason::can_be_approved)
}
