//! The active revision of a plugin, with everything that a reconcile needs beside it.

use std::sync::Arc;

use crate::cluster::discovery::{Kinds, Resource};
use crate::cluster::shared_watch::SharedWatch;
use crate::cluster::view;
use crate::cluster::view::{ReadView, View};
use crate::config::PluginConfig;
use crate::sandbox::revision::Revision;
use hotshoe_core::check::memory_share::Part;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::object::{Object, ObservedChildren};

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
        self.plugin.memory.set(Part::Children, children);
        self.plugin.memory.set(Part::Parents, self.parents.watch.cache.held());
        children
    }

    /// Returns the children of a parent that the plugin created or takes over.
    pub fn children_of(&self, parent: &Object) -> ObservedChildren {
        view::children(&self.owned, &parent.uid, |label| self.plugin.has_made(label))
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

    /// Returns the value of a label of a namespace, if the namespace is known and has it.
    pub fn label_of(&self, namespace: &str, key: &str) -> Option<String> {
        view::label_of(self.namespaces.as_deref(), namespace, key)
    }
}
