//! What a plugin may read and write, as the administrator said in `plugin.yaml`.
//!
//! One pure function, [`Grant::authorise`], stands between cache and observation and between
//! decision and write; nothing of a plugin's passes beside it. It judges the final object: after
//! its namespace has been filled in and its kind resolved.

use serde::{Deserialize, Serialize};

use crate::decision::{Kind, ObjectRef, WriteVerb};
use crate::error::Violation;

/// What may be done with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Be shown one by name.
    Get,
    /// Be shown those that are there.
    List,
    /// Be called again when one changes.
    Watch,
    /// Make one.
    Create,
    /// Change one.
    Update,
    /// Delete one.
    Delete,
}

impl Verb {
    /// As RBAC has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Delete => "delete",
        }
    }
}

impl From<WriteVerb> for Verb {
    fn from(verb: WriteVerb) -> Self {
        match verb {
            WriteVerb::Create => Verb::Create,
            WriteVerb::Update => Verb::Update,
            WriteVerb::Delete => Verb::Delete,
        }
    }
}

/// One line of a grant: verbs on a kind, in the parent's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// What may be done with objects of that kind.
    pub verbs: Vec<Verb>,
    /// Whether children of this kind that hold data may be pruned: PersistentVolumeClaims,
    /// Namespaces and CustomResourceDefinitions are otherwise left alone.
    #[serde(default)]
    pub prune_data: bool,
}

/// Everything that a plugin may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What is allowed; the rest is not.
    pub rules: Vec<Rule>,
    /// Whether an answer without any child may delete all that are there.
    pub prune_all: bool,
}

/// Kinds that no grant opens: with them a plugin could raise its own rights or stop the host.
/// Each entry is a group and, unless empty, one kind of it.
const NEVER: [(&str, &str); 7] = [
    ("rbac.authorization.k8s.io", ""),
    ("hotshoe.dev", ""),
    ("coordination.k8s.io", "Lease"),
    ("admissionregistration.k8s.io", ""),
    ("apiextensions.k8s.io", ""),
    ("apiregistration.k8s.io", ""),
    ("certificates.k8s.io", ""),
];

/// Kinds whose deletion loses what cannot be made anew.
const HOLDS_DATA: [(&str, &str); 3] =
    [("", "PersistentVolumeClaim"), ("", "Namespace"), ("apiextensions.k8s.io", "CustomResourceDefinition")];

impl Grant {
    /// Whether the plugin may do this to this object for this parent.
    ///
    /// # Errors
    /// The rule that forbids it, with what to do.
    pub fn authorise(&self, parent: &ObjectRef, verb: Verb, object: &ObjectRef) -> Result<(), Violation> {
        if is_never(&object.kind) {
            let message = format!("{object}: no plugin may {} this kind, whatever is granted", verb.as_str());
            return Err(Violation { rule: "kind-never", message });
        }
        if !self.allows(verb, &object.kind) {
            let message = format!(
                "{object}: `{}` on {} is not granted; add it to spec.grants in plugin.yaml, or change the plugin",
                verb.as_str(),
                object.kind
            );
            return Err(Violation { rule: "not-granted", message });
        }
        if parent.namespace.is_some() && parent.namespace != object.namespace {
            let message = format!("{object}: it is not in the namespace of its parent, {parent}");
            return Err(Violation { rule: "foreign-namespace", message });
        }
        Ok(())
    }

    /// Whether some rule names the verb for the kind; namespaces aside.
    pub fn allows(&self, verb: Verb, kind: &Kind) -> bool {
        !is_never(kind) && self.rules_of(kind).any(|rule| rule.verbs.contains(&verb))
    }

    /// Whether a child of this kind may be pruned at all.
    pub fn may_prune(&self, kind: &Kind) -> bool {
        let holds_data = HOLDS_DATA.contains(&(&*kind.group, &*kind.kind));
        self.allows(Verb::Delete, kind) && (!holds_data || self.rules_of(kind).any(|rule| rule.prune_data))
    }

    fn rules_of(&self, kind: &Kind) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| *rule.group == *kind.group && *rule.kind == *kind.kind)
    }
}

fn is_never(kind: &Kind) -> bool {
    NEVER.iter().any(|(group, name)| *group == &*kind.group && (name.is_empty() || *name == &*kind.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(group: &str, kind: &str, namespace: Option<&str>) -> ObjectRef {
        ObjectRef { kind: Kind::new(group, "v1", kind), namespace: namespace.map(Into::into), name: "a".into() }
    }

    fn grant(group: &str, kind: &str) -> Grant {
        let rule =
            Rule { group: group.into(), kind: kind.into(), verbs: vec![Verb::Create, Verb::Delete], prune_data: false };
        Grant { rules: vec![rule], prune_all: false }
    }

    fn rule_broken(grant: &Grant, verb: Verb, child: &ObjectRef) -> Option<&'static str> {
        let parent = object("c", "Memcached", Some("n"));
        grant.authorise(&parent, verb, child).err().map(|violation| violation.rule)
    }

    #[test]
    fn what_is_granted_is_allowed_in_the_parents_namespace() {
        let grant = grant("apps", "Deployment");
        assert_eq!(rule_broken(&grant, Verb::Create, &object("apps", "Deployment", Some("n"))), None);
    }

    #[test]
    fn another_verb_kind_or_group_is_not() {
        let grant = grant("apps", "Deployment");
        for (verb, group, kind) in [
            (Verb::Update, "apps", "Deployment"),
            (Verb::Create, "apps", "DaemonSet"),
            (Verb::Create, "", "Deployment"),
        ] {
            assert_eq!(rule_broken(&grant, verb, &object(group, kind, Some("n"))), Some("not-granted"));
        }
    }

    #[test]
    fn another_namespace_or_none_is_foreign() {
        let grant = grant("apps", "Deployment");
        for namespace in [Some("other"), None] {
            let child = object("apps", "Deployment", namespace);
            assert_eq!(rule_broken(&grant, Verb::Create, &child), Some("foreign-namespace"));
        }
    }

    #[test]
    fn no_grant_opens_what_raises_rights() {
        for (group, kind) in [
            ("rbac.authorization.k8s.io", "RoleBinding"),
            ("hotshoe.dev", "Plugin"),
            ("coordination.k8s.io", "Lease"),
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ] {
            let grant = grant(group, kind);
            assert_eq!(rule_broken(&grant, Verb::Create, &object(group, kind, Some("n"))), Some("kind-never"));
        }
    }

    #[test]
    fn data_is_pruned_only_where_that_is_said() {
        let kind = Kind::new("", "v1", "PersistentVolumeClaim");
        let mut grant = grant("", "PersistentVolumeClaim");
        assert!(!grant.may_prune(&kind));
        grant.rules[0].prune_data = true;
        assert!(grant.may_prune(&kind));
    }
}
