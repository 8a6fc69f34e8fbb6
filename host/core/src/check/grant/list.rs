//! Authorises that a plugin is shown all objects that a label selector selects.
//!
//! Whatever its name is, an object may have the labels. So a rule with names does not allow it, and Secrets, which are read
//! by name only, are never shown in this way.

use serde_json::Value;

use crate::check::access_request::{Access, LabelOf, Request, Verb};
use crate::check::denied;
use crate::check::fix::{Fix, GrantChange};
use crate::check::grant::authorise::{check_namespace, violation};
use crate::check::grant::{Grant, Rule};
use crate::check::violation::{Checked, Violation};
use crate::model::kind::ObjectRef;
use crate::model::wanted::Selection;

/// The verbs that a selection needs.
const LIST_VERBS: [Verb; 2] = [Verb::List, Verb::Watch];

impl Grant {
    /// Checks that the grant allows a plugin to be shown a selection for a parent. `namespaced` is according to discovery.
    ///
    /// # Errors
    /// When it does not. Names the rule with its fix.
    pub fn authorise_list(
        &self,
        parent: &ObjectRef,
        selection: &Selection,
        namespaced: bool,
        label_of: &LabelOf<'_>,
    ) -> Checked {
        let object = selection.reference();
        let request = Request { parent, object: &object, namespaced, access: Access::Read };
        denied::check(&request, &self.host_namespace)?;
        check_namespace(&request)?;
        if object.kind.is("", "Secret") {
            let message = "Secrets are read by name only, and not by a label selector";
            return Err(violation("secret-names", &object, message).answer("ask for each by its name").into());
        }
        let covers = |rule: &&Rule| {
            object.kind.is(&rule.group, &rule.kind)
                && rule.names.is_empty()
                && rule.namespaces.cover(parent, &object, label_of)
        };
        let is_granted = |verb: &Verb| self.rules.iter().filter(covers).any(|rule| rule.verbs.contains(verb));
        match LIST_VERBS.iter().all(is_granted) {
            true => Ok(()),
            false => {
                let rule = self.rules.iter().position(|rule| covers(&rule));
                Err(self.with_present_rules(not_listed(&request, rule).into()))
            }
        }
    }
}

