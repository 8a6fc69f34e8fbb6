//! Checks the selectors of workload controllers. Pure.
//!
//! A controller adopts all Pods that its selector matches and that no other controller owns, whichever tenant they
//! belong to; if there are too many, it deletes some. A Deployment adopts ReplicaSets in the same way, and a
//! StatefulSet adopts the Pods `SET-NUMBER`, where the plugin chooses the name of the set.

use serde_json::Value;

use crate::check::access_request::Request;
use crate::check::json_cursor::{Cursor, grant_change};
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, Violation};
use crate::model::parent_label;

/// Checks that an object adopts only what belongs to its parent, unless the grant allows more (`open`). Other kinds
/// pass.
///
/// # Errors
/// When the selector may match what belongs to others.
pub fn check(request: &Request<'_>, body: &Value, open: &Pods) -> Checked {
    let root = Cursor::root(body);
    let kind = &request.object.kind;
    let path: &[&str] = match (&*kind.group, &*kind.kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => &["spec", "selector", "matchLabels"],
        ("", "ReplicationController") => return check_replication(request, &root, open),
        ("batch", "Job") => return check_job(&root, &["spec", "manualSelector"], open),
        ("batch", "CronJob") => return check_job(&root, &["spec", "jobTemplate", "spec", "manualSelector"], open),
        _ => return Ok(()),
    };
    ensure_own(request, root.descendant(path)?, open)
}

/// Checks a ReplicationController. Without a selector, or with an empty one, it selects by the labels of its template.
fn check_replication(request: &Request<'_>, root: &Cursor<'_>, open: &Pods) -> Checked {
    let selector = root.descendant(&["spec", "selector"])?;
    let has_labels =
        selector.as_ref().map(Cursor::members).transpose()?.is_some_and(|mut pairs| pairs.next().is_some());
    let labels = if has_labels { selector } else { root.descendant(&["spec", "template", "metadata", "labels"])? };
    ensure_own(request, labels, open)
}

/// Checks a Job. The API server gives it a selector with a unique label, unless `manualSelector` is set.
fn check_job(root: &Cursor<'_>, path: &[&str], open: &Pods) -> Checked {
    match root.descendant(path)? {
        Some(manual) => manual.ensure(!manual.flag()? || open.adopt, "pod-adoption", "pods.adopt"),
        None => Ok(()),
    }
}

