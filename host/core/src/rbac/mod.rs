//! Grants as RBAC: the accounts of a host and of its plugins, and exactly the rights that they
//! need. What `hotshoe rbac` prints. Pure.
//!
//! RBAC knows neither labels of namespaces nor patterns of names, and nothing of what stands in an
//! object. There it gives more than the grant, and the host's own gate is alone; each such place
//! is a [note](Rights::notes).

pub mod admission_policy;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::check::access_request::Verb;
use crate::check::denied;
use crate::check::grant::{Grant, Namespaces, Rule, Word};
use crate::model::decision::Descriptor;
use crate::model::kind::Kind;

/// A plugin: what it is granted, and what it asks for.
#[derive(Clone, Copy)]
pub struct Plugin<'a> {
    /// Its name, which is its account's.
    pub name: &'a str,
    /// What it may do.
    pub grant: &'a Grant,
    /// What it is.
    pub descriptor: &'a Descriptor,
}

/// Where the host is.
#[derive(Clone, Debug)]
pub struct Place {
    /// The namespace of the host and of the plugins' accounts.
    pub namespace: String,
    /// The host's account.
    pub account: String,
    /// The namespaces that the host watches; all, where none is named.
    pub watched: Vec<String>,
}

/// A kind as an API server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// For example `deployments`.
    pub plural: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

/// What is printed.
#[derive(Debug)]
pub struct Rights {
    /// Objects to apply, in this order.
    pub manifests: Vec<Manifest>,
    /// What RBAC cannot say, for people.
    pub notes: Vec<String>,
}

/// An object, and why it is there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    #[serde(skip)]
    comment: String,
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    automount_service_account_token: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<PolicyRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role_ref: Option<RoleRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subjects: Option<Vec<Subject>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Value>,
}

#[derive(Debug, Serialize)]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    labels: BTreeMap<&'static str, &'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyRule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resource_names: Vec<String>,
    verbs: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RoleRef {
    api_group: &'static str,
    kind: &'static str,
    name: String,
}

#[derive(Debug, Serialize)]
struct Subject {
    kind: &'static str,
    name: String,
    namespace: String,
}

const RBAC: &str = "rbac.authorization.k8s.io";
/// What follows the host's account in the name of the Role by which it acts as its plugins, as the name of a plugin
/// follows it in that of the plugin's.
pub const IMPERSONATES: &str = "impersonates";
/// The namespace of Events about objects that have none.
const DEFAULT_NAMESPACE: &str = "default";
const POD_SECURITY: [&str; 3] =
    ["pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/warn"];

/// All kinds that the rights of a plugin are about; without a version where only its grant names
/// it.
pub fn kinds(plugin: &Plugin<'_>) -> Vec<Kind> {
    let Descriptor { parent, owns, reads, .. } = plugin.descriptor;
    let asked = owns.iter().map(|owned| &owned.kind).chain(reads.iter().map(|read| &read.kind));
    let granted = plugin.grant.rules.iter().map(|rule| plugin.kind_of(rule));
    let granted = granted.filter(|kind| denied::why(kind).is_none());
    let kinds: BTreeSet<Kind> = std::iter::once(parent).chain(asked).cloned().chain(granted).collect();
    kinds.into_iter().collect()
}

