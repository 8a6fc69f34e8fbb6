//! Removes a plugin whose object is being deleted. `spec.deletionPolicy` says what happens to its parents before:
//!
//! ```text
//! block    the plugin stays and serves until no parent has its finalizer
//! orphan   the plugin is stopped, and its finalizer is removed from every parent that has it
//! delete   every parent is deleted, and the plugin is removed once they are gone
//! ```
//!
//! A parent without the plugin's finalizer does not need the plugin, so if no parent has it, `block` and `orphan`
//! remove the plugin at once. A finalizer that another field manager set is not the plugin's: another operator may use
//! the same name for objects of its own.

use std::sync::Arc;

use crate::config::manifest::Plugin;
use crate::config::plugin_resource::{ParentStatus, PluginStatus};
use crate::fleet::status::Obstacle;
use crate::reconcile::active_revision::ActiveRevision;
use crate::rollout::managed_plugin::{ManagedPlugin, Shared};
use hotshoe_cluster::discovery::Resource;
use hotshoe_cluster::error::ApiError;
use hotshoe_cluster::holders::Holders;
use hotshoe_cluster::identity::Permit;
use hotshoe_cluster::parent;
use hotshoe_core::check::finalizer::AllowedFinalizers;
use hotshoe_core::model::kind::{Key, Kind};
use hotshoe_core::plugin::removal::{DeletionPolicy, Parents, Removal as Next};

/// The maximum number of parents that are written to in one pass.
const PARENTS_PER_PASS: usize = 50;

/// A plugin that is to be removed.
pub(super) struct Removal<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) name: &'a str,
    pub(super) policy: DeletionPolicy,
    /// The description in the object, if it can be read.
    pub(super) described: Option<&'a Plugin>,
    /// The plugin, while it runs.
    pub(super) plugin: Option<&'a Arc<ManagedPlugin>>,
    /// The last known status of the plugin.
    pub(super) status: &'a PluginStatus,
    /// The older plugin that serves the parents now, so that this one cannot.
    pub(super) taken_by: Option<&'a str>,
    /// The permit to write to parents.
    pub(super) permit: &'a Permit,
}

/// How far the removal is.
pub(super) enum Progress {
    /// The plugin can be removed.
    Done,
    /// Parents still need the plugin.
    Waits(Obstacle),
}

