//! The rights of a host that keeps the certificates of its webhooks itself, and registers them.
//!
//! Every right is for names. That holds for creations, too: the host creates by server-side apply, for which the API
//! server knows the name when it asks whether the account may `create`. With a POST it would not. It holds for `list` and
//! `watch` as well, with a field selector of the name.

use crate::model::kind::Kind;
use crate::rbac::installation::Installation;
use crate::rbac::manifest::{Manifest, Rules};
use crate::rbac::{Plugin, Served};

/// The Secret of the CAs, in the namespace of the host.
pub const CA_SECRET: &str = "hotshoe-webhooks-ca";

/// The suffix in the names of the roles. With a dot, so that they cannot be those of a plugin.
const SUFFIX: &str = ".webhooks";
/// The suffix of the roles with which a host only reads definitions.
const DEFINITION_SUFFIX: &str = ".definition";

/// Returns the name of the registration of a plugin's webhooks. Hosts that watch different namespaces may have the same
/// account and plugins.
pub fn registration(plugin: &str, installation: &Installation) -> String {
    let Installation { account, watched, .. } = installation;
    match watched.suffix() {
        Some(suffix) => format!("{account}-{plugin}.{suffix}"),
        None => format!("{account}-{plugin}"),
    }
}

/// Returns the name of the CustomResourceDefinition of a kind.
pub fn definition(kind: &Kind, served: &Served) -> String {
    format!("{}.{}", served.plural, kind.group)
}

/// Returns the right to keep the CAs, and to register the webhooks of these plugins.
pub fn manifests(
    plugins: &[Plugin<'_>],
    installation: &Installation,
    served: &dyn Fn(&Kind) -> Served,
) -> Vec<Manifest> {
    let mut rules = registrations(plugins, installation, served);
    let own = Some(installation.namespace.clone());
    let secret = Kind::new("", "v1", "Secret");
    rules.add(&own, &secret, "secrets", &[CA_SECRET.to_owned()], &["get", "create", "patch"]);
    let comment = "The host keeps the CA of its webhooks in one Secret, and registers them with it.";
    named(rules, &format!("{}{SUFFIX}", installation.account), comment, installation)
}

/// Returns the right to register the webhooks of one more plugin.
pub fn manifests_of_plugin(
    plugin: Plugin<'_>,
    installation: &Installation,
    served: &dyn Fn(&Kind) -> Served,
) -> Vec<Manifest> {
    let name = format!("{}-{}{SUFFIX}", installation.account, plugin.name);
    let comment = format!("The host registers its webhooks for the plugin {}.", plugin.name);
    named(registrations(&[plugin], installation, served), &name, &comment, installation)
}

/// Returns the right to read what a scale of a plugin's parents sets, for a host whose webhooks others register.
pub fn definitions_of_plugin(
    plugin: &Plugin<'_>,
    installation: &Installation,
    served: &dyn Fn(&Kind) -> Served,
) -> Vec<Manifest> {
    let mut rules = Rules::default();
    add_definition(&mut rules, plugin, served, &["get"]);
    let name = format!("{}{DEFINITION_SUFFIX}", registration(plugin.name, installation));
    let comment = format!("The host reads which field a scale of a parent of the plugin {} sets.", plugin.name);
    named(rules, &name, &comment, installation)
}

/// Adds rights to the definition of a plugin's parents. It says how they are scaled and converted. Kinds of Kubernetes itself
/// have none.
fn add_definition(rules: &mut Rules, plugin: &Plugin<'_>, served: &dyn Fn(&Kind) -> Served, verbs: &[&'static str]) {
    let parent = &plugin.descriptor.parent;
    if !parent.is_builtin() {
        let crd = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        rules.add(&None, &crd, "customresourcedefinitions", &[definition(parent, &served(parent))], verbs);
    }
}

fn named(rules: Rules, name: &str, comment: &str, installation: &Installation) -> Vec<Manifest> {
    rules.into_manifests(name, &installation.account, comment, installation)
}

fn registrations(plugins: &[Plugin<'_>], installation: &Installation, served: &dyn Fn(&Kind) -> Served) -> Rules {
    let mut rules = Rules::default();
    let configurations = "admissionregistration.k8s.io";
    let validating = Kind::new(configurations, "v1", "ValidatingWebhookConfiguration");
    let mutating = Kind::new(configurations, "v1", "MutatingWebhookConfiguration");
    for plugin in plugins {
        let names = [registration(plugin.name, installation)];
        let verbs = ["get", "create", "patch", "delete"];
        rules.add(&None, &validating, "validatingwebhookconfigurations", &names, &verbs);
        if plugin.defaults {
            rules.add(&None, &mutating, "mutatingwebhookconfigurations", &names, &verbs);
        }
        let verbs = if plugin.converts { &["get", "list", "watch", "patch"][..] } else { &["get"] };
        add_definition(&mut rules, plugin, served, verbs);
    }
    rules
}
