//! The lines that `plugin.yaml` lacks to grant what a component asks for, ready to be pasted.

use serde_json::json;

use crate::config::PluginConfig;
use hotshoe_core::check::denied;
use hotshoe_core::check::fix::Fix;
use hotshoe_core::check::grant;
use hotshoe_core::check::remedy;
use hotshoe_core::model::decision::Descriptor;
use hotshoe_sandbox::error::LoadError;

/// Returns what is missing in `spec` as YAML, ready to be pasted; none if everything is granted, or cannot be granted.
pub fn block(plugin: &PluginConfig, descriptor: &Descriptor) -> Option<String> {
    let (parent, finalizer) = (parent(plugin, descriptor), finalizer(plugin, descriptor));
    remedy::plugin_yaml(parent.iter().chain(&finalizer).chain(&grants(plugin, descriptor)), &plugin.grant)
}

impl PluginConfig {
    /// Checks that everything that `describe` asks for is granted.
    ///
    /// # Errors
    /// Returns what is asked for and not granted, with the rules to add.
    pub fn ensure_granted(&self, descriptor: &Descriptor) -> Result<(), LoadError> {
        self.ensure_parent(&descriptor.parent)?;
        let Some(lacking) = self.lacking(descriptor) else { return Ok(()) };
        let add = line(self, descriptor).map(|rules| format!("; add to spec.grants: {rules}"));
        Err(LoadError::NotGranted(lacking + &add.unwrap_or_default()))
    }
}

/// Returns the missing grants in one line, for a log.
fn line(plugin: &PluginConfig, descriptor: &Descriptor) -> Option<String> {
    let element = |fix: &Fix| match fix {
        Fix::Grant(opening) => Some(opening.element()),
        Fix::Spec(..) | Fix::Answer(_) => None,
    };
    let grants: Vec<String> = grants(plugin, descriptor).iter().filter_map(element).collect();
    (!grants.is_empty()).then(|| grants.join(" "))
}

fn parent(plugin: &PluginConfig, descriptor: &Descriptor) -> Option<Fix> {
    let asked = &descriptor.parent;
    plugin.parent_lacking(asked)?;
    let value = json!({ "group": &*asked.group, "kind": &*asked.kind });
    denied::reason(asked).is_none().then_some(Fix::Spec("parent", value))
}

fn finalizer(plugin: &PluginConfig, descriptor: &Descriptor) -> Option<Fix> {
    let finalizer = descriptor.finalizer.as_ref().filter(|finalizer| !plugin.finalizers.has(finalizer))?;
    let named = plugin.finalizers.named().iter().map(|named| json!(named));
    Some(Fix::Spec("finalizers", named.chain([json!({ "name": finalizer })]).collect()))
}

fn grants(plugin: &PluginConfig, descriptor: &Descriptor) -> Vec<Fix> {
    let grantable = grant::asked(descriptor).into_iter().filter(|(kind, _)| denied::reason(kind).is_none());
    let missing = grantable.map(|(kind, mut verbs)| {
        verbs.retain(|verb| !plugin.grant.allows(*verb, &kind));
        (kind, verbs)
    });
    missing.filter(|(_, verbs)| !verbs.is_empty()).map(|(kind, verbs)| Fix::new_grant(kind, &verbs)).collect()
}
