use super::*;
use crate::diff::repair::{Repair, change_content, repaired, repairs};
use serde_json::json;

/// Returns whether a desired object is covered if no associative lists are known.
fn covers(fields: &str, desired: &Value) -> bool {
    super::covers(fields, desired, &Kind::new(KIND.0, "v1", KIND.1), &AssociativeLists::default())
}

const FIELDS: &str = r#"{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:replicas":{},"f:selector":{},
    "f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"memcached\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},
    "f:ports":{"k:{\"containerPort\":11211,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}"#;

fn desired() -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [{"name": "memcached", "image": "i", "args": ["a", "b"], "ports": [{"containerPort": 11211}]}]}}}})
}

#[test]
fn an_object_of_which_every_leaf_is_owned_is_covered() {
    assert!(covers(FIELDS, &desired()));
}

#[test]
fn a_leaf_that_another_manager_owns_is_not_covered() {
    assert!(!covers(&FIELDS.replace(r#""f:replicas":{},"#, ""), &desired()));
    assert!(!covers(&FIELDS.replace(r#""f:image":{},"#, ""), &desired()));
    assert!(!covers(&FIELDS.replace("11211", "11212"), &desired()));
}

#[test]
fn an_empty_map_is_covered_only_by_an_owner_of_its_own() {
    let desired = json!({ "volume": { "name": "a", "emptyDir": {} } });
    assert!(covers(r#"{"f:volume":{"f:name":{},"f:emptyDir":{}}}"#, &desired));
    assert!(!covers(r#"{"f:volume":{"f:name":{}}}"#, &desired));
}

#[test]
fn an_atomic_subtree_is_covered_by_its_root() {
    assert!(covers(r#"{"f:spec":{"f:selector":{}}}"#, &json!({"spec": {"selector": {"any": ["thing"]}}})));
}

#[test]
fn sets_are_compared_by_value() {
    let fields = r#"{"f:finalizers":{".":{},"v:\"a\"":{}}}"#;
    assert!(covers(fields, &json!({"finalizers": ["a"]})));
    assert!(!covers(fields, &json!({"finalizers": ["a", "b"]})));
    assert!(exceeds(fields, &json!({"finalizers": ["b"]})));
}

#[test]
fn a_leaf_that_is_no_longer_desired_exceeds() {
    let fields = r#"{"f:status":{"f:nodes":{},"f:conditions":{"k:{\"type\":\"Old\"}":{".":{},"f:type":{}}}}}"#;
    let with = json!({"status": {"nodes": [], "conditions": [{"type": "Old"}]}});
    let without = json!({"status": {"nodes": [], "conditions": [{"type": "New"}]}});
    assert!(!exceeds(fields, &with));
    assert!(exceeds(fields, &without));
}

#[test]
fn the_bare_existence_of_an_element_covers_none_of_its_fields() {
    let fields = r#"{"f:containers":{"k:{\"name\":\"a\"}":{".":{}}}}"#;
    assert!(!covers(fields, &json!({"containers": [{"name": "a", "image": "i"}]})));
}

#[test]
fn the_innermost_list_that_lost_an_element_is_repaired() {
    let live = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "sidecar"},
        {"name": "memcached", "image": "i", "args": ["a", "b"], "ports": [{"containerPort": 80, "protocol": "TCP"}]},
    ]}}}});
    let fields = FIELDS
        .replace(r#""k:{\"containerPort\":11211,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}"#, r#"".":{}"#);
    let found = repairs(&fields, &desired(), &live);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].pointer, "/spec/template/spec/containers/1/ports");
    assert_eq!(found[0].value, json!([{"containerPort": 11211}]));
    assert!(repairs(FIELDS, &desired(), &live).is_empty());
}

#[test]
fn nonsense_covers_nothing() {
    assert!(!covers("not json", &json!({})));
    assert!(!covers("[]", &json!({"a": 1})));
}

const KIND: (&str, &str) = ("apps", "Deployment");
const MANAGER: &str = "hotshoe/demo";

fn desired_child(name: &str, digest: &str) -> Desired {
    let kind = Kind::new(KIND.0, "v1", KIND.1);
    let reference = crate::model::kind::ObjectRef { kind, namespace: Some("n".into()), name: name.into() };
    let body = json!({ "metadata": { "name": name, "namespace": "n" }, "spec": { "replicas": 1 } });
    Desired {
        reference,
        body: Arc::new(body),
        digest: digest.into(),
        is_created_once: false,
        left: std::sync::Arc::default(),
        strategy: Default::default(),
    }
}

/// Returns a live child after an apply of [`desired_child`], with a change.
fn child(name: &str, change: impl FnOnce(&mut Value)) -> (Kind, Arc<Object>) {
    let mut object = json!({ "metadata": {
        "name": name, "namespace": "n", "uid": format!("uid-{name}"),
        "labels": { "hotshoe.dev/plugin": "demo" }, "annotations": { "hotshoe.dev/applied": "d" },
        "managedFields": [{ "manager": MANAGER, "operation": "Apply", "fieldsV1": { "f:metadata": {}, "f:spec": { "f:replicas": {} } } }],
    } });
    change(&mut object);
    let kept_fields = crate::model::object::KeptFields {
        projection: crate::model::projection::Projection::new::<&str>(&[]),
        labels: Vec::new(),
        status: false,
    };
    (Kind::new(KIND.0, "v1", KIND.1), Arc::new(Object::read(&object.to_string(), &kept_fields).unwrap()))
}

fn planned(desired: Vec<Desired>, observed: ObservedChildren) -> (Vec<(String, Precondition)>, Vec<String>) {
    let plan = plan(desired, &observed, &["demo"], MANAGER, &AssociativeLists::default());
    let applied = plan.apply.into_iter().map(|apply| (apply.desired.reference.name.to_string(), apply.precondition));
    (applied.collect(), plan.prune.iter().map(|(_, child)| child.key.name.to_string()).collect())
}

#[test]
fn a_child_that_is_created_once_is_created_if_missing_and_pruned_but_never_changed() {
    let once = |name: &str, digest: &str| Desired { is_created_once: true, ..desired_child(name, digest) };
    assert_eq!(planned(vec![once("a", "d")], vec![]).0, [("a".to_owned(), Precondition::Absent)]);
    let edited = || child("a", |object| object["metadata"]["managedFields"] = json!([]));
    assert_eq!(planned(vec![once("a", "other")], vec![edited()]), (vec![], vec![]));
    let (applied, pruned) = planned(vec![once("b", "d")], vec![edited()]);
    assert_eq!((applied, pruned), (vec![("b".to_owned(), Precondition::Absent)], vec!["a".to_owned()]));
}

#[test]
fn a_child_is_made_anew_once_the_old_one_is_gone_and_no_other_is_deleted_for_that_meanwhile() {
    let anew = |name: &str| Desired { strategy: UpdateStrategy::Recreate, ..desired_child(name, "new") };
    let planned = |observed: ObservedChildren| {
        plan(vec![anew("a"), anew("b")], &observed, &["demo"], MANAGER, &AssociativeLists::default())
    };
    let names =
        |plan: &Plan| plan.apply.iter().map(|apply| apply.desired.reference.name.to_string()).collect::<Vec<_>>();
    let there = planned(vec![child("a", |_| {}), child("b", |_| {})]);
    assert_eq!((names(&there), there.may_recreate()), (vec!["a".to_owned(), "b".to_owned()], true));
    let deleting = child("a", |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let leaving = planned(vec![deleting, child("b", |_| {})]);
    assert_eq!((names(&leaving), leaving.may_recreate()), (vec!["b".to_owned()], false));
    assert_eq!(&*leaving.leaving[0].0.reference.name, "a");
    let gone = planned(vec![child("b", |_| {})]);
    assert_eq!(gone.apply[0].precondition, Precondition::Absent);
    assert!(gone.leaving.is_empty() && !gone.may_recreate(), "the first has to be there again");
}

#[test]
fn a_missing_child_is_created_and_one_that_differs_is_applied_by_uid() {
    let as_it_is = |_: &mut Value| {};
    assert_eq!(planned(vec![desired_child("a", "d")], vec![]).0, [("a".to_owned(), Precondition::Absent)]);
    assert_eq!(planned(vec![desired_child("a", "d")], vec![child("a", as_it_is)]), (vec![], vec![]));
    let this_one = [("a".to_owned(), Precondition::Uid("uid-a".into()))];
    assert_eq!(planned(vec![desired_child("a", "other")], vec![child("a", as_it_is)]).0, this_one);
    let taken =
        child("a", |object| object["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] = json!({ "f:x": {} }));
    assert_eq!(planned(vec![desired_child("a", "d")], vec![taken]).0, this_one);
    let disowned = child("a", |object| object["metadata"]["managedFields"] = json!([]));
    assert_eq!(planned(vec![desired_child("a", "d")], vec![disowned]).0, this_one);
    let deleting = child("a", |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(
        planned(vec![desired_child("a", "other")], vec![deleting]),
        (vec![], vec![]),
        "it is being deleted, and created again later"
    );
}

#[test]
fn a_child_in_which_a_repair_is_left_as_an_update_is_applied_again() {
    let with_update = |manager: &str, subresource: &str| {
        let fields = json!({ "f:spec": { "f:replicas": {} } });
        let update =
            json!({ "manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": fields });
        child("a", |object| object["metadata"]["managedFields"].as_array_mut().unwrap().push(update))
    };
    for (manager, subresource, writes) in [(MANAGER, "", 1), (MANAGER, "status", 0), ("hotshoe/other", "", 0)] {
        let (applied, _) = planned(vec![desired_child("a", "d")], vec![with_update(manager, subresource)]);
        assert_eq!(applied.len(), writes, "{manager} {subresource}");
    }
}

#[test]
fn a_child_without_the_name_of_its_parent_is_in_sync_and_one_without_another_annotation_is_not() {
    let annotated = |name: &str| {
        let mut desired = desired_child("a", "d");
        let body = json!({ "metadata": { "annotations": { name: "x" } }, "spec": { "replicas": 1 } });
        desired.body = Arc::new(body);
        desired
    };
    assert_eq!(planned(vec![annotated("hotshoe.dev/parent")], vec![child("a", |_| {})]), (vec![], vec![]));
    let without = |object: &mut Value| {
        object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] = json!({ "f:labels": {} })
    };
    for (name, writes) in [("hotshoe.dev/parent", 0), ("hotshoe.dev/other", 1)] {
        assert_eq!(planned(vec![annotated(name)], vec![child("a", without)]).0.len(), writes, "{name}");
    }
}

#[test]
fn a_child_of_ours_that_is_not_desired_is_pruned_once() {
    let observed = || vec![child("a", |_| {}), child("b", |_| {})];
    assert_eq!(planned(vec![], observed()).1, ["a", "b"]);
    assert_eq!(planned(vec![desired_child("a", "d")], observed()).1, ["b"]);
    let deleting = child("b", |object| object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(planned(vec![], vec![deleting]).1, [""; 0]);
    for label in [json!({}), json!({ "hotshoe.dev/plugin": "other" })] {
        let foreign = child("b", |object| object["metadata"]["labels"] = label);
        assert_eq!(planned(vec![], vec![foreign]).1, [""; 0]);
    }
}

#[test]
fn the_fields_that_identify_an_object_have_no_owner() {
    let fields = r#"{"f:metadata":{"f:labels":{"f:app":{}}}}"#;
    let desired = json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": "a", "namespace": "n", "labels": { "app": "x" } } });
    assert!(covers(fields, &desired));
    assert!(!covers(fields, &json!({ "metadata": { "uid": "u", "labels": { "app": "x" } } })));
    assert!(!covers(fields, &json!({ "spec": { "name": "a" } })));
    let named = r#"{"f:spec":{"f:x":{}}}"#;
    assert!(!covers(named, &json!({ "spec": { "x": 1, "name": "a" } })));
}

/// Returns an apply of so many members, keyed elements and values, and the `fieldsV1` that an API server makes of it.
fn large(members: usize, elements: usize) -> (String, Value) {
    let data: serde_json::Map<_, _> = (0..members).map(|n| (format!("key{n}"), json!("x"))).collect();
    let ports: Vec<_> = (0..elements).map(|n| json!({ "port": n, "name": n.to_string() })).collect();
    let texts: Vec<_> = (0..elements).map(|n| n.to_string()).collect();
    let node = |key: String| (key, json!({}));
    let owned_data: serde_json::Map<_, _> = data.keys().map(|key| node(format!("f:{key}"))).collect();
    let owned_ports: serde_json::Map<_, _> = (0..elements)
        .map(|n| (format!(r#"k:{{"port":{n},"protocol":"TCP"}}"#), json!({ ".": {}, "f:port": {}, "f:name": {} })))
        .collect();
    let owned_texts: serde_json::Map<_, _> = texts.iter().map(|text| node(format!("v:\"{text}\""))).collect();
    let fields = json!({ "f:data": owned_data, "f:ports": owned_ports, "f:texts": owned_texts });
    (fields.to_string(), json!({ "data": data, "ports": ports, "texts": texts }))
}

#[test]
fn the_largest_child_that_a_plugin_can_desire_is_walked_quickly() {
    let (fields, desired) = large(50_000, 20_000);
    assert!(covers(&fields, &desired));
    assert!(!exceeds(&fields, &desired));
    assert_eq!(repairs(&fields, &desired, &desired), []);
    let mut more = desired.clone();
    more["ports"].as_array_mut().unwrap().push(json!({ "port": 20_000 }));
    assert!(!covers(&fields, &more));
    assert_eq!(repairs(&fields, &more, &desired).len(), 1);
    for list in ["data", "ports", "texts"] {
        let mut less = desired.clone();
        match &mut less[list] {
            Value::Array(elements) => drop(elements.pop()),
            members => drop(members.as_object_mut().unwrap().remove("key7")),
        }
        assert!(covers(&fields, &less) && exceeds(&fields, &less), "{list}");
    }
}

#[test]
fn a_list_of_which_we_own_nothing_is_repaired_and_an_atomic_one_is_not() {
    let (ours, theirs) = (json!({ "list": [{ "name": "a" }] }), json!({ "list": [{ "name": "b" }] }));
    let all = Repair { pointer: "/list".into(), value: json!([{ "name": "a" }]) };
    assert_eq!(repairs("{}", &ours, &theirs), [all]);
    assert_eq!(repairs("{}", &json!({ "list": [] }), &theirs), [], "nothing of ours is missing");
    assert_eq!(repairs(r#"{"f:list":{}}"#, &ours, &theirs), [], "an apply replaces it as a whole");
}

#[test]
fn an_element_whose_key_was_edited_is_restored_beside_what_others_added() {
    let desired = json!({ "ports": [
        { "containerPort": 11211, "name": "memcached", "nested": {} },
        { "containerPort": 80, "name": "web" },
    ] });
    let live = |edited: Value, added: Value| json!({ "ports": [{ "containerPort": 80, "name": "web", "protocol": "TCP" }, added, edited] });
    let edited = json!({ "containerPort": 1234, "name": "memcached", "protocol": "TCP" });
    let metrics = json!({ "containerPort": 9150, "name": "metrics", "protocol": "TCP" });
    let back = json!({ "containerPort": 11211, "name": "memcached", "protocol": "TCP" });
    let back = Repair { pointer: "/ports/2".into(), value: back };
    let all = [Repair { pointer: "/ports".into(), value: desired["ports"].clone() }];
    let web = r#"{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}}}"#;
    assert_eq!(repairs(web, &desired, &live(edited.clone(), metrics)), [back]);
    assert_eq!(
        repairs(web, &desired, &live(edited.clone(), edited.clone())),
        all,
        "either of them may be the edited one"
    );
    let nobodys = json!({ "containerPort": 1234, "name": "other" });
    assert_eq!(repairs(web, &desired, &live(nobodys.clone(), nobodys)), all, "it is nowhere");
    // What is below an edited element is repaired, too.
    let nested =
        |port: u32| json!({ "containers": [{ "name": "a", "image": "i", "ports": [{ "port": port, "name": "p" }] }] });
    let inside = Repair { pointer: "/containers/0/ports/0".into(), value: json!({ "port": 1, "name": "p" }) };
    assert_eq!(repairs("{}", &nested(1), &nested(2)), [inside]);
    // Where we own nothing any more, each element is looked for among all live ones.
    let both = json!([edited, { "containerPort": 81, "name": "web" }]);
    let pointers = repairs("{}", &desired, &json!({ "ports": both }));
    assert_eq!(pointers.iter().map(|repair| &*repair.pointer).collect::<Vec<_>>(), ["/ports/0", "/ports/1"]);
}

#[test]
fn too_many_lost_elements_are_not_looked_for_one_by_one() {
    let ports = |base: usize, count: usize| {
        let ports = (0..count).map(|n| json!({ "port": base + n, "name": n.to_string() }));
        json!({ "ports": ports.collect::<Vec<_>>() })
    };
    for (count, expected) in [(64, 64), (65, 1)] {
        assert_eq!(repairs("{}", &ports(1000, count), &ports(2000, count)).len(), expected, "of {count}");
    }
}

#[test]
fn a_set_of_strings_needs_no_repair() {
    let fields = r#"{"f:texts":{"v:\"a\"":{}}}"#;
    assert_eq!(repairs(fields, &json!({ "texts": ["a"] }), &json!({ "texts": ["b"] })), []);
    assert!(!exceeds(fields, &json!({ "texts": ["a"] })));
    assert!(exceeds(fields, &json!({ "texts": [] })));
}

#[test]
fn special_characters_in_a_pointer_are_escaped() {
    let fields = r#"{"f:a/b~c":{"k:{\"name\":\"x\"}":{"f:list":{".":{}}}}}"#;
    let desired = json!({ "a/b~c": [{ "name": "x", "list": [{ "name": "y" }] }] });
    let live = json!({ "a/b~c": [{ "name": "x", "list": [] }] });
    let repairs = repairs(fields, &desired, &live);
    assert_eq!(repairs.iter().map(|repair| repair.pointer.as_str()).collect::<Vec<_>>(), ["/a~1b~0c/0/list"]);
}

#[test]
fn repairs_replace_values_where_they_are_and_only_those_outside_of_the_metadata_change_the_content() {
    let live = json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "list": [1, 2], "other": 3 } });
    let repair = |pointer: &str, value: Value| Repair { pointer: pointer.to_owned(), value };
    let of_list = repair("/spec/list", json!([2]));
    let expected = json!({ "metadata": { "labels": { "a": "1" } }, "spec": { "list": [2], "other": 3 } });
    assert_eq!(repaired(&live, &[of_list.clone(), repair("/spec/gone", json!(1))]), expected);
    let of_metadata = repair("/metadata/managedFields/0/manager", json!("hotshoe/demo"));
    assert!(!change_content(&[]) && !change_content(std::slice::from_ref(&of_metadata)));
    assert!(change_content(&[of_metadata, of_list]));
}
