//! The active revision of a plugin, with everything that a reconcile needs beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::config::PluginConfig;
use hotshoe_cluster::discovery::{Kinds, Resource};
use hotshoe_cluster::shared_watch::SharedWatch;
use hotshoe_cluster::store::Store;
use hotshoe_cluster::view;
use hotshoe_cluster::view::{ReadView, View};
use hotshoe_core::check::access_request::{Access, Request};
use hotshoe_core::check::ignored::Ignored;
use hotshoe_core::check::memory_share::Part;
use hotshoe_core::check::namespace_share;
use hotshoe_core::model::kind::{Key, Kind, Namespace};
use hotshoe_core::model::object::{Object, ObservedChildren};
use hotshoe_sandbox::revision::Revision;

/// A revision with its `plugin.yaml` and the views that its descriptor asked for. One reconcile works with it from
/// beginning to end, even if another revision is published meanwhile.
#[derive(Clone)]
pub struct ActiveRevision {
    /// `plugin.yaml`.
    pub plugin: Arc<PluginConfig>,
    /// The component.
    pub revision: Arc<Revision>,
    /// A fingerprint of component and `plugin.yaml`. The state kept of a parent is valid only as long as both are
    /// unchanged.
    pub basis: u64,
    /// The parents.
    pub parents: View,
    /// The parents' kind as the API server served it when the revision became active.
    pub served: Arc<Resource>,
    /// All kinds as the API server serves them now.
    pub kinds: Arc<Kinds>,
    /// The kinds of children.
    pub owned: Vec<View>,
    /// The kinds that are read but not owned.
    pub reads: Vec<ReadView>,
    /// The namespaces, where a rule of the grant selects them by label.
    pub namespaces: Option<Arc<SharedWatch>>,
    /// Finalizers of earlier revisions that this one does not have and the plugin may still hold.
    pub former_finalizers: Vec<String>,
}

impl ActiveRevision {
    /// Returns the kind of the parents.
    pub fn parent_kind(&self) -> &Kind {
        &self.parents.watch.scope.kind
    }

    /// Returns the parents' kind as the API server serves it now: its definition may have been created again with
    /// another plural or scope. If the new definition lacks the status subresource, returns the kind as it was served
    /// before, so that status writes fail and report the problem.
    pub fn resource(&self) -> Arc<Resource> {
        let now = self.kinds.get(self.parent_kind()).filter(|now| !now.lacks_status());
        now.unwrap_or_else(|| self.served.clone())
    }

    /// Charges the plugin for the objects in the host's caches. Returns the memory of its children, in bytes.
    pub fn note_held(&self) -> usize {
        let children = self.owned.iter().map(|view| view.watch.cache.held_of(&self.plugin.name)).sum();
        let reads = read_beside(&self.parents.watch, self.reads.iter().map(|read| &read.view.watch));
        let parts = [
            (Part::Children, children),
            (Part::Parents, self.parents.watch.cache.held()),
            (Part::Reads, reads.iter().map(|watch| watch.cache.held()).fold(0, usize::saturating_add)),
        ];
        parts.iter().for_each(|(part, bytes)| self.plugin.memory.set(*part, *bytes));
        let observed = parts.iter().map(|(_, bytes)| *bytes).fold(0, usize::saturating_add);
        self.plugin.memory.set_excess(self.excess(observed, &reads));
        children
    }

    /// Returns the namespaces whose objects take more of the plugin's memory than their parts. What takes no more than a
    /// quarter in sum is in no namespace more than its part, and not looked at: there may be thousands of namespaces.
    fn excess(&self, observed: usize, reads: &[&Arc<SharedWatch>]) -> Vec<(Namespace, usize)> {
        let Some(may) = self.plugin.memory.may_hold().filter(|may| observed > may / 4) else { return Vec::new() };
        let mut held = HashMap::new();
        self.owned.iter().for_each(|view| view.watch.cache.add_held_of(&self.plugin.name, &mut held));
        [&self.parents.watch].iter().chain(reads).for_each(|watch| watch.cache.add_held(&mut held));
        namespace_share::excess(held.into_iter().collect(), may)
    }

    /// Returns the children of a parent that the plugin created or takes over, as far as the grant covers them.
    pub fn children_of(&self, parent: &Object) -> ObservedChildren {
        self.family_of(parent).0
    }

    /// Returns the children of a parent that the plugin created or takes over, and beside them what is left out because
    /// the grant does not cover it: any user may create an object that looks like a child.
    pub fn family_of(&self, parent: &Object) -> (ObservedChildren, Ignored) {
        let reference = view::reference(self.parent_kind(), &parent.key);
        let label_of = |namespace: &str, key: &str| self.label_of(namespace, key);
        let mut ignored = Ignored::default();
        let mut children = self.named_children_of(parent);
        children.retain(|(kind, child)| {
            let (child, is_seen) = (view::reference(kind, &child.key), self.revision.descriptor().sees(kind));
            let is_covered = self.plugin.grant.covers_child(&reference, &child, is_seen, &label_of);
            if !is_covered {
                ignored.add(child);
            }
            is_covered
        });
        (children, ignored)
    }

    fn named_children_of(&self, parent: &Object) -> ObservedChildren {
        view::children(&self.owned, self.parent_kind(), parent, |label| self.plugin.has_made(label))
    }

