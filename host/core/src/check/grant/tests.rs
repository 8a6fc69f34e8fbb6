use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::check::access_request::{Access, Request};
use crate::check::fix::Fix;
use crate::check::{Denial, remedy};
use crate::model::decision::{MatchRule, OwnedKind, ReadKind, WriteVerb};
use crate::model::kind::ObjectRef;

fn object(group: &str, kind: &str, place: &str) -> ObjectRef {
    let (namespace, name) = place.split_once('/').map_or((None, place), |(namespace, name)| (Some(namespace), name));
    ObjectRef { kind: Kind::new(group, "v1", kind), namespace: namespace.map(Into::into), name: name.into() }
}

/// A grant as in plugin.yaml, in JSON.
fn grant(rules: Value) -> Grant {
    let rules: Vec<Rule> = serde_json::from_value(rules).unwrap();
    assert_eq!(rules.iter().try_for_each(Rule::validate), Ok(()));
    Grant {
        rules,
        prune_all: false,
        finalize: Vec::new(),
        parent_metadata: Default::default(),
        host_namespace: "hotshoe-system".into(),
    }
}

const ALL: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

fn maps(rule: Value) -> Grant {
    let mut rule = rule;
    for (key, value) in [("kind", json!("ConfigMap")), ("verbs", json!(ALL))] {
        rule.as_object_mut().unwrap().entry(key).or_insert(value);
    }
    grant(json!([rule]))
}

/// Returns the labels of two namespaces, `blue` and `red`, each labelled with its own name.
fn label_of(namespace: &str, key: &str) -> Option<String> {
    (key == "colour" && ["blue", "red"].contains(&namespace)).then(|| namespace.to_owned())
}

fn broken_for(grant: &Grant, parent: &str, access: Access<'_>, object: &ObjectRef) -> Option<&'static str> {
    let parent = self::object("c", "Memcached", parent);
    let request = Request { parent: &parent, object, namespaced: object.namespace.is_some(), access };
    let violation = grant.authorise(&request, &label_of).err()?;
    assert!(violation.violations()[0].message.starts_with(&object.to_string()), "{violation}");
    Some(violation.rule())
}

fn broken(grant: &Grant, access: Access<'_>, object: &ObjectRef) -> Option<&'static str> {
    broken_for(grant, "n/parent", access, object)
}

fn map(place: &str) -> ObjectRef {
    object("", "ConfigMap", place)
}

#[test]
fn a_granted_verb_is_allowed_in_the_parents_namespace() {
    let grant = maps(json!({}));
    for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
        assert_eq!(broken(&grant, access, &map("n/a")), None);
    }
}

#[test]
fn another_kind_or_group_is_not_granted() {
    let grant = grant(json!([{ "group": "apps", "kind": "Deployment", "verbs": ALL }]));
    for (group, kind) in [("apps", "DaemonSet"), ("", "Deployment"), ("apps.example.com", "Deployment")] {
        for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
            assert_eq!(broken(&grant, access, &object(group, kind, "n/a")), Some("not-granted"));
        }
    }
    assert_eq!(broken(&grant, Access::Delete, &object("apps", "Deployment", "n/a")), None);
}

#[test]
fn each_access_needs_its_own_verbs_and_an_apply_needs_two() {
    for (access, needed) in [
        (Access::Read, vec!["get"]),
        (Access::Apply(&json!({})), vec!["create", "update"]),
        (Access::Create(&json!({})), vec!["create"]),
        (Access::Delete, vec!["delete"]),
    ] {
        assert_eq!(broken(&maps(json!({ "verbs": needed })), access, &map("n/a")), None);
        for missing in &needed {
            let others: Vec<_> = ALL.into_iter().filter(|verb| verb != missing).collect();
            let grant = maps(json!({ "verbs": others }));
            assert_eq!(broken(&grant, access, &map("n/a")), Some("not-granted"), "{missing}");
        }
    }
}

#[test]
fn what_a_rule_allows_for_one_verb_is_not_allowed_for_another() {
    let body = json!({ "spec": { "automountServiceAccountToken": false, "hostNetwork": true } });
    let apply = Access::Apply(&body);
    let rule = |verbs: &[&str], open: bool| json!({ "kind": "Pod", "verbs": verbs, "pods": { "hostNetwork": open } });
    let pod = object("", "Pod", "n/a");
    for (rules, breaks) in [
        (json!([rule(&["create"], true), rule(&["update"], false)]), true),
        (json!([rule(&["create"], false), rule(&["update"], true)]), true),
        (json!([rule(&["create"], true), rule(&["update"], true)]), false),
        (json!([rule(&["create", "update"], false), rule(&["create", "update"], true)]), false),
        (json!([rule(&["create"], true), rule(&["create", "update"], false)]), true),
    ] {
        let grant = grant(rules.clone());
        assert_eq!(broken(&grant, apply, &pod).is_some(), breaks, "{rules}");
    }
}

