//! Opens the watches that a descriptor asks for: which kinds, with which selector and fields, and which parents a
//! change [wakes](crate::reconcile::triggers).
//!
//! A candidate opens its watches as a [`Viewer`] of its own, and their changes wake nothing: they are no part of the
//! plugin's health, and do not replace the subscriptions of the active revision.

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;

use crate::config::PluginConfig;
use crate::reconcile::active_revision::ActiveRevision;
use crate::reconcile::controller::Controller;
use crate::reconcile::triggers::{object_of, objects_of, wake_all, wake_owner, wake_readers};
use hotshoe_cluster::discovery::{Kinds, Resource};
use hotshoe_cluster::events::EventRecord;
use hotshoe_cluster::shared_watch::{Change, Health, Role, Scope, SharedWatch, Subscriber, Viewer};
use hotshoe_cluster::view::{ReadView, View};
use hotshoe_cluster::watch::Watches;
use hotshoe_core::check::access_request::Verb;
use hotshoe_core::check::grant::Grant;
use hotshoe_core::check::reach;
use hotshoe_core::flow::canary::Share;
use hotshoe_core::model::decision::{Descriptor, Event, MatchRule, ReadKind, Severity};
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::object::{KeptFields, PLUGIN_LABEL};
use hotshoe_core::model::projection::Projection;
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::Revision;

/// Who opens a watch, and the controller whose queue a change wakes.
struct Interest<'a> {
    watches: &'a Watches,
    viewer: Viewer,
    woken: Weak<Controller>,
}

impl<'a> Interest<'a> {
    /// Creates an interest whose changes wake the queue of a controller.
    fn of(controller: &Arc<Controller>, watches: &'a Watches, viewer: Viewer) -> Self {
        Self { watches, viewer, woken: Arc::downgrade(controller) }
    }
}

/// The watches of a revision that is not active. Dropping this ends its subscriptions; a watch without any other is
/// closed.
pub struct Views {
    watches: Arc<Watches>,
    viewer: Viewer,
}

impl Views {
    /// Creates views without watches.
    pub fn of(watches: Arc<Watches>, viewer: Viewer) -> Self {
        Self { watches, viewer }
    }

    /// Opens the watches of a revision and waits until they are synced. Also opens those of kinds that were `owned`
    /// before the host started and still have children. Waits for a kind that does not exist yet, or whose definition
    /// has no status subresource.
    ///
    /// # Errors
    /// When plugin.yaml does not name the kind of the parents.
    pub async fn open(
        &self,
        controller: &Arc<Controller>,
        plugin: Arc<PluginConfig>,
        revision: Arc<Revision>,
        owned: &[Kind],
    ) -> Result<ActiveRevision, LoadError> {
        let interest = Interest { watches: &self.watches, viewer: self.viewer.clone(), woken: Weak::new() };
        open(controller, &interest, plugin, revision, owned).await
    }

    /// Waits until the labels of namespaces that a canary's share selects by are synced.
    pub async fn sync_share(&self, share: &Share, parents: &View) {
        let interest = Interest { watches: &self.watches, viewer: self.viewer.clone(), woken: Weak::new() };
        if let Some(namespaces) = open_share(&interest, share, parents) {
            namespaces.synced().await;
        }
    }
}

impl Drop for Views {
    fn drop(&mut self) {
        for watch in self.watches.all() {
            self.watches.unsubscribe(&watch.scope, &self.viewer);
        }
    }
}

/// Returns why the watches of a revision are not all synced; `None` if they are.
pub fn unsynced_reason(watches: &Watches, viewer: &Viewer) -> Option<String> {
    let missing = watches.all().into_iter().filter(|watch| watch.is_open_for(viewer));
    let why = missing.filter_map(|watch| match watch.health() {
        Health::Synced if watch.has_parents_of(viewer) => without_status(watches, &watch.scope.kind),
        Health::Synced => None,
        Health::Failing(why) | Health::Broken(why) | Health::Silent(why) | Health::Refused(why) => Some(why),
        Health::Starting => Some(format!("{} is being listed", watch.scope.kind)),
    });
    Some(why.collect::<Vec<_>>().join("; ")).filter(|why| !why.is_empty())
}

