//! One watch that plugins share: its store and its subscribers. [`watch`](crate::watch) feeds it with events,
//! and [`apply`](crate::apply) with the replies to our own writes. The echoes of these writes in the watch
//! wake no subscriber.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Once, Weak};

use kube::runtime::watcher;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::raw_object::RawObject;
use crate::store::{Store, Update};
use hotshoe_core::check::result;
use hotshoe_core::check::watch_room::WatchRoom;
use hotshoe_core::model::child::{is_child, named_parent};
use hotshoe_core::model::kind::{Key, Kind, Namespace};
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::object::{KeptFields, Object, PLUGIN_LABEL, Reduced};

/// The objects of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The kind of the objects.
    pub kind: Kind,
    /// A label selector; empty for all.
    pub selector: String,
    /// The same selector for objects in replies to requests, which the API server does not select. Empty if these
    /// objects are not to be selected by label.
    labels: LabelSelector,
    /// What the annotations must fulfil, which the API server does not look at.
    annotations: LabelSelector,
    /// The namespaces of the objects; `None` for all. The API server sends objects of other namespaces, too.
    namespaces: Option<BTreeSet<String>>,
}

impl Scope {
    /// Creates the scope of the objects of a kind that a selector selects; an empty selector selects all.
    pub fn new(kind: Kind, selector: &str) -> Self {
        let (labels, annotations) = (LabelSelector::default(), LabelSelector::default());
        Self { kind, selector: selector.to_owned(), labels, annotations, namespaces: None }
    }

    /// Creates the scope of the objects of a kind with these labels. An object that has lost the labels is left out,
    /// even if the reply to a write contains it.
    pub fn labelled(kind: Kind, labels: &LabelSelector) -> Self {
        let annotations = LabelSelector::default();
        Self { kind, selector: labels.to_string(), labels: labels.clone(), annotations, namespaces: None }
    }

    /// Limits the scope to objects whose annotations match, as the labels of others would. These annotations have to be
    /// among the fields that the watch keeps.
    #[must_use]
    pub fn annotated(self, annotations: LabelSelector) -> Self {
        Self { annotations, ..self }
    }

    /// Limits the scope to these namespaces; `None` for all.
    #[must_use]
    pub fn within(self, namespaces: Option<BTreeSet<String>>) -> Self {
        Self { namespaces, ..self }
    }

    fn has_annotations_of(&self, object: &Object) -> bool {
        if self.annotations.is_empty() {
            return true;
        }
        let annotations = object.annotations();
        self.annotations.matches(|key| annotations.get(key).map(String::as_str))
    }

    fn has_namespace(&self, key: &Key) -> bool {
        let Some((namespace, selected)) = key.namespace.as_deref().zip(self.namespaces.as_ref()) else { return true };
        selected.contains(namespace)
    }
}

/// The state of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The first list is running.
    Starting,
    /// The store follows the API server.
    Synced,
    /// The watch fails; says what is wrong, and what to do.
    Failing(String),
    /// The API server answers, but not about this kind: its conversion webhook or its aggregated API server fails or
    /// hangs. Says what is wrong.
    Broken(String),
    /// The API server does not answer. Logged once for all watches, because the cause is not this kind.
    Silent(String),
    /// The host may not list the objects of one of several namespaces, and may list others; only a part of a watch has
    /// this state. Says what to do.
    Refused(String),
}

impl Health {
    /// Returns the state of a watch by those of its parts. Where the host may not list some namespaces, the others are
    /// watched without them.
    fn of_parts(parts: &BTreeMap<Namespace, Health>) -> Self {
        let found = |is: fn(&Health) -> bool| parts.values().find(|part| is(part)).cloned();
        let refused = || {
            let why = parts.values().find_map(Health::why).unwrap_or_default();
            Health::Failing(format!("{why}; so it is in all of the {} namespaces that are watched", parts.len()))
        };
        found(|part| matches!(part, Self::Failing(_)))
            .or_else(|| found(|part| matches!(part, Self::Broken(_))))
            .or_else(|| found(|part| matches!(part, Self::Silent(_))))
            .or_else(|| found(|part| *part == Self::Starting))
            .or_else(|| found(|part| *part == Self::Synced))
            .unwrap_or_else(refused)
    }

    /// Returns what is wrong, if anything is.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Starting | Self::Synced => None,
            Self::Failing(why) | Self::Broken(why) | Self::Silent(why) | Self::Refused(why) => Some(why),
        }
    }
}

/// The role of a kind for a plugin; it may have several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The plugin reconciles objects of the kind.
    Parent,
    /// The plugin owns objects of the kind.
    Child,
    /// The plugin reads objects of the kind, under this key.
    Read(String),
    /// The grant selects namespaces by label.
    Namespace,
    /// The share of a canary selects namespaces by label.
    Share,
}

/// The revision of a plugin that has a watch open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Viewer {
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// What the revision has the watch open for.
    pub purpose: Purpose,
}