impl Removal<'_> {
    /// Does what can be done in this pass.
    pub(super) async fn advance(&self) -> Progress {
        match self.parents().await {
            Ok(None) => Progress::Done,
            Ok(Some((resource, holders))) => {
                let unknown = holders.problem();
                match (self.decide(&resource, holders.keys).await, unknown) {
                    // What can be done in the other namespaces is done before.
                    (Progress::Done, Some(why)) => parents_unknown(&why),
                    (progress, _) => progress,
                }
            }
            Err(why) => parents_unknown(&why),
        }
    }

    /// Returns the kind of the parents, and the parents in the watched namespaces that have a finalizer of the plugin. None
    /// if the kind does not exist.
    async fn parents(&self) -> Result<Option<(Arc<Resource>, Holders)>, String> {
        let (finalizers, watches) = (self.finalizers(), &self.shared.watches);
        let Some(kind) = self.kind() else {
            return match finalizers.is_empty() {
                true => Ok(None),
                false => Err("no revision is active, and the status does not name their kind".to_owned()),
            };
        };
        let resource = match watches.find_kind_anew(&kind).await {
            Err(error) if error.is_not_found() => return Ok(None),
            found => found.map_err(|error| error.to_string())?,
        };
        if finalizers.is_empty() {
            return Ok(Some((resource, Holders::default())));
        }
        let allowed = self.allowed();
        let holders = watches.holders(&resource, |object| !allowed.removable(object, &finalizers).is_empty()).await;
        Ok(Some((resource, holders)))
    }

    fn kind(&self) -> Option<Kind> {
        let active = self.plugin.and_then(|plugin| plugin.controller.active());
        let known = || self.status.parent.as_ref().map(ParentStatus::kind);
        active.map(|active| active.revision.descriptor().parent.clone()).or_else(known)
    }

    fn finalizers(&self) -> Vec<String> {
        let mut all = self.status.finalizers.clone();
        all.extend(self.plugin.into_iter().flat_map(|plugin| plugin.finalizers()));
        all
    }

    /// Returns the finalizers that the plugin may hold. Without a valid description those that it runs with count, and
    /// without these its name.
    fn allowed(&self) -> AllowedFinalizers {
        let described = self.described.and_then(|plugin| plugin.allowed_finalizers().ok());
        let running = || self.plugin.map(|plugin| plugin.plugin().finalizers.clone());
        described.or_else(running).unwrap_or_else(|| AllowedFinalizers::of_name(self.name))
    }

    async fn decide(&self, resource: &Resource, holders: Vec<Key>) -> Progress {
        let active = self.plugin.and_then(|plugin| plugin.controller.active());
        let parents = Parents {
            hold_finalizer: !holders.is_empty(),
            exist: active.as_ref().map(|active| !active.parents.watch.cache.is_empty()),
            are_taken: self.taken_by.is_some(),
        };
        match (Next::next(self.policy, self.plugin.is_some(), parents), active) {
            (Next::End, _) => Progress::Done,
            (Next::Stop, _) => waits("Orphaning", "the plugin is being stopped".to_owned(), false),
            (Next::Release, _) => self.orphan(resource, &holders).await,
            (Next::DeleteParents, Some(active)) => self.delete(resource, &active).await,
            (Next::Wait | Next::DeleteParents, _) => {
                let message = match self.policy == DeletionPolicy::Delete && self.taken_by.is_none() {
                    true => self.lacks_revision(resource, &holders),
                    false => self.remain(resource, &holders),
                };
                waits("ParentsRemain", message, true)
            }
        }
    }

    fn lacks_revision(&self, resource: &Resource, holders: &[Key]) -> String {
        format!(
            "parents still have its finalizer: {}; no revision is active that would clean up after them; \
             see the condition Ready, or set spec.deletionPolicy to orphan",
            some(resource, holders)
        )
    }

    /// Returns a message about parents with the finalizer, and how they can go.
    fn remain(&self, resource: &Resource, holders: &[Key]) -> String {
        let remain = format!("parents still have its finalizer: {}", some(resource, holders));
        if let Some(older) = self.taken_by {
            return format!(
                "{remain}; the Plugin {older} serves them now, so set spec.deletionPolicy to orphan, which removes the finalizer"
            );
        }
        format!(
            "{remain}{}; delete them, or set spec.deletionPolicy to orphan, which removes the finalizer, or to delete, which deletes all parents",
            self.paused()
        )
    }

    fn paused(&self) -> &'static str {
        match self.plugin.is_some_and(|plugin| plugin.plugin().wanted.paused) {
            true => "; spec.paused is true, so none of them can go: set it to false",
            false => "",
        }
    }

    async fn orphan(&self, resource: &Resource, holders: &[Key]) -> Progress {
        let (finalizers, allowed) = (self.finalizers(), self.allowed());
        for key in holders.iter().take(PARENTS_PER_PASS) {
            let cluster = &self.shared.cluster;
            let released = parent::remove_finalizers(
                cluster,
                resource,
                key,
                |parent| allowed.removable(parent, &finalizers),
                self.permit,
            );
            if let Err(error) = released.await {
                return failed(&error);
            }
        }
        waits("Orphaning", format!("its finalizer is being removed from {}", some(resource, holders)), false)
    }

    async fn delete(&self, resource: &Resource, active: &ActiveRevision) -> Progress {
        let parents = active.parents.watch.cache.keys();
        let there =
            parents.iter().filter_map(|key| active.parents.watch.cache.get(key)).filter(|parent| !parent.deleting);
        for parent in there.take(PARENTS_PER_PASS) {
            let cluster = &self.shared.cluster;
            if let Err(error) = parent::delete(cluster, resource, &parent, self.permit).await {
                return failed(&error);
            }
        }
        waits(
            "DeletingParents",
            format!("its parents are being deleted: {}{}", some(resource, &parents), self.paused()),
            false,
        )
    }
}

fn parents_unknown(why: &str) -> Progress {
    waits(
        "ParentsUnknown",
        format!("the host cannot find out which parents have its finalizer: {why}; it tries again"),
        true,
    )
}

fn failed(error: &ApiError) -> Progress {
    waits(
        "ParentsRemain",
        format!(
            "{error}; it is tried again, but a right that is missing has to be granted (`hotshoe rbac --plugin-only`)"
        ),
        true,
    )
}

fn waits(reason: &'static str, message: String, stalls: bool) -> Progress {
    Progress::Waits(Obstacle { reason, message, stalls, keeps_ready: false })
}

/// Returns a text with the number of objects and the name of the first.
fn some(resource: &Resource, keys: &[Key]) -> String {
    let kind = &resource.kind;
    match keys {
        [] => format!("no object of the kind {kind}"),
        [one] => format!("1 object of the kind {kind}, {one}"),
        [first, ..] => format!("{} objects of the kind {kind}, the first of them {first}", keys.len()),
    }
}