/// Returns whether a watch of a revision fails until an administrator changes something.
pub fn needs_change(watches: &Watches, viewer: &Viewer) -> bool {
    watches.all().into_iter().filter(|watch| watch.is_open_for(viewer)).any(|watch| match watch.health() {
        Health::Failing(_) | Health::Broken(_) | Health::Refused(_) => true,
        Health::Synced => watch.has_parents_of(viewer) && without_status(watches, &watch.scope.kind).is_some(),
        Health::Silent(_) | Health::Starting => false,
    })
}

/// Subscribes the plugin's queue to the watches of a revision before it decides as the active revision or the canary.
/// The watches are open and synced, so this does not wait. Earlier changes woke nothing, so every parent must be
/// requeued afterwards.
pub fn subscribe_queue(controller: &Arc<Controller>, watches: &Watches, active: &ActiveRevision, viewer: Viewer) {
    let interest = Interest::of(controller, watches, viewer);
    let descriptor = active.revision.descriptor();
    let parents = open_parents(&interest, descriptor, &active.plugin);
    for owned in &descriptor.owns {
        open_owned(&interest, &parents, &owned.kind, &owned.fields);
    }
    for dropped in active.owned.iter().filter(|view| !owns(descriptor, view)) {
        open_owned(&interest, &parents, &dropped.watch.scope.kind, &[]);
    }
    for read in &descriptor.reads {
        open_read(&interest, &parents, read);
    }
    open_namespaces(&active.plugin.grant, &interest, &parents);
}

/// Subscribes the plugin's queue to the labels of namespaces that a canary's share selects by. Returns `None` if the
/// share selects no namespaces. As long as a namespace is unknown, the active revision decides for its parents.
pub fn subscribe_queue_to_share(
    controller: &Arc<Controller>,
    watches: &Watches,
    share: &Share,
    parents: &View,
) -> Option<Arc<SharedWatch>> {
    open_share(&Interest::of(controller, watches, Viewer::canary(&controller.name)), share, parents)
}

/// Gives each of two revisions the other's kinds of children, too. A parent that moves from one revision to the other
/// then keeps no child that its new revision does not desire.
pub fn merge_owned_kinds(one: &mut ActiveRevision, other: &mut ActiveRevision) {
    let missing = |there: &[View], here: &[View]| -> Vec<View> {
        let is_missing =
            |view: &&View| !here.iter().any(|known| known.watch.scope.kind.is_served_as(&view.watch.scope.kind));
        there.iter().filter(is_missing).cloned().collect()
    };
    let (of_other, of_one) = (missing(&other.owned, &one.owned), missing(&one.owned, &other.owned));
    one.owned.extend(of_other);
    other.owned.extend(of_one);
}

/// How long to wait for the watches that another `plugin.yaml` needs: those of namespaces, where nothing is granted
/// while their labels are unknown, and those of other parents, which are reconciled as they arrive.
const RESUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the active revision, or its canary, under another `plugin.yaml`. Replaces its watches of namespaces, and
/// those of parents and read kinds if other parents are selected. Waits for them only for a limited time: what the new
/// `plugin.yaml` no longer allows must end soon.
pub async fn resubscribe(
    controller: &Arc<Controller>,
    watches: &Watches,
    plugin: Arc<PluginConfig>,
    present: &ActiveRevision,
    viewer: Viewer,
) -> ActiveRevision {
    let revision = present.revision.under(&plugin.limits);
    let interest = Interest::of(controller, watches, viewer);
    let watched = |plugin: &PluginConfig| {
        let selectors = (plugin.parent_selector(), plugin.parent_annotations(), plugin.parent_namespaces());
        (selectors, plugin.grant.parent_metadata.clone())
    };
    let (parents, reads) = match watched(&plugin) == watched(&present.plugin) {
        true => (present.parents.clone(), present.reads.clone()),
        false => {
            let parents = open_parents(&interest, revision.descriptor(), &plugin);
            let reads = revision.descriptor().reads.iter().map(|read| open_read(&interest, &parents, read)).collect();
            (parents, reads)
        }
    };
    let namespaces = open_namespaces(&plugin.grant, &interest, &parents);
    let synced = async {
        parents.watch.synced().await;
        if let Some(namespaces) = &namespaces {
            namespaces.synced().await;
        }
    };
    // The status of the plugin shows a watch that is not synced by then.
    drop(tokio::time::timeout(RESUBSCRIBE_TIMEOUT, synced).await);
    for view in &present.owned {
        watches.replace_parents(&view.watch, &interest.viewer, &parents.watch);
    }
    let basis = basis(controller, &revision, &plugin);
    ActiveRevision { plugin, revision, basis, parents, reads, namespaces, ..present.clone() }
}

