//! Checks PersistentVolumeClaims, including those of a StatefulSet's templates and of a Pod's ephemeral volumes. Pure.
//!
//! A claim can be filled with another tenant's data, a template uses an existing claim that has the right name, and a
//! StatefulSet can have its claims deleted.

use serde_json::Value;

use crate::check::access_request::Request;
use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::grant::Pods;
use crate::check::violation::{Checked, all};
use crate::model::kind::Kind;
use crate::model::parent_label;

/// Fields of a claim's spec that are known to be harmless: none of them gives the claim a volume that it could not also
/// get without the field. A selector only narrows the choice.
const HARMLESS_SPEC_FIELDS: [&str; 6] =
    ["accessModes", "resources", "selector", "storageClassName", "volumeAttributesClassName", "volumeMode"];

/// Returns whether objects of this kind are claims.
pub fn is_claim(kind: &Kind) -> bool {
    kind.is("", "PersistentVolumeClaim")
}

/// Returns whether the deletion of an object would also delete claims, as a StatefulSet may have it.
pub fn deletes_claims(kind: &Kind, object: &Value) -> bool {
    let policy = object.pointer("/spec/persistentVolumeClaimRetentionPolicy/whenDeleted");
    kind.is("apps", "StatefulSet") && policy.is_some_and(|policy| policy != "Retain")
}

/// Returns whether the kind is a claim and only items are granted that apply to claims.
pub fn has_only_claim_items(kind: &Kind, open: &Pods) -> bool {
    let (claim_sources, annotations) = (open.claim_sources.clone(), open.annotations.clone());
    is_claim(kind) && *open == Pods { claim_sources, annotations, ..Pods::default() }
}

/// Checks that the claims of an object ask for no more than the grant allows (`open`). `may_lose` is whether the
/// claims' data may be deleted.
///
/// # Errors
/// When a field is not allowed. Lists these fields by their paths.
pub fn check(request: &Request<'_>, body: &Value, open: &Pods, may_lose: bool) -> Checked {
    let kind = &request.object.kind;
    let is_set = kind.is("apps", "StatefulSet");
    if !is_set && !is_claim(kind) {
        return Ok(());
    }
    let root = Cursor::root(body);
    // No program acts on the annotations of a StatefulSet itself; those of a claim tell importers what to fill it with.
    let metadata = root.child("metadata")?.filter(|_| !is_set);
    let metadata = metadata.map_or(Ok(()), |metadata| open.check_annotations(&metadata));
    let spec = match root.child("spec")? {
        Some(spec) if is_set => check_set(request, &spec, open, may_lose),
        Some(spec) => check_spec(&spec, open),
        None => Ok(()),
    };
    all([metadata, spec])
}

fn check_set(request: &Request<'_>, spec: &Cursor<'_>, open: &Pods, may_lose: bool) -> Checked {
    let policy = spec.child("persistentVolumeClaimRetentionPolicy")?;
    let policy = policy.map_or(Ok(()), |policy| check_retention(&policy, may_lose));
    let Some(templates) = spec.child("volumeClaimTemplates")? else { return policy };
    let template =
        |template: Cursor<'_>| all([check_template(&template, open), check_template_name(request, &template, open)]);
    all([policy, all(templates.elements()?.map(template))])
}

fn check_retention(policy: &Cursor<'_>, may_lose: bool) -> Checked {
    all(policy.members()?.map(|(field, value)| match field {
        "whenDeleted" | "whenScaled" => value.ensure(may_lose || value.text()? == "Retain", "prune-data", "pruneData"),
        _ => Err(value.unknown()),
    }))
}

/// Checks a claim template of a StatefulSet, or of an ephemeral volume, where it has no name.
///
/// # Errors
/// When a field is not allowed. Lists these fields by their paths.
pub fn check_template(template: &Cursor<'_>, open: &Pods) -> Checked {
    all(template.members()?.map(|(field, value)| match field {
        // The API server accepts only those of a PersistentVolumeClaim here.
        "apiVersion" | "kind" => Ok(()),
        "metadata" => open.check_inherited(&value, &["name"]),
        "spec" => check_spec(&value, open),
        _ => Err(value.unknown()),
    }))
}

fn check_spec(spec: &Cursor<'_>, open: &Pods) -> Checked {
    all(spec.members()?.map(|(field, value)| match field {
        "dataSource" | "dataSourceRef" => check_source(&value, open),
        "volumeName" => ensure_source(&value, open),
        field if HARMLESS_SPEC_FIELDS.contains(&field) => Ok(()),
        _ => Err(value.unknown()),
    }))
}

