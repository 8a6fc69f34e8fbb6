//! Denies the Secrets and ConfigMaps in which Helm keeps its releases. Pure.
//!
//! A release has the manifests that `helm rollback` and `helm upgrade` start from. A person who runs one of them applies
//! what a plugin wrote there with that person's rights. Helm finds a release by the object's name or by the label
//! `owner`, and does not look at the type of the Secret, so any of the three is enough here.

use serde_json::Value;

use crate::check::json_cursor::grant_change;
use crate::check::violation::{Checked, Violation};
use crate::model::kind::{Kind, ObjectRef};

/// The prefix of the types of Helm's Secrets, such as `helm.sh/release.v1`.
const TYPES: &str = "helm.sh/";
/// The prefix of the names of releases.
const NAMES: &str = "sh.helm.release.";
/// The label by which Helm lists its releases, and its value.
const OWNER: (&str, &str) = ("owner", "helm");

/// Returns whether Helm may keep releases in objects of this kind.
pub fn may_be_one(kind: &Kind) -> bool {
    kind.is("", "Secret") || kind.is("", "ConfigMap")
}

/// Checks that an object is no release of Helm's, unless the grant allows it (`open`).
///
/// # Errors
/// When it is one.
pub fn check(object: &ObjectRef, body: &Value, open: bool) -> Checked {
    if open || !may_be_one(&object.kind) || !is_release(object, body) {
        return Ok(());
    }
    let message = "Helm takes it for a release, whose manifests a person applies later, and it is not granted";
    Err(Violation::new("helm-release", message).fixed_by(grant_change("helmReleases", true.into())).into())
}

fn is_release(object: &ObjectRef, body: &Value) -> bool {
    let is = |value: Option<&Value>, fits: &dyn Fn(&str) -> bool| value.and_then(Value::as_str).is_some_and(fits);
    let owner = body.pointer("/metadata/labels").and_then(|labels| labels.get(OWNER.0));
    object.name.starts_with(NAMES)
        || is(body.get("type"), &|kind| kind.starts_with(TYPES))
        || is(owner, &|owner| owner == OWNER.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn broken(kind: &str, name: &str, body: &Value, open: bool) -> Option<&'static str> {
        let object = ObjectRef { kind: Kind::new("", "v1", kind), namespace: Some("n".into()), name: name.into() };
        check(&object, body, open).err().map(|denial| denial.rule())
    }

    #[test]
    fn what_helm_takes_for_a_release_is_closed_until_its_item_opens_it() {
        let (typed, owned) =
            (json!({ "type": "helm.sh/release.v1" }), json!({ "metadata": { "labels": { "owner": "helm" } } }));
        for (kind, name, body) in [
            ("Secret", "a", &typed),
            ("Secret", "a", &owned),
            ("ConfigMap", "a", &owned),
            ("Secret", "sh.helm.release.v1.web.v2", &json!({})),
            ("ConfigMap", "sh.helm.release.v1.web.v2", &json!({})),
        ] {
            assert_eq!(broken(kind, name, body, false), Some("helm-release"), "{kind} {name} {body}");
            assert_eq!(broken(kind, name, body, true), None, "{kind} {name} {body}");
            assert_eq!(broken("Service", name, body, false), None, "{kind} {name} {body}");
        }
        let ordinary = json!({ "type": "Opaque", "metadata": { "labels": { "owner": "me", "helm.sh/chart": "web" } } });
        for body in [ordinary, json!({ "metadata": { "labels": { "Owner": "helm" } } }), json!({ "type": 1 })] {
            assert_eq!(broken("Secret", "helm", &body, false), None, "{body}");
        }
    }

    #[test]
    fn the_denial_names_its_item() {
        let secret = Kind::new("", "v1", "Secret");
        let object = ObjectRef { kind: secret, namespace: None, name: "sh.helm.release.v1.web.v2".into() };
        let denial = check(&object, &json!({}), false).unwrap_err().to_string();
        assert!(denial.contains("Helm takes it for a release") && denial.contains("helmReleases: true"), "{denial}");
    }
}
