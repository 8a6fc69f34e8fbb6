use serde_json::{Value, json};

use super::*;
use crate::model::decision::{MatchRule, OwnedKind, ReadKind, WriteVerb};
use crate::model::watched_namespaces::WatchedNamespaces;
use crate::rbac::manifest::wrapped;

struct World {
    grant: Grant,
    descriptor: Descriptor,
    installation: Installation,
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
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "system".into(),
        },
        descriptor: Descriptor {
            name: "d".into(),
            version: "1".into(),
            parent: Kind::new("c.example.com", "v1", "Cache"),
            owns: vec![owned("apps", "Deployment")],
            reads: vec![pods],
            finalizer: Some("c.example.com/finalizer".into()),
            ..Descriptor::default()
        },
        installation: Installation {
            namespace: "system".into(),
            account: "host".into(),
            watched: WatchedNamespaces::default(),
        },
    }
}

fn served(kind: &Kind) -> Served {
    Served {
        plural: format!("{}s", kind.kind.to_lowercase()),
        namespaced: !["Node", "Namespace", "Fleet"].contains(&&*kind.kind),
    }
}

impl World {
    fn plugin(&self) -> Plugin<'_> {
        Plugin {
            name: "demo",
            grant: &self.grant,
            descriptor: &self.descriptor,
            removes_finalizers: false,
            deletes_parents: false,
            selects_namespaces: false,
            converts: false,
            defaults: false,
            shows_user: false,
            pull_secret: None,
        }
    }

    fn rights(&self) -> (Vec<Value>, Vec<String>) {
        let Rights { manifests, notes } = rights(&[self.plugin()], &self.installation, &served);
        (manifests.iter().map(|one| serde_json::to_value(one).unwrap()).collect(), notes)
    }

    /// Returns `namespace: group/resource [names] verbs` for every rule of an account.
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
                assert!(rule["apiGroups"].as_array().is_some_and(|groups| !groups.is_empty()), "{rule}");
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

    /// Returns the rules of the plugin except those for its parents.
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
fn the_host_watches_and_reports_and_writes_no_child() {
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
            "system: coordination.k8s.io/leases create,get,list,update,watch",
        ]
    );
}

