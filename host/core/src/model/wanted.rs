//! What a plugin asks for beyond what it declared: one object by its name, or all objects with certain labels. Pure.

use std::fmt;
use std::sync::Arc;

use crate::model::kind::{Kind, Namespace, ObjectRef};

/// The beginning of a name that is a label selector. No object has such a name.
const SELECTOR_PREFIX: char = '?';

/// One object, or a selection of objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wanted {
    /// The object of this name.
    Object(ObjectRef),
    /// All objects of a kind that a label selector selects.
    Selection(Selection),
}

/// All objects of a kind in one namespace, or without a namespace, that a label selector selects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selection {
    /// Their kind.
    pub kind: Kind,
    /// Absent for cluster-scoped objects.
    pub namespace: Namespace,
    /// The label selector as kubectl writes it; an empty one selects all.
    pub selector: Arc<str>,
}

impl Wanted {
    /// Returns the kind.
    pub fn kind(&self) -> &Kind {
        match self {
            Self::Object(object) => &object.kind,
            Self::Selection(selection) => &selection.kind,
        }
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &Namespace {
        match self {
            Self::Object(object) => &object.namespace,
            Self::Selection(selection) => &selection.namespace,
        }
    }

    /// Returns the same in another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: Namespace) -> Self {
        match self {
            Self::Object(object) => Self::Object(ObjectRef { namespace, ..object.clone() }),
            Self::Selection(selection) => Self::Selection(Selection { namespace, ..selection.clone() }),
        }
    }

    /// Returns how the contract writes it.
    pub fn reference(&self) -> ObjectRef {
        match self {
            Self::Object(object) => object.clone(),
            Self::Selection(selection) => selection.reference(),
        }
    }
}

/// Reads what the contract writes as a reference: a name that begins with `?` is a label selector.
impl From<ObjectRef> for Wanted {
    fn from(reference: ObjectRef) -> Self {
        match reference.name.strip_prefix(SELECTOR_PREFIX) {
            Some(selector) => Self::Selection(Selection {
                selector: selector.into(),
                kind: reference.kind,
                namespace: reference.namespace,
            }),
            None => Self::Object(reference),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.fmt(f),
            Self::Selection(selection) => selection.fmt(f),
        }
    }
}

impl Selection {
    /// Returns how the contract writes it.
    pub fn reference(&self) -> ObjectRef {
        let name = format!("{SELECTOR_PREFIX}{}", self.selector).into();
        ObjectRef { kind: self.kind.clone(), namespace: self.namespace.clone(), name }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_begins_with_a_question_mark_is_a_selector() {
        let reference = |name: &str| ObjectRef {
            kind: Kind::new("", "v1", "ConfigMap"),
            namespace: Some("n".into()),
            name: name.into(),
        };
        assert_eq!(Wanted::from(reference("web")), Wanted::Object(reference("web")));
        for selector in ["", "app=shop,tier in (a,b),!legacy"] {
            let written = reference(&format!("?{selector}"));
            let Wanted::Selection(selection) = Wanted::from(written.clone()) else { panic!("{selector}") };
            assert_eq!((&*selection.selector, selection.reference()), (selector, written.clone()));
            assert_eq!(Wanted::Selection(selection).to_string(), format!("ConfigMap n/?{selector}"));
        }
    }

    #[test]
    fn what_is_wanted_of_the_parents_namespace_is_in_it() {
        for name in ["web", "?app=shop"] {
            let reference = ObjectRef { kind: Kind::new("", "v1", "ConfigMap"), namespace: None, name: name.into() };
            let wanted = Wanted::from(reference).in_namespace(Some("n".into()));
            assert_eq!(wanted.namespace().as_deref(), Some("n"));
            assert_eq!(&*wanted.reference().name, name);
        }
    }
}
