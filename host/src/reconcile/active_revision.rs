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

/// A revision with its `plugin.yaml` and the views that its descriptor asked for: what one
/// reconcile works with from beginning to end, even if another is published meanwhile.
#[derive(Clone)]
pub struct ActiveRevision {
    /// `plugin.yaml`.
    pub plugin: Arc<PluginConfig>,
    /// The component.
    pub revision: Arc<Revision>,
    /// Component and `plugin.yaml` in one number: what is remembered of a parent holds no
    /// longer than both do.
    pub basis: u64,
    /// The parents.
    pub parents: View,
    /// The parents' kind as the API server served it when the revision became active.
    pub served: Arc<Resource>,
    /// All kinds as it serves them now.
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

    /// Returns the parents' kind as the API server serves it: its definition can come back with another plural or scope.
    /// One that comes back without the status subresource is taken for what it was, so that writes of a status fail and say so.
    pub fn resource(&self) -> Arc<Resource> {
        let now = self.kinds.get(self.parent_kind()).filter(|now| !now.lacks_status());
        now.unwrap_or_else(|| self.served.clone())
    }

    /// Notes what the host holds for the plugin in its caches. Returns what its children take of that, bytes.
    pub fn note_held(&self) -> usize {
        let children = self.owned.iter().map(|view| view.watch.cache.held_of(&self.plugin.name)).sum();
        self.plugin.memory.set(Part::Children, children);
        self.plugin.memory.set(Part::Parents, self.parents.watch.cache.held());
        children
    }

    /// Returns the children of a parent that the plugin made or takes over.
    pub fn children_of(&self, parent: &Object) -> ObservedChildren {
        view::children(&self.owned, &parent.uid, |label| self.plugin.has_made(label))
    }

    /// Returns the finalizers of this revision, of earlier ones, and of plugins that this one takes over from.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let now = self.revision.descriptor().finalizer.as_deref();
        let earlier = self.former_finalizers.iter().chain(self.plugin.predecessors.finalizers());
        now.into_iter().chain(earlier.map(String::as_str).filter(move |earlier| Some(*earlier) != now))
    }

    /// Returns which field manager set a finalizer of a parent, if the host added it for none of these plugins.
    pub fn set_by_another<'o>(&self, parent: &'o Object, finalizer: &str) -> Option<&'o str> {
        self.plugin.finalizers.set_by_another(parent, finalizer)
    }

    /// The value of a label of a namespace, as far as it is known.
    pub fn label_of(&self, namespace: &str, key: &str) -> Option<String> {
        view::label_of(self.namespaces.as_deref(), namespace, key)
    }
}
