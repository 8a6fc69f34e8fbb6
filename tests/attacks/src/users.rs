//! The table of what a user of a namespace tries: objects that look like children of a parent that is another's.
//!
//! A user may write all of an object: its labels, owner references, annotations and finalizers, and under the name of
//! any field manager. The end-to-end tests run every row against each step of the host.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::kinds::Kind;

/// One row of the table.
pub struct Attempt {
    /// What the user creates; unique.
    pub name: &'static str,
    /// The objects.
    pub forgery: Forgery,
    /// What becomes of them beside a parent of a namespace.
    pub of_namespaced: Fate,
    /// What becomes of them beside a parent without a namespace.
    pub of_cluster: Fate,
}

/// Where the user creates the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In a namespace of the user's own.
    Elsewhere,
    /// In the namespace of the parent or, if it has none, in one that has its children.
    Beside,
}

/// What the controller reference of the objects names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// There is none.
    None,
    /// The parent.
    Parent,
    /// The uid of the parent, under another name.
    OtherName,
    /// The uid of the parent, as an object of another kind.
    OtherKind,
}

/// The name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// One that the grant does not cover.
    Outside,
    /// One that the grant covers and no child has.
    Covered,
    /// That of a child.
    Child,
}

/// The objects of one row.
#[derive(Clone, Copy, Debug)]
pub struct Forgery {
    /// Where they are.
    pub place: Where,
    /// Their names.
    pub name: Name,
    /// Whether they have the label of the plugin.
    pub label: bool,
    /// Their controller.
    pub reference: Reference,
    /// Whether they have the host's annotation, and were applied under the field manager of the plugin.
    pub applied: bool,
    /// Whether they have a finalizer of the user's, and are deleted.
    pub held: bool,
    /// How many there are.
    pub count: usize,
    /// The size of each, beyond a few hundred bytes.
    pub kilobytes: usize,
}

/// What becomes of the objects. Whatever it is, the parent is reconciled, repaired, pruned, moved to another component,
/// served after a restart and deleted as if they were not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are no children, and nothing is said.
    NoChild,
    /// They are ignored, and reported on the parent.
    Ignored,
    /// They are children, and deleted as such.
    Deleted,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoChild => "–",
            Self::Ignored => "`OutsideGrant`",
            Self::Deleted => "deleted",
        })
    }
}

/// The parent whose children are forged, and what its children look like.
pub struct Victim<'a> {
    /// The plugin of the parent.
    pub plugin: &'a str,
    /// The kind of the parent.
    pub kind: Kind,
    /// The parent as the API server has it.
    pub parent: &'a Value,
    /// The kind of the objects, and their `spec` with about as many kilobytes.
    pub child: (Kind, fn(usize) -> Value),
    /// A name that the grant covers and no child has.
    pub covered: &'a str,
    /// The name of a child.
    pub taken: &'a str,
}

const ELSEWHERE: Forgery = Forgery {
    place: Where::Elsewhere,
    name: Name::Outside,
    label: true,
    reference: Reference::Parent,
    applied: false,
    held: false,
    count: 1,
    kilobytes: 0,
};
const BESIDE: Forgery = Forgery { place: Where::Beside, ..ELSEWHERE };

const fn row(name: &'static str, forgery: Forgery, of_namespaced: Fate, of_cluster: Fate) -> Attempt {
    Attempt { name, forgery, of_namespaced, of_cluster }
}