#[test]
fn a_body_that_is_created_once_is_checked_like_one_that_is_applied() {
    let body = json!({ "spec": { "automountServiceAccountToken": false, "hostNetwork": true } });
    let grant = grant(json!([{ "kind": "Pod", "verbs": ["create"] }]));
    assert_eq!(broken(&grant, Access::Create(&body), &object("", "Pod", "n/a")), Some("pod-host-network"));
    let token = json!({ "type": "kubernetes.io/service-account-token" });
    let secrets = self::grant(json!([{ "kind": "Secret", "verbs": ["create"], "names": ["a"] }]));
    assert_eq!(broken(&secrets, Access::Create(&token), &object("", "Secret", "n/a")), Some("secret-type"));
}

#[test]
fn a_watched_object_is_shown_only_with_all_three_reading_verbs() {
    let shown = |verbs: &[&str], place: &str| {
        let (parent, object) = (object("c", "Memcached", "n/parent"), map(place));
        let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Read };
        maps(json!({ "verbs": verbs })).authorise_watched(&request, &label_of).map_err(|denial| denial.rule())
    };
    assert_eq!(shown(&["get", "list", "watch"], "n/a"), Ok(()));
    for verbs in [["list", "watch"], ["get", "watch"], ["get", "list"]] {
        assert_eq!(shown(&verbs, "n/a"), Err("not-granted"), "{verbs:?}");
    }
    assert_eq!(shown(&["get", "list", "watch"], "other/a"), Err("namespace-not-granted"));
}

#[test]
fn an_object_outside_of_the_grant_is_no_child_whatever_it_names_as_its_controller() {
    let covers_of = |rule: Value, parent: &str, place: &str, is_seen: bool| {
        maps(rule).covers_child(&object("c", "Memcached", parent), &map(place), is_seen, &label_of)
    };
    let covers = |rule: Value, place: &str| covers_of(rule, "n/parent", place, true);
    assert!(covers(json!({}), "n/a") && covers(json!({ "names": ["a*"] }), "n/a"));
    assert!(!covers(json!({ "names": ["b*"] }), "n/a") && !covers(json!({ "kind": "Pod" }), "n/a"));
    let red = json!({ "namespaces": { "matchLabels": { "colour": "red" } } });
    assert!(covers_of(red.clone(), "parent", "red/a", true));
    assert!(!covers_of(red, "parent", "blue/a", true));
    for (verbs, seen, unseen) in [
        (&["get", "list", "watch"][..], true, true),
        (&["get", "list", "watch", "create"], true, true),
        (&["get", "list", "create", "update"], false, false),
        (&["delete"], false, true),
    ] {
        let rule = json!({ "verbs": verbs });
        assert_eq!(covers_of(rule.clone(), "n/parent", "n/a", true), seen, "{verbs:?}");
        assert_eq!(covers_of(rule, "n/parent", "n/a", false), unseen, "{verbs:?}, no longer seen");
    }
}

#[test]
fn two_rules_together_give_what_an_apply_needs() {
    let grant = grant(json!([
        { "kind": "ConfigMap", "verbs": ["create"], "names": ["a"] },
        { "kind": "ConfigMap", "verbs": ["update"] },
    ]));
    assert_eq!(broken(&grant, Access::Apply(&json!({})), &map("n/a")), None);
    assert_eq!(broken(&grant, Access::Apply(&json!({})), &map("n/b")), Some("name-not-granted"));
}

#[test]
fn a_child_never_leaves_the_namespace_of_its_parent() {
    for namespaces in
        [json!("own"), json!("cluster"), json!(["n", "other"]), json!({ "matchLabels": { "colour": "red" } })]
    {
        let grant = maps(json!({ "namespaces": namespaces }));
        for place in ["other/a", "red/a", "a"] {
            for access in [Access::Apply(&json!({})), Access::Delete] {
                assert_eq!(broken(&grant, access, &map(place)), Some("foreign-namespace"), "{place}");
            }
        }
    }
}