/// What a revision has a watch open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The revision is active.
    Active,
    /// The revision is being verified and may become active.
    Candidate,
    /// The revision decides for some of the parents, beside the active one.
    Canary,
    /// The revision is only compared with the active one.
    Shadow,
}

impl Viewer {
    /// Names the active revision of a plugin.
    pub fn active(plugin: &Arc<str>) -> Self {
        Self { plugin: plugin.clone(), purpose: Purpose::Active }
    }

    /// Names a plugin's candidate.
    pub fn candidate(plugin: &Arc<str>) -> Self {
        Self { plugin: plugin.clone(), purpose: Purpose::Candidate }
    }

    /// Names a plugin's canary.
    pub fn canary(plugin: &Arc<str>) -> Self {
        Self { plugin: plugin.clone(), purpose: Purpose::Canary }
    }

    /// Names a revision that runs in the shadow of a plugin's active one.
    pub fn shadow(plugin: &Arc<str>) -> Self {
        Self { plugin: plugin.clone(), purpose: Purpose::Shadow }
    }
}

/// Called for every new change, on the task of the watch, so it must be quick.
pub type Subscriber = Arc<dyn Fn(&Change) + Send + Sync>;

/// A change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object is new or changed.
    Applied(Update),
    /// The object is gone.
    Deleted(Arc<Object>),
}