/// The table.
pub const ATTEMPTS: &[Attempt] = &{
    use Fate::{Deleted, Ignored, NoChild};
    [
        row(
            "the plugin's label alone, in another namespace",
            Forgery { reference: Reference::None, ..ELSEWHERE },
            NoChild,
            NoChild,
        ),
        row("the parent's uid alone, in another namespace", Forgery { label: false, ..ELSEWHERE }, NoChild, NoChild),
        row("label and uid, in another namespace", ELSEWHERE, NoChild, Ignored),
        row(
            "label, uid, the plugin's field manager and the host's annotation, in another namespace",
            Forgery { applied: true, ..ELSEWHERE },
            NoChild,
            Ignored,
        ),
        row(
            "label, uid and the name of a child, in another namespace",
            Forgery { name: Name::Child, ..ELSEWHERE },
            NoChild,
            Ignored,
        ),
        row(
            "label, uid and a finalizer, in another namespace, deleted",
            Forgery { held: true, ..ELSEWHERE },
            NoChild,
            Ignored,
        ),
        row("500 with label and uid, in another namespace", Forgery { count: 500, ..ELSEWHERE }, NoChild, Ignored),
        row(
            "5 of 1 MB each with label and uid, in another namespace",
            Forgery { count: 5, kilobytes: 1_000, ..ELSEWHERE },
            NoChild,
            Ignored,
        ),
        row(
            "label and the parent's uid under another name, beside its children",
            Forgery { reference: Reference::OtherName, ..BESIDE },
            NoChild,
            NoChild,
        ),
        row(
            "label and the parent's uid as one of another kind, beside its children",
            Forgery { reference: Reference::OtherKind, ..BESIDE },
            NoChild,
            NoChild,
        ),
        row("label and uid under a name outside of the grant, beside its children", BESIDE, Ignored, Ignored),
        row(
            "label, uid, the plugin's field manager and the host's annotation under such a name, beside its children",
            Forgery { applied: true, ..BESIDE },
            Ignored,
            Ignored,
        ),
        row(
            "label, uid and a finalizer under such a name, beside its children, deleted",
            Forgery { held: true, ..BESIDE },
            Ignored,
            Ignored,
        ),
        row("500 under such names, beside its children", Forgery { count: 500, ..BESIDE }, Ignored, Ignored),
        row(
            "label and uid under a name that the grant covers, beside its children",
            Forgery { name: Name::Covered, ..BESIDE },
            Deleted,
            Deleted,
        ),
    ]
};

/// The finalizer of a user's.
pub const USERS_FINALIZER: &str = "example.com/keep";

impl Forgery {
    /// Returns the objects, without their namespace. `number` makes their names unique.
    pub fn objects(&self, victim: &Victim<'_>, number: usize) -> Vec<Value> {
        (0..self.count).map(|place| self.object(victim, &format!("x-{number}-{place}"))).collect()
    }

    fn object(&self, victim: &Victim<'_>, outside: &str) -> Value {
        let (kind, spec) = victim.child;
        let name = match self.name {
            Name::Outside => outside,
            Name::Covered => victim.covered,
            Name::Child => victim.taken,
        };
        let mut metadata = Map::from_iter([("name".to_owned(), name.into())]);
        if self.label {
            metadata.insert("labels".into(), json!({ "hotshoe.dev/plugin": victim.plugin }));
        }
        if let Some(reference) = self.controller(victim) {
            metadata.insert("ownerReferences".into(), json!([reference]));
        }
        if self.applied {
            metadata.insert("annotations".into(), json!({ "hotshoe.dev/applied": "00000000000000000000000000000000" }));
        }
        if self.held {
            metadata.insert("finalizers".into(), json!([USERS_FINALIZER]));
        }
        json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec(self.kilobytes),
        })
    }

    fn controller(&self, victim: &Victim<'_>) -> Option<Value> {
        let (api_version, metadata) = (victim.kind.api_version(), &victim.parent["metadata"]);
        let other = format!("{}-2", metadata["name"].as_str().unwrap_or_default());
        let (api_version, kind, name) = match self.reference {
            Reference::None => return None,
            Reference::Parent => (api_version, victim.kind.kind, metadata["name"].clone()),
            Reference::OtherName => (api_version, victim.kind.kind, other.into()),
            Reference::OtherKind => ("v1".to_owned(), "ConfigMap", metadata["name"].clone()),
        };
        Some(json!({
            "apiVersion": api_version, "kind": kind, "name": name, "uid": metadata["uid"], "controller": true,
        }))
    }
}

/// Renders the table of docs/src/security.md.
pub fn markdown() -> String {
    let mut table =
        "| what a user of a namespace tries | beside a parent of a namespace | beside a parent of the cluster |\n|---|---|---|\n"
            .to_owned();
    for Attempt { name, of_namespaced, of_cluster, .. } in ATTEMPTS {
        table += &format!("| {name} | {of_namespaced} | {of_cluster} |\n");
    }
    table
}