/// The rights of a host and of its plugins.
pub fn rights(plugins: &[Plugin<'_>], place: &Place, served: &dyn Fn(&Kind) -> Served) -> Rights {
    let mut rights = Rights { manifests: accounts(plugins, place), notes: Vec::new() };
    // Before any right is there.
    rights.manifests.extend(closing(place));
    rights.manifests.extend(impersonation(plugins, place));
    let host = host_rules(plugins, place, served);
    let comment = "What the host does itself: it watches, holds parents by their finalizer, and tells what became of them. It cannot write a workload.";
    rights.manifests.extend(host.into_manifests(&place.account, &place.account, comment, place));
    rights.notes.extend(plugins.iter().filter_map(|plugin| secrets_of_host(plugin, place)));
    for plugin in plugins {
        let rules = plugin_rules(plugin, place, served, &mut rights.notes);
        let name = format!("{}-{}", place.account, plugin.name);
        let comment = format!("What the plugin {} does, by way of the host: its grant, as RBAC.", plugin.name);
        rights.manifests.extend(rules.into_manifests(&name, plugin.name, &comment, place));
    }
    rights
}

fn accounts(plugins: &[Plugin<'_>], place: &Place) -> Vec<Manifest> {
    let mut namespace = Manifest::new("v1", "Namespace", &place.namespace, None);
    namespace.metadata.labels.extend(POD_SECURITY.map(|label| (label, "restricted")));
    namespace.comment = "The namespace of the host, which no plugin may touch.".into();
    let account = |name: &str, comment: &str| Manifest {
        automount_service_account_token: Some(false),
        comment: comment.into(),
        ..Manifest::new("v1", "ServiceAccount", name, Some(&place.namespace))
    };
    let mut manifests = vec![namespace, account(&place.account, "Its Pod says for itself that it wants a token.")];
    let of_plugin = "The account of a plugin has its name. No Pod runs under it, and no token of it is needed.";
    manifests.extend(plugins.iter().map(|plugin| account(plugin.name, of_plugin)));
    manifests
}

fn closing(place: &Place) -> [Manifest; 2] {
    let version = "admissionregistration.k8s.io/v1";
    let name = format!("{}-closes-{}", place.account, place.namespace);
    let comment = "Rights in every namespace hold in the host's, too, where a Pod could run under its account. So no account there but the host's own writes anything in it.";
    let policy = Manifest {
        comment: comment.into(),
        spec: Some(admission_policy::policy(place)),
        ..Manifest::new(version, "ValidatingAdmissionPolicy", &name, None)
    };
    let binding = Manifest {
        spec: Some(admission_policy::binding(&name)),
        ..Manifest::new(version, "ValidatingAdmissionPolicyBinding", &name, None)
    };
    [policy, binding]
}

fn impersonation(plugins: &[Plugin<'_>], place: &Place) -> Vec<Manifest> {
    let rule = PolicyRule {
        api_groups: vec![String::new()],
        resources: vec!["serviceaccounts".into()],
        resource_names: plugins.iter().map(|plugin| plugin.name.to_owned()).collect(),
        verbs: vec!["impersonate"],
    };
    let comment = "The host may be its plugins, in this namespace only: in a ClusterRole the names would be meant in every namespace.";
    let rules = Rules(BTreeMap::from([(Some(place.namespace.clone()), vec![rule])]));
    rules.into_manifests(&format!("{}-{IMPERSONATES}", place.account), &place.account, comment, place)
}

fn host_rules(plugins: &[Plugin<'_>], place: &Place, served: &dyn Fn(&Kind) -> Served) -> Rules {
    let mut rules = Rules::default();
    let mut events: BTreeSet<Option<String>> = place.watched_namespaces();
    for Plugin { grant, descriptor, .. } in plugins {
        let parent = served(&descriptor.parent);
        let holds = if descriptor.finalizer.is_some() { &["patch"][..] } else { &[] };
        for scope in place.scopes(parent.namespaced) {
            let mut add = |resource: &str, verbs: &[&'static str]| {
                rules.add(&scope, &descriptor.parent, resource, &[], verbs);
            };
            add(&parent.plural, &["get", "list", "watch"]);
            add(&parent.plural, holds);
            add(&format!("{}/status", parent.plural), &["patch"]);
        }
        if !parent.namespaced && !place.watched.is_empty() {
            events.insert(Some(DEFAULT_NAMESPACE.into()));
        }
        // After a conflict a child is read past the cache.
        let owned = descriptor.owns.iter().map(|owned| (&owned.kind, &["get", "list", "watch"][..]));
        let read = descriptor.reads.iter().map(|read| (&read.kind, &["list", "watch"][..]));
        for (kind, verbs) in owned.chain(read).filter(|(kind, _)| is_watched(kind, grant)) {
            let Served { plural, namespaced } = served(kind);
            for scope in place.scopes(namespaced) {
                rules.add(&scope, kind, &plural, &[], verbs);
            }
        }
        if !grant.namespace_labels().is_empty() {
            rules.add(&None, &Kind::new("", "v1", "Namespace"), "namespaces", &[], &["list", "watch"]);
        }
    }
    // A repeated Event raises the count of the one that is there.
    for scope in events {
        rules.add(&scope, &Kind::new("", "v1", "Event"), "events", &[], &["create", "get", "patch"]);
    }
    rules
}

/// What a component asks for is its own word; only the administrator's makes a right of it.
fn is_watched(kind: &Kind, grant: &Grant) -> bool {
    grant.allows(Verb::List, kind) && grant.allows(Verb::Watch, kind)
}

/// A watch has no names, so whoever watches Secrets reads them all.
fn secrets_of_host(plugin: &Plugin<'_>, place: &Place) -> Option<String> {
    let Descriptor { parent, owns, reads, .. } = plugin.descriptor;
    let asked = owns.iter().map(|owned| &owned.kind).chain(reads.iter().map(|read| &read.kind));
    let asked = asked.filter(|kind| is_watched(kind, plugin.grant));
    // Parents are watched whatever stands in the grant.
    std::iter::once(parent).chain(asked).find(|kind| kind.is("", "Secret"))?;
    let which = match place.watched.as_slice() {
        [] => "of the cluster (--watch-namespace restricts that to namespaces)".to_owned(),
        watched => format!("of the namespaces {}", watched.join(", ")),
    };
    let account = &place.account;
    Some(format!(
        "{}: Secret: the host watches these, so its own account {account} may read every Secret {which}",
        plugin.name
    ))
}

fn plugin_rules(
    plugin: &Plugin<'_>,
    place: &Place,
    served: &dyn Fn(&Kind) -> Served,
    notes: &mut Vec<String>,
) -> Rules {
    let mut rules = Rules::default();
    for rule in &plugin.grant.rules {
        let kind = plugin.kind_of(rule);
        if let Some((_, why)) = denied::why(&kind) {
            notes.push(format!("{}: {kind}: {why}, so its grant gives nothing", plugin.name));
            continue;
        }
        grant_rule(&mut rules, rule, &kind, plugin, place, served);
        let beyond = beyond_rbac(rule).chain(closed(rule, place));
        notes.extend(beyond.map(|what| format!("{}: {kind}: {what}", plugin.name)));
    }
    let parent = served(&plugin.descriptor.parent);
    for scope in place.scopes(parent.namespaced) {
        let mut add = |sub: &str, verb| {
            rules.add(&scope, &plugin.descriptor.parent, &format!("{}/{sub}", parent.plural), &[], &[verb]);
        };
        add("status", "patch");
        // A child that holds up its parent's deletion is a right over the parent, where a cluster
        // asks.
        add("finalizers", "update");
    }
    rules
}

fn grant_rule(
    rules: &mut Rules,
    rule: &Rule,
    kind: &Kind,
    plugin: &Plugin<'_>,
    place: &Place,
    served: &dyn Fn(&Kind) -> Served,
) {
    let Served { plural, namespaced } = served(kind);
    let parents = served(&plugin.descriptor.parent).namespaced;
    let exact = if rule.names.iter().any(|name| name.contains('*')) { &[][..] } else { &rule.names };
    for verb in &rule.verbs {
        let verbs = written(*verb, rule);
        let reads = *verb == Verb::Get;
        for scope in place.scopes_of(&rule.namespaces, namespaced, parents, reads) {
            if scope.as_ref() != Some(&place.namespace) {
                rules.add(&scope, kind, &plural, exact, verbs);
            }
        }
    }
}

/// What a verb of a grant is to the API server, when it is done in the plugin's name. Server-side
/// apply is a patch, and a create as well where nothing is. Lists and watches are the host's.
fn written(verb: Verb, rule: &Rule) -> &'static [&'static str] {
    match verb {
        Verb::Get if rule.may_open(verb) => &["get"],
        Verb::Create => &["create", "patch"],
        Verb::Update => &["patch"],
        Verb::Delete => &["delete"],
        Verb::Get | Verb::List | Verb::Watch => &[],
    }
}

fn beyond_rbac(rule: &Rule) -> impl Iterator<Item = String> {
    let patterns = rule.names.iter().any(|name| name.contains('*'));
    let names = patterns.then(|| {
        format!("RBAC has no patterns, so the host alone restricts it to the names {}", rule.names.join(", "))
    });
    let selected = matches!(rule.namespaces, Namespaces::Selected(_));
    let namespaces =
        selected.then(|| format!("RBAC has no selectors, so the host alone restricts it to {}", rule.namespaces));
    names.into_iter().chain(namespaces)
}

fn closed(rule: &Rule, place: &Place) -> Option<String> {
    let Namespaces::Named(names) = &rule.namespaces else { return None };
    let Place { namespace, .. } = place;
    let why = || format!("no plugin may touch the namespace of the host, so its grant gives nothing in {namespace}");
    names.contains(namespace).then(why)
}

impl Plugin<'_> {
    /// The kind of a rule, which names no version.
    fn kind_of(&self, rule: &Rule) -> Kind {
        let owned = self.descriptor.owns.iter().map(|owned| &owned.kind);
        let mut known = owned.chain(self.descriptor.reads.iter().map(|read| &read.kind));
        let found = known.find(|kind| kind.is(&rule.group, &rule.kind));
        found.cloned().unwrap_or_else(|| Kind::new(&rule.group, "", &rule.kind))
    }
}

impl Place {
    /// The namespaces that are watched, or once all.
    fn watched_namespaces(&self) -> BTreeSet<Option<String>> {
        match self.watched.as_slice() {
            [] => BTreeSet::from([None]),
            some => some.iter().cloned().map(Some).collect(),
        }
    }

    fn scopes(&self, namespaced: bool) -> BTreeSet<Option<String>> {
        if namespaced { self.watched_namespaces() } else { BTreeSet::from([None]) }
    }

    /// Where a rule holds. What is written for a parent in a namespace is written in that one.
    fn scopes_of(
        &self,
        namespaces: &Namespaces,
        namespaced: bool,
        parents: bool,
        reads: bool,
    ) -> BTreeSet<Option<String>> {
        let beside_parent = parents && !reads;
        match namespaces {
            Namespaces::Word(Word::Cluster) if !namespaced && beside_parent => BTreeSet::new(),
            Namespaces::Word(Word::Cluster) if !namespaced => BTreeSet::from([None]),
            _ if !namespaced => BTreeSet::new(),
            Namespaces::Word(Word::Own) if !parents => BTreeSet::new(),
            Namespaces::Word(Word::Own) => self.watched_namespaces(),
            Namespaces::Word(Word::Cluster) | Namespaces::Selected(_) if beside_parent => self.watched_namespaces(),
            Namespaces::Word(Word::Cluster) | Namespaces::Selected(_) => BTreeSet::from([None]),
            Namespaces::Named(names) => {
                let watched = |name: &&String| !beside_parent || self.watched.is_empty() || self.watched.contains(name);
                names.iter().filter(watched).cloned().map(Some).collect()
            }
        }
    }
}

/// Rules by namespace; those without one hold everywhere.
#[derive(Default)]
struct Rules(BTreeMap<Option<String>, Vec<PolicyRule>>);

impl Rules {
    fn add(&mut self, scope: &Option<String>, kind: &Kind, resource: &str, names: &[String], verbs: &[&'static str]) {
        if verbs.is_empty() {
            return;
        }
        let rules = self.0.entry(scope.clone()).or_default();
        let rule = PolicyRule {
            api_groups: vec![kind.group.to_string()],
            resources: vec![resource.to_owned()],
            resource_names: names.to_vec(),
            verbs: Vec::new(),
        };
        let known = rules.iter().position(|other| PolicyRule { verbs: Vec::new(), ..other.clone() } == rule);
        let place = known.unwrap_or_else(|| {
            rules.push(rule);
            rules.len() - 1
        });
        let Some(rule) = rules.get_mut(place) else { return };
        rule.verbs.extend(verbs);
        rule.verbs.sort_unstable();
        rule.verbs.dedup();
    }

    /// A role and its binding for each place.
    fn into_manifests(self, name: &str, account: &str, comment: &str, place: &Place) -> Vec<Manifest> {
        let both = |(namespace, rules): (Option<String>, Vec<PolicyRule>)| {
            let (role, binding) =
                if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
            let version = "rbac.authorization.k8s.io/v1";
            let role_ref = RoleRef { api_group: RBAC, kind: role, name: name.to_owned() };
            let subject =
                Subject { kind: "ServiceAccount", name: account.to_owned(), namespace: place.namespace.clone() };
            [
                Manifest {
                    comment: comment.to_owned(),
                    rules: Some(rules),
                    ..Manifest::new(version, role, name, namespace.as_deref())
                },
                Manifest {
                    role_ref: Some(role_ref),
                    subjects: Some(vec![subject]),
                    ..Manifest::new(version, binding, name, namespace.as_deref())
                },
            ]
        };
        self.0.into_iter().flat_map(both).collect()
    }
}

impl Manifest {
    fn new(api_version: &'static str, kind: &'static str, name: &str, namespace: Option<&str>) -> Self {
        let labels = BTreeMap::from([("app.kubernetes.io/name", "hotshoe")]);
        let metadata = Metadata { name: name.to_owned(), namespace: namespace.map(str::to_owned), labels };
        Self {
            comment: String::new(),
            api_version,
            kind,
            metadata,
            automount_service_account_token: None,
            rules: None,
            role_ref: None,
            subjects: None,
            spec: None,
        }
    }

    /// As a document of a YAML stream, with the comment above it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to_yaml(&self) -> Result<String, String> {
        let object = serde_saphyr::to_string(self).map_err(|error| error.to_string())?;
        let comment: String = wrapped(&self.comment, 98).map(|line| format!("# {line}\n")).collect();
        Ok(comment + &object)
    }
}

fn wrapped(text: &str, width: usize) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.into_iter()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::decision::{MatchRule, OwnedKind, ReadKind, WriteVerb};

    struct World {
        grant: Grant,
        descriptor: Descriptor,
        place: Place,
    }

    fn world(rules: Value) -> World {
        let owned = |group: &str, kind: &str| OwnedKind {
            kind: Kind::new(group, "v1", kind),
            verbs: vec![WriteVerb::Create],
            fields: Vec::new(),
        };
        let pods = ReadKind {
            key: "pods".into(),
            kind: Kind::new("", "v1", "Pod"),
            selector: String::new(),
            rule: MatchRule::ParentLabel("l".into()),
            fields: Vec::new(),
        };
        World {
            grant: Grant {
                rules: serde_json::from_value(rules).unwrap(),
                prune_all: false,
                host_namespace: "system".into(),
            },
            descriptor: Descriptor {
                name: "d".into(),
                version: "1".into(),
                parent: Kind::new("c.example.com", "v1", "Cache"),
                parent_fields: Vec::new(),
                owns: vec![owned("apps", "Deployment")],
                reads: vec![pods],
                finalizer: Some("c.example.com/finalizer".into()),
                wants_now: false,
                wants_attempt: false,
                config_schema: None,
            },
            place: Place { namespace: "system".into(), account: "host".into(), watched: Vec::new() },
        }
    }

    fn served(kind: &Kind) -> Served {
        Served {
            plural: format!("{}s", kind.kind.to_lowercase()),
            namespaced: !["Node", "Namespace", "Fleet"].contains(&&*kind.kind),
        }
    }

    impl World {
        fn rights(&self) -> (Vec<Value>, Vec<String>) {
            let plugin = Plugin { name: "demo", grant: &self.grant, descriptor: &self.descriptor };
            let Rights { manifests, notes } = rights(&[plugin], &self.place, &served);
            (manifests.iter().map(|one| serde_json::to_value(one).unwrap()).collect(), notes)
        }

        /// `namespace: group/resource [names] verbs` of every rule that an account has.
        fn rules_of(&self, account: &str) -> Vec<String> {
            let (manifests, _) = self.rights();
            let bindings = manifests.iter().filter(|one| one["subjects"][0]["name"] == account);
            let mut all = Vec::new();
            for binding in bindings {
                assert_eq!(binding["subjects"][0]["namespace"], "system");
                let role = manifests.iter().find(|one| {
                    one["kind"] == binding["roleRef"]["kind"]
                        && one["metadata"]["name"] == binding["roleRef"]["name"]
                        && one["metadata"].get("namespace") == binding["metadata"].get("namespace")
                });
                for rule in role.unwrap()["rules"].as_array().unwrap() {
                    let words = |field: &str| {
                        let words = rule[field].as_array().cloned().unwrap_or_default();
                        words.iter().map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
                    };
                    let namespace = binding["metadata"]["namespace"].as_str().unwrap_or("*");
                    let names = words("resourceNames");
                    let names = if names.is_empty() { names } else { format!(" [{names}]") };
                    all.push(format!(
                        "{namespace}: {}/{}{names} {}",
                        words("apiGroups"),
                        words("resources"),
                        words("verbs")
                    ));
                }
            }
            all.sort();
            all
        }

        /// The rules of the plugin, but for those over its parents.
        fn granted(&self) -> Vec<String> {
            let mut rules = self.rules_of("demo");
            rules.retain(|rule| !rule.contains("c.example.com"));
            rules
        }
    }

    fn one(rule: Value) -> World {
        let mut rule = rule;
        let members = rule.as_object_mut().unwrap();
        members.entry("kind").or_insert(json!("ConfigMap"));
        members.entry("verbs").or_insert(json!(["get", "list", "watch", "create", "update", "delete"]));
        world(json!([rule]))
    }

    #[test]
    fn the_host_watches_and_tells_and_writes_no_child() {
        let given = json!([
            { "group": "apps", "kind": "Deployment", "verbs": ["get", "list", "watch", "create"] },
            { "kind": "Pod", "verbs": ["get", "list", "watch"] },
            { "kind": "Secret", "verbs": ["get", "list", "watch"], "names": ["a"] },
        ]);
        assert_eq!(
            world(given).rules_of("host"),
            [
                "*: /events create,get,patch",
                "*: /pods list,watch",
                "*: apps/deployments get,list,watch",
                "*: c.example.com/caches get,list,patch,watch",
                "*: c.example.com/caches/status patch",
                "system: /serviceaccounts [demo] impersonate",
            ]
        );
    }

    #[test]
    fn what_is_asked_for_and_not_given_is_no_right_of_the_hosts() {
        let mut world = world(json!([{ "kind": "Pod", "verbs": ["get", "list"] }]));
        world.descriptor.owns[0].kind = Kind::new("", "v1", "Secret");
        assert_eq!(
            world.rules_of("host"),
            [
                "*: /events create,get,patch",
                "*: c.example.com/caches get,list,patch,watch",
                "*: c.example.com/caches/status patch",
                "system: /serviceaccounts [demo] impersonate",
            ]
        );
    }

    #[test]
    fn without_a_finalizer_the_host_does_not_change_parents() {
        let mut world = world(json!([]));
        world.descriptor.finalizer = None;
        assert!(world.rules_of("host").contains(&"*: c.example.com/caches get,list,watch".to_owned()));
    }

    #[test]
    fn in_watched_namespaces_there_are_roles_and_nothing_for_the_cluster() {
        let mut world = one(json!({}));
        world.place.watched = vec!["a".into(), "b".into()];
        let host = world.rules_of("host");
        assert!(host.contains(&"a: c.example.com/caches get,list,patch,watch".to_owned()), "{host:?}");
        assert!(host.contains(&"b: /events create,get,patch".to_owned()));
        assert!(!host.iter().any(|rule| rule.starts_with('*')), "{host:?}");
        assert_eq!(
            world.rules_of("demo"),
            [
                "a: /configmaps create,delete,get,patch",
                "a: c.example.com/caches/finalizers update",
                "a: c.example.com/caches/status patch",
                "b: /configmaps create,delete,get,patch",
                "b: c.example.com/caches/finalizers update",
                "b: c.example.com/caches/status patch",
            ]
        );
    }

    #[test]
    fn a_parent_without_a_namespace_is_watched_everywhere_and_its_events_are_in_default() {
        let mut world = one(json!({ "namespaces": ["x"] }));
        world.descriptor.parent = Kind::new("c.example.com", "v1", "Fleet");
        world.place.watched = vec!["a".into()];
        let host = world.rules_of("host");
        for rule in [
            "*: c.example.com/fleets get,list,patch,watch",
            "a: /events create,get,patch",
            "default: /events create,get,patch",
        ] {
            assert!(host.contains(&rule.to_owned()), "{rule} in {host:?}");
        }
        assert_eq!(world.granted(), ["x: /configmaps create,delete,get,patch"]);
        world.grant.rules[0].namespaces = Namespaces::Word(Word::Own);
        assert_eq!(world.granted(), [""; 0], "it has no namespace of its own");
    }

    #[test]
    fn verbs_are_what_the_host_does_in_the_plugins_name() {
        for (verb, expected) in [("get", "get"), ("create", "create,patch"), ("update", "patch"), ("delete", "delete")]
        {
            assert_eq!(one(json!({ "verbs": [verb] })).granted(), [format!("*: /configmaps {expected}")]);
        }
        assert_eq!(one(json!({ "verbs": ["list", "watch"] })).granted(), [""; 0]);
        assert_eq!(one(json!({ "kind": "Secret", "verbs": ["get"] })).granted(), [""; 0]);
        assert_eq!(
            one(json!({ "kind": "Secret", "verbs": ["get"], "names": ["a"] })).granted(),
            ["*: /secrets [a] get"]
        );
    }

    #[test]
    fn each_namespaces_of_a_rule_becomes_the_narrowest_role_that_holds_it() {
        let write = "create,delete,patch";
        let of = |namespaces: Value, kind: &str, watched: &[&str]| {
            let mut world = one(json!({ "namespaces": namespaces, "kind": kind }));
            world.place.watched = watched.iter().map(|name| (*name).to_owned()).collect();
            world.granted()
        };
        assert_eq!(
            of(json!(["a", "b"]), "Pod", &[]),
            ["a: /pods create,delete,get,patch", "b: /pods create,delete,get,patch"]
        );
        assert_eq!(of(json!(["a", "system"]), "Pod", &[]), ["a: /pods create,delete,get,patch"]);
        assert_eq!(of(json!(["a", "b"]), "Pod", &["a"]), ["a: /pods create,delete,get,patch", "b: /pods get"]);
        assert_eq!(of(json!("cluster"), "Pod", &[]), ["*: /pods create,delete,get,patch"]);
        assert_eq!(of(json!("cluster"), "Pod", &["a"]), ["*: /pods get".to_owned(), format!("a: /pods {write}")]);
        assert_eq!(of(json!({ "matchLabels": { "a": "b" } }), "Pod", &[]), ["*: /pods create,delete,get,patch"]);
        assert_eq!(of(json!("cluster"), "Node", &[]), ["*: /nodes get"]);
        assert_eq!(of(json!("own"), "Node", &[]), [""; 0]);
        assert_eq!(of(json!(["a"]), "Node", &[]), [""; 0]);
    }

    #[test]
    fn exact_names_are_resource_names_and_patterns_are_told() {
        assert_eq!(one(json!({ "names": ["a", "b"], "verbs": ["update"] })).granted(), ["*: /configmaps [a,b] patch"]);
        let pattern = one(json!({ "names": ["a", "b-*"], "verbs": ["update"] }));
        assert_eq!(pattern.granted(), ["*: /configmaps patch"]);
        let (_, notes) = pattern.rights();
        assert!(notes.len() == 1 && notes[0].starts_with("demo: ConfigMap: RBAC has no patterns"), "{notes:?}");
        let (_, notes) = one(json!({ "names": ["a"] })).rights();
        assert_eq!(notes, [""; 0]);
    }

    #[test]
    fn a_selector_takes_a_watch_of_namespaces_and_is_told() {
        let world = one(json!({ "namespaces": { "matchLabels": { "a": "b" } } }));
        assert!(world.rules_of("host").contains(&"*: /namespaces list,watch".to_owned()));
        let (_, notes) = world.rights();
        assert!(notes.len() == 1 && notes[0].contains("namespaces with a=b"), "{notes:?}");
    }

    #[test]
    fn a_plugin_that_owns_secrets_has_the_host_read_all_of_them_which_is_told() {
        let rules = json!([{ "kind": "Secret", "verbs": ["get", "list", "watch", "create"], "names": ["a"] }]);
        let mut world = world(rules);
        assert_eq!(world.rights().1, [""; 0], "it does not ask for them");
        world.descriptor.owns[0].kind = Kind::new("", "v1", "Secret");
        assert!(world.rules_of("host").contains(&"*: /secrets get,list,watch".to_owned()));
        let told = |world: &World| world.rights().1.concat();
        assert!(told(&world).starts_with("demo: Secret: the host watches these"), "{}", told(&world));
        assert!(told(&world).contains("every Secret of the cluster"), "{}", told(&world));
        world.place.watched = vec!["a".into(), "b".into()];
        assert!(told(&world).ends_with("every Secret of the namespaces a, b"), "{}", told(&world));
        world.grant.rules[0].verbs.retain(|verb| *verb != Verb::Watch);
        assert_eq!(told(&world), "", "it is not given them");
    }

    #[test]
    fn a_plugin_whose_parents_are_secrets_has_the_host_read_all_of_them_which_is_told() {
        let mut world = world(json!([]));
        world.descriptor.parent = Kind::new("", "v1", "Secret");
        world.descriptor.finalizer = None;
        assert!(world.rules_of("host").contains(&"*: /secrets get,list,watch".to_owned()));
        let told = world.rights().1.concat();
        assert!(told.starts_with("demo: Secret: the host watches these"), "{told}");
        assert!(told.contains("every Secret of the cluster"), "{told}");
    }

    #[test]
    fn a_rule_for_the_closed_namespace_is_told() {
        let (_, notes) = one(json!({ "namespaces": ["a", "system"] })).rights();
        assert_eq!(
            notes,
            ["demo: ConfigMap: no plugin may touch the namespace of the host, so its grant gives nothing in system"]
        );
        assert_eq!(one(json!({ "namespaces": ["a"] })).rights().1, [""; 0]);
    }

    #[test]
    fn what_no_grant_opens_is_not_printed() {
        let world = world(json!([{ "group": "rbac.authorization.k8s.io", "kind": "Role", "verbs": ["create"] }]));
        let (manifests, notes) = world.rights();
        assert!(!manifests.iter().any(|one| one["rules"].to_string().contains("rbac.authorization")));
        assert!(notes[0].contains("closed to plugins"), "{notes:?}");
    }

    #[test]
    fn the_namespace_of_the_host_is_closed_before_there_is_any_right() {
        let (manifests, _) = world(json!([])).rights();
        let of = |kind: &str| manifests.iter().position(|one| one["kind"] == kind).unwrap();
        let (policy, binding) = (of("ValidatingAdmissionPolicy"), of("ValidatingAdmissionPolicyBinding"));
        assert!(policy < of("Role") && binding < of("Role"));
        assert_eq!(manifests[policy]["metadata"]["name"], "host-closes-system");
        assert_eq!(manifests[binding]["spec"]["policyName"], "host-closes-system");
    }

    #[test]
    fn accounts_have_no_token_and_the_namespace_is_restricted() {
        let (manifests, _) = world(json!([])).rights();
        assert_eq!(manifests[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
        for (index, name) in [(1, "host"), (2, "demo")] {
            assert_eq!(manifests[index]["kind"], "ServiceAccount");
            assert_eq!(
                manifests[index]["metadata"],
                json!({ "name": name, "namespace": "system", "labels": { "app.kubernetes.io/name": "hotshoe" } })
            );
            assert_eq!(manifests[index]["automountServiceAccountToken"], false);
        }
    }

    #[test]
    fn all_kinds_are_asked_about_once() {
        let world = world(json!([
            { "group": "apps", "kind": "Deployment", "verbs": ["get"] },
            { "kind": "Secret", "verbs": ["get"] },
            { "group": "hotshoe.dev", "kind": "Plugin", "verbs": ["get"] },
        ]));
        let plugin = Plugin { name: "demo", grant: &world.grant, descriptor: &world.descriptor };
        let kinds: Vec<String> = kinds(&plugin).iter().map(ToString::to_string).collect();
        assert_eq!(kinds, ["Secret", "Pod", "Deployment.apps", "Cache.c.example.com"]);
    }

    #[test]
    fn yaml_has_its_comment_above() {
        let (place, world) =
            (Place { namespace: "system".into(), account: "host".into(), watched: Vec::new() }, world(json!([])));
        let plugin = Plugin { name: "demo", grant: &world.grant, descriptor: &world.descriptor };
        let text = rights(&[plugin], &place, &served).manifests[1].to_yaml().unwrap();
        assert_eq!(
            text,
            "# Its Pod says for itself that it wants a token.\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: host\n  namespace: system\n  labels:\n    app.kubernetes.io/name: hotshoe\nautomountServiceAccountToken: false\n"
        );
        assert_eq!(wrapped("a bc def", 4).collect::<Vec<_>>(), ["a bc", "def"]);
    }
}