async fn open(
    controller: &Arc<Controller>,
    interest: &Interest<'_>,
    plugin: Arc<PluginConfig>,
    revision: Arc<Revision>,
    owned_before: &[Kind],
) -> Result<ActiveRevision, LoadError> {
    let descriptor = revision.descriptor();
    // The host opens the watch with its own account, and a roll-back does not pass the check at load.
    if let Some(lacking) = plugin.parent_lacking(&descriptor.parent) {
        return Err(LoadError::NotGranted(lacking));
    }
    let parents = open_parents(interest, descriptor, &plugin);
    let reads: Vec<ReadView> = descriptor.reads.iter().map(|read| open_read(interest, &parents, read)).collect();
    let (mut owned, served) = sync_kinds(controller, interest, &revision, (&parents, &reads)).await;
    let namespaces = open_namespaces(&plugin.grant, interest, &parents);
    if let Some(namespaces) = &namespaces {
        namespaces.synced().await;
    }
    owned.extend(dropped_kinds(controller, &owned));
    owned.extend(leftover_kinds(interest, &controller.name, (descriptor, &parents), &plugin.grant, owned_before).await);
    ensure_in_namespaces(&plugin, &descriptor.parent, &served)?;
    ensure_reachable(&plugin, descriptor, &controller.kinds)?;
    warn_of_conversions(&revision, &served);
    let (basis, kinds) = (basis(controller, &revision, &plugin), controller.kinds.clone());
    let former_finalizers = Vec::new();
    Ok(ActiveRevision { plugin, revision, basis, parents, served, kinds, owned, reads, namespaces, former_finalizers })
}

/// Opens the watches of the kinds that a revision owns, and waits until all of its kinds are listed. Returns those
/// watches, and what the kind of the parents is.
async fn sync_kinds(
    controller: &Controller,
    interest: &Interest<'_>,
    revision: &Revision,
    (parents, reads): (&View, &[ReadView]),
) -> (Vec<View>, Arc<Resource>) {
    // Children are known by their parents. If those cannot be listed, it is to be seen what else cannot.
    parents.watch.tried().await;
    let are_parents_listed = parents.watch.health() == Health::Synced;
    let owned = revision.descriptor().owns.iter();
    let owned: Vec<View> = owned.map(|owned| open_owned(interest, parents, &owned.kind, &owned.fields)).collect();
    let listed = join_all(owned.iter().chain(reads.iter().map(|read| &read.view)).map(|view| view.watch.synced()));
    // The schema is read while the other kinds are listed.
    let known = learn_parents(controller, interest.watches, &parents.watch, revision.digest());
    let (_, served) = tokio::join!(listed, known);
    if !are_parents_listed {
        list_left_out(interest.watches, &owned).await;
    }
    (owned, served)
}

/// Lists the children that may have been left out, because they were listed before their parents.
async fn list_left_out(watches: &Watches, owned: &[View]) {
    for view in owned {
        watches.list_left_out(&view.watch);
        view.watch.synced().await;
    }
}

