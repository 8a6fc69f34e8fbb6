//! The lines that `plugin.yaml` lacks to grant what a component asks for, ready to be pasted.

use serde_json::json;

use crate::config::PluginConfig;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_core::check::denied;
use hotshoe_core::check::fix::Fix;
use hotshoe_core::check::grant::{self, Missing};
use hotshoe_core::check::reach::IsNamespaced;
use hotshoe_core::check::remedy;
use hotshoe_core::model::decision::Descriptor;
use hotshoe_core::model::kind::Kind;
use hotshoe_sandbox::error::LoadError;

/// Returns what is missing in `spec` as YAML, ready to be pasted; none if everything is granted, or cannot be granted.
pub fn block(plugin: &PluginConfig, descriptor: &Descriptor, is_namespaced: &IsNamespaced<'_>) -> Option<String> {
    let (parent, finalizer) = (parent(plugin, descriptor), finalizer(plugin, descriptor));
    let grants = grants(plugin, descriptor, is_namespaced);
    remedy::plugin_yaml(parent.iter().chain(&finalizer).chain(&grants), &plugin.grant)
}

impl PluginConfig {
    /// Checks that everything that `describe` asks for is granted. Of kinds that are not known yet, it is assumed that
    /// those in the parent's namespace count.
    ///
    /// # Errors
    /// Returns what is asked for and not granted, with the rules to add.
    pub fn ensure_granted(&self, descriptor: &Descriptor, kinds: &Kinds) -> Result<(), LoadError> {
        self.ensure_parent(&descriptor.parent)?;
        let is_namespaced = |kind: &Kind| kinds.is_namespaced(kind);
        let Some(lacking) = self.lacking(descriptor, &is_namespaced) else { return Ok(()) };
        let add = line(self, descriptor, &is_namespaced).map(|rules| format!("; add to spec.grants: {rules}"));
        Err(LoadError::NotGranted(lacking + &add.unwrap_or_default()))
    }
}

/// Returns the missing grants in one line, for a log.
fn line(plugin: &PluginConfig, descriptor: &Descriptor, is_namespaced: &IsNamespaced<'_>) -> Option<String> {
    let element = |fix: &Fix| match fix {
        Fix::Grant(opening) => Some(opening.element()),
        Fix::Spec(..) | Fix::Answer(_) => None,
    };
    let grants: Vec<String> = grants(plugin, descriptor, is_namespaced).iter().filter_map(element).collect();
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

fn grants(plugin: &PluginConfig, descriptor: &Descriptor, is_namespaced: &IsNamespaced<'_>) -> Vec<Fix> {
    let missing = grant::missing(descriptor, &plugin.grant, is_namespaced).into_iter();
    let grantable = missing.filter(|missing| denied::reason(&missing.kind).is_none());
    grantable.map(|Missing { kind, verbs, is_beyond_own }| Fix::new_grant(kind, &verbs, is_beyond_own)).collect()
}
