//! What a plugin sees of a parent, its children and related objects: read from the stores, as far as the grant allows.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::shared_watch::SharedWatch;
use hotshoe_core::check::memory_quota::ByNamespace;
use hotshoe_core::model::child::is_child;
use hotshoe_core::model::decision::{Document, MatchRule, ReadKind, Related};
use hotshoe_core::model::kind::{Key, Kind, Namespace, ObjectRef};
use hotshoe_core::model::object::ObservedChildren;
use hotshoe_core::model::object::{Object, PLUGIN_LABEL};
use hotshoe_core::model::parent_label::parent_label;
use hotshoe_core::model::projection::Projection;

/// A kind that a plugin sees, reduced to the fields that it asked for.
#[derive(Clone)]
pub struct View {
    /// The watch that keeps its objects.
    pub watch: Arc<SharedWatch>,
    /// The fields that this plugin asked for.
    pub projection: Projection,
}

impl View {
    /// Returns an object as the plugin sees it. The store may keep more fields, for other plugins.
    pub fn show(&self, object: &Object) -> Document {
        let json = if self.watch.kept_fields().projection == self.projection {
            object.body.clone()
        } else {
            // The body is JSON that we wrote ourselves, so projecting it again cannot fail.
            self.projection.project(&object.body).unwrap_or_default().into()
        };
        Document { reference: reference(&self.watch.scope.kind, &object.key), json }
    }
}

/// A view of a kind that is read but not owned.
#[derive(Clone)]
pub struct ReadView {
    /// The declaration.
    pub read: ReadKind,
    /// The view of its objects.
    pub view: View,
    /// The field of the parents that names these objects, if the rule is by field. The parents are indexed by the field
    /// as long as this is held.
    pub field: Option<Arc<str>>,
}

/// Returns the reference of an object of a kind.
pub fn reference(kind: &Kind, key: &Key) -> ObjectRef {
    ObjectRef { kind: kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
}

/// Returns the value of a label of a namespace, if the namespace is known and has it.
pub fn label_of(namespaces: Option<&SharedWatch>, namespace: &str, key: &str) -> Option<String> {
    let namespace = namespaces?.cache.get(&Key::new(None, namespace))?;
    namespace.label(key).map(str::to_owned)
}

/// Returns the children that a plugin made for a parent of this kind or takes over, desired or not yet pruned, sorted by
/// kind and key. Leaves out children that another plugin made for the same parent: this plugin may not change them, and
/// need not wait for them. `is_made` decides by the value of the host's label.
pub fn children(
    owned: &[View],
    parent_kind: &Kind,
    parent: &Object,
    is_made: impl Fn(Option<&str>) -> bool,
) -> ObservedChildren {
    let is_made =
        |child: &Object| is_made(child.label(PLUGIN_LABEL)) && is_child(child, parent_kind, &parent.key, &parent.uid);
    let of_view = |view: &View| {
        let kind = view.watch.scope.kind.clone();
        let made = view.watch.cache.owned_by(&parent.uid).into_iter().filter(|child| is_made(child));
        made.map(move |child| (kind.clone(), child))
    };
    let mut children: ObservedChildren = owned.iter().flat_map(of_view).collect();
    children.sort_by(|(a, x), (b, y)| (a, &x.key).cmp(&(b, &y.key)));
    children
}

/// Returns the memory of a plugin's children in these namespaces together, and in each other one.
pub fn held_by_namespace(owned: &[Arc<SharedWatch>], plugin: &str, namespaces: &[Namespace]) -> ByNamespace {
    let mut held = HashMap::new();
    owned.iter().for_each(|watch| watch.cache.add_held_of(plugin, &mut held));
    let own = namespaces.iter().filter_map(|namespace| held.remove(namespace)).sum();
    ByNamespace { own, others: held.into_values().collect() }
}

/// Returns whether the plugin may see an object.
pub type MayRead<'a> = dyn Fn(&ObjectRef) -> bool + 'a;

/// Returns the children that the plugin may see, as it sees them.
pub fn show_children(owned: &[View], children: &ObservedChildren, may_read: &MayRead<'_>) -> Vec<Document> {
    let shown = children.iter().filter_map(|(kind, child)| {
        let view = owned.iter().find(|view| view.watch.scope.kind == *kind)?;
        let document = view.show(child);
        may_read(&document.reference).then_some(document)
    });
    shown.collect()
}

/// Returns whether the plugin may see an object that is related to a parent by this rule.
pub type MayRelate<'a> = dyn Fn(&MatchRule, &ObjectRef) -> bool + 'a;

/// Returns the related objects of every declared read that the plugin may see.
pub fn related(reads: &[ReadView], parent: &Object, may_relate: &MayRelate<'_>) -> Vec<Related> {
    let one = |read: &ReadView| {
        let documents = find(read, parent).into_iter().map(|object| read.view.show(&object));
        let objects = documents.filter(|document| may_relate(&read.read.rule, &document.reference)).collect();
        Related { key: read.read.key.clone(), objects }
    };
    reads.iter().map(one).collect()
}

/// Returns the objects that a decision about a parent depends on and that are known without their content.
pub fn without_content(
    owned: &[View],
    reads: &[ReadView],
    parent: &Object,
    children: &ObservedChildren,
) -> Vec<(Arc<SharedWatch>, Key)> {
    let watch_of = |kind: &Kind| owned.iter().find(|view| view.watch.scope.kind == *kind).map(|view| &view.watch);
    let children = children.iter().filter(|(_, child)| child.reduced.is_some());
    let children = children.filter_map(|(kind, child)| Some((watch_of(kind)?.clone(), child.key.clone())));
    let is_full = |read: &&ReadView| read.view.watch.cache.reduced().no_room > 0;
    let related = reads.iter().filter(is_full).flat_map(|read| {
        let found = find(read, parent).into_iter().filter(|object| object.reduced.is_some());
        found.map(|object| (read.view.watch.clone(), object.key.clone()))
    });
    children.chain(related).collect()
}

fn find(read: &ReadView, parent: &Object) -> Vec<Arc<Object>> {
    let cache = &read.view.watch.cache;
    match &read.read.rule {
        MatchRule::ParentLabel(key) if key.is_empty() => {
            let mut siblings = cache.all(|object| object.key.namespace == parent.key.namespace);
            siblings.sort_by(|a, b| a.key.cmp(&b.key));
            siblings
        }
        MatchRule::ParentLabel(label) => {
            let value = parent_label(&parent.key.name);
            match &parent.key.namespace {
                // Objects related to a parent without a namespace may be in any namespace; the grant says which are
                // shown.
                None => cache.labelled_anywhere(label, &value),
                namespace => cache.labelled(namespace.as_ref(), label, &value),
            }
        }
        MatchRule::ParentField(path) => {
            let named = parent.name_at(path);
            named.and_then(|name| cache.get(&Key { name, ..parent.key.clone() })).into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_label_is_that_of_the_contract_and_the_sdk() {
        let vectors = include_str!("../../../tests/vectors/parent-label.json");
        let vectors: Vec<(String, String)> = serde_json::from_str(vectors).unwrap();
        for (name, label) in vectors {
            assert_eq!(parent_label(&name), label, "{name}");
        }
    }
}