/// Checks that at least one label names the parent or the child. One is enough, because a selector's labels must all
/// match.
fn ensure_own(request: &Request<'_>, labels: Option<Cursor<'_>>, open: &Pods) -> Checked {
    let (parent, child) = (&*request.parent.name, &*request.object.name);
    let label = parent_label::parent_label(parent);
    let is_own = |value: &str| value == label || (value == child && parent_label::is_named_after(child, parent));
    let mut own = open.adopt;
    if let Some(labels) = labels {
        for (_, value) in labels.members()? {
            own |= is_own(value.text()?);
        }
    }
    if own {
        return Ok(());
    }
    let message = format!(
        "its selector may match what belongs to others, which it would adopt and could delete; add a label whose value is {label:?}"
    );
    Err(Violation::new("pod-adoption", message).fixed_by(grant_change("pods.adopt", true.into())).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::access_request::Access;
    use crate::model::kind::{Kind, ObjectRef};

    fn checked(group: &str, kind: &str, name: &str, body: &Value, adopt: bool) -> Checked {
        let named = |group: &str, kind: &str, name: &str| ObjectRef {
            kind: Kind::new(group, "v1", kind),
            namespace: Some("n".into()),
            name: name.into(),
        };
        let (parent, object) = (named("c", "Shop", "shop"), named(group, kind, name));
        let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Apply(body) };
        check(&request, body, &Pods { adopt, ..Pods::default() })
    }

    /// Returns the first rule that a child of the parent `shop` breaks.
    fn broken(group: &str, kind: &str, name: &str, body: &Value, adopt: bool) -> Option<&'static str> {
        checked(group, kind, name, body, adopt).err().map(|violation| violation.rule())
    }

    const ADOPTION: Option<&str> = Some("pod-adoption");

    const SELECTING: [(&str, &str); 5] = [
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "ReplicationController"),
    ];

    #[test]
    fn a_selector_that_names_the_parent_or_the_child_adopts_no_others() {
        for (group, kind) in SELECTING {
            let with = |name: &str, labels: Value, adopt: bool| {
                let selector = if group.is_empty() { labels } else { json!({ "matchLabels": labels }) };
                broken(group, kind, name, &json!({ "spec": { "selector": selector } }), adopt)
            };
            assert_eq!(with("any", json!({ "app": "shop" }), false), None, "{kind}");
            assert_eq!(with("any", json!({ "app": "redis", "of": "shop" }), false), None, "{kind}");
            assert_eq!(with("shop-web", json!({ "app": "shop-web" }), false), None, "{kind}");
            for (name, labels) in [
                ("shop-web", json!({ "app": "ci-runner" })),
                ("shop-web", json!({ "app": "shop-db" })),
                ("shop-web", json!({ "shop": "ci-runner" })),
                ("ci-runner", json!({ "app": "ci-runner" })),
                ("shopping", json!({ "app": "shopping" })),
                ("shop", json!({})),
            ] {
                assert_eq!(with(name, labels.clone(), false), ADOPTION, "{kind} {name} {labels}");
                assert_eq!(with(name, labels.clone(), true), None, "{kind} {name} {labels}");
            }
            assert_eq!(with("shop", json!({ "app": ["shop"] }), true), Some("field-shape"));
            assert_eq!(with("shop", json!(["shop"]), true), Some("field-shape"));
        }
    }

    #[test]
    fn a_selector_without_labels_may_match_all() {
        let expressions = json!([{ "key": "app", "operator": "In", "values": ["shop"] }]);
        for selector in [json!({}), json!({ "matchExpressions": expressions })] {
            let body = json!({ "spec": { "selector": selector } });
            for (group, kind) in SELECTING.into_iter().filter(|(group, _)| !group.is_empty()) {
                assert_eq!(broken(group, kind, "shop", &body, false), ADOPTION, "{kind}");
            }
        }
        for body in [json!({}), json!({ "spec": {} })] {
            assert_eq!(broken("apps", "DaemonSet", "shop", &body, false), ADOPTION);
            assert_eq!(broken("", "ReplicationController", "shop", &body, false), ADOPTION);
        }
        let odd = json!({ "spec": { "Selector": { "matchLabels": { "app": "shop" } } } });
        assert_eq!(broken("apps", "ReplicaSet", "shop", &odd, true), Some("field-unknown"));
    }

    #[test]
    fn a_replication_controller_without_a_selector_selects_by_its_template() {
        let with = |selector: Value, label: &str| {
            let template = json!({ "metadata": { "labels": { "app": label } } });
            let body = json!({ "spec": { "selector": selector, "template": template } });
            broken("", "ReplicationController", "any", &body, false)
        };
        assert_eq!(with(json!({}), "shop"), None);
        assert_eq!(with(json!({}), "ci-runner"), ADOPTION);
        assert_eq!(with(json!({ "app": "ci-runner" }), "shop"), ADOPTION);
        let without = json!({ "spec": { "template": { "metadata": { "labels": { "app": "shop" } } } } });
        assert_eq!(broken("", "ReplicationController", "any", &without, false), None);
        assert_eq!(broken("apps", "ReplicaSet", "any", &without, false), ADOPTION, "it has no such default");
    }

    #[test]
    fn a_job_finds_its_pods_by_a_label_of_its_own_unless_it_says_otherwise() {
        let job = |manual: Value| json!({ "manualSelector": manual, "selector": { "matchLabels": { "app": "shop" } } });
        for (kind, body) in [
            ("Job", &(|manual| json!({ "spec": job(manual) })) as &dyn Fn(Value) -> Value),
            ("CronJob", &|manual| json!({ "spec": { "jobTemplate": { "spec": job(manual) } } })),
        ] {
            assert_eq!(broken("batch", kind, "shop", &body(json!(true)), false), ADOPTION, "{kind}");
            assert_eq!(broken("batch", kind, "shop", &body(json!(true)), true), None, "{kind}");
            assert_eq!(broken("batch", kind, "shop", &body(json!(false)), false), None, "{kind}");
            assert_eq!(broken("batch", kind, "shop", &body(json!("true")), true), Some("field-shape"), "{kind}");
            assert_eq!(broken("batch", kind, "shop", &json!({ "spec": {} }), false), None, "{kind}");
        }
    }

    #[test]
    fn a_parent_name_too_long_for_a_label_is_matched_by_its_shortened_form() {
        let named = |kind: Kind, name: &str| ObjectRef { kind, namespace: Some("n".into()), name: name.into() };
        let long = "a".repeat(70);
        let parent = named(Kind::new("c", "v1", "Shop"), &long);
        let object = named(Kind::new("apps", "v1", "Deployment"), &long);
        let with = |label: &str| {
            let body = json!({ "spec": { "selector": { "matchLabels": { "app": label } } } });
            let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Apply(&body) };
            check(&request, &body, &Pods::default())
        };
        assert_eq!(with(&parent_label::parent_label(&long)), Ok(()));
        let message = with(&"a".repeat(52)).unwrap_err().to_string();
        assert!(message.contains(&parent_label::parent_label(&long)), "{message}");
    }

    #[test]
    fn other_kinds_adopt_nothing_by_a_selector() {
        let body = json!({ "spec": { "selector": { "matchLabels": { "app": "ci-runner" } }, "manualSelector": true } });
        for (group, kind) in [
            ("", "Pod"),
            ("g", "Deployment"),
            ("", "StatefulSet"),
            ("g", "ReplicaSet"),
            ("", "DaemonSet"),
            ("apps", "ReplicationController"),
            ("apps", "Job"),
            ("", "CronJob"),
        ] {
            assert_eq!(broken(group, kind, "any", &body, false), None, "{group} {kind}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let message = checked("apps", "ReplicaSet", "any", &json!({}), false).unwrap_err().to_string();
        assert!(message.contains("\"shop\"") && message.contains("pods: {adopt: true}"), "{message}");
    }
}
