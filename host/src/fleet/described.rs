//! A `Plugin` object and its parsed content.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::manifest::{KIND, Plugin};
use crate::config::plugin_resource::{FINALIZER, GROUP, PluginStatus, VERSION};
use crate::rollout::history::Entry;
use hotshoe_core::model::object::Object;

/// An object and its parsed content.
pub(super) struct Described {
    pub(super) object: Arc<Object>,
    pub(super) created: String,
    /// The description of the plugin, as JSON.
    pub(super) json: Arc<[u8]>,
    /// The parsed description, or why it cannot be parsed.
    pub(super) plugin: Result<Plugin, String>,
    /// The status in the object.
    pub(super) status: PluginStatus,
}

impl Described {
    pub(super) fn read(object: Arc<Object>) -> Self {
        let body: Value = serde_json::from_str(&object.body).unwrap_or_default();
        let created =
            body.pointer("/metadata/creationTimestamp").and_then(Value::as_str).unwrap_or_default().to_owned();
        let described = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": KIND,
            "metadata": { "name": &*object.key.name },
            "spec": body.get("spec").cloned().unwrap_or_default(),
        });
        let json: Arc<[u8]> = described.to_string().into_bytes().into();
        let plugin = serde_json::from_slice(&json).map_err(|error| format!("the Plugin cannot be read: {error}"));
        let status = object.status().and_then(|status| serde_json::from_str(status).ok()).unwrap_or_default();
        Self { object, created, json, plugin, status }
    }

    pub(super) fn name(&self) -> &str {
        &self.object.key.name
    }

    pub(super) fn has_finalizer(&self) -> bool {
        self.object.finalizers.iter().any(|present| **present == *FINALIZER)
    }

    /// Returns whether the object is being deleted, and the host has removed its finalizer.
    pub(super) fn is_gone(&self) -> bool {
        self.object.deleting && !self.has_finalizer()
    }

    /// Returns the history of the plugin's revisions in the status, without entries that cannot be parsed.
    pub(super) fn history(&self) -> Vec<Entry> {
        self.status.history.iter().filter_map(|entry| serde_json::from_value(entry.clone()).ok()).collect()
    }
}