/// Checks a claim's data source. A source in another namespace is denied, because children stay within theirs.
fn check_source(source: &Cursor<'_>, open: &Pods) -> Checked {
    let mut has_name = false;
    let fields = all(source.members()?.map(|(field, value)| match field {
        "apiGroup" | "kind" => Ok(()),
        "name" => {
            has_name = true;
            ensure_source(&value, open)
        }
        _ => Err(value.unknown()),
    }));
    let name = if has_name { Ok(()) } else { Err(source.refuse("field-shape", "has no name")) };
    all([fields, name])
}

fn ensure_source(name: &Cursor<'_>, open: &Pods) -> Checked {
    let text = name.text()?;
    let granted = glob::matches_any(&open.claim_sources, text);
    name.ensure_listed(granted, "claim-source", "pods.claimSources", text)
}

/// Checks the name of a StatefulSet's claim template. Its claims are named `TEMPLATE-SET-NUMBER`, and an existing claim
/// with that name is used as it is, whichever object owns it. So the name must be granted, or the set must be named
/// after its parent. A template name with a `-` could contain the beginning of another set's name.
fn check_template_name(request: &Request<'_>, template: &Cursor<'_>, open: &Pods) -> Checked {
    let Some(name) = template.descendant(&["metadata", "name"])? else {
        return Err(template.refuse("field-shape", "has no metadata.name"));
    };
    let (text, set) = (name.text()?, &*request.object.name);
    let own = !text.contains('-') && parent_label::is_named_after(set, &request.parent.name);
    // The `*` stands for every number: only a pattern that ends with `*` matches it.
    let claims = format!("{text}-{set}-*");
    if own || glob::matches_any(&open.persistent_volume_claims, &claims) {
        return Ok(());
    }
    let why = format!(
        "makes claims {claims}, which may belong to others; give it a name without `-` and the StatefulSet one that begins with its parent's"
    );
    Err(name.refuse_unless("pod-volume-claim", &why, "pods.persistentVolumeClaims", vec![claims].into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::access_request::Access;
    use crate::model::kind::ObjectRef;

    /// Returns the first rule that a child of the parent `shop` breaks.
    fn broken(group: &str, kind: &str, name: &str, body: &Value, open: &Value, may_lose: bool) -> Option<&'static str> {
        let named = |group: &str, kind: &str, name: &str| ObjectRef {
            kind: Kind::new(group, "v1", kind),
            namespace: Some("n".into()),
            name: name.into(),
        };
        let (parent, object) = (named("c", "Shop", "shop"), named(group, kind, name));
        let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Apply(body) };
        let open: Pods = serde_json::from_value(open.clone()).unwrap();
        check(&request, body, &open, may_lose).err().map(|denial| denial.rule())
    }

    fn set(name: &str, spec: &Value, open: &Value) -> Option<&'static str> {
        broken("apps", "StatefulSet", name, &json!({ "spec": spec }), open, false)
    }

    /// Returns the first rule that a StatefulSet with this name and claim template breaks.
    fn template(name: &str, template: &Value, open: &Value) -> Option<&'static str> {
        set(name, &json!({ "volumeClaimTemplates": [template] }), open)
    }

    fn named(name: &str) -> Value {
        json!({ "metadata": { "name": name } })
    }

    fn claim(spec: Value, open: Value) -> Option<&'static str> {
        let of_template = json!({ "metadata": { "name": "data" }, "spec": spec });
        let found = template("shop", &of_template, &open);
        assert_eq!(found, broken("", "PersistentVolumeClaim", "any", &json!({ "spec": spec }), &open, false), "{spec}");
        found
    }

    #[test]
    fn an_ordinary_stateful_set_named_after_its_parent_needs_no_item() {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": "data", "labels": { "app": "redis" }, "annotations": { "note": "a" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "fast" },
        });
        for name in ["shop", "shop-redis"] {
            assert_eq!(template(name, &claim, &json!({})), None);
            assert_eq!(set(name, &json!({ "replicas": 1 }), &json!({})), None);
        }
    }

    #[test]
    fn a_claim_that_may_belong_to_another_owner_is_not_adopted() {
        for (set, name) in [("postgresql", "data"), ("postgresql", "data-shop"), ("shops", "data"), ("shop", "data-my")]
        {
            let closed = Some("pod-volume-claim");
            assert_eq!(template(set, &named(name), &json!({})), closed, "{name}-{set}");
            let with = |pattern: &str| template(set, &named(name), &json!({ "persistentVolumeClaims": [pattern] }));
            assert_eq!(with("*"), None);
            assert_eq!(with("data*"), None);
            assert_eq!(with(&format!("{name}-{set}-*")), None);
            for too_little in [format!("{name}-{set}-0"), format!("{name}-{set}-1*"), "*-0".into(), "d*0".into()] {
                assert_eq!(with(&too_little), closed, "{too_little}");
            }
        }
        assert_eq!(template("shop", &json!({}), &json!({})), Some("field-shape"));
        assert_eq!(template("shop", &json!({ "metadata": {} }), &json!({})), Some("field-shape"));
        assert_eq!(template("shop", &json!({ "metadata": { "name": 1 } }), &json!({})), Some("field-shape"));
    }

    #[test]
    fn a_refused_claim_is_named_with_its_fix() {
        let parent = ObjectRef { kind: Kind::new("c", "v1", "Shop"), namespace: None, name: "shop".into() };
        let object = ObjectRef { kind: Kind::new("apps", "v1", "StatefulSet"), namespace: None, name: "db".into() };
        let body = json!({ "spec": { "volumeClaimTemplates": [named("data")] } });
        let request = Request { parent: &parent, object: &object, namespaced: true, access: Access::Apply(&body) };
        let message = check(&request, &body, &Pods::default(), false).unwrap_err().to_string();
        assert!(message.contains("spec.volumeClaimTemplates[0].metadata.name makes claims data-db-*"), "{message}");
        assert!(message.contains(r#"pods: {persistentVolumeClaims: ["data-db-*"]}"#), "{message}");
    }

    #[test]
    fn a_claim_is_filled_only_from_a_granted_source() {
        for spec in [
            json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "theirs" } }),
            json!({ "dataSource": { "name": "theirs" } }),
            json!({ "dataSourceRef": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "theirs" } }),
            json!({ "volumeName": "theirs" }),
        ] {
            assert_eq!(claim(spec.clone(), json!({})), Some("claim-source"), "{spec}");
            assert_eq!(claim(spec.clone(), json!({ "claimSources": ["their*"] })), None, "{spec}");
            let others = json!({ "claimSources": ["ours"], "persistentVolumeClaims": ["*"], "volumes": ["ephemeral"] });
            assert_eq!(claim(spec.clone(), others), Some("claim-source"), "{spec}");
        }
    }

    #[test]
    fn unknown_fields_and_wrong_types_in_a_claim_are_refused() {
        let open = json!({ "claimSources": ["*"], "persistentVolumeClaims": ["*"] });
        for spec in [
            json!({ "odd": 1 }),
            json!({ "DataSource": {} }),
            json!({ "dataSourceRef": { "name": "a", "namespace": "theirs" } }),
            json!({ "dataSource": { "Name": "a" } }),
        ] {
            assert_eq!(claim(spec.clone(), open.clone()), Some("field-unknown"), "{spec}");
        }
        for spec in [
            json!([]),
            json!({ "dataSource": "a" }),
            json!({ "dataSource": { "kind": "PersistentVolumeClaim" } }),
            json!({ "dataSource": { "name": ["a"] } }),
            json!({ "volumeName": 1 }),
        ] {
            assert_eq!(claim(spec.clone(), open.clone()), Some("field-shape"), "{spec}");
        }
        for field in HARMLESS_SPEC_FIELDS {
            assert_eq!(claim(json!({ field: { "any": "thing" } }), json!({})), None, "{field}");
        }
        for (body, rule) in [
            (json!({ "Spec": {} }), Some("field-unknown")),
            (json!({ "spec": 1 }), Some("field-shape")),
            (json!({ "spec": { "VolumeClaimTemplates": [] } }), Some("field-unknown")),
            (json!({ "spec": { "volumeClaimTemplates": {} } }), Some("field-shape")),
            (json!({ "spec": { "volumeClaimTemplates": ["x"] } }), Some("field-shape")),
            (json!({ "spec": { "volumeClaimTemplates": [{ "status": {} }] } }), Some("field-unknown")),
            (json!({}), None),
        ] {
            assert_eq!(broken("apps", "StatefulSet", "shop", &body, &open, true), rule, "{body}");
        }
    }

    #[test]
    fn a_template_gives_its_claims_a_name_labels_and_annotations_and_nothing_else() {
        for field in ["finalizers", "ownerReferences", "generateName", "namespace", "uid"] {
            let forged = json!({ "metadata": { "name": "data", field: "x" } });
            assert_eq!(template("shop", &forged, &json!({})), Some("pod-metadata"), "{field}");
        }
        for field in ["labels", "annotations"] {
            let forged = json!({ "metadata": { "name": "data", field: { "hotshoe.dev/plugin": "other" } } });
            assert_eq!(template("shop", &forged, &json!({})), Some("pod-metadata"), "{field}");
        }
        let meant = json!({ "metadata": { "name": "data", "annotations": { "cdi.kubevirt.io/a": "b" } } });
        assert_eq!(template("shop", &meant, &json!({})), Some("pod-annotation"));
        assert_eq!(template("shop", &meant, &json!({ "annotations": ["cdi.*"] })), None);
    }

    #[test]
    fn a_claims_own_annotations_are_checked_like_those_of_a_template() {
        let annotated = |key: &str| json!({ "metadata": { "annotations": { key: "a" } } });
        let checked = |group: &str, kind: &str, key: &str, open: Value| {
            broken(group, kind, "shop", &annotated(key), &open, false)
        };
        let claim = |key: &str, open: Value| checked("", "PersistentVolumeClaim", key, open);
        let import = "cdi.kubevirt.io/storage.import.endpoint";
        assert_eq!(claim(import, json!({})), Some("pod-annotation"));
        assert_eq!(claim(import, json!({ "annotations": ["cdi.kubevirt.io/*"] })), None);
        assert_eq!(claim("note", json!({})), None);
        assert_eq!(claim("io.kubernetes.cri-o.Devices", json!({})), Some("pod-annotation"));
        assert_eq!(claim("hotshoe.dev/applied", json!({})), None, "the host's own");
        assert_eq!(checked("apps", "StatefulSet", import, json!({})), None, "a set is no claim");
        let mut filled = annotated("note");
        filled["spec"] = json!({ "volumeName": "s" });
        assert_eq!(broken("", "PersistentVolumeClaim", "any", &filled, &json!({}), false), Some("claim-source"));
        let misshapen = json!({ "metadata": { "annotations": [] } });
        assert_eq!(broken("", "PersistentVolumeClaim", "any", &misshapen, &json!({}), false), Some("field-shape"));
    }

    #[test]
    fn claims_are_kept_where_their_loss_is_not_granted() {
        let with = |policy: Value, may_lose: bool| {
            let body = json!({ "spec": { "persistentVolumeClaimRetentionPolicy": policy } });
            broken("apps", "StatefulSet", "any", &body, &json!({}), may_lose)
        };
        for field in ["whenDeleted", "whenScaled"] {
            assert_eq!(with(json!({ field: "Retain" }), false), None);
            assert_eq!(with(json!({ field: "Delete" }), false), Some("prune-data"));
            assert_eq!(with(json!({ field: "Delete" }), true), None);
            assert_eq!(with(json!({ field: ["Delete"] }), false), Some("field-shape"));
        }
        assert_eq!(with(json!({ "whenever": "Retain" }), true), Some("field-unknown"));
        assert_eq!(with(json!("Delete"), true), Some("field-shape"));
    }

    #[test]
    fn other_kinds_have_no_claims() {
        let body = json!({ "spec": { "volumeName": "theirs", "volumeClaimTemplates": [{}] } });
        for (group, kind) in [("", "StatefulSet"), ("apps", "Deployment"), ("g", "PersistentVolumeClaim"), ("", "Pod")]
        {
            assert_eq!(broken(group, kind, "any", &body, &json!({}), false), None, "{kind}");
        }
    }

    #[test]
    fn only_the_sources_and_annotations_of_a_claim_can_be_granted() {
        let about = |kind: &Kind, open: Value| has_only_claim_items(kind, &serde_json::from_value(open).unwrap());
        let claim = Kind::new("", "v1", "PersistentVolumeClaim");
        assert!(about(&claim, json!({ "claimSources": ["a"], "annotations": ["a.io/*"] })));
        assert!(!about(&claim, json!({ "claimSources": ["a"], "persistentVolumeClaims": ["a"] })));
        assert!(!about(&Kind::new("", "v1", "Secret"), json!({ "claimSources": ["a"] })));
    }
}
