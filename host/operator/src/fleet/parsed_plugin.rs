//! A `Plugin` object and its parsed content.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::manifest::{KIND, Plugin};
use crate::config::plugin_resource::{FINALIZER, GROUP, PluginStatus, VERSION};
use crate::fleet::remembered::{ANNOTATION, Remembered};
use crate::rollout::history::{Entry, History};
use hotshoe_core::model::object::Object;

/// An object and its parsed content.
pub(super) struct ParsedPlugin {
    pub(super) object: Arc<Object>,
    pub(super) created: String,
    /// The description of the plugin, as JSON.
    pub(super) json: Arc<[u8]>,
    /// The parsed description, or why it cannot be parsed.
    pub(super) plugin: Result<Plugin, String>,
    /// The status as far as it is the host's own.
    pub(super) status: PluginStatus,
    /// The status in the object, in which others may have written.
    pub(super) shown: PluginStatus,
    /// The annotation with what the host remembers.
    pub(super) remembered: Option<String>,
}

impl ParsedPlugin {
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
        let shown: PluginStatus =
            object.status().and_then(|status| serde_json::from_str(status).ok()).unwrap_or_default();
        let annotations = body.pointer("/metadata/annotations");
        let remembered = annotations.and_then(|all| all.get(ANNOTATION)?.as_str()).map(str::to_owned);
        let was_served = object.finalizers.iter().any(|present| **present == *FINALIZER);
        let status = Remembered::believed(remembered.as_deref(), &object.uid, &shown, was_served);
        Self { object, created, json, plugin, status, shown, remembered }
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

    /// Returns the history of the plugin's revisions that the host remembers.
    pub(super) fn history(&self) -> Vec<Entry> {
        History::read(&self.status.history)
    }
}
