//! Which names and paths an explanation of a parent shows.
//!
//! A plugin that may be shown Secrets chooses the names and keys of all that it writes and asks for, and may have put the
//! bytes of a Secret into them, now or in an earlier pass. Of those only what the specification of the parent names itself
//! is shown.

use std::collections::HashSet;

use serde_json::Value;

use crate::api::explain::{Act, Note};
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::record::{Written, name};
use hotshoe_core::check::access_request::READ_VERBS;
use hotshoe_core::compare::json_diff::TAINTED_KEY;
use hotshoe_core::diff::changed_inputs::Paths;
use hotshoe_core::model::kind::{Kind, ObjectRef};
use hotshoe_core::model::object::Object;
use hotshoe_core::model::wanted::{Selection, Wanted};

/// Which names and paths are shown.
pub struct Naming<'a> {
    parent: &'a Object,
    /// The texts in the specification of the parent, if only names from there are shown.
    specified: Option<HashSet<String>>,
}

impl<'a> Naming<'a> {
    /// Finds out which names are shown for a parent. In a pass in which Secrets were shown, the plugin is `tainted`.
    pub fn of(active: &ActiveRevision, parent: &'a Object, tainted: bool) -> Self {
        let secrets = Kind::new("", "v1", "Secret");
        let may_see = || READ_VERBS.iter().any(|verb| active.plugin.grant.allows(*verb, &secrets));
        Self::new(parent, tainted || may_see())
    }

    /// Shows all names, or only those in the specification of the parent.
    pub fn new(parent: &'a Object, is_restricted: bool) -> Self {
        Self { parent, specified: is_restricted.then(|| specified(parent)) }
    }

    /// Returns whether only names from the specification are shown.
    pub fn is_restricted(&self) -> bool {
        self.specified.is_some()
    }

    /// Returns how much of a path is shown.
    pub fn paths(&self) -> Paths {
        if self.is_restricted() { Paths::First } else { Paths::Whole }
    }

    /// Returns the name of an object.
    pub fn object(&self, object: &ObjectRef) -> String {
        let ObjectRef { kind, namespace, name: named } = object;
        let hidden = || TAINTED_KEY.into();
        let named = if self.is_shown(named) { named.clone() } else { hidden() };
        let is_own = |namespace: &str| self.parent.key.namespace.as_deref() == Some(namespace);
        let namespace = namespace.clone().map(|one| if is_own(&one) || self.is_shown(&one) { one } else { hidden() });
        name(&ObjectRef { kind: kind.clone(), namespace, name: named })
    }

    /// Returns the name of what a plugin needs. A selector is left out: the plugin chose the values in it.
    pub fn wanted(&self, wanted: &Wanted) -> String {
        match wanted {
            Wanted::Object(object) => self.object(object),
            Wanted::Selection(Selection { kind, .. }) => name(&format!("{kind} by labels")),
        }
    }

    /// Returns a write with its names and paths.
    pub fn written(&self, Written { what, object, fields }: Written) -> Note<Act> {
        let is_of_secret = object.as_ref().is_some_and(|object| object.kind.is("", "Secret"));
        let fields = match what {
            Act::Changed if is_of_secret => Vec::new(),
            Act::Changed => self.paths().of(fields),
            Act::Event if self.is_restricted() => Vec::new(),
            _ => fields.iter().map(name).collect(),
        };
        Note { what, object: object.map(|object| self.object(&object)), fields }
    }

    fn is_shown(&self, named: &str) -> bool {
        let Some(specified) = &self.specified else { return true };
        *self.parent.key.name == *named || specified.contains(named)
    }
}

/// Returns all texts in the specification of a parent, which users write and no plugin.
fn specified(parent: &Object) -> HashSet<String> {
    let body: Option<Value> = serde_json::from_str(&parent.body).ok();
    let (mut open, mut found) =
        (Vec::from_iter(body.and_then(|mut body| Some(body.get_mut("spec")?.take()))), HashSet::new());
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => open.extend(members.into_iter().map(|(_, value)| value)),
            Value::Array(elements) => open.extend(elements),
            Value::String(text) => drop(found.insert(text)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    use super::*;

    fn parent() -> Object {
        let json = r#"{"metadata":{"name":"shop","namespace":"n","uid":"u","resourceVersion":"1","labels":{"a":"of-label"}},
                       "spec":{"secretName":"given","deep":[{"name":"listed"}]},"status":{"word":"of-status"}}"#;
        let projection = Projection::new(&["spec", "metadata.labels", "status"]);
        Object::read(json, &KeptFields { projection, labels: Vec::new(), status: true }).unwrap()
    }

    fn object(kind: &str, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef { kind: Kind::new("", "v1", kind), namespace: Some(namespace.into()), name: name.into() }
    }

    #[test]
    fn of_a_plugin_that_may_see_secrets_only_names_of_the_parent_and_its_specification_are_shown() {
        let parent = parent();
        let restricted = Naming::new(&parent, true);
        for shown in ["shop", "given", "listed"] {
            assert_eq!(restricted.object(&object("Secret", "n", shown)), format!("Secret n/{shown}"));
        }
        for chosen in ["hunter2", "of-label", "of-status", "shop-hunter2"] {
            assert_eq!(restricted.object(&object("ConfigMap", "n", chosen)), "ConfigMap n/<hidden>");
        }
        assert_eq!(restricted.object(&object("ConfigMap", "hunter2", "shop")), "ConfigMap <hidden>/shop");
        assert_eq!(Naming::new(&parent, false).object(&object("ConfigMap", "m", "a")), "ConfigMap m/a");
    }

    #[test]
    fn fields_of_a_secret_reasons_of_events_and_selectors_are_left_out() {
        let parent = parent();
        let restricted = Naming::new(&parent, true);
        let written = |what, kind: &str, fields: &[&str]| {
            let fields = fields.iter().map(|field| (*field).to_owned()).collect();
            restricted.written(Written { what, object: Some(object(kind, "n", "shop")), fields }).fields
        };
        assert_eq!(written(Act::Changed, "Secret", &["data.hunter2"]), [""; 0]);
        assert_eq!(written(Act::Changed, "ConfigMap", &["data.hunter2", "data.x"]), ["data"]);
        assert_eq!(written(Act::Event, "ConfigMap", &["Hunter2"]), [""; 0]);
        let selection = Selection { kind: Kind::new("", "v1", "Pod"), namespace: None, selector: "a=hunter2".into() };
        assert_eq!(restricted.wanted(&Wanted::Selection(selection)), "Pod by labels");
    }

    #[test]
    fn a_name_that_a_user_chose_is_printable_and_short() {
        let parent = parent();
        let shown =
            Naming::new(&parent, false).object(&object("Pod", "n", &format!("a\u{1b}[2J\n{}", "x".repeat(1_000))));
        assert!(shown.len() <= 120 && !shown.contains(|letter: char| letter.is_control()), "{shown:?}");
    }
}