#[test]
fn reads_reach_as_far_as_a_rule_grants() {
    let read = |namespaces: Value, place| broken(&maps(json!({ "namespaces": namespaces })), Access::Read, &map(place));
    let denied = Some("namespace-not-granted");
    assert_eq!(read(json!("own"), "n/a"), None);
    assert_eq!(read(json!("own"), "other/a"), denied);
    assert_eq!(read(json!("own"), "a"), denied);
    assert_eq!(read(json!(["other"]), "other/a"), None);
    assert_eq!(read(json!(["other"]), "n/a"), denied, "a list without the parent's namespace leaves it out");
    assert_eq!(read(json!(["other"]), "a"), denied);
    assert_eq!(read(json!("cluster"), "other/a"), None);
    assert_eq!(read(json!("cluster"), "a"), None);
    let red = json!({ "matchLabels": { "colour": "red" } });
    assert_eq!(read(red.clone(), "red/a"), None);
    assert_eq!(read(red.clone(), "blue/a"), denied);
    assert_eq!(read(red.clone(), "unlabelled/a"), denied);
    assert_eq!(read(red, "a"), denied);
    let two = json!({ "matchLabels": { "colour": "red", "size": "big" } });
    assert_eq!(read(two, "red/a"), denied, "every label must be there");
}

#[test]
fn a_selector_with_nothing_in_it_selects_nothing() {
    let mut grant = maps(json!({ "namespaces": { "matchLabels": { "a": "b" } } }));
    grant.rules[0].namespaces = Namespaces::Selected(Selector { match_labels: BTreeMap::new() });
    assert_eq!(broken(&grant, Access::Read, &map("n/a")), Some("namespace-not-granted"));
}

#[test]
fn under_a_parent_without_a_namespace_children_need_a_rule_with_namespaces() {
    let apply = |namespaces: Value, place| {
        let grant = maps(json!({ "namespaces": namespaces }));
        broken_for(&grant, "parent", Access::Apply(&json!({})), &map(place))
    };
    let denied = Some("namespace-not-granted");
    assert_eq!(apply(json!("own"), "n/a"), denied);
    assert_eq!(apply(json!("own"), "a"), denied);
    assert_eq!(apply(json!(["n"]), "n/a"), None);
    assert_eq!(apply(json!(["n"]), "other/a"), denied);
    assert_eq!(apply(json!({ "matchLabels": { "colour": "red" } }), "red/a"), None);
    assert_eq!(apply(json!({ "matchLabels": { "colour": "red" } }), "blue/a"), denied);
    assert_eq!(apply(json!("cluster"), "n/a"), None);
    assert_eq!(apply(json!("cluster"), "a"), None);
}

#[test]
fn scope_is_what_discovery_says() {
    let parent = object("c", "Memcached", "parent");
    let grant = maps(json!({ "namespaces": "cluster" }));
    for (place, namespaced) in [("n/a", false), ("a", true)] {
        let object = map(place);
        let request = Request { parent: &parent, object: &object, namespaced, access: Access::Read };
        assert_eq!(grant.authorise(&request, &label_of).unwrap_err().rule(), "scope");
    }
}

#[test]
fn a_rule_with_names_is_about_those_names() {
    let grant = maps(json!({ "names": ["exact", "prefix-*"] }));
    for access in [Access::Read, Access::Apply(&json!({})), Access::Delete] {
        assert_eq!(broken(&grant, access, &map("n/exact")), None);
        assert_eq!(broken(&grant, access, &map("n/prefix-1")), None);
        assert_eq!(broken(&grant, access, &map("n/exactly")), Some("name-not-granted"));
    }
}

#[test]
fn secrets_are_read_by_a_rule_with_names_only() {
    let secret = object("", "Secret", "n/a");
    let without = grant(json!([{ "kind": "Secret", "verbs": ALL }]));
    assert_eq!(broken(&without, Access::Read, &secret), Some("secret-names"));
    assert_eq!(broken(&without, Access::Apply(&json!({})), &secret), None);
    let deleting = grant(json!([{ "kind": "Secret", "verbs": ALL, "pruneData": true }]));
    assert_eq!(broken(&deleting, Access::Delete, &secret), None);
    let with = grant(json!([{ "kind": "Secret", "verbs": ALL, "names": ["a"] }]));
    assert_eq!(broken(&with, Access::Read, &secret), None);
    assert_eq!(broken(&with, Access::Read, &object("", "Secret", "n/b")), Some("name-not-granted"));
    let alike = grant(json!([{ "group": "g", "kind": "Secret", "verbs": ALL }]));
    assert_eq!(broken(&alike, Access::Read, &object("g", "Secret", "n/a")), None);
    for (verb, open) in [(Verb::Get, false), (Verb::List, false), (Verb::Watch, false), (Verb::Create, true)] {
        assert_eq!(without.allows(verb, &secret.kind), open);
        assert!(with.allows(verb, &secret.kind));
    }
}