/// Warns if the plugin's own conversions stand between the API server and the watch of the parents. Then one object that
/// cannot be converted keeps all of them from being listed.
fn warn_of_conversions(revision: &Revision, parents: &Resource) {
    if revision.converts() && parents.is_converted {
        tracing::warn!(
            "the component watches {} in {} and converts it, but it is stored in another version: one object that cannot \
             be converted will keep the host from seeing any; store {} (`storage: true` in the CRD), or let the component \
             watch the stored version",
            parents.kind,
            parents.kind.version,
            parents.kind.version
        );
    }
}

/// Ensures that the parents are in namespaces, if `plugin.yaml` selects them by theirs.
fn ensure_in_namespaces(plugin: &PluginConfig, parent: &Kind, served: &Resource) -> Result<(), LoadError> {
    if served.namespaced || plugin.parent_namespaces().is_none() {
        return Ok(());
    }
    Err(LoadError::NotGranted(format!(
        "{parent} as its parent, whose objects are in no namespace, where spec.parent.namespaces names some"
    )))
}

/// Ensures that the plugin can find something of each kind that it names, now that it is known which are in namespaces.
/// Otherwise an empty list would look as if there were no objects.
fn ensure_reachable(plugin: &PluginConfig, descriptor: &Descriptor, kinds: &Kinds) -> Result<(), LoadError> {
    plugin.ensure_granted(descriptor, kinds)?;
    let unmatched = reach::matches_nothing(descriptor, &|kind| kinds.is_namespaced(kind));
    unmatched.map_or(Ok(()), |why| Err(LoadError::DescribeFailed(why)))
}

/// Waits until the parents are listed, and learns what their kind is and what its schema has room for.
async fn learn_parents(
    controller: &Controller,
    watches: &Watches,
    parents: &SharedWatch,
    digest: Digest,
) -> Arc<Resource> {
    parents.synced().await;
    let resource = parent_resource(controller, watches, parents, digest).await;
    watches.learn_status_schema(&resource).await;
    resource
}

/// The pause before a definition without status subresource is read again.
const DEFINITION_POLL_PAUSE: Duration = Duration::from_secs(2);
/// How many parents get an Event after each read of the definition.
const MAX_REPORTED_AT_ONCE: usize = 50;

/// Waits until the kind of the parents has a status subresource: its definition can be fixed at any time. Meanwhile
/// [`unsynced_reason`] reports that; if no revision is active, an Event on each parent does so, too.
async fn parent_resource(
    controller: &Controller,
    watches: &Watches,
    parents: &SharedWatch,
    digest: Digest,
) -> Arc<Resource> {
    let kind = &parents.scope.kind;
    let mut reported = HashSet::new();
    loop {
        if let Some(found) = controller.kinds.get(kind).filter(|known| !known.lacks_status()) {
            return found;
        }
        // If the API server does not answer, it is asked again after the pause.
        let known = watches.find_kind_anew(kind).await.ok().or_else(|| controller.kinds.get(kind));
        match known {
            Some(found) if !found.lacks_status() => return found,
            Some(found) if controller.active().is_none() => {
                report_missing_status(controller, (parents, &found), digest, &mut reported);
            }
            _ => {}
        }
        tokio::time::sleep(DEFINITION_POLL_PAUSE).await;
    }
}

/// Records an Event on each parent that has none yet, for a bounded number of parents at once.
fn report_missing_status(
    controller: &Controller,
    (parents, resource): (&SharedWatch, &Resource),
    digest: Digest,
    reported: &mut HashSet<Arc<str>>,
) {
    let there = parents.cache.keys();
    let unreported =
        there.iter().filter_map(|key| parents.cache.get(key)).filter(|parent| !reported.contains(&parent.uid));
    for parent in unreported.take(MAX_REPORTED_AT_ONCE).collect::<Vec<_>>() {
        let event =
            Event { severity: Severity::Warning, reason: NO_STATUS.to_owned(), message: no_status(&resource.kind) };
        let (about, uid) = (resource.reference(&parent.key), parent.uid.to_string());
        // Another host works for this parent, and reports it.
        let Some(permit) = controller.enter(&parent.key).map(|turn| turn.permit.clone()) else { continue };
        let note = EventRecord {
            about,
            uid,
            plugin: controller.name.clone(),
            digest: Some(digest),
            event,
            once: false,
            permit,
        };
        if controller.recorder.record(note) {
            reported.insert(parent.uid.clone());
        }
    }
}