/// Reports that the grant does not cover a selection. `rule` is the index of a rule that covers its objects with other verbs.
fn not_listed(request: &Request<'_>, rule: Option<usize>) -> Violation {
    let Request { parent, object, .. } = request;
    let kind = &object.kind;
    let verbs = LIST_VERBS.map(Verb::as_str);
    let mut items = vec![("verbs", Value::from(verbs.to_vec()))];
    let namespaces = match &object.namespace {
        None => Some("cluster".into()),
        Some(namespace) if parent.own_namespace() == Some(namespace) => None,
        Some(namespace) => Some(Value::from(vec![&**namespace])),
    };
    items.extend(namespaces.filter(|_| rule.is_none()).map(|namespaces| ("namespaces", namespaces)));
    let [list, watch] = verbs;
    let message = format!("`{list}` and `{watch}` on {kind}, whatever the names, are not granted there");
    let fix = Fix::Grant(Box::new(GrantChange::new(kind.clone(), rule, items)));
    violation("not-granted", object, &message).fixed_by(fix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::remedy;
    use crate::model::kind::Kind;

    fn grant(rules: Value) -> Grant {
        let rules = serde_json::from_value(rules).unwrap();
        Grant {
            rules,
            prune_all: false,
            finalize: Vec::new(),
            parent_metadata: Default::default(),
            host_namespace: "host".into(),
        }
    }

    fn parent() -> ObjectRef {
        ObjectRef { kind: Kind::new("example.com", "v1", "Shop"), namespace: Some("n".into()), name: "a".into() }
    }

    fn selection(kind: &str, namespace: Option<&str>) -> Selection {
        Selection { kind: Kind::new("", "v1", kind), namespace: namespace.map(Into::into), selector: "app=shop".into() }
    }

    fn authorise(grant: &Grant, kind: &str, namespace: Option<&str>) -> Checked {
        let label_of = |namespace: &str, key: &str| ((namespace, key) == ("red", "colour")).then(|| "red".to_owned());
        grant.authorise_list(&parent(), &selection(kind, namespace), namespace.is_some(), &label_of)
    }

    #[test]
    fn a_selection_needs_list_and_watch_of_any_name_where_its_objects_are() {
        let rule = |more: Value| {
            let mut rule = json!({ "kind": "ConfigMap", "verbs": ["list", "watch"] });
            rule.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            grant(json!([rule]))
        };
        for (more, allowed) in [
            (json!({}), [true, false, false]),
            (json!({ "namespaces": "cluster" }), [true, true, true]),
            (json!({ "namespaces": ["red"] }), [false, true, false]),
            (json!({ "namespaces": { "matchLabels": { "colour": "red" } } }), [false, true, false]),
            (json!({ "verbs": ["get", "list"] }), [false; 3]),
            (json!({ "verbs": ["get", "watch"] }), [false; 3]),
            (json!({ "names": ["settings"] }), [false; 3]),
            (json!({ "kind": "Pod" }), [false; 3]),
        ] {
            let grant = rule(more.clone());
            let found = ["n", "red", "blue"].map(|namespace| authorise(&grant, "ConfigMap", Some(namespace)).is_ok());
            assert_eq!(found, allowed, "{more}");
        }
        let split = json!([{ "kind": "ConfigMap", "verbs": ["list"] }, { "kind": "ConfigMap", "verbs": ["watch"] }]);
        assert!(authorise(&grant(split), "ConfigMap", Some("n")).is_ok(), "one rule may grant each");
        let nodes = json!([{ "kind": "Node", "verbs": ["list", "watch"], "namespaces": "cluster" }]);
        assert!(authorise(&grant(nodes), "Node", None).is_ok());
    }

    #[test]
    fn what_no_grant_opens_is_refused_and_no_grant_is_advised() {
        let all = json!({ "verbs": ["get", "list", "watch"], "namespaces": "cluster", "names": ["*"] });
        let rule = |kind: &str| {
            let mut rule = all.clone();
            rule["kind"] = kind.into();
            rule
        };
        let grant = grant(json!([rule("Secret"), rule("ConfigMap")]));
        for (kind, namespace, rule) in [
            ("Secret", Some("n"), "secret-names"),
            ("ConfigMap", Some("host"), "host-namespace"),
            ("ConfigMap", None, "scope"),
        ] {
            let namespaced = true;
            let selection = selection(kind, namespace);
            let denied = grant.authorise_list(&parent(), &selection, namespaced, &|_, _| None).unwrap_err();
            assert_eq!(denied.rule(), rule);
            assert!(!denied.reasons().contains("plugin.yaml"), "{denied}");
        }
    }

    #[test]
    fn the_advice_allows_the_selection_when_it_is_pasted() {
        for (rules, namespace) in [
            (json!([]), Some("n")),
            (json!([]), Some("blue")),
            (json!([]), None),
            (json!([{ "kind": "ConfigMap", "verbs": ["get"] }]), Some("n")),
            (json!([{ "kind": "ConfigMap", "verbs": ["get"] }]), Some("blue")),
            (json!([{ "kind": "ConfigMap", "verbs": ["get", "list", "watch"], "names": ["a"] }]), Some("n")),
        ] {
            let kind = if namespace.is_some() { "ConfigMap" } else { "Node" };
            let before = grant(rules.clone());
            let denied = authorise(&before, kind, namespace).unwrap_err();
            let pasted = remedy::of_denial(&denied, &before).unwrap();
            let pasted: Value = serde_saphyr::from_str(&pasted).unwrap();
            let grants = pasted["spec"]["grants"].clone();
            assert!(authorise(&grant(grants), kind, namespace).is_ok(), "{rules} {pasted}");
        }
    }
}