#[test]
fn kinds_that_contain_data_are_deleted_only_by_explicit_grant() {
    for (group, kind, place, data) in [
        ("", "PersistentVolumeClaim", "n/a", true),
        ("", "PersistentVolume", "a", true),
        ("", "Secret", "n/a", true),
        ("snapshot.storage.k8s.io", "VolumeSnapshot", "n/a", true),
        ("", "Namespace", "a", true),
        ("", "ConfigMap", "n/a", false),
        ("g", "Secret", "n/a", false),
        ("g", "PersistentVolumeClaim", "n/a", false),
    ] {
        let child = object(group, kind, place);
        let parent = if place.contains('/') { "n/parent" } else { "parent" };
        let with = |prune_data: bool| {
            let rule =
                json!({ "group": group, "kind": kind, "verbs": ALL, "namespaces": "cluster", "pruneData": prune_data });
            // Not validated: `pruneData` is invalid for kinds without data, and must have no effect there.
            let rules = serde_json::from_value(json!([rule])).unwrap();
            Grant {
                rules,
                prune_all: false,
                finalize: Vec::new(),
                parent_metadata: Default::default(),
                host_namespace: "hotshoe-system".into(),
            }
        };
        assert_eq!(broken_for(&with(false), parent, Access::Delete, &child), data.then_some("prune-data"));
        assert_eq!(broken_for(&with(true), parent, Access::Delete, &child), None);
        assert_eq!(broken_for(&with(false), parent, Access::Apply(&json!({})), &child), None);
    }
}

#[test]
fn what_holds_data_is_never_made_anew_whatever_is_granted() {
    let body = json!({});
    for (group, kind) in [("", "PersistentVolumeClaim"), ("", "Namespace"), ("", "Secret"), ("", "PersistentVolume")] {
        let rule = json!({
            "group": group, "kind": kind, "verbs": ALL, "namespaces": "cluster", "pruneData": true, "recreate": true,
        });
        let rules: Vec<Rule> = serde_json::from_value(json!([rule])).unwrap();
        assert!(rules[0].validate().unwrap_err().contains("which holds data"), "{kind}");
        let grant = Grant {
            rules,
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "hotshoe-system".into(),
        };
        let place = if ["Namespace", "PersistentVolume"].contains(&kind) { "a" } else { "n/a" };
        let parent = if place == "a" { "parent" } else { "n/parent" };
        let object = object(group, kind, place);
        assert_eq!(broken_for(&grant, parent, Access::Recreate(&body), &object), Some("recreate-data"), "{kind}");
    }
}

#[test]
fn a_kind_with_holds_data_is_deleted_only_by_a_rule_with_prune_data() {
    let cluster = object("postgresql.cnpg.io", "Cluster", "n/a");
    let rule = |more: Value| {
        let mut rule = json!({ "group": "postgresql.cnpg.io", "kind": "Cluster", "verbs": ALL });
        rule.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        rule
    };
    let deleted = |rules: Value| broken(&grant(rules), Access::Delete, &cluster);
    assert_eq!(deleted(json!([rule(json!({}))])), None);
    assert_eq!(deleted(json!([rule(json!({ "holdsData": true }))])), Some("prune-data"));
    let apart = json!([rule(json!({ "holdsData": true, "verbs": ["get"] })), rule(json!({}))]);
    assert_eq!(deleted(apart), Some("prune-data"), "it applies to the kind, whichever rule grants the verb");
    assert_eq!(deleted(json!([rule(json!({ "holdsData": true, "pruneData": true }))])), None);
}

#[test]
fn one_rule_must_allow_everything_in_a_body() {
    let service = object("", "Service", "n/a");
    let rule = |services: Value| json!({ "kind": "Service", "verbs": ALL, "services": services });
    let body = json!({ "spec": { "type": "NodePort", "externalIPs": ["1.2.3.4"] } });
    let apart = grant(json!([rule(json!({ "types": ["NodePort"] })), rule(json!({ "externalIPs": true }))]));
    assert_eq!(broken(&apart, Access::Apply(&body), &service), Some("service-external-ips"), "of the first rule");
    let together = json!({ "types": ["NodePort"], "externalIPs": true });
    let second = grant(json!([rule(json!({})), rule(together)]));
    assert_eq!(broken(&second, Access::Apply(&body), &service), None);
}

#[test]
fn claims_of_a_stateful_set_are_checked_by_the_rule_that_grants_it() {
    let selector = json!({ "matchLabels": { "app": "parent" } });
    let claims = [json!({ "metadata": { "name": "data" } })];
    let claims = json!({ "spec": { "selector": selector, "volumeClaimTemplates": claims } });
    let policy = json!({ "whenDeleted": "Delete" });
    let loses = json!({ "spec": { "selector": selector, "persistentVolumeClaimRetentionPolicy": policy } });
    let with = |more: Value| {
        let mut rule = json!({ "group": "apps", "kind": "StatefulSet", "verbs": ALL });
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        grant(json!([rule]))
    };
    let set = |name: &str| object("apps", "StatefulSet", name);
    assert_eq!(broken(&with(json!({})), Access::Apply(&claims), &set("n/parent")), None);
    assert_eq!(broken(&with(json!({})), Access::Apply(&claims), &set("n/a")), Some("pod-volume-claim"));
    let open = with(json!({ "pods": { "persistentVolumeClaims": ["data-*"] } }));
    assert_eq!(broken(&open, Access::Apply(&claims), &set("n/a")), None);
    assert_eq!(broken(&with(json!({})), Access::Apply(&loses), &set("n/a")), Some("prune-data"));
    assert_eq!(broken(&with(json!({ "pruneData": true })), Access::Apply(&loses), &set("n/a")), None);
}