/// The reason of the Event on parents whose kind has no status subresource.
const NO_STATUS: &str = "NoStatusSubresource";

fn without_status(watches: &Watches, parent: &Kind) -> Option<String> {
    watches.kinds.get(parent).filter(|known| known.lacks_status()).map(|_| no_status(parent))
}

fn no_status(parent: &Kind) -> String {
    format!(
        "{parent} has no status subresource, so every status write would raise its generation; add `subresources: \
         {{status: {{}}}}` to its CustomResourceDefinition, which is noticed without a restart"
    )
}

fn basis(controller: &Controller, revision: &Revision, plugin: &PluginConfig) -> u64 {
    controller.hasher.hash_one((revision.digest(), plugin.digest))
}

/// Ends the subscriptions to watches that neither the active revision nor its canary uses. Records the parent kind of
/// the active revision.
pub fn close_unused(controller: &Controller, watches: &Watches) {
    let Some(active) = controller.active() else { return };
    active.plugin.parentage.note_active(&controller.name, &active.revision.descriptor().parent);
    keep(watches, &Viewer::active(&controller.name), &used(&active));
    let canary = controller.canary.current();
    let mut of_canary = canary.as_ref().map(|canary| used(&canary.revision)).unwrap_or_default();
    of_canary.extend(canary.iter().filter_map(|canary| Some((canary.namespaces.as_ref()?, Role::Share))));
    keep(watches, &Viewer::canary(&controller.name), &of_canary);
}

fn used(active: &ActiveRevision) -> Vec<(&Arc<SharedWatch>, Role)> {
    let owned = active.owned.iter().map(|view| (&view.watch, Role::Child));
    let reads = active.reads.iter().map(|read| (&read.view.watch, Role::Read(read.read.key.clone())));
    let namespaces = active.namespaces.iter().map(|namespaces| (namespaces, Role::Namespace));
    let others = std::iter::once((&active.parents.watch, Role::Parent)).chain(namespaces);
    owned.chain(reads).chain(others).collect()
}

fn keep(watches: &Watches, viewer: &Viewer, used: &[(&Arc<SharedWatch>, Role)]) {
    for watch in watches.all() {
        let roles = used.iter().filter(|(used, _)| used.scope == watch.scope).map(|(_, role)| role.clone());
        watches.keep(&watch.scope, viewer, &roles.collect::<Vec<_>>());
    }
}

/// Returns the kinds that the active revision owns, the new one does not, and of which children exist. They are watched
/// until no child remains, so that these children can be pruned.
fn dropped_kinds(controller: &Controller, owned: &[View]) -> Vec<View> {
    let Some(before) = controller.active() else { return Vec::new() };
    let dropped = |view: &&View| {
        !owned.iter().any(|now| now.watch.scope == view.watch.scope) && has_children(&controller.name, view)
    };
    before.owned.iter().filter(dropped).cloned().collect()
}

/// Returns the revision without the kinds that it does not own and of which no child is left. Returns `None` if there
/// is no such kind.
pub fn without_pruned(plugin: &str, active: &ActiveRevision) -> Option<ActiveRevision> {
    let descriptor = active.revision.descriptor();
    let is_used = |view: &&View| owns(descriptor, view) || has_children(plugin, view);
    let owned: Vec<View> = active.owned.iter().filter(is_used).cloned().collect();
    (owned.len() < active.owned.len()).then(|| ActiveRevision { owned, ..active.clone() })
}

