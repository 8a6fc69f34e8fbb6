//! Checks the labels with a prefix of Pods, of what Pods are made of, and of Namespaces. Pure.
//!
//! Programs act on such labels as on annotations: they mount a token (`azure.workload.identity/use`), inject a container
//! (`istio.io/rev`), or leave a namespace out of what they enforce (`pod-security.kubernetes.io/enforce`).

use serde_json::Value;

use crate::check::access_request::Request;
use crate::check::json_cursor::Cursor;
use crate::check::violation::{Checked, all};
use crate::check::{finalizer, glob, pod};
use crate::model::kind::Kind;

/// Prefixes of labels that only describe an object. Those with that of the host are its own to set, which is checked
/// elsewhere.
const DESCRIPTIVE: [&str; 3] = ["app.kubernetes.io", "helm.sh", "hotshoe.dev"];

/// Returns whether labels of objects of this kind, or of what it makes, need an item.
pub fn are_checked(kind: &Kind) -> bool {
    kind.is("", "Namespace") || pod::makes_pods(kind)
}

/// Checks that an object has no label with a prefix on which a program may act, unless the grant allows it (`open`).
///
/// # Errors
/// When it has one. Lists these labels by their paths.
pub fn check(request: &Request<'_>, body: &Value, open: &[String]) -> Checked {
    let (kind, root) = (&request.object.kind, Cursor::root(body));
    if !are_checked(kind) {
        return Ok(());
    }
    let template = pod::template_of(kind).unwrap_or_default();
    let of_template = root.descendant(template)?.map(|template| template.child("metadata")).transpose()?.flatten();
    let of_job = root.descendant(&pod::JOB_METADATA)?;
    all([of_template, of_job].into_iter().flatten().map(|metadata| {
        let Some(labels) = metadata.child("labels")? else { return Ok(()) };
        all(labels.members()?.map(|(key, value)| {
            let granted = is_descriptive(key, &request.parent.kind.group) || glob::matches_any(open, key);
            value.ensure_listed(granted, "label", "labels", key)
        }))
    }))
}

/// Returns whether a label has no prefix, or one that only describes. The prefix of a plugin's own labels is the group
/// of its parents, as for its finalizers.
fn is_descriptive(key: &str, group: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return true };
    DESCRIPTIVE.contains(&prefix) || prefix == finalizer::domain(group)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::access_request::Access;
    use crate::model::kind::ObjectRef;

    fn checked(kind: &Kind, body: &Value, parents: &str, open: &[&str]) -> Checked {
        let named = |kind: Kind| ObjectRef { kind, namespace: Some("n".into()), name: "a".into() };
        let (parent, object) = (named(Kind::new(parents, "v1", "Shop")), named(kind.clone()));
        let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Apply(body) };
        check(&request, body, &open.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>())
    }

    /// Returns each kind whose labels are checked, and an object of it with these labels.
    fn labelled(labels: &Value) -> Vec<(Kind, Value)> {
        let metadata = json!({ "metadata": { "labels": labels } });
        let template = json!({ "spec": { "template": metadata } });
        let mut all = vec![
            (Kind::new("", "v1", "Namespace"), metadata.clone()),
            (Kind::new("", "v1", "Pod"), metadata.clone()),
            (Kind::new("", "v1", "PodTemplate"), json!({ "template": metadata })),
            (Kind::new("", "v1", "ReplicationController"), template.clone()),
            (Kind::new("batch", "v1", "Job"), template.clone()),
            (Kind::new("batch", "v1", "CronJob"), json!({ "spec": { "jobTemplate": template } })),
            (Kind::new("batch", "v1", "CronJob"), json!({ "spec": { "jobTemplate": metadata } })),
        ];
        for kind in ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"] {
            all.push((Kind::new("apps", "v1", kind), template.clone()));
        }
        all
    }

    #[test]
    fn a_label_that_programs_obey_is_closed_until_opened_by_name_in_every_kind() {
        for key in [
            "azure.workload.identity/use",
            "sidecar.istio.io/inject",
            "pod-security.kubernetes.io/enforce",
            "kubernetes.io/metadata.name",
            "x.app.kubernetes.io/name",
        ] {
            for (kind, body) in labelled(&json!({ key: "x" })) {
                let denial = checked(&kind, &body, "example.com", &[]).unwrap_err();
                assert_eq!(denial.rule(), "label", "{kind} {key}");
                assert!(denial.to_string().contains(&format!("labels: [{key}]")), "{denial}");
                assert!(checked(&kind, &body, "example.com", &["other/*"]).is_err(), "{kind} {key}");
                assert_eq!(checked(&kind, &body, "example.com", &[key]), Ok(()), "{kind} {key}");
            }
        }
    }

    #[test]
    fn labels_that_only_describe_and_those_of_the_plugins_own_group_are_free() {
        let labels = |own: &str| {
            json!({
                "app": "a", "app.kubernetes.io/name": "a", "helm.sh/chart": "a", "hotshoe.dev/plugin": "a",
                format!("{own}/team"): "a",
            })
        };
        for (parents, own, other) in
            [("example.com", "example.com", "a.example.com"), ("", "plugin.hotshoe.dev", "example.com")]
        {
            for (kind, body) in labelled(&labels(own)) {
                assert_eq!(checked(&kind, &body, parents, &[]), Ok(()), "{kind}");
            }
            for (kind, body) in labelled(&labels(other)) {
                assert_eq!(checked(&kind, &body, parents, &[]).unwrap_err().count(), 1, "{kind}");
            }
        }
    }

    #[test]
    fn labels_of_other_kinds_and_of_a_workload_itself_are_free_and_odd_ones_are_refused() {
        let metadata = json!({ "metadata": { "labels": { "istio.io/rev": "a" } } });
        for (group, kind) in [("apps", "Deployment"), ("", "ConfigMap"), ("example.com", "Namespace"), ("batch", "Job")]
        {
            assert_eq!(checked(&Kind::new(group, "v1", kind), &metadata, "g", &[]), Ok(()), "{kind}");
        }
        for (body, rule) in [
            (json!({ "metadata": { "labels": [] } }), "field-shape"),
            (json!({ "metadata": { "Labels": {} } }), "field-unknown"),
            (json!({ "Metadata": {} }), "field-unknown"),
        ] {
            let denial = checked(&Kind::new("", "v1", "Namespace"), &body, "g", &[]).unwrap_err();
            assert_eq!(denial.rule(), rule, "{body}");
        }
    }
}