    /// Returns the objects that a decision about a parent depends on and that are known without their content. Those
    /// outside of the grant are not shown in any case, so they stop nothing.
    pub fn without_content(&self, parent: &Object, children: &ObservedChildren) -> Vec<(Arc<SharedWatch>, Key)> {
        let mut missing = view::without_content(&self.owned, &self.reads, parent, children);
        let parent = view::reference(self.parent_kind(), &parent.key);
        missing.retain(|(watch, key)| {
            let object = view::reference(&watch.scope.kind, key);
            let namespaced = key.namespace.is_some();
            let request = Request { parent: &parent, object: &object, namespaced, access: Access::Read };
            let label_of = |namespace: &str, key: &str| self.label_of(namespace, key);
            self.plugin.grant.authorise_watched(&request, &label_of).is_ok()
        });
        missing
    }

    /// Returns the watches of the objects that its decisions depend on.
    pub fn watches(&self) -> impl Iterator<Item = &Arc<SharedWatch>> {
        let owned = self.owned.iter().map(|view| &view.watch);
        let reads = self.reads.iter().map(|read| &read.view.watch);
        std::iter::once(&self.parents.watch).chain(owned).chain(reads)
    }

    /// Returns the namespaces in which nothing is decided, because the host may not list all that it depends on.
    pub fn refused(&self) -> BTreeSet<Arc<str>> {
        self.watches().flat_map(|watch| watch.refused()).map(|(namespace, _)| namespace).collect()
    }

    /// Returns how many objects of this revision's watches are known without their content, or not known at all, because
    /// there is no room.
    pub fn cut(&self) -> usize {
        let cut = |cache: &Store| cache.reduced_of(&self.plugin.name).no_room + cache.left_out();
        let children = self.owned.iter().map(|view| cut(&view.watch.cache));
        let others = self.reads.iter().map(|read| &read.view.watch).chain([&self.parents.watch]);
        children.chain(others.map(|watch| watch.cache.reduced().no_room)).sum()
    }

    /// Returns how many objects have the plugin's label and are no children of a known parent.
    pub fn without_parent(&self) -> usize {
        self.owned.iter().map(|view| view.watch.cache.reduced_of(&self.plugin.name).no_parent).sum()
    }

    /// Returns the finalizers of this revision, of earlier ones, and of plugins that this one takes over from.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let now = self.revision.descriptor().finalizer.as_deref();
        let earlier = self.former_finalizers.iter().chain(self.plugin.predecessors.finalizers());
        now.into_iter().chain(earlier.map(String::as_str).filter(move |earlier| Some(*earlier) != now))
    }

    /// Returns the field manager that set a finalizer of a parent, unless the host added it for this plugin or one of
    /// its predecessors.
    pub fn set_by_another<'o>(&self, parent: &'o Object, finalizer: &str) -> Option<&'o str> {
        self.plugin.finalizers.set_by_another(parent, finalizer)
    }

    /// Returns the finalizer that the host added to the parent for this revision, an earlier one, or a predecessor of the
    /// plugin. Without such a finalizer, clean-up is over.
    pub fn our_finalizer(&self, parent: &Object) -> Option<&str> {
        let is_held = |ours: &str| parent.finalizers.iter().any(|present| **present == *ours);
        self.finalizers().find(|ours| is_held(ours) && self.set_by_another(parent, ours).is_none())
    }

    /// Returns the value of a label of a namespace, if the namespace is known and has it.
    pub fn label_of(&self, namespace: &str, key: &str) -> Option<String> {
        view::label_of(self.namespaces.as_deref(), namespace, key)
    }
}

/// Returns these watches without `counted`. A watch that is read under several keys is returned once.
fn read_beside<'a>(
    counted: &Arc<SharedWatch>,
    reads: impl Iterator<Item = &'a Arc<SharedWatch>>,
) -> Vec<&'a Arc<SharedWatch>> {
    let mut distinct: Vec<&Arc<SharedWatch>> = Vec::new();
    for watch in reads.filter(|watch| !Arc::ptr_eq(watch, counted)) {
        if !distinct.iter().any(|known| Arc::ptr_eq(known, watch)) {
            distinct.push(watch);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_cluster::shared_watch::Scope;
    use hotshoe_core::model::object::KeptFields;
    use hotshoe_core::model::projection::Projection;

    #[test]
    fn what_a_plugin_reads_is_held_for_it_once_and_its_parents_are_counted_elsewhere() {
        let kept_fields = KeptFields { projection: Projection::new(&["data"]), labels: Vec::new(), status: false };
        let watch = |kind: &str, bytes: usize| {
            let watch = SharedWatch::within(
                Arc::default(),
                Scope::new(Kind::new("", "v1", kind), ""),
                kept_fields.clone(),
                "host".into(),
            );
            let text = "x".repeat(bytes);
            let json = format!(
                r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}},"data":{{"a":"{text}"}}}}"#
            );
            watch.store(watch.read(&json).unwrap());
            assert!(watch.cache.held() > bytes);
            watch
        };
        let [parents, config_maps, services] =
            [("Demo", 1_000), ("ConfigMap", 2_000), ("Service", 3_000)].map(|(kind, bytes)| watch(kind, bytes));
        let read = read_beside(&parents, [&config_maps, &services, &parents, &config_maps].into_iter());
        assert!(read.len() == 2 && Arc::ptr_eq(read[0], &config_maps) && Arc::ptr_eq(read[1], &services));
    }
}