/// How long to wait for the watches of kinds that earlier revisions owned.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the kinds of children that an earlier revision left because the host ended before they were pruned. Looks
/// only for kinds whose children may be pruned, and gives up a kind that cannot be watched: a kind or a right that is
/// gone must not block the plugin for ever.
async fn leftover_kinds(
    interest: &Interest<'_>,
    plugin: &str,
    (descriptor, parents): (&Descriptor, &View),
    grant: &Grant,
    owned_before: &[Kind],
) -> Vec<View> {
    let is_sought = |kind: &&Kind| {
        !descriptor.owns.iter().any(|owned| owned.kind.is_served_as(kind))
            && [Verb::Get, Verb::List, Verb::Watch, Verb::Delete].iter().all(|verb| grant.allows(*verb, kind))
    };
    let open = |kind: &Kind| open_owned(interest, parents, kind, &[]);
    let mut views: Vec<View> = owned_before.iter().filter(is_sought).map(open).collect();
    let tried = join_all(views.iter().map(|view| view.watch.tried()));
    // A kind that is not synced in time is given up, too.
    drop(tokio::time::timeout(LEFTOVER_TIMEOUT, tried).await);
    views.retain(|view| view.watch.health() == Health::Synced && has_children(plugin, view));
    views
}

fn owns(descriptor: &Descriptor, view: &View) -> bool {
    descriptor.owns.iter().any(|owned| owned.kind == view.watch.scope.kind)
}

/// Returns whether the plugin has children of a kind; other plugins may watch the same kind.
fn has_children(plugin: &str, view: &View) -> bool {
    view.watch.cache.any(|child| child.label(PLUGIN_LABEL) == Some(plugin))
}

fn open_parents(interest: &Interest<'_>, descriptor: &Descriptor, plugin: &PluginConfig) -> View {
    let mut projection = Projection::new(&descriptor.parent_fields);
    projection.add("spec");
    let (selector, annotations) = (plugin.parent_selector(), plugin.parent_annotations());
    let mut kept = with_naming_fields(&projection, descriptor);
    plugin.grant.parent_metadata.paths().iter().for_each(|path| kept.add(path));
    annotations.keys().for_each(|key| kept.add(&format!("metadata.annotations['{key}']")));
    let kept_fields = KeptFields {
        projection: kept,
        labels: selector.keys().map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect(),
        // The controller of a built-in kind writes the status all the time, which must not wake the plugin.
        status: !descriptor.parent.is_builtin(),
    };
    let selects = !selector.is_empty() || !annotations.is_empty();
    let woken = interest.woken.clone();
    let scope = Scope::labelled(descriptor.parent.clone(), &selector).annotated(annotations);
    let scope = scope.within(plugin.parent_namespaces());
    let subscriber: Subscriber = Arc::new(move |change| {
        let Some(controller) = woken.upgrade() else { return };
        let key = object_of(change).key.clone();
        if selects && matches!(change, Change::Deleted(_)) {
            controller.note_deselected(key.clone());
        }
        controller.queue.add(key);
    });
    View { watch: subscribe(interest, &scope, &kept_fields, Role::Parent, subscriber), projection }
}

/// Returns the fields of the parents that a plugin is shown, and those that name an object that the plugin reads.
fn with_naming_fields(shown: &Projection, descriptor: &Descriptor) -> Projection {
    let mut kept = shown.clone();
    for read in &descriptor.reads {
        if let MatchRule::ParentField(path) = &read.rule {
            kept.add(path);
        }
    }
    kept
}

fn open_owned(interest: &Interest<'_>, parents: &View, kind: &Kind, fields: &[String]) -> View {
    let projection = Projection::new(fields);
    let kept_fields = KeptFields { projection: projection.clone(), labels: Vec::new(), status: false };
    let scope = Scope::new(kind.clone(), PLUGIN_LABEL);
    let parent = parents.watch.scope.kind.clone();
    let woken = interest.woken.clone();
    let subscriber: Subscriber = Arc::new(move |change| {
        let Some(controller) = woken.upgrade() else { return };
        for object in objects_of(change) {
            wake_owner(&controller, &parent, object);
        }
    });
    let watch =
        interest.watches.subscribe_to_children(&scope, &kept_fields, &interest.viewer, subscriber, &parents.watch);
    View { watch, projection }
}