/// A watch and its store.
pub struct SharedWatch {
    /// The objects that the watch selects.
    pub scope: Scope,
    /// The newest known versions of the objects.
    pub cache: Store,
    /// The host's own namespace. Its objects are not stored, because no plugin may see them.
    closed: Arc<str>,
    closed_logged: Once,
    kept_fields: RwLock<Arc<KeptFields>>,
    /// The parents whose children this watch shows, by who opened it for them. Empty for a watch of other objects.
    parents: Mutex<HashMap<Viewer, Weak<SharedWatch>>>,
    full_logged: Once,
    left_out_logged: Once,
    health: watch::Sender<Health>,
    /// The states of the parts: one, or one for each namespace.
    parts: Mutex<BTreeMap<Namespace, Health>>,
    pub(super) subscribers: Mutex<HashMap<(Viewer, Role), Subscriber>>,
    pub(super) task: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl SharedWatch {
    #[cfg(test)]
    pub(crate) fn new(scope: Scope, kept_fields: KeptFields, closed: Arc<str>) -> Arc<Self> {
        Self::within(Arc::default(), scope, kept_fields, closed)
    }

    /// Creates a watch whose objects share this room with those of others.
    pub fn within(room: Arc<WatchRoom>, scope: Scope, kept_fields: KeptFields, closed: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            scope,
            cache: Store::within(room),
            parents: Mutex::default(),
            full_logged: Once::new(),
            left_out_logged: Once::new(),
            closed,
            closed_logged: Once::new(),
            kept_fields: RwLock::new(Arc::new(kept_fields)),
            health: watch::Sender::new(Health::Starting),
            parts: Mutex::default(),
            subscribers: Mutex::default(),
            task: Mutex::default(),
        })
    }

    /// Returns the state of the watch.
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Returns the namespaces whose objects the host may not list, though it may list those of others, each with what to
    /// do. What is known of these objects may be old, or nothing.
    pub fn refused(&self) -> Vec<(Arc<str>, String)> {
        let parts = self.parts.lock();
        let refused = parts.iter().filter_map(|(part, health)| match health {
            Health::Refused(why) => Some((part.clone()?, why.clone())),
            _ => None,
        });
        refused.collect()
    }

    /// Returns the first namespace that the host may not list and that concerns an object of this namespace: the same
    /// namespace, and any for an object without one.
    pub fn refusal_of(&self, namespace: &Namespace) -> Option<(Arc<str>, String)> {
        let concerns = |refused: &Arc<str>| namespace.as_ref().is_none_or(|namespace| namespace == refused);
        self.refused().into_iter().find(|(refused, _)| concerns(refused))
    }

    /// Waits until the first list has ended, except in namespaces where the host may not list.
    pub async fn synced(&self) {
        // The sender lives in self, so the channel is open.
        drop(self.health.subscribe().wait_for(|health| *health == Health::Synced).await);
    }

    /// Waits until the first list has ended or failed.
    pub async fn tried(&self) {
        drop(self.health.subscribe().wait_for(|health| *health != Health::Starting).await);
    }

    /// Returns whether a revision has this watch open.
    pub fn is_open_for(&self, viewer: &Viewer) -> bool {
        self.subscribers.lock().keys().any(|(known, _)| known == viewer)
    }

    /// Returns whether a revision has this watch open for its parents.
    pub fn has_parents_of(&self, viewer: &Viewer) -> bool {
        self.subscribers.lock().keys().any(|(known, role)| known == viewer && *role == Role::Parent)
    }

    /// Returns whether the watched objects are also parents of another plugin.
    pub fn has_other_parents(&self, plugin: &str) -> bool {
        let subscribers = self.subscribers.lock();
        subscribers.keys().any(|(viewer, role)| *role == Role::Parent && *viewer.plugin != *plugin)
    }

    /// Returns which parts of each object the watch stores.
    pub fn kept_fields(&self) -> Arc<KeptFields> {
        self.kept_fields.read().clone()
    }

    /// Stores the object of a reply to a write, so that the echo of the write in the watch wakes no subscriber. Wakes
    /// all subscribers except the writer, which knows the change. Returns the object as the reply has it, even if a
    /// newer version is known by now: the reply itself shows the effect of the write.
    ///
    /// # Errors
    /// If the text is no Kubernetes object.
    pub fn store_reply(&self, json: &str, writer: (&str, Role)) -> serde_json::Result<Arc<Object>> {
        let object = Arc::new(self.read(json)?);
        if !self.selects(&object) {
            self.lose(&object);
        } else if let Some(change) = self.put(object.clone(), false) {
            self.notify_but(&change, Some(writer));
        }
        Ok(object)
    }

    /// Reads an object of this kind from the API server's JSON. For a child, also records its fields that are denied
    /// unless granted, for the next write of the child.
    ///
    /// # Errors
    /// If the text is no Kubernetes object.
    pub fn read(&self, json: &str) -> serde_json::Result<Object> {
        let object = Object::read(json, &self.kept_fields())?;
        if !self.records_needs_grant() {
            return Ok(object);
        }
        let needs_grant =
            self.known_needs_grant(&object).unwrap_or_else(|| result::needs_grant(&self.scope.kind, json));
        Ok(Object { needs_grant, ..object })
    }

    /// Returns which fields of an object are denied unless granted, if they are known of another version of it with the
    /// same generation: most changes of a workload are of its status. While a list runs nothing is known, because after a
    /// restore of etcd the same generation may be of other fields.
    fn known_needs_grant(&self, object: &Object) -> Option<Box<[Box<str>]>> {
        if object.generation == 0 || !result::changes_with_generation(&self.scope.kind) {
            return None;
        }
        let known = self.cache.get_unless_listed(&object.key)?;
        let is_same = known.uid == object.uid && known.generation == object.generation && known.reduced.is_none();
        is_same.then(|| known.needs_grant.clone())
    }

    /// Returns whether fields that are denied unless granted are recorded: for children whose writes are checked by
    /// their result.
    fn records_needs_grant(&self) -> bool {
        self.scope.selector == PLUGIN_LABEL && result::is_checked(&self.scope.kind)
    }

    /// Returns whether only the metadata of the objects is needed.
    pub(super) fn is_of_metadata(&self) -> bool {
        self.kept_fields().is_of_metadata() && !self.records_needs_grant()
    }

    /// Returns whether an object has the labels and annotations of the scope, and is in one of its namespaces.
    pub fn selects(&self, object: &Object) -> bool {
        self.scope.labels.matches(|key| object.label(key))
            && self.scope.has_annotations_of(object)
            && self.scope.has_namespace(&object.key)
    }

    /// Stores an object that was read by a request, and wakes all subscribers.
    pub fn store(&self, live: Object) {
        if !self.selects(&live) {
            self.lose(&live);
        } else if let Some(change) = self.put(Arc::new(live), false) {
            self.notify(&change);
        }
    }

    /// Learns the parents whose children this watch shows to a viewer. Returns whether children of theirs are known
    /// without their content, or may not be known at all, so that all objects have to be listed again.
    pub(super) fn know_parents(&self, viewer: &Viewer, parents: &Arc<SharedWatch>) -> bool {
        self.parents.lock().insert(viewer.clone(), Arc::downgrade(parents));
        let others = self.cache.all(|object| object.reduced == Some(Reduced::NoParent));
        self.cache.left_out() > 0 || others.iter().any(|object| parents.has_parent_of(object))
    }

    /// Forgets the parents of a viewer.
    pub(super) fn forget_parents(&self, viewer: &Viewer) {
        self.parents.lock().remove(viewer);
    }

    /// Returns whether an object is a child of an object of this watch.
    fn has_parent_of(&self, child: &Object) -> bool {
        let kind = &self.scope.kind;
        let is_parent = |key: Key| self.cache.get(&key).is_some_and(|parent| is_child(child, kind, &key, &parent.uid));
        // Parents of a kind either all have a namespace or have none.
        [true, false].into_iter().filter_map(|namespaced| named_parent(child, kind, namespaced)).any(is_parent)
    }

    /// Stores what is kept of an object, of the running list if it is `listed`. Returns the change, if there is one.
    fn put(&self, object: Arc<Object>, listed: bool) -> Option<Change> {
        match self.kept(&object) {
            Some(kept) if listed => self.cache.list(kept).map(Change::Applied),
            Some(kept) => self.cache.apply(kept).map(Change::Applied),
            None => self.cache.leave_out(&object, listed).map(Change::Deleted),
        }
    }

    /// Returns what is kept of an object. If it has a plugin's label and is not a child of a known parent, or if there
    /// is no room for its content, only its metadata is kept. If it is not a child of a known parent and there is no
    /// room for its metadata either, nothing is kept (`None`), because any account may label any number of objects.
    fn kept(&self, object: &Arc<Object>) -> Option<Arc<Object>> {
        if !self.may_be_child(object) {
            let kept = Object::clone(object).without_content(Reduced::NoParent);
            if self.cache.has_room_for(&kept) {
                return Some(Arc::new(kept));
            }
            self.left_out_logged.call_once(|| {
                tracing::warn!(kind = %self.scope.kind, "there are more objects with the label of a plugin and \
                                                         without a parent than the host has room for: \
                                                         the others are not kept; no parent depends on them, \
                                                         so find who creates them and delete them");
            });
            return None;
        }
        if !self.cache.has_room_for(object) {
            self.full_logged.call_once(|| {
                tracing::warn!(kind = %self.scope.kind, "the host's watches have no room left for all objects: \
                                                         some are kept without their content, \
                                                         and parents to which they belong are not decided; \
                                                         delete large objects, have plugins ask for fewer fields, \
                                                         or give the host more memory (--memory)");
            });
            return Some(Arc::new(Object::clone(object).without_content(Reduced::NoRoom)));
        }
        Some(object.clone())
    }

    fn may_be_child(&self, object: &Object) -> bool {
        let parents = self.parents.lock();
        parents.is_empty() || parents.values().filter_map(Weak::upgrade).any(|parents| parents.has_parent_of(object))
    }

    /// Removes an object that is known to be gone before the watch shows it.
    pub fn lose(&self, known: &Object) {
        if let Some(gone) = self.cache.delete(known) {
            self.notify(&Change::Deleted(gone));
        }
    }

    /// Widens the stored parts of each object. Returns whether the watch must be restarted for that.
    pub(super) fn widen(&self, kept_fields: &KeptFields) -> bool {
        let mut mine = self.kept_fields.write();
        let mut wider = KeptFields::clone(&mine);
        wider.projection.merge(&kept_fields.projection);
        wider.status |= kept_fields.status;
        wider.labels.extend(kept_fields.labels.iter().filter(|label| !mine.labels.contains(label)).cloned());
        let widens = wider != **mine;
        *mine = Arc::new(wider);
        widens
    }

    fn notify(&self, change: &Change) {
        self.notify_but(change, None);
    }

    fn notify_but(&self, change: &Change, writer: Option<(&str, Role)>) {
        let subscribers = self.subscribers.lock();
        for ((viewer, role), subscriber) in subscribers.iter() {
            if !writer.as_ref().is_some_and(|(name, wrote)| *viewer.plugin == **name && role == wrote) {
                subscriber(change);
            }
        }
    }

    /// Begins the watch, again if it was begun before.
    pub(super) fn begin(&self) {
        self.parts.lock().clear();
        self.health.send_replace(Health::Starting);
    }

    /// Divides the watch into these parts. The state of the whole stays until one of them has another.
    pub(super) fn divide(&self, parts: &[Namespace]) {
        let mut known = self.parts.lock();
        if !known.keys().eq(parts) {
            *known = parts.iter().map(|part| (part.clone(), Health::Starting)).collect();
        }
    }

    /// Sets the state of the whole watch, and logs a change of it.
    pub(super) fn report(&self, health: Health) {
        let mut parts = self.parts.lock();
        parts.values_mut().for_each(|part| part.clone_from(&health));
        self.set_health(health);
    }

    /// Sets the state of a part, and logs a change of it.
    pub(super) fn report_part(&self, part: &Namespace, health: Health) {
        let mut parts = self.parts.lock();
        let known = parts.insert(part.clone(), health.clone());
        if let Some(namespace) = part
            && known.as_ref() != Some(&health)
        {
            match (&health, known) {
                (Health::Refused(why), _) => tracing::warn!(kind = %self.scope.kind, %namespace, "{why}"),
                (Health::Synced, Some(Health::Refused(_))) => {
                    tracing::info!(kind = %self.scope.kind, %namespace, "the objects of the namespace may be listed again");
                }
                _ => {}
            }
        }
        self.set_health(Health::of_parts(&parts));
    }

    fn set_health(&self, health: Health) {
        self.health.send_if_modified(|known| {
            let changed = *known != health;
            if changed {
                match &health {
                    Health::Failing(why) | Health::Broken(why) => tracing::warn!(kind = %self.scope.kind, "{why}"),
                    Health::Synced => {
                        tracing::info!(kind = %self.scope.kind, objects = self.cache.len(), "the watch is up");
                    }
                    Health::Silent(why) => tracing::debug!(kind = %self.scope.kind, "{why}"),
                    // Logged with its namespace.
                    Health::Starting | Health::Refused(_) => {}
                }
                *known = health;
            }
            changed
        });
    }

    /// Applies an event of the watch of a part to the store, and notifies the subscribers.
    pub(super) fn observe(&self, part: &Namespace, event: watcher::Event<RawObject>) {
        match event {
            watcher::Event::Init => self.cache.begin_list(part),
            watcher::Event::InitApply(raw) => self.observe_applied(&raw, true),
            watcher::Event::Apply(raw) => self.observe_applied(&raw, false),
            watcher::Event::Delete(raw) => self.observe_deleted(&raw),
            watcher::Event::InitDone => {
                for gone in self.cache.end_list(part) {
                    self.notify(&Change::Deleted(gone));
                }
                self.report_part(part, Health::Synced);
            }
        }
    }

    fn observe_applied(&self, raw: &RawObject, listed: bool) {
        let key = raw.key();
        if !self.scope.has_namespace(&key) {
            return;
        }
        if self.is_closed(&key) {
            if self.is_misplaced_parent(&key) {
                self.closed_logged.call_once(|| {
                    tracing::warn!(kind = %self.scope.kind, object = %key, "the object is in the namespace of the \
                        host, where no plugin may act, so it is not reconciled; create it in another namespace");
                });
            }
            return;
        }
        if self.cache.is_echo(&key, raw.version()) {
            return;
        }
        let Some(object) = self.read_raw(raw) else { return };
        if !self.scope.has_annotations_of(&object) {
            return self.observe_deselected(&object, listed);
        }
        if let Some(change) = self.put(Arc::new(object), listed) {
            self.notify(&change);
        }
    }

    /// Observes an object without the annotations of the scope. If it had them before, it is lost, as the API server shows
    /// an object that has lost the labels; in a list that is so at its end, because the list does not show it.
    fn observe_deselected(&self, object: &Object, listed: bool) {
        if !listed && self.cache.get(&object.key).is_some() {
            self.lose(object);
        }
    }

    /// Returns whether an object is in the closed namespace, or is that namespace.
    fn is_closed(&self, key: &Key) -> bool {
        let is_namespace = self.scope.kind.is("", "Namespace") && key.namespace.is_none();
        key.namespace.as_ref() == Some(&self.closed) || (is_namespace && key.name == self.closed)
    }

    /// Returns whether an object is not a parent only because it is in the host's namespace. A warning is due, because
    /// its user does not see why it is not reconciled.
    fn is_misplaced_parent(&self, key: &Key) -> bool {
        let has_parents = || self.subscribers.lock().keys().any(|(_, role)| *role == Role::Parent);
        key.namespace.as_ref() == Some(&self.closed) && has_parents()
    }

    fn observe_deleted(&self, raw: &RawObject) {
        if !self.scope.has_namespace(&raw.key()) {
            return;
        }
        if let Some(gone) = self.read_raw(raw).and_then(|object| self.cache.delete(&object)) {
            self.notify(&Change::Deleted(gone));
        }
    }

    /// Parses an object. One that cannot be parsed is logged and skipped; it does not stop the others.
    fn read_raw(&self, raw: &RawObject) -> Option<Object> {
        match self.read(raw.json()) {
            Ok(object) => Some(object),
            Err(error) => {
                let object = raw.key();
                tracing::error!(kind = %self.scope.kind, %object, %error, "an object of the cluster cannot be read; it is skipped");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use hotshoe_core::model::projection::Projection;

    fn reply(version: u64) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"1","resourceVersion":"{version}"}}}}"#)
    }

    #[test]
    fn a_write_wakes_all_but_its_writer_and_changes_by_others_wake_all() {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let watch = SharedWatch::new(Scope::new(Kind::new("", "v1", "ConfigMap"), ""), kept_fields, "system".into());
        let woken = ["writer", "other"].map(|plugin| {
            [Role::Parent, Role::Read("parent".into())].map(|role| {
                let count = Arc::new(AtomicUsize::new(0));
                let counted = count.clone();
                let subscriber: Subscriber = Arc::new(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
                watch.subscribers.lock().insert((Viewer::active(&plugin.into()), role), subscriber);
                count
            })
        });
        let counts = || woken.each_ref().map(|roles| roles.each_ref().map(|count| count.load(Ordering::Relaxed)));
        watch.store_reply(&reply(1), ("writer", Role::Parent)).unwrap();
        assert_eq!(counts(), [[0, 1], [1, 1]]);
        watch.store(Object::read(&reply(2), &watch.kept_fields()).unwrap());
        assert_eq!(counts(), [[1, 2], [2, 2]]);
        // The watch brings both once more.
        watch.store_reply(&reply(2), ("writer", Role::Parent)).unwrap();
        assert_eq!(counts(), [[1, 2], [2, 2]]);
        watch.lose(&Object::read(&reply(2), &watch.kept_fields()).unwrap());
        assert_eq!(counts(), [[2, 3], [3, 3]]);
    }

    #[test]
    fn only_a_parent_in_the_namespace_of_the_host_is_said_to_be_in_the_wrong_place() {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        for (kind, namespace, name, role, is_misplaced) in [
            ("ConfigMap", Some("system"), "a", Role::Parent, true),
            ("ConfigMap", Some("other"), "a", Role::Parent, false),
            ("ConfigMap", Some("system"), "a", Role::Read("config".into()), false),
            ("Namespace", None, "system", Role::Namespace, false),
            ("Namespace", None, "system", Role::Parent, false),
        ] {
            let watch =
                SharedWatch::new(Scope::new(Kind::new("", "v1", kind), ""), kept_fields.clone(), "system".into());
            let subscriber: Subscriber = Arc::new(|_| {});
            watch.subscribers.lock().insert((Viewer::active(&"demo".into()), role.clone()), subscriber);
            let key = Key::new(namespace, name);
            assert_eq!(watch.is_misplaced_parent(&key), is_misplaced, "{kind} {key} {role:?}");
        }
    }

    #[test]
    fn an_object_that_lost_its_labels_is_not_stored_by_the_reply_to_a_write() {
        let labels = serde_json::json!({ "matchLabels": { "served": "yes" } });
        let labels: LabelSelector = serde_json::from_value(labels).unwrap();
        let kept_fields =
            KeptFields { projection: Projection::new::<&str>(&[]), labels: vec!["served".into()], status: true };
        let scope = Scope::labelled(Kind::new("", "v1", "ConfigMap"), &labels);
        assert_eq!(scope.selector, "served=yes");
        let watch = SharedWatch::new(scope, kept_fields, "system".into());
        let text = |version: u64, value: &str| {
            reply(version).replace("\"uid\"", &format!("\"labels\":{{\"served\":\"{value}\"}},\"uid\""))
        };
        let read = |text: &str| Object::read(text, &watch.kept_fields()).unwrap();
        watch.store_reply(&text(1, "yes"), ("demo", Role::Parent)).unwrap();
        assert_eq!(watch.cache.len(), 1);
        watch.store_reply(&text(2, "no"), ("demo", Role::Parent)).unwrap();
        assert!(watch.cache.is_empty());
        watch.store(read(&text(3, "no")));
        assert!(watch.cache.is_empty());
        watch.store(read(&text(4, "yes")));
        watch.store(read(&text(5, "no")));
        assert!(watch.cache.is_empty());
    }

    #[test]
    fn objects_of_other_namespaces_are_stored_neither_by_the_watch_nor_by_a_reply() {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let scope = Scope::new(Kind::new("", "v1", "ConfigMap"), "").within(Some(["a".to_owned()].into()));
        let watch = SharedWatch::new(scope, kept_fields, "system".into());
        let text = |namespace: &str| {
            format!(
                r#"{{"metadata":{{"name":"n","namespace":"{namespace}","uid":"{namespace}","resourceVersion":"7"}}}}"#
            )
        };
        for namespace in ["a", "b"] {
            watch.observe(&None, watcher::Event::Apply(serde_json::from_str::<RawObject>(&text(namespace)).unwrap()));
            watch.store_reply(&text(namespace), ("demo", Role::Parent)).unwrap();
        }
        assert_eq!(watch.cache.keys(), [Key::new(Some("a"), "n")]);
    }

    #[test]
    fn children_with_fields_closed_to_plugins_are_watched_with_more_than_their_metadata() {
        for (group, kind, selector, is_of_metadata) in [
            ("", "Service", PLUGIN_LABEL, false),
            ("", "Pod", PLUGIN_LABEL, false),
            ("apps", "Deployment", PLUGIN_LABEL, false),
            ("", "ConfigMap", PLUGIN_LABEL, true),
            ("", "Pod", "memcached", true),
        ] {
            let kept_fields =
                KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
            let watch =
                SharedWatch::new(Scope::new(Kind::new(group, "v1", kind), selector), kept_fields, "system".into());
            assert_eq!(watch.is_of_metadata(), is_of_metadata, "{kind} {selector}");
        }
    }

    #[test]
    fn the_closed_namespace_itself_is_not_stored() {
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let watch = SharedWatch::new(Scope::new(Kind::new("", "v1", "Namespace"), ""), kept_fields, "system".into());
        for name in ["system", "systems"] {
            let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"7"}}}}"#);
            watch.observe(&None, watcher::Event::Apply(serde_json::from_str::<RawObject>(&json).unwrap()));
        }
        assert_eq!(watch.cache.keys(), [Key::new(None, "systems")]);
    }

    #[test]
    fn nothing_in_the_closed_namespace_is_stored() {
        let scope = Scope::new(Kind::new("example.com", "v1", "Store"), "");
        let kept_fields = KeptFields { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        let watch = SharedWatch::new(scope, kept_fields, "system".into());
        let notified = Arc::new(Mutex::new(0));
        let counts = notified.clone();
        let subscriber: Subscriber = Arc::new(move |_| *counts.lock() += 1);
        watch.subscribers.lock().insert((Viewer::active(&"demo".into()), Role::Parent), subscriber);
        let raw = |namespace: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"a","namespace":"{namespace}","uid":"{namespace}","resourceVersion":"7"}}}}"#
            );
            serde_json::from_str::<RawObject>(&json).unwrap()
        };
        watch.observe(&None, watcher::Event::Init);
        watch.observe(&None, watcher::Event::InitApply(raw("system")));
        watch.observe(&None, watcher::Event::InitApply(raw("systems")));
        watch.observe(&None, watcher::Event::InitDone);
        watch.observe(&None, watcher::Event::Apply(raw("system")));
        watch.observe(&None, watcher::Event::Delete(raw("system")));
        assert_eq!(watch.cache.keys(), [Key::new(Some("systems"), "a")]);
        assert_eq!(*notified.lock(), 1);
    }

    /// Creates a watch of children with the plugin's label that asks for their data, and one of their parents.
    fn family(room: WatchRoom) -> (Arc<SharedWatch>, Arc<SharedWatch>) {
        let kept_fields =
            |field: &str| KeptFields { projection: Projection::new(&[field]), labels: Vec::new(), status: false };
        let parents = SharedWatch::new(
            Scope::new(Kind::new("example.com", "v1", "Demo"), ""),
            kept_fields("spec"),
            "system".into(),
        );
        let scope = Scope::new(Kind::new("", "v1", "ConfigMap"), PLUGIN_LABEL);
        let children = SharedWatch::within(Arc::new(room), scope, kept_fields("data"), "system".into());
        assert!(!children.know_parents(&Viewer::active(&"demo".into()), &parents));
        (parents, children)
    }

    fn parent(name: &str, uid: &str) -> String {
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"1"}},"spec":{{}}}}"#)
    }

    /// A ConfigMap with the label of the plugin and a controller with this name and uid.
    fn labelled(name: &str, owner: &str, uid: &str, bytes: usize) -> RawObject {
        let data = "x".repeat(bytes);
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"5","labels":{{"{PLUGIN_LABEL}":"demo"}},
            "ownerReferences":[{{"apiVersion":"example.com/v1","kind":"Demo","name":"{owner}","uid":"{uid}","controller":true}}]}},
            "data":{{"text":"{data}"}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn what_needs_a_grant_in_a_workload_is_found_again_only_in_another_generation_or_in_a_list() {
        let scope = Scope::new(Kind::new("apps", "v1", "Deployment"), PLUGIN_LABEL);
        let kept_fields = KeptFields { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let watch = SharedWatch::new(scope, kept_fields, "system".into());
        let deployment = |version: u64, generation: u64, uid: &str, on_host: bool| {
            format!(
                r#"{{"metadata":{{"name":"a","namespace":"n","uid":"{uid}","resourceVersion":"{version}","generation":{generation},
                "labels":{{"{PLUGIN_LABEL}":"demo"}}}},"spec":{{"template":{{"spec":{{"automountServiceAccountToken":false,
                "hostNetwork":{on_host}}}}}}}}}"#
            )
        };
        let needs_grant = |json: &str| !watch.read(json).unwrap().needs_grant.is_empty();
        watch.store_reply(&deployment(1, 1, "u", true), ("demo", Role::Child)).unwrap();
        // The API server never changes the spec without the generation: so it shows that nothing was read.
        assert!(needs_grant(&deployment(2, 1, "u", false)));
        assert!(!needs_grant(&deployment(2, 2, "u", false)) && !needs_grant(&deployment(2, 1, "another", false)));
        watch.observe(&None, watcher::Event::Init);
        assert!(!needs_grant(&deployment(2, 1, "u", false)), "etcd may have been restored");
    }

    fn reduced(watch: &SharedWatch, name: &str) -> Option<Reduced> {
        watch.cache.get(&Key::new(Some("n"), name)).unwrap().reduced
    }

    #[test]
    fn no_content_is_kept_of_a_labelled_object_that_is_no_child_of_a_known_parent() {
        let (parents, children) = family(WatchRoom::default());
        parents.store_reply(&parent("a", "uid-a"), ("demo", Role::Parent)).unwrap();
        for (name, owner, uid, is_child) in [
            ("child", "a", "uid-a", true),
            ("of-another-uid", "a", "uid-b", false),
            ("of-another-name", "b", "uid-a", false),
            ("of-none", "", "", false),
        ] {
            children.observe(&None, watcher::Event::Apply(labelled(name, owner, uid, 50_000)));
            assert_eq!(reduced(&children, name), (!is_child).then_some(Reduced::NoParent), "{name}");
        }
        let held = children.cache.held();
        assert!((50_000..60_000).contains(&held), "{held} bytes are held for one child and three others");
        assert_eq!(children.cache.held_of("demo"), children.cache.get(&Key::new(Some("n"), "child")).unwrap().held());
        assert_eq!(children.cache.reduced_of("demo").no_parent, 3);
    }

    #[test]
    fn a_child_that_is_known_before_its_parent_is_whole_once_it_is_read_again() {
        let (parents, children) = family(WatchRoom::default());
        let viewer = Viewer::active(&"demo".into());
        children.observe(&None, watcher::Event::Apply(labelled("early", "a", "uid-a", 2_000)));
        assert_eq!(reduced(&children, "early"), Some(Reduced::NoParent));
        assert_eq!(children.cache.owned_by("uid-a").len(), 1, "it is not lost");
        parents.store_reply(&parent("a", "uid-a"), ("demo", Role::Parent)).unwrap();
        assert!(children.know_parents(&viewer, &parents), "all have to be listed again");
        children.observe(&None, watcher::Event::Init);
        children.observe(&None, watcher::Event::InitApply(labelled("early", "a", "uid-a", 2_000)));
        children.observe(&None, watcher::Event::InitDone);
        assert_eq!(reduced(&children, "early"), None);
        assert!(!children.know_parents(&viewer, &parents));
    }

    #[test]
    fn objects_without_a_parent_are_left_out_where_there_is_no_room_and_children_are_not() {
        let (parents, children) = family(WatchRoom::new(80_000));
        let viewer = Viewer::active(&"demo".into());
        parents.store_reply(&parent("a", "uid-a"), ("demo", Role::Parent)).unwrap();
        children.observe(&None, watcher::Event::Apply(labelled("child", "a", "uid-a", 100)));
        let forged = |number: usize| labelled(&format!("forged-{number}"), "b", "uid-b", 100);
        (0..100).for_each(|number| children.observe(&None, watcher::Event::Apply(forged(number))));
        let (kept, left_out) = (children.cache.reduced().no_parent, children.cache.left_out());
        assert!((1..10).contains(&kept) && kept + left_out == 100, "{kept} are kept, {left_out} are left out");
        children.observe(&None, watcher::Event::Apply(labelled("child-2", "a", "uid-a", 100)));
        assert_eq!((reduced(&children, "child"), reduced(&children, "child-2")), (None, None));
        // A child that loses its parent is gone for those that see it.
        let gone = Arc::new(AtomicUsize::new(0));
        let counted = gone.clone();
        let subscriber: Subscriber = Arc::new(move |change| {
            _ = counted.fetch_add(matches!(change, Change::Deleted(_)).into(), Ordering::Relaxed)
        });
        children.subscribers.lock().insert((viewer.clone(), Role::Child), subscriber);
        let released = children.read(labelled("child-2", "b", "uid-b", 100).json()).unwrap();
        children.store(Object { resource_version: 6, ..released });
        assert_eq!((gone.load(Ordering::Relaxed), children.cache.owned_by("uid-a").len()), (1, 1));
        assert_eq!(children.cache.left_out(), left_out + 1);
        (0..100).for_each(|number| children.observe(&None, watcher::Event::Delete(forged(number))));
        assert_eq!((children.cache.reduced().no_parent, children.cache.left_out()), (0, 1));
        // Parents that become known may have children among what is left out.
        assert!(children.know_parents(&viewer, &parents), "all have to be listed again");
        children.observe(&None, watcher::Event::Init);
        children.observe(&None, watcher::Event::InitApply(labelled("child", "a", "uid-a", 100)));
        children.observe(&None, watcher::Event::InitApply(labelled("child-2", "b", "uid-b", 100)));
        children.observe(&None, watcher::Event::InitDone);
        assert_eq!((children.cache.reduced().no_parent, children.cache.left_out()), (1, 0));
        assert!(!children.know_parents(&viewer, &parents));
    }

    #[test]
    fn a_child_without_room_is_known_without_its_content_until_there_is_room() {
        let (parents, children) = family(WatchRoom::new(200_000));
        parents.store_reply(&parent("a", "uid-a"), ("demo", Role::Parent)).unwrap();
        for name in ["first", "second"] {
            children.observe(&None, watcher::Event::Apply(labelled(name, "a", "uid-a", 100_000)));
        }
        assert_eq!((reduced(&children, "first"), reduced(&children, "second")), (None, Some(Reduced::NoRoom)));
        assert_eq!(children.cache.reduced().no_room, 1);
        children.observe(&None, watcher::Event::Apply(labelled("small", "a", "uid-a", 100)));
        assert_eq!(reduced(&children, "small"), None, "a small object is always kept");
        children.observe(&None, watcher::Event::Delete(labelled("first", "a", "uid-a", 100_000)));
        children.store(children.read(labelled("second", "a", "uid-a", 100_000).json()).unwrap());
        assert_eq!(reduced(&children, "second"), None);
        assert_eq!(children.cache.reduced(), crate::store::ReducedCount::default());
    }
}