#[test]
fn the_host_has_no_right_to_a_read_that_is_not_granted() {
    let mut world = world(json!([{ "kind": "Pod", "verbs": ["get", "list"] }]));
    world.descriptor.owns[0].kind = Kind::new("", "v1", "Secret");
    assert_eq!(
        world.rules_of("host"),
        [
            "*: /events create,get,patch",
            "*: c.example.com/caches get,list,patch,watch",
            "*: c.example.com/caches/status patch",
            "system: /serviceaccounts [demo] impersonate",
            "system: coordination.k8s.io/leases create,get,list,update,watch",
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
fn a_plugin_that_labels_its_parents_may_change_them_and_the_note_says_what_the_host_alone_restricts() {
    let mut world = world(json!([]));
    let changes = |world: &World| world.rules_of("demo").contains(&"*: c.example.com/caches patch".to_owned());
    assert!(!changes(&world) && world.rights().1.is_empty());
    world.grant.parent_metadata.labels = vec!["shop.example.com/tier".into()];
    assert!(changes(&world), "{:?}", world.rules_of("demo"));
    let notes = world.rights().1;
    assert!(notes[0].contains("demo: Cache.c.example.com") && notes[0].contains("spec.parentMetadata"), "{notes:?}");
}

#[test]
fn in_watched_namespaces_there_are_roles_and_nothing_for_the_cluster() {
    let mut world = one(json!({}));
    world.installation.watched = WatchedNamespaces::named(&["a", "b"]).unwrap();
    let host = world.rules_of("host");
    assert!(host.contains(&"a: c.example.com/caches get,list,patch,watch".to_owned()), "{host:?}");
    assert!(host.contains(&"b: /events create,get,patch".to_owned()));
    assert!(!host.iter().any(|rule| rule.starts_with('*') || rule.starts_with("default:")), "{host:?}");
    assert_eq!(
        world.rules_of("demo"),
        [
            "a: /configmaps create,delete,get,list,patch,watch",
            "a: c.example.com/caches/finalizers update",
            "a: c.example.com/caches/status patch",
            "b: /configmaps create,delete,get,list,patch,watch",
            "b: c.example.com/caches/finalizers update",
            "b: c.example.com/caches/status patch",
        ]
    );
}

#[test]
fn a_parent_without_a_namespace_is_watched_everywhere_and_its_events_are_in_default() {
    let mut world = one(json!({ "namespaces": ["x"] }));
    world.descriptor.parent = Kind::new("c.example.com", "v1", "Fleet");
    world.installation.watched = WatchedNamespaces::named(&["a"]).unwrap();
    let host = world.rules_of("host");
    for rule in [
        "*: c.example.com/fleets get,list,patch,watch",
        "a: /events create,get,patch",
        "default: /events create,get,patch",
    ] {
        assert!(host.contains(&rule.to_owned()), "{rule} in {host:?}");
    }
    assert_eq!(world.granted(), ["x: /configmaps create,delete,get,list,patch,watch"]);
    world.grant.rules[0].namespaces = Namespaces::Keyword(Keyword::Own);
    assert_eq!(world.granted(), [""; 0], "it has no namespace of its own");
}

#[test]
fn a_plugin_of_namespaces_writes_in_each_and_nothing_of_their_status() {
    let mut world = one(json!({}));
    world.descriptor.parent = Kind::new("", "v1", "Namespace");
    world.descriptor.finalizer = None;
    assert_eq!(
        world.rules_of("demo"),
        ["*: /configmaps create,delete,get,list,patch,watch", "*: /namespaces/finalizers update"],
        "its own namespace is any that is a parent"
    );
    let host = world.rules_of("host");
    assert!(host.contains(&"*: /namespaces get,list,watch".to_owned()), "{host:?}");
    assert!(!host.iter().any(|rule| rule.contains("status")), "{host:?}");
    world.grant.rules[0].namespaces = Namespaces::Named(vec!["x".into()]);
    assert_eq!(
        world.rules_of("demo"),
        ["*: /namespaces/finalizers update", "x: /configmaps create,delete,get,list,patch,watch"]
    );
}

#[test]
fn a_finalizer_on_a_kind_of_kubernetes_itself_is_noted_because_the_host_may_change_all_its_objects() {
    let mut world = one(json!({ "kind": "LimitRange" }));
    world.descriptor.parent = Kind::new("", "v1", "ConfigMap");
    world.descriptor.finalizer = Some("plugin.hotshoe.dev/demo".into());
    let (_, notes) = world.rights();
    assert!(notes.iter().any(|note| note.contains("may change every ConfigMap")), "{notes:?}");
    world.descriptor.finalizer = None;
    assert!(!world.rights().1.iter().any(|note| note.contains("may change every")));
}

#[test]
fn a_plugin_that_removes_the_finalizers_of_another_has_the_host_change_its_parents() {
    let mut world = world(json!([]));
    world.descriptor.finalizer = None;
    let plugin = Plugin { removes_finalizers: true, ..world.plugin() };
    let Rights { manifests, .. } = rights(&[plugin], &world.installation, &served);
    let patches = |one: &Manifest| {
        serde_json::to_string(one).unwrap().contains(r#"["caches"],"verbs":["get","list","patch","watch"]"#)
    };
    assert!(manifests.iter().any(patches), "{}", serde_json::to_string(&manifests).unwrap());
}

#[test]
fn verbs_are_those_that_the_host_needs_on_behalf_of_the_plugin() {
    for (verb, expected) in
        [("get", "get,watch"), ("create", "create,patch"), ("update", "patch"), ("delete", "delete")]
    {
        assert_eq!(one(json!({ "verbs": [verb] })).granted(), [format!("*: /configmaps {expected}")]);
    }
    assert_eq!(one(json!({ "verbs": ["list", "watch"] })).granted(), ["*: /configmaps list,watch"]);
    let of_names = one(json!({ "verbs": ["list", "watch"], "names": ["a"] })).granted();
    assert_eq!(of_names, [""; 0], "a selector finds objects of any name");
    let of_secrets = one(json!({ "kind": "Secret", "verbs": ["get", "list", "watch"], "names": ["a"] })).granted();
    assert_eq!(of_secrets, ["*: /secrets [a] get,watch"]);
    assert_eq!(one(json!({ "kind": "Secret", "verbs": ["get"] })).granted(), [""; 0]);
    let of_secrets = |name: &str| one(json!({ "kind": "Secret", "verbs": ["get"], "names": [name] })).granted();
    assert_eq!(of_secrets("a"), ["*: /secrets [a] get,watch"]);
    assert_eq!(of_secrets("a-*"), ["*: /secrets get"], "who may watch all can list them");
}

#[test]
fn the_namespaces_of_a_rule_become_the_narrowest_roles_that_cover_them() {
    let write = "create,delete,patch";
    let of = |namespaces: Value, kind: &str, watched: &[&str]| {
        let mut world = one(json!({ "namespaces": namespaces, "kind": kind }));
        world.installation.watched = WatchedNamespaces::named(watched).unwrap();
        world.granted()
    };
    assert_eq!(
        of(json!(["a", "b"]), "Pod", &[]),
        ["a: /pods create,delete,get,list,patch,watch", "b: /pods create,delete,get,list,patch,watch"]
    );
    assert_eq!(of(json!(["a", "system"]), "Pod", &[]), ["a: /pods create,delete,get,list,patch,watch"]);
    assert_eq!(
        of(json!(["a", "b"]), "Pod", &["a"]),
        ["a: /pods create,delete,get,list,patch,watch", "b: /pods get,list,watch"]
    );
    assert_eq!(of(json!("cluster"), "Pod", &[]), ["*: /pods create,delete,get,list,patch,watch"]);
    assert_eq!(
        of(json!("cluster"), "Pod", &["a"]),
        ["*: /pods get,list,watch".to_owned(), format!("a: /pods {write}")]
    );
    assert_eq!(of(json!({ "matchLabels": { "a": "b" } }), "Pod", &[]), ["*: /pods create,delete,get,list,patch,watch"]);
    assert_eq!(of(json!("cluster"), "Node", &[]), ["*: /nodes get,list,watch"]);
    assert_eq!(of(json!("own"), "Node", &[]), [""; 0]);
    assert_eq!(of(json!(["a"]), "Node", &[]), [""; 0]);
}

#[test]
fn exact_names_become_resource_names_and_patterns_are_reported() {
    assert_eq!(one(json!({ "names": ["a", "b"], "verbs": ["update"] })).granted(), ["*: /configmaps [a,b] patch"]);
    let pattern = one(json!({ "names": ["a", "b-*"], "verbs": ["update"] }));
    assert_eq!(pattern.granted(), ["*: /configmaps patch"]);
    let (_, notes) = pattern.rights();
    assert!(notes.len() == 1 && notes[0].starts_with("demo: ConfigMap: RBAC has no patterns"), "{notes:?}");
    let (_, notes) = one(json!({ "names": ["a"] })).rights();
    assert_eq!(notes, [""; 0]);
}

#[test]
fn a_selector_needs_a_watch_of_namespaces_and_is_reported() {
    let world = one(json!({ "namespaces": { "matchLabels": { "a": "b" } } }));
    assert!(world.rules_of("host").contains(&"*: /namespaces list,watch".to_owned()));
    let (_, notes) = world.rights();
    assert!(notes.len() == 1 && notes[0].contains("namespaces with a=b"), "{notes:?}");
}

#[test]
fn a_plugin_that_owns_secrets_gives_the_host_all_of_them_to_read_and_a_warning_says_so() {
    let rules = json!([{ "kind": "Secret", "verbs": ["get", "list", "watch", "create"], "names": ["a"] }]);
    let mut world = world(rules);
    assert_eq!(world.rights().1, [""; 0], "it does not ask for them");
    world.descriptor.owns[0].kind = Kind::new("", "v1", "Secret");
    assert!(world.rules_of("host").contains(&"*: /secrets get,list,watch".to_owned()));
    let printed = |world: &World| world.rights().1.concat();
    assert!(printed(&world).starts_with("demo: Secret: the host watches these"), "{}", printed(&world));
    assert!(printed(&world).contains("every Secret of the cluster"), "{}", printed(&world));
    world.installation.watched = WatchedNamespaces::named(&["a", "b"]).unwrap();
    assert!(printed(&world).ends_with("every Secret of the namespaces a, b"), "{}", printed(&world));
    world.grant.rules[0].verbs.retain(|verb| *verb != Verb::Watch);
    assert_eq!(printed(&world), "", "it is not given them");
}

#[test]
fn a_plugin_whose_parents_are_secrets_gives_the_host_all_of_them_to_read_and_a_warning_says_so() {
    let mut world = world(json!([]));
    world.descriptor.parent = Kind::new("", "v1", "Secret");
    world.descriptor.finalizer = None;
    assert!(world.rules_of("host").contains(&"*: /secrets get,list,watch".to_owned()));
    let printed = world.rights().1.concat();
    assert!(printed.starts_with("demo: Secret: the host watches these"), "{printed}");
    assert!(printed.contains("every Secret of the cluster"), "{printed}");
}

#[test]
fn a_rule_for_the_hosts_namespace_is_reported() {
    let (_, notes) = one(json!({ "namespaces": ["a", "system"] })).rights();
    assert_eq!(
        notes,
        ["demo: ConfigMap: no plugin may touch the namespace of the host, so its grant gives nothing in system"]
    );
    assert_eq!(one(json!({ "namespaces": ["a"] })).rights().1, [""; 0]);
}

#[test]
fn rights_that_no_grant_can_give_are_not_printed() {
    let world = world(json!([{ "group": "rbac.authorization.k8s.io", "kind": "Role", "verbs": ["create"] }]));
    let (manifests, notes) = world.rights();
    assert!(!manifests.iter().any(|one| one["rules"].to_string().contains("rbac.authorization")));
    assert!(notes[0].contains("denied to plugins"), "{notes:?}");
}

#[test]
fn for_read_only_kinds_only_the_right_to_read_is_printed() {
    let rule = json!({ "group": "networking.k8s.io", "kind": "IngressClass", "verbs": ["get", "create", "update", "delete"], "namespaces": "cluster" });
    let (manifests, notes) = world(json!([rule])).rights();
    let rules = manifests.iter().flat_map(|one| one["rules"].as_array().cloned().unwrap_or_default());
    let verbs: Vec<_> = rules
        .filter(|rule| rule["apiGroups"] == json!(["networking.k8s.io"]))
        .map(|rule| rule["verbs"].clone())
        .collect();
    assert_eq!(verbs, [json!(["get", "watch"])]);
    assert!(notes.iter().any(|note| note.contains("no plugin may write it")), "{notes:?}");
}

#[test]
fn the_policy_for_the_hosts_namespace_comes_before_any_right() {
    let world = world(json!([]));
    let (manifests, _) = world.rights();
    let of = |kind: &str| manifests.iter().position(|one| one["kind"] == kind).unwrap();
    let (policy, binding) = (of("ValidatingAdmissionPolicy"), of("ValidatingAdmissionPolicyBinding"));
    assert!(policy < of("Role") && binding < of("Role"));
    assert_eq!(manifests[policy]["metadata"]["name"], "host-closes-system");
    assert_eq!(manifests[policy]["spec"]["failurePolicy"], "Fail");
    let text = rights(&[world.plugin()], &world.installation, &served).manifests[policy].to_yaml().unwrap();
    assert!(text.starts_with("# Rights in every namespace hold in the host's, too"), "{text}");
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
fn each_kind_is_listed_once() {
    let world = world(json!([
        { "group": "apps", "kind": "Deployment", "verbs": ["get"] },
        { "kind": "Secret", "verbs": ["get"] },
        { "group": "hotshoe.dev", "kind": "Plugin", "verbs": ["get"] },
    ]));
    let plugin = world.plugin();
    let kinds: Vec<String> = kinds(&plugin).iter().map(ToString::to_string).collect();
    assert_eq!(kinds, ["Secret", "Pod", "Deployment.apps", "Cache.c.example.com"]);
}

#[test]
fn yaml_has_its_comment_above() {
    let (installation, world) = (
        Installation { namespace: "system".into(), account: "host".into(), watched: WatchedNamespaces::default() },
        world(json!([])),
    );
    let plugin = world.plugin();
    let text = rights(&[plugin], &installation, &served).manifests[1].to_yaml().unwrap();
    assert_eq!(
        text,
        "# Its Pod says for itself that it wants a token.\n\
         apiVersion: v1\n\
         kind: ServiceAccount\n\
         metadata:\n  \
         name: host\n  \
         namespace: system\n  \
         labels:\n    \
         app.kubernetes.io/name: hotshoe\n\
         automountServiceAccountToken: false\n"
    );
    assert_eq!(wrapped("a bc def", 4).collect::<Vec<_>>(), ["a bc", "def"]);
    assert_eq!(wrapped("ab cd", 4).collect::<Vec<_>>(), ["ab", "cd"]);
    assert_eq!(wrapped("ab cd", 5).collect::<Vec<_>>(), ["ab cd"]);
}

#[test]
fn a_plugin_object_adds_an_account_that_the_host_may_impersonate_and_the_right_to_read_its_pull_secret() {
    let world = world(json!([]));
    let plugin = Plugin { pull_secret: Some("registry"), deletes_parents: true, ..world.plugin() };
    let rights = rights_of_plugin(plugin, &world.installation, &served);
    let named: Vec<_> = rights.manifests.iter().map(|manifest| (manifest.kind, &*manifest.metadata.name)).collect();
    assert!(named.contains(&("ServiceAccount", "demo")) && !named.contains(&("ServiceAccount", "host")), "{named:?}");
    assert!(named.contains(&("Role", "host-demo.impersonates")), "{named:?}");
    let text: String = rights.manifests.iter().map(|manifest| manifest.to_yaml().unwrap()).collect();
    assert!(text.contains("- registry") && text.contains("- secrets") && !text.contains("leases"), "{text}");
    assert!(text.contains("- delete"), "{text}");
}

#[test]
fn a_host_that_follows_objects_may_watch_plugins_and_no_workloads() {
    let text: String = rights_of_host(&world(json!([])).installation)
        .manifests
        .iter()
        .map(|manifest| manifest.to_yaml().unwrap())
        .collect();
    for words in ["- plugins\n", "- plugins/status\n", "- leases\n", "- configmaps\n", "- events\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for words in ["deployments", "secrets", "impersonate"] {
        assert!(!text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_host_that_follows_objects_in_some_namespaces_records_events_about_plugins_in_default() {
    let mut world = world(json!([]));
    world.installation.watched = WatchedNamespaces::named(&["a"]).unwrap();
    let rights = rights_of_host(&world.installation);
    let of_events = |manifest: &&Manifest| manifest.rules.iter().flatten().any(|rule| rule.resources == ["events"]);
    let namespaces: Vec<_> =
        rights.manifests.iter().filter(of_events).map(|manifest| manifest.metadata.namespace.as_deref()).collect();
    assert_eq!(namespaces, [Some("a"), Some("default")]);
}

#[test]
fn a_plugin_that_is_shown_users_is_named() {
    let world = world(json!([]));
    let notes = |shows_user| {
        let plugin = Plugin { shows_user, ..world.plugin() };
        rights(&[plugin], &world.installation, &served).notes
    };
    assert!(notes(true).iter().any(|note| note.contains("groups of who writes one (spec.showUser)")));
    assert!(notes(false).iter().all(|note| !note.contains("showUser")));
}

#[test]
fn webhooks_are_registered_by_name_and_definitions_are_changed_only_for_plugins_that_convert() {
    let world = world(json!([]));
    let installation =
        Installation { watched: WatchedNamespaces::named(&["team-a"]).unwrap(), ..world.installation.clone() };
    let printed = |plugin| -> String {
        let manifests = webhooks::manifests(&[plugin], &installation, &served);
        manifests.iter().map(|manifest| manifest.to_yaml().unwrap()).collect()
    };
    let plain = printed(world.plugin());
    for words in ["resourceNames:\n  - host-demo.team-a\n", "resourceNames:\n  - hotshoe-webhooks-ca\n"] {
        assert!(plain.contains(words), "{words}: {plain}");
    }
    assert!(!plain.contains("mutating"), "{plain}");
    let definition = |verbs: &str| {
        let resource = "resourceNames:\n  - caches.c.example.com\n";
        let named = format!("- customresourcedefinitions\n  {resource}  verbs:\n{verbs}");
        move |printed: &str| printed.contains(&named)
    };
    let (is_read, is_patched) = (definition("  - get\n"), definition("  - get\n  - list\n  - patch\n  - watch\n"));
    assert!(is_read(&plain) && !is_patched(&plain), "{plain}");
    let defaulting = printed(Plugin { defaults: true, ..world.plugin() });
    assert!(defaulting.contains("- mutatingwebhookconfigurations\n"), "{defaulting}");
    let converting = printed(Plugin { converts: true, ..world.plugin() });
    assert!(is_patched(&converting), "{converting}");
    let reading = webhooks::definitions_of_plugin(&world.plugin(), &installation, &served);
    assert_eq!(reading[0].metadata.name, "host-demo.team-a.definition");
    let reading: String = reading.iter().map(|manifest| manifest.to_yaml().unwrap()).collect();
    assert!(is_read(&reading) && !is_patched(&reading), "{reading}");
    let of_plugin = webhooks::manifests_of_plugin(world.plugin(), &world.installation, &served);
    let of_plugin: String = of_plugin.iter().map(|manifest| manifest.to_yaml().unwrap()).collect();
    assert!(of_plugin.contains("- host-demo\n") && !of_plugin.contains("secrets"), "{of_plugin}");
}