#[test]
fn a_selector_is_checked_by_the_rule_that_grants_its_object() {
    let body = json!({ "spec": { "selector": { "matchLabels": { "app": "ci-runner" } } } });
    for kind in ["ReplicaSet", "Deployment", "StatefulSet"] {
        let with = |pods: Value| grant(json!([{ "group": "apps", "kind": kind, "verbs": ALL, "pods": pods }]));
        let child = object("apps", kind, "n/a");
        assert_eq!(broken(&with(json!({})), Access::Apply(&body), &child), Some("pod-adoption"), "{kind}");
        assert_eq!(broken(&with(json!({ "adopt": true })), Access::Apply(&body), &child), None, "{kind}");
    }
}

#[test]
fn a_pod_template_is_checked_on_every_apply() {
    let grant = grant(json!([{ "group": "apps", "kind": "Deployment", "verbs": ALL }]));
    let body = json!({ "spec": { "template": { "spec": { "hostNetwork": true } } } });
    let deployment = object("apps", "Deployment", "n/a");
    assert_eq!(broken(&grant, Access::Apply(&body), &deployment), Some("pod-host-network"));
    assert_eq!(broken(&grant, Access::Delete, &deployment), None);
}

#[test]
fn without_rules_nothing_is_allowed() {
    let grant = grant(json!([]));
    assert_eq!(broken(&grant, Access::Read, &map("n/a")), Some("not-granted"));
    assert!(!grant.allows(Verb::Get, &map("n/a").kind));
}

#[test]
fn a_kind_that_is_never_granted_is_not_allowed_either() {
    let grant = grant(json!([
        { "group": "rbac.authorization.k8s.io", "kind": "Role", "verbs": ALL },
        { "kind": "ConfigMap", "verbs": ["get"] },
    ]));
    assert!(!grant.allows(Verb::Get, &Kind::new("rbac.authorization.k8s.io", "v1", "Role")));
    assert!(grant.allows(Verb::Get, &Kind::new("", "v1", "ConfigMap")));
    assert!(!grant.allows(Verb::List, &Kind::new("", "v1", "ConfigMap")));
}

#[test]
fn a_kind_that_no_plugin_may_write_can_be_read() {
    let rules = json!([{ "group": "networking.k8s.io", "kind": "IngressClass", "verbs": ["get", "create"] }]);
    let (grant, class) = (grant(rules), Kind::new("networking.k8s.io", "v1", "IngressClass"));
    assert!(grant.allows(Verb::Get, &class) && !grant.allows(Verb::Create, &class));
}

#[test]
fn a_rule_for_the_closed_namespace_alone_allows_nothing() {
    let allowed = |namespaces: Value| maps(json!({ "namespaces": namespaces })).allows(Verb::Get, &map("n/a").kind);
    assert!(!allowed(json!(["hotshoe-system"])));
    for namespaces in [json!(["hotshoe-system", "a"]), json!(["a"]), json!("own"), json!("cluster")] {
        assert!(allowed(namespaces.clone()), "{namespaces}");
    }
}

#[test]
fn only_labels_by_which_a_rule_selects_need_be_known() {
    let selecting = grant(json!([
        { "kind": "ConfigMap", "verbs": ["get"], "namespaces": { "matchLabels": { "b": "1", "a": "2" } } },
        { "kind": "Pod", "verbs": ["get"], "namespaces": { "matchLabels": { "a": "3" } } },
    ]));
    assert_eq!(selecting.namespace_labels().into_iter().collect::<Vec<_>>(), ["a", "b"]);
    assert!(maps(json!({ "namespaces": ["a"] })).namespace_labels().is_empty());
}

#[test]
fn a_rule_applies_only_in_its_namespaces() {
    for (namespaces, text) in [
        (json!("own"), "the parent's namespace"),
        (json!("cluster"), "every namespace"),
        (json!(["a", "b"]), "namespaces a, b"),
        (json!({ "matchLabels": { "a": "b", "c": "d" } }), "namespaces with a=b,c=d"),
    ] {
        assert_eq!(maps(json!({ "namespaces": namespaces })).rules[0].namespaces.to_string(), text);
    }
}

