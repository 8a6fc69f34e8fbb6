//! Translates grants to RBAC, for `hotshoe rbac`: the accounts of a host and of its plugins, with exactly the rights
//! that they need. Pure.
//!
//! RBAC supports neither namespace labels nor name patterns, and cannot restrict the content of an object. Where a
//! grant does so, RBAC gives more rights than the grant, and only the host's own gate enforces the restriction. Each
//! such case becomes a [note](Rights::notes).

pub mod admission_policy;
mod installation;
pub mod manifest;
pub mod metrics;
pub mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use crate::check::access_request::Verb;
use crate::check::denied;
use crate::check::grant::{Grant, Keyword, Namespaces, Rule};
use crate::model::decision::Descriptor;
use crate::model::kind::Kind;
pub use crate::rbac::installation::Installation;
use crate::rbac::manifest::{Manifest, PolicyRule, Rules};

/// A plugin: its grant, and what it asks for.
#[derive(Clone, Copy)]
pub struct Plugin<'a> {
    /// The plugin's name, which is also that of its account.
    pub name: &'a str,
    /// The plugin's grant.
    pub grant: &'a Grant,
    /// The plugin's descriptor.
    pub descriptor: &'a Descriptor,
    /// Whether the plugin removes the finalizers of plugins from which it takes over.
    pub removes_finalizers: bool,
    /// Whether the plugin's parents are deleted together with its `Plugin` object.
    pub deletes_parents: bool,
    /// The Secret with the credentials to pull the plugin's component.
    pub pull_secret: Option<&'a str>,
    /// Whether canaries of the plugin select namespaces by their labels.
    pub selects_namespaces: bool,
    /// Whether the plugin converts its parents between their versions.
    pub converts: bool,
    /// Whether the plugin fills in defaults of its parents.
    pub defaults: bool,
    /// Whether the plugin's code for admission is shown who writes a parent.
    pub shows_user: bool,
}

/// A kind as an API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The plural name, for example `deployments`.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

/// The output of `hotshoe rbac`.
#[derive(Debug)]
pub struct Rights {
    /// Objects to apply, in this order.
    pub manifests: Vec<Manifest>,
    /// Restrictions that RBAC cannot express, and warnings; for the administrator.
    pub notes: Vec<String>,
}

/// The suffix in the name `ACCOUNT-impersonates` of the Role by which the host impersonates its plugins. The Roles of a
/// plugin are named `ACCOUNT-PLUGIN`, so no plugin may have this name.
pub const IMPERSONATES: &str = "impersonates";

/// The verbs that the host needs on Leases in its namespace.
const LEASE_VERBS: [&str; 5] = ["create", "get", "list", "update", "watch"];

/// The namespace of Events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// The labels by which Pod Security restricts a namespace.
const POD_SECURITY: [&str; 3] =
    ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/warn"];

/// Returns all kinds for which a plugin has rights. Kinds that only the grant names have no version.
pub fn kinds(plugin: &Plugin<'_>) -> Vec<Kind> {
    let Descriptor { parent, owns, reads, .. } = plugin.descriptor;
    let asked = owns.iter().map(|owned| &owned.kind).chain(reads.iter().map(|read| &read.kind));
    let granted = plugin.grant.rules.iter().map(|rule| plugin.kind_of(rule));
    let granted = granted.filter(|kind| denied::reason(kind).is_none());
    let kinds: BTreeSet<Kind> = std::iter::once(parent).chain(asked).cloned().chain(granted).collect();
    kinds.into_iter().collect()
}