fn open_read(interest: &Interest<'_>, parents: &View, read: &ReadKind) -> ReadView {
    let projection = Projection::new(&read.fields);
    let labels = match &read.rule {
        MatchRule::ParentLabel(label) if !label.is_empty() => vec![label.clone()],
        MatchRule::ParentLabel(_) | MatchRule::ParentField(_) => Vec::new(),
    };
    let kept_fields = KeptFields { projection: projection.clone(), labels, status: false };
    let scope = Scope::new(read.kind.clone(), &read.selector);
    let field = match &read.rule {
        MatchRule::ParentField(path) => Some(parents.watch.cache.index_by(path)),
        MatchRule::ParentLabel(_) => None,
    };
    let (woken, parents, rule) = (interest.woken.clone(), parents.watch.clone(), read.rule.clone());
    let indexed = field.clone();
    let subscriber: Subscriber = Arc::new(move |change| {
        let Some(controller) = woken.upgrade() else { return };
        for object in objects_of(change) {
            wake_readers(&controller, &parents, (&rule, indexed.as_ref()), object);
        }
    });
    let watch = subscribe(interest, &scope, &kept_fields, Role::Read(read.key.clone()), subscriber);
    ReadView { read: read.clone(), view: View { watch, projection }, field }
}

/// Watches namespaces if a rule of the grant selects them by label. Keeps only the labels that a rule uses.
fn open_namespaces(grant: &Grant, interest: &Interest<'_>, parents: &View) -> Option<Arc<SharedWatch>> {
    let labels: Vec<String> = grant.namespace_labels().into_iter().collect();
    if labels.is_empty() {
        return None;
    }
    let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels, status: false };
    let scope = Scope::new(Kind::new("", "v1", "Namespace"), "");
    let (woken, parents) = (interest.woken.clone(), parents.watch.clone());
    let subscriber: Subscriber = Arc::new(move |change| {
        let Some(controller) = woken.upgrade() else { return };
        let relabelled = match change {
            Change::Applied(applied) => applied.old.as_ref().is_none_or(|old| old.labels != applied.new.labels),
            Change::Deleted(_) => true,
        };
        if relabelled {
            controller.relabelled.fetch_add(1, Ordering::AcqRel);
            wake_all(&controller, &parents, |_| true);
        }
    });
    Some(subscribe(interest, &scope, &kept_fields, Role::Namespace, subscriber))
}

/// Watches namespaces if a share selects them by label. Keeps only the labels that the share uses. A change of such a
/// label may move the parents of the namespace to the other revision.
fn open_share(interest: &Interest<'_>, share: &Share, parents: &View) -> Option<Arc<SharedWatch>> {
    let labels: BTreeSet<String> = share.namespaces()?.keys().map(str::to_owned).collect();
    let kept_fields =
        KeptFields { projection: Projection::new::<&str>(&[]), labels: labels.into_iter().collect(), status: false };
    let scope = Scope::new(Kind::new("", "v1", "Namespace"), "");
    let (woken, parents) = (interest.woken.clone(), parents.watch.clone());
    let subscriber: Subscriber = Arc::new(move |change| {
        let Some(controller) = woken.upgrade() else { return };
        let name = &object_of(change).key.name;
        wake_all(&controller, &parents, |parent| parent.key.namespace.as_ref() == Some(name));
    });
    Some(subscribe(interest, &scope, &kept_fields, Role::Share, subscriber))
}

fn subscribe(
    interest: &Interest<'_>,
    scope: &Scope,
    kept_fields: &KeptFields,
    role: Role,
    subscriber: Subscriber,
) -> Arc<SharedWatch> {
    interest.watches.subscribe(scope, kept_fields, (&interest.viewer, role), subscriber)
}