#[test]
fn each_refusal_says_what_to_do() {
    let message = |grant: &Grant, access: Access<'_>, object: ObjectRef| {
        let parent = self::object("c", "Memcached", "n/parent");
        let request = Request { parent: &parent, object: &object, namespaced: object.namespace.is_some(), access };
        grant.authorise(&request, &label_of).unwrap_err().to_string()
    };
    let none = maps(json!({ "verbs": ["list"] }));
    assert!(message(&none, Access::Read, map("n/a")).ends_with(
        "`get` on ConfigMap is not granted; to allow it, set in spec.grants[0] in plugin.yaml: verbs: [list, get]"
    ));
    let own = maps(json!({}));
    assert!(message(&own, Access::Read, map("a")).contains("namespaces: cluster"));
    let other = message(&own, Access::Read, map("x/a"));
    assert!(other.contains("covers the namespace x"), "{other}");
    assert!(other.ends_with("- {kind: ConfigMap, namespaces: [x], verbs: [get]}"), "{other}");
}

#[test]
fn a_rule_without_a_sensible_meaning_is_named() {
    let error = |rule: Value| serde_json::from_value::<Rule>(rule).unwrap().validate().unwrap_err();
    for (rule, says) in [
        (json!({ "kind": "", "verbs": [] }), "no kind"),
        (json!({ "kind": "Pod/exec", "verbs": [] }), "subresources"),
        (json!({ "kind": "Pod", "verbs": [] }), "verbs is an empty list"),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": [] }), "namespaces is an empty list"),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": ["a", "B"] }), "\"B\""),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": { "matchLabels": {} } }), "matchLabels is empty"),
        (json!({ "kind": "Pod", "verbs": [], "names": ["a", ""] }), "names has"),
        (json!({ "kind": "Pod", "verbs": [], "pods": { "secrets": ["**"] } }), "pods.secrets has"),
        (json!({ "kind": "Secret", "verbs": [], "pods": { "hostPID": true } }), "no Pods"),
        (json!({ "kind": "PersistentVolumeClaim", "verbs": [], "pods": { "hostPID": true } }), "no Pods"),
        (json!({ "kind": "Pod", "verbs": [], "services": { "clusterIP": true } }), "which is not a Service"),
        (json!({ "kind": "Service", "verbs": [], "services": { "annotations": [""] } }), "services.annotations has"),
        (
            json!({ "kind": "Service", "verbs": [], "services": { "types": ["Nodeport"] } }),
            "services.types has \"Nodeport\"",
        ),
        (json!({ "kind": "Pod", "verbs": [], "labels": ["a**"] }), "labels has"),
        (json!({ "kind": "ConfigMap", "verbs": [], "labels": ["a.io/*"] }), "labels need no item"),
        (json!({ "kind": "Secret", "verbs": [], "foreignSnapshots": true }), "which names no snapshots"),
        (json!({ "kind": "Pod", "verbs": [], "helmReleases": true }), "in which Helm keeps no releases"),
        (json!({ "kind": "Pod", "verbs": [], "names": ["ABC"] }), "names has \"ABC\""),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": ["a", "own"] }), "write `namespaces: own` without brackets"),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": ["cluster"] }), "metadata.name: cluster}}"),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": { "matchLabels": { "a b": "c" } } }), "\"a b\""),
        (json!({ "kind": "Pod", "verbs": [], "namespaces": { "matchLabels": { "a": "b c" } } }), "\"b c\""),
        (json!({ "kind": "ConfigMap", "verbs": [], "pruneData": true }), "pruneData is set for the kind \"ConfigMap\""),
    ] {
        let error = error(rule);
        assert!(error.contains(says), "{error}");
    }
    let empty = json!({ "kind": "Pod", "verbs": ["get"], "namespaces": { "matchLabels": { "a.io/b": "" } } });
    assert_eq!(serde_json::from_value::<Rule>(empty).unwrap().validate(), Ok(()), "a label may have no value");
    for (group, kind, item) in [
        ("apps", "Deployment", json!({ "labels": ["a.io/*"] })),
        ("", "Namespace", json!({ "labels": ["a.io/*"] })),
        ("", "Secret", json!({ "helmReleases": true })),
        ("", "ConfigMap", json!({ "helmReleases": true })),
        ("snapshot.storage.k8s.io", "VolumeSnapshotContent", json!({ "foreignSnapshots": true, "pruneData": true })),
        ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotContent", json!({ "foreignSnapshots": true })),
    ] {
        let mut rule = json!({ "group": group, "kind": kind, "verbs": ["get"] });
        rule.as_object_mut().unwrap().extend(item.as_object().unwrap().clone());
        assert_eq!(serde_json::from_value::<Rule>(rule).unwrap().validate(), Ok(()), "{kind}");
    }
    for (group, kind) in [("", "Namespace"), ("", "PersistentVolumeClaim"), ("", "Secret"), ("apps", "StatefulSet")] {
        let loses = json!({ "group": group, "kind": kind, "verbs": ["get"], "pruneData": true });
        assert_eq!(serde_json::from_value::<Rule>(loses).unwrap().validate(), Ok(()), "{kind}");
    }
    let pods = json!({ "claimSources": ["a"], "annotations": ["a.io/*"] });
    let filled = json!({ "kind": "PersistentVolumeClaim", "verbs": ["get"], "pods": pods });
    assert_eq!(serde_json::from_value::<Rule>(filled).unwrap().validate(), Ok(()));
}