/// Returns the rights of a host and of its plugins.
pub fn rights(plugins: &[Plugin<'_>], installation: &Installation, served: &dyn Fn(&Kind) -> Served) -> Rights {
    let mut rights = Rights { manifests: accounts(plugins, installation), notes: Vec::new() };
    // First, so that the namespace is protected before any right exists.
    rights.manifests.extend(namespace_policy(installation));
    let name = format!("{}-{IMPERSONATES}", installation.account);
    rights.manifests.extend(impersonation(plugins, &name, installation));
    let mut host = host_rules(plugins, installation, served);
    add_leases(&mut host, installation);
    let comment = "What the host does itself: it watches, adds and removes finalizers of parents, and reports results. It cannot write a workload.";
    rights.manifests.extend(host.into_manifests(&installation.account, &installation.account, comment, installation));
    plugins.iter().for_each(|plugin| rights.add_plugin(plugin, installation, served));
    rights
}

/// Returns the rights of a host that follows `Plugin` objects, without the rights that each plugin adds.
pub fn rights_of_host(installation: &Installation) -> Rights {
    let mut rights = Rights { manifests: accounts(&[], installation), notes: Vec::new() };
    rights.manifests.extend(namespace_policy(installation));
    let mut rules = host_rules(&[], installation, &|_| Served { plural: String::new(), namespaced: false });
    add_leases(&mut rules, installation);
    if !installation.watched.is_all() {
        // For Events about Plugin objects, which are cluster-scoped.
        add_events(&mut rules, &Some(DEFAULT_NAMESPACE.into()));
    }
    let plugin = Kind::new("hotshoe.dev", "v1alpha1", "Plugin");
    rules.add(&None, &plugin, "plugins", &[], &["get", "list", "watch", "patch"]);
    rules.add(&None, &plugin, "plugins/status", &[], &["patch"]);
    let own = Some(installation.namespace.clone());
    rules.add(&own, &Kind::new("", "v1", "ConfigMap"), "configmaps", &[], &["get", "list", "watch"]);
    let comment = "What a host does that follows Plugin objects: it says in them what became of each, and reads components in ConfigMaps of its own namespace.";
    // Another name than that of the rights of a host that reads files, which the cluster may have from an earlier
    // installation.
    let name = format!("{}.objects", installation.account);
    rights.manifests.extend(rules.into_manifests(&name, &installation.account, comment, installation));
    rights
}

/// Returns the rights that one plugin adds to those of a host that follows `Plugin` objects.
pub fn rights_of_plugin(plugin: Plugin<'_>, installation: &Installation, served: &dyn Fn(&Kind) -> Served) -> Rights {
    let mut rights = Rights { manifests: vec![account_of(plugin.name, installation)], notes: Vec::new() };
    // With a dot, so that it cannot collide with the name of a plugin.
    let name = |what: &str| format!("{}-{}.{what}", installation.account, plugin.name);
    rights.manifests.extend(impersonation(&[plugin], &name(IMPERSONATES), installation));
    let mut host = host_rules(&[plugin], installation, served);
    if let Some(secret) = plugin.pull_secret {
        let own = Some(installation.namespace.clone());
        host.add(&own, &Kind::new("", "v1", "Secret"), "secrets", &[secret.to_owned()], &["get"]);
    }
    let comment = format!(
        "What the host does for the plugin {}: it watches, adds and removes finalizers of parents, and reports results.",
        plugin.name
    );
    rights.manifests.extend(host.into_manifests(&name("host"), &installation.account, &comment, installation));
    rights.add_plugin(&plugin, installation, served);
    rights
}

impl Rights {
    /// Adds the rights of a plugin's account, and the notes about the plugin.
    fn add_plugin(&mut self, plugin: &Plugin<'_>, installation: &Installation, served: &dyn Fn(&Kind) -> Served) {
        self.notes.extend(secrets_of_host(plugin, installation));
        self.notes.extend(finalizers_of_host(plugin, installation));
        self.notes.extend(users(plugin));
        let rules = plugin_rules(plugin, installation, served, &mut self.notes);
        let name = format!("{}-{}", installation.account, plugin.name);
        let comment = format!("What the plugin {} does, by way of the host: its grant, as RBAC.", plugin.name);
        self.manifests.extend(rules.into_manifests(&name, plugin.name, &comment, installation));
    }
}

fn account_of(plugin: &str, installation: &Installation) -> Manifest {
    let comment = "The account of a plugin has its name. No Pod runs under it, and no token of it is needed.";
    account(plugin, comment, installation)
}

fn account(name: &str, comment: &str, installation: &Installation) -> Manifest {
    Manifest {
        automount_service_account_token: Some(false),
        comment: comment.into(),
        ..Manifest::new("v1", "ServiceAccount", name, Some(&installation.namespace))
    }
}

fn accounts(plugins: &[Plugin<'_>], installation: &Installation) -> Vec<Manifest> {
    let mut namespace = Manifest::new("v1", "Namespace", &installation.namespace, None);
    namespace.metadata.labels.extend(POD_SECURITY.map(|label| (label, "restricted")));
    namespace.comment = "The namespace of the host, which no plugin may touch.".into();
    let host = account(&installation.account, "Its Pod says for itself that it wants a token.", installation);
    let plugins = plugins.iter().map(|plugin| account_of(plugin.name, installation));
    [namespace, host].into_iter().chain(plugins).collect()
}

/// Returns the policy that denies writes in the host's namespace, and its binding.
fn namespace_policy(installation: &Installation) -> [Manifest; 2] {
    let version = "admissionregistration.k8s.io/v1";
    let name = format!("{}-closes-{}", installation.account, installation.namespace);
    let comment = "Rights in every namespace hold in the host's, too, where a Pod could run under its account. \
                   So no account there but the host's own writes anything in it.";
    let policy = Manifest {
        comment: comment.into(),
        spec: Some(admission_policy::policy(installation)),
        ..Manifest::new(version, "ValidatingAdmissionPolicy", &name, None)
    };
    let binding = Manifest {
        spec: Some(admission_policy::binding(&name)),
        ..Manifest::new(version, "ValidatingAdmissionPolicyBinding", &name, None)
    };
    [policy, binding]
}

fn impersonation(plugins: &[Plugin<'_>], name: &str, installation: &Installation) -> Vec<Manifest> {
    let rule = PolicyRule {
        api_groups: vec![String::new()],
        resources: vec!["serviceaccounts".into()],
        resource_names: plugins.iter().map(|plugin| plugin.name.to_owned()).collect(),
        verbs: vec!["impersonate"],
        ..PolicyRule::default()
    };
    let comment = "The host may be its plugins, in this namespace only: in a ClusterRole the names would be meant in every namespace.";
    let rules = Rules(BTreeMap::from([(Some(installation.namespace.clone()), vec![rule])]));
    rules.into_manifests(name, &installation.account, comment, installation)
}

/// Adds the rights by which several hosts share the work. They are not restricted to names, because RBAC supports none
/// for the verbs `create`, `list` and `watch`.
fn add_leases(rules: &mut Rules, installation: &Installation) {
    let own = Some(installation.namespace.clone());
    rules.add(&own, &Kind::new("coordination.k8s.io", "v1", "Lease"), "leases", &[], &LEASE_VERBS);
}

fn host_rules(plugins: &[Plugin<'_>], installation: &Installation, served: &dyn Fn(&Kind) -> Served) -> Rules {
    let mut rules = Rules::default();
    let mut events: BTreeSet<Option<String>> = installation.watched_namespaces();
    for Plugin { grant, descriptor, removes_finalizers, deletes_parents, selects_namespaces, .. } in plugins {
        let parent = served(&descriptor.parent);
        let finalizer_verbs = if descriptor.finalizer.is_some() || *removes_finalizers { &["patch"][..] } else { &[] };
        for scope in installation.scopes(parent.namespaced) {
            let mut add = |resource: &str, verbs: &[&'static str]| {
                rules.add(&scope, &descriptor.parent, resource, &[], verbs);
            };
            add(&parent.plural, &["get", "list", "watch"]);
            add(&parent.plural, finalizer_verbs);
            add(&parent.plural, if *deletes_parents { &["delete"][..] } else { &[] });
            if !descriptor.parent.is_builtin() {
                add(&format!("{}/status", parent.plural), &["patch"]);
            }
        }
        if !parent.namespaced && !installation.watched.is_all() {
            events.insert(Some(DEFAULT_NAMESPACE.into()));
        }
        // The verb `get`, because after a conflict the host reads a child without the cache.
        let owned = descriptor.owns.iter().map(|owned| (&owned.kind, &["get", "list", "watch"][..]));
        let read = descriptor.reads.iter().map(|read| (&read.kind, &["list", "watch"][..]));
        for (kind, verbs) in owned.chain(read).filter(|(kind, _)| is_watched(kind, grant)) {
            let Served { plural, namespaced } = served(kind);
            for scope in installation.scopes(namespaced) {
                rules.add(&scope, kind, &plural, &[], verbs);
            }
        }
        if *selects_namespaces || !grant.namespace_labels().is_empty() {
            rules.add(&None, &Kind::new("", "v1", "Namespace"), "namespaces", &[], &["list", "watch"]);
        }
    }
    for scope in events {
        add_events(&mut rules, &scope);
    }
    rules
}

/// Adds the rights to record Events. A repeated Event increases the count of the existing one.
fn add_events(rules: &mut Rules, scope: &Option<String>) {
    rules.add(scope, &Kind::new("", "v1", "Event"), "events", &[], &["create", "get", "patch"]);
}

/// Returns whether the host watches a kind for a plugin. It does so only if the grant allows it, whatever the component
/// asks for.
fn is_watched(kind: &Kind, grant: &Grant) -> bool {
    grant.allows(Verb::List, kind) && grant.allows(Verb::Watch, kind)
}

/// Returns a note if the host watches Secrets: a watch cannot be restricted to names, so the host's account can read
/// all of them.
fn secrets_of_host(plugin: &Plugin<'_>, installation: &Installation) -> Option<String> {
    let Descriptor { parent, owns, reads, .. } = plugin.descriptor;
    let asked = owns.iter().map(|owned| &owned.kind).chain(reads.iter().map(|read| &read.kind));
    let asked = asked.filter(|kind| is_watched(kind, plugin.grant));
    // The host watches parents whatever the grant says.
    std::iter::once(parent).chain(asked).find(|kind| kind.is("", "Secret"))?;
    let which = match installation.watched.names() {
        [] => "of the cluster (--watch-namespace restricts that to namespaces)".to_owned(),
        watched => format!("of the namespaces {}", watched.join(", ")),
    };
    let account = &installation.account;
    Some(format!(
        "{}: Secret: the host watches these, so its own account {account} may read every Secret {which}",
        plugin.name
    ))
}

/// Returns a note if the host adds finalizers to objects of a kind of Kubernetes itself: the right to add a finalizer
/// is the right to change the whole object, and RBAC cannot restrict it to the labels of a selector.
fn finalizers_of_host(plugin: &Plugin<'_>, installation: &Installation) -> Option<String> {
    let Descriptor { parent, finalizer, .. } = plugin.descriptor;
    finalizer.as_ref().filter(|_| parent.is_builtin())?;
    let account = &installation.account;
    Some(format!(
        "{}: {parent}: the plugin has a finalizer on its parents, so the host's own account {account} may change \
         every {parent}, whatever spec.parent.selector says",
        plugin.name
    ))
}

/// Returns a note if the plugin states labels or annotations of its parents: RBAC cannot restrict the right to change an
/// object to these.
fn metadata_of_parents(plugin: &Plugin<'_>) -> Option<String> {
    let parent = &plugin.descriptor.parent;
    (!plugin.grant.parent_metadata.is_empty()).then(|| {
        format!(
            "{}: {parent}: RBAC cannot restrict a change to labels and annotations, so the host alone restricts it to the \
             keys of spec.parentMetadata",
            plugin.name
        )
    })
}

/// Returns a note if the plugin learns who writes its parents. No right is needed for that: the API server says it.
fn users(plugin: &Plugin<'_>) -> Option<String> {
    plugin.shows_user.then(|| {
        let (name, parent) = (plugin.name, &plugin.descriptor.parent);
        format!("{name}: {parent}: its code for admission is shown the name, uid and groups of who writes one (spec.showUser)")
    })
}

fn plugin_rules(
    plugin: &Plugin<'_>,
    installation: &Installation,
    served: &dyn Fn(&Kind) -> Served,
    notes: &mut Vec<String>,
) -> Rules {
    let mut rules = Rules::default();
    for rule in &plugin.grant.rules {
        let kind = plugin.kind_of(rule);
        if let Some((_, reason)) = denied::reason(&kind) {
            notes.push(format!("{}: {kind}: {reason}, so its grant gives nothing", plugin.name));
            continue;
        }
        grant_rule(&mut rules, rule, &kind, plugin, installation, served);
        let never_written = denied::is_read_only(&kind) && rule.verbs.iter().any(|verb| !verb.reads());
        let read_only = never_written.then(|| "no plugin may write it, so its grant lets it be read only".to_owned());
        let found = beyond_rbac(rule).chain(in_host_namespace(rule, installation)).chain(read_only);
        notes.extend(found.map(|what| format!("{}: {kind}: {what}", plugin.name)));
    }
    let parent = served(&plugin.descriptor.parent);
    for scope in installation.scopes(parent.namespaced) {
        let mut add = |sub: &str, verb| {
            rules.add(&scope, &plugin.descriptor.parent, &format!("{}/{sub}", parent.plural), &[], &[verb]);
        };
        if !plugin.descriptor.parent.is_builtin() {
            add("status", "patch");
        }
        // For `blockOwnerDeletion` in the owner references of children: clusters with the admission plugin
        // OwnerReferencesPermissionEnforcement require this right.
        add("finalizers", "update");
        if !plugin.grant.parent_metadata.is_empty() {
            rules.add(&scope, &plugin.descriptor.parent, &parent.plural, &[], &["patch"]);
        }
    }
    notes.extend(metadata_of_parents(plugin));
    rules
}

fn grant_rule(
    rules: &mut Rules,
    rule: &Rule,
    kind: &Kind,
    plugin: &Plugin<'_>,
    installation: &Installation,
    served: &dyn Fn(&Kind) -> Served,
) {
    let Served { plural, namespaced } = served(kind);
    // With `own`, the children of a Namespace are written in that namespace.
    let are_namespaces =
        plugin.descriptor.parent.is("", "Namespace") && rule.namespaces == Namespaces::Keyword(Keyword::Own);
    let has_parent_namespace = served(&plugin.descriptor.parent).namespaced || are_namespaces;
    let exact = if has_patterns(rule) { &[][..] } else { &rule.names };
    for verb in &rule.verbs {
        if !verb.reads() && denied::is_read_only(kind) {
            continue;
        }
        let verbs = api_verbs(*verb, rule);
        let reads = verb.reads();
        for scope in installation.scopes_of(&rule.namespaces, namespaced, has_parent_namespace, reads) {
            if scope.as_ref() != Some(&installation.namespace) {
                rules.add(&scope, kind, &plural, exact, verbs);
            }
        }
    }
}

/// Returns the API verbs that the plugin's account needs for a verb of a grant. A server-side apply is a patch, and
/// also a create if the object does not exist. Children, and kinds that are declared to be read, are listed and watched
/// under the host's account. An object that is needed by its name is watched under the plugin's: RBAC supports names for
/// that, but no patterns. An account that may watch all Secrets could list them, so with a pattern it may watch none. What
/// is needed by a label selector is listed and watched under the plugin's account, by a rule without names.
fn api_verbs(verb: Verb, rule: &Rule) -> &'static [&'static str] {
    match verb {
        Verb::Get if rule.can_grant(verb) => match rule.is_of_secrets() && has_patterns(rule) {
            true => &["get"],
            false => &["get", "watch"],
        },
        Verb::Create => &["create", "patch"],
        Verb::Update => &["patch"],
        Verb::Delete => &["delete"],
        Verb::List if lists_any(rule) => &["list"],
        Verb::Watch if lists_any(rule) => &["watch"],
        Verb::Get | Verb::List | Verb::Watch => &[],
    }
}

/// Returns whether a rule can show a plugin what a label selector selects.
fn lists_any(rule: &Rule) -> bool {
    rule.names.is_empty() && !rule.is_of_secrets()
}

/// Returns whether a rule names objects by patterns, which RBAC does not support.
fn has_patterns(rule: &Rule) -> bool {
    rule.names.iter().any(|name| name.contains('*'))
}

/// Returns notes about the restrictions of a rule that RBAC cannot express.
fn beyond_rbac(rule: &Rule) -> impl Iterator<Item = String> {
    let names = has_patterns(rule).then(|| {
        format!("RBAC has no patterns, so the host alone restricts it to the names {}", rule.names.join(", "))
    });
    let selected = matches!(rule.namespaces, Namespaces::Selected(_));
    let namespaces =
        selected.then(|| format!("RBAC has no selectors, so the host alone restricts it to {}", rule.namespaces));
    names.into_iter().chain(namespaces)
}

/// Returns a note if a rule names the namespace of the host.
fn in_host_namespace(rule: &Rule, installation: &Installation) -> Option<String> {
    let Namespaces::Named(names) = &rule.namespaces else { return None };
    let Installation { namespace, .. } = installation;
    let note = || format!("no plugin may touch the namespace of the host, so its grant gives nothing in {namespace}");
    names.contains(namespace).then(note)
}

impl Plugin<'_> {
    /// Returns the kind of a rule, with the version from the descriptor, because rules have none.
    fn kind_of(&self, rule: &Rule) -> Kind {
        let owned = self.descriptor.owns.iter().map(|owned| &owned.kind);
        let mut known = owned.chain(self.descriptor.reads.iter().map(|read| &read.kind));
        let found = known.find(|kind| kind.is(&rule.group, &rule.kind));
        found.cloned().unwrap_or_else(|| Kind::new(&rule.group, "", &rule.kind))
    }
}

#[cfg(test)]
mod tests;
