//! What a plugin can reach, by whether its parents and the kinds that it names are in namespaces.

use crate::model::decision::{Descriptor, MatchRule, ReadKind};
use crate::model::kind::Kind;

/// Whether the objects of a kind are in namespaces, as the API server serves it; `None` if that is not known.
pub type IsNamespaced<'a> = dyn Fn(&Kind) -> Option<bool> + Send + Sync + 'a;

/// Returns whether `namespaces: own` covers no object of a kind: the parents are in no namespace, and it is.
pub fn is_beyond_own(parent: &Kind, kind: &Kind, is_namespaced: &IsNamespaced<'_>) -> bool {
    !parent.is("", "Namespace") && is_namespaced(parent) == Some(false) && is_namespaced(kind) == Some(true)
}

/// Returns the first kind to be read whose rule can match no object, and why.
///
/// Objects are matched in the namespace of the parent. Only by their label are they found from outside of it.
pub fn matches_nothing(descriptor: &Descriptor, is_namespaced: &IsNamespaced<'_>) -> Option<String> {
    let parent = &descriptor.parent;
    let parents_are = is_namespaced(parent)?;
    let why = |read: &ReadKind| {
        let ReadKind { key, kind, rule, .. } = read;
        let objects_are = is_namespaced(kind).filter(|objects_are| *objects_are != parents_are)?;
        let (rule, has_label) = match rule {
            MatchRule::ParentLabel(label) if label.is_empty() => ("being in the parent's namespace".to_owned(), false),
            MatchRule::ParentLabel(label) => (format!("the label {label}"), true),
            MatchRule::ParentField(path) => (format!("the field {path} of the parent"), false),
        };
        let instead = match (objects_are, has_label) {
            (true, true) => return None,
            (true, false) => "match them by a label, or have the decision need them by name and namespace",
            (false, _) => "have the decision need them by name",
        };
        let place = |is| if is { "in namespaces" } else { "in none" };
        Some(format!(
            "the read {key:?} of {kind} by {rule} can match nothing, because objects of {kind} are {}, and those of \
             {parent} are {}; {instead}",
            place(objects_are),
            place(parents_are)
        ))
    };
    descriptor.reads.iter().find_map(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> Kind {
        Kind::new("", "v1", name)
    }

    fn scope_of(kind: &Kind) -> Option<bool> {
        match &*kind.kind {
            "Pod" | "ConfigMap" => Some(true),
            "Tenant" | "Namespace" | "Node" => Some(false),
            _ => None,
        }
    }

    fn why(parent: &str, read: &str, rule: MatchRule) -> Option<String> {
        let (key, selector, fields) = ("found".into(), String::new(), Vec::new());
        let reads = vec![ReadKind { key, kind: kind(read), selector, rule, fields }];
        matches_nothing(&Descriptor { parent: kind(parent), reads, ..Descriptor::default() }, &scope_of)
    }

    #[test]
    fn a_rule_matches_nothing_between_kinds_in_namespaces_and_kinds_in_none_unless_a_label_leads_there() {
        let (label, field) = (MatchRule::ParentLabel("l".into()), MatchRule::ParentField("spec.a".into()));
        let siblings = MatchRule::ParentLabel(String::new());
        for (parent, read, [by_label, by_field, as_sibling]) in [
            ("ConfigMap", "Pod", [true, true, true]),
            ("Tenant", "Node", [true, true, true]),
            ("Tenant", "Pod", [true, false, false]),
            ("Namespace", "Pod", [true, false, false]),
            ("Pod", "Node", [false, false, false]),
            ("Unknown", "Pod", [true, true, true]),
            ("Pod", "Unknown", [true, true, true]),
        ] {
            let found = [&label, &field, &siblings].map(|rule| why(parent, read, rule.clone()).is_none());
            assert_eq!(found, [by_label, by_field, as_sibling], "{parent} reads {read}");
        }
    }

    #[test]
    fn the_rule_is_named_with_what_to_do() {
        let expected = "the read \"found\" of Pod by being in the parent's namespace can match nothing, because objects of Pod \
                        are in namespaces, and those of Tenant are in none; match them by a label, or have the decision \
                        need them by name and namespace";
        assert_eq!(why("Tenant", "Pod", MatchRule::ParentLabel(String::new())).as_deref(), Some(expected));
    }

    #[test]
    fn own_covers_nothing_for_parents_in_no_namespace_but_namespaces_themselves() {
        let beyond = |parent, child| is_beyond_own(&kind(parent), &kind(child), &scope_of);
        assert!(beyond("Tenant", "Pod"));
        for (parent, child) in [("ConfigMap", "Pod"), ("Namespace", "Pod"), ("Tenant", "Node"), ("Unknown", "Pod")] {
            assert!(!beyond(parent, child), "{parent} {child}");
        }
    }
}