#[test]
fn a_kind_that_differs_from_a_known_one_in_case_or_group_is_named_with_it() {
    let set = "is the kind \"StatefulSet\" of the group \"apps\" meant?";
    let service = "is the kind \"Service\" of the group \"\" meant?";
    for (group, kind, more, says) in [
        ("apps", "statefulset", json!({}), set),
        ("app", "StatefulSet", json!({ "pods": { "hostPID": true } }), set),
        ("", "StatefulSet", json!({ "pruneData": true }), set),
        ("apps", "deployment", json!({}), "is the kind \"Deployment\" of the group \"apps\" meant?"),
        ("v1", "service", json!({}), service),
        ("v1", "Service", json!({ "services": { "clusterIP": true } }), service),
        ("apps/v1", "StatefulSet", json!({}), "group has \"apps/v1\"; a group is written without a version"),
        ("", "widget", json!({}), "kind has \"widget\""),
        ("g", "Widget", json!({ "pods": { "hostPID": true } }), "makes no Pods; remove it"),
        ("", "ConfigMap", json!({ "pruneData": true }), "holds no data; remove it, or set holdsData: true"),
        ("apps", "Deployment", json!({ "foreignPods": true }), "whose Pods are checked against `pods`"),
        ("", "PersistentVolumeClaim", json!({ "pods": { "adopt": true } }), "claimSources and annotations"),
    ] {
        let mut rule = json!({ "group": group, "kind": kind, "verbs": ["get"] });
        rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let error = serde_json::from_value::<Rule>(rule).unwrap().validate().unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn each_verb_that_a_descriptor_asks_for_is_listed_once() {
    let kind = Kind::new("apps", "v1", "Deployment");
    let read = |kind: &Kind| ReadKind {
        key: "k".into(),
        kind: kind.clone(),
        selector: String::new(),
        rule: MatchRule::ParentLabel("l".into()),
        fields: Vec::new(),
    };
    let owned = OwnedKind { kind: kind.clone(), verbs: vec![WriteVerb::Create, WriteVerb::Delete], fields: Vec::new() };
    let pod = Kind::new("", "v1", "Pod");
    let descriptor = Descriptor {
        name: "n".into(),
        version: "1".into(),
        parent: Kind::new("c", "v1", "Memcached"),
        owns: vec![owned],
        reads: vec![read(&Kind::new("apps", "v2", "Deployment")), read(&pod)],
        ..Descriptor::default()
    };
    let watching = vec![Verb::Get, Verb::List, Verb::Watch];
    let writing = [watching.clone(), vec![Verb::Create, Verb::Delete]].concat();
    assert_eq!(asked(&descriptor), [(kind, writing), (pod, watching)]);
    let given = grant(json!([{ "group": "apps", "kind": "Deployment", "verbs": ["get", "list", "watch", "update"] }]));
    let missing = "create, delete on Deployment.apps; get, list, watch on Pod";
    assert_eq!(lacking(&descriptor, &given, &|_| None).as_deref(), Some(missing));
    let rule = |group: &str, kind: &str| json!({ "group": group, "kind": kind, "verbs": ALL });
    let granted = grant(json!([rule("apps", "Deployment"), rule("", "Pod")]));
    assert_eq!(lacking(&descriptor, &granted, &|_| None), None);
}

#[test]
fn verbs_are_rbacs() {
    let words: Vec<_> =
        [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Delete].map(Verb::as_str).into();
    assert_eq!(words, ALL);
    assert_eq!(Verb::from(WriteVerb::Update), Verb::Update);
}

/// Returns why an access for the parent `n/parent` is denied.
fn denied(grant: &Grant, access: Access<'_>, object: &ObjectRef) -> Denial {
    let parent = self::object("c", "Memcached", "n/parent");
    let request = Request { parent: &parent, object, namespaced: true, access };
    grant.authorise(&request, &label_of).unwrap_err()
}

#[test]
fn a_fix_names_the_rule_that_lacks_least_its_kind_and_the_namespace_of_the_parent_as_own() {
    let maps = json!({ "kind": "ConfigMap", "verbs": ALL });
    let secrets = grant(json!([maps, { "kind": "Secret", "verbs": ["get"], "names": ["a"] }]));
    let denial = denied(&secrets, Access::Read, &object("", "Secret", "n/b")).to_string();
    assert!(denial.contains("spec.grants[1]") && denial.contains("names: [a, b]"), "{denial}");

    let pods = grant(json!([maps, { "kind": "Pod", "verbs": ALL }]));
    let body = json!({ "spec": { "automountServiceAccountToken": false, "hostNetwork": true } });
    let denial = denied(&pods, Access::Apply(&body), &object("", "Pod", "n/a"));
    assert!(denial.to_string().contains("spec.grants[1]"), "{denial}");
    let part = remedy::of_denial(&denial, &pods).unwrap();
    assert!(part.contains("kind: Pod") && part.contains("hostNetwork: true"), "{part}");

    let elsewhere = grant(json!([{ "kind": "ConfigMap", "verbs": ALL, "namespaces": ["elsewhere"] }]));
    let denial = denied(&elsewhere, Access::Read, &map("n/a")).to_string();
    assert!(denial.contains("namespaces: own"), "{denial}");
    let denial = denied(&elsewhere, Access::Read, &map("third/a")).to_string();
    assert!(denial.contains("namespaces: [third]"), "{denial}");
}

#[test]
fn the_rule_for_a_new_child_lets_the_host_watch_it_and_a_fix_of_the_object_itself_is_not_offered_as_a_grant() {
    let nothing = grant(json!([]));
    let body = json!({});
    let part = remedy::of_denial(&denied(&nothing, Access::Apply(&body), &map("n/a")), &nothing).unwrap();
    assert!(part.contains("verbs: [get, list, watch, create, update]"), "{part}");
    let part = remedy::of_denial(&denied(&nothing, Access::Read, &map("n/a")), &nothing).unwrap();
    assert!(part.contains("verbs: [get]"), "{part}");

    let greedy = json!({ "spec": { "automountServiceAccountToken": false, "hostNetwork": true } });
    let part =
        remedy::of_denial(&denied(&nothing, Access::Apply(&greedy), &object("", "Pod", "n/a")), &nothing).unwrap();
    assert!(part.matches("kind: Pod").count() == 1 && part.matches("kind:").count() == 1, "one rule: {part}");
    assert!(part.contains("hostNetwork: true"), "{part}");

    let pods = grant(json!([{ "kind": "Pod", "verbs": ALL }]));
    let body = json!({ "spec": { "containers": [{ "name": "main", "image": "a" }] } });
    let denial = denied(&pods, Access::Apply(&body), &object("", "Pod", "n/a"));
    assert_eq!(denial.count(), 2, "{denial}");
    assert_eq!(remedy::of_denial(&denial, &pods), None);
    assert!(denial.to_string().contains("must say automountServiceAccountToken: false"), "{denial}");
}

#[test]
fn a_grant_in_the_parents_namespace_is_none_where_the_parents_are_in_no_namespace() {
    let read = ReadKind {
        key: "pods".into(),
        kind: Kind::new("", "v1", "Pod"),
        selector: String::new(),
        rule: MatchRule::ParentLabel("of".into()),
        fields: Vec::new(),
    };
    let parent = Kind::new("example.com", "v1", "Tenant");
    let descriptor = Descriptor { parent, reads: vec![read], ..Descriptor::default() };
    let pods_are_namespaced = |kind: &Kind| Some(&*kind.kind == "Pod");
    let granted = |namespaces: Value| {
        grant(json!([{ "kind": "Pod", "verbs": ["get", "list", "watch"], "namespaces": namespaces }]))
    };
    let lacking = |namespaces: Value| lacking(&descriptor, &granted(namespaces), &pods_are_namespaced);
    let expected = "get, list, watch on Pod outside of the parent's namespace, because the parents are in none";
    assert_eq!(lacking(json!("own")).as_deref(), Some(expected));
    for namespaces in [json!("cluster"), json!(["red"]), json!({ "matchLabels": { "a": "b" } })] {
        assert_eq!(lacking(namespaces), None);
    }
    // What is advised is right when it is pasted.
    let missing = missing(&descriptor, &granted(json!("own")), &pods_are_namespaced);
    let [Missing { kind, verbs, is_beyond_own }] = missing.as_slice() else { panic!("{missing:?}") };
    let Fix::Grant(change) = Fix::new_grant(kind.clone(), verbs, *is_beyond_own) else { unreachable!() };
    let pasted = Value::Array(vec![Value::Object(change.new_rule())]);
    assert_eq!(super::lacking(&descriptor, &grant(pasted), &pods_are_namespaced), None);
}
