//! What one watch has seen, and who is told of it. Fed by [`watch`](crate::cluster::watch) with events, and
//! by [`apply`](crate::cluster::apply) with the replies to our own writes, which are news to nobody when the
//! watch brings them once more.

use std::collections::HashMap;
use std::sync::{Arc, Once};

use kube::runtime::watcher;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::raw_object::Wire;
use crate::cluster::store::{Applied, Cache};
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::object::{Lens, Object};

/// Which objects a watch sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Their kind.
    pub kind: Kind,
    /// A label selector; empty for all.
    pub selector: String,
}

/// How a watch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The first list has not ended.
    Starting,
    /// The cache follows the API server.
    Synced,
    /// What is wrong, and what to do.
    Failing(String),
    /// The same, where the API server does not answer: that is no matter of this kind, and told for all of them.
    Silent(String),
}

/// What a kind is to a plugin. It may be more than one thing to the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What it decides about.
    Parent,
    /// What it makes.
    Child,
    /// What it reads, under this key.
    Read(String),
    /// What its grant looks at.
    Namespace,
}

/// Told of every change that is news, on the watch's own task, so it must be quick.
pub type Subscriber = Arc<dyn Fn(&Change) + Send + Sync>;

/// One change of one object.
#[derive(Clone, Debug)]
pub enum Change {
    /// It is new or different.
    Applied(Applied),
    /// It is gone.
    Deleted(Arc<Object>),
}

/// A watch and what it has seen.
pub struct Watched {
    /// Which objects.
    pub scope: Scope,
    /// The newest of them.
    pub cache: Cache,
    /// A namespace of which nothing is kept: the host's own, which no plugin may see.
    closed: Arc<str>,
    closed_told: Once,
    lens: RwLock<Arc<Lens>>,
    pub(super) health: watch::Sender<Health>,
    pub(super) subscribers: Mutex<HashMap<(Arc<str>, Role), Subscriber>>,
    pub(super) task: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Watched {
    pub(super) fn new(scope: Scope, lens: Lens, closed: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            scope,
            cache: Cache::default(),
            closed,
            closed_told: Once::new(),
            lens: RwLock::new(Arc::new(lens)),
            health: watch::Sender::new(Health::Starting),
            subscribers: Mutex::default(),
            task: Mutex::default(),
        })
    }

    /// How it is now.
    pub fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    /// Waits until the first list has ended.
    pub async fn synced(&self) {
        // The sender lives in self, so the channel is open.
        drop(self.health.subscribe().wait_for(|health| *health == Health::Synced).await);
    }

    /// Waits until the first list has ended, or something is wrong with it.
    pub async fn tried(&self) {
        drop(self.health.subscribe().wait_for(|health| *health != Health::Starting).await);
    }

    /// Whether this plugin is told of changes.
    pub fn is_subscribed(&self, plugin: &str) -> bool {
        let subscribers = self.subscribers.lock();
        subscribers.keys().any(|(name, _)| **name == *plugin)
    }

    /// Whether another plugin decides about these objects too; a revision that is being taken goes by the name of
    /// its plugin and a word.
    pub fn has_other_parents(&self, plugin: &str) -> bool {
        let subscribers = self.subscribers.lock();
        subscribers.keys().any(|(name, role)| *role == Role::Parent && name.split(' ').next() != Some(plugin))
    }

    /// What it keeps of each object.
    pub fn lens(&self) -> Arc<Lens> {
        self.lens.read().clone()
    }

    /// Takes the reply to a write, which the watch will not show as news any more. Wakes all but the
    /// writer, who knows. Returns the object as the text has it, even where the cache knows a newer
    /// one by now: what a write did is judged by its own reply.
    ///
    /// # Errors
    /// When the text is not a Kubernetes object.
    pub fn learn(&self, json: &str, writer: (&str, Role)) -> serde_json::Result<Arc<Object>> {
        let object = Arc::new(Object::read(json, &self.lens())?);
        if let Some(applied) = self.cache.apply(object.clone()) {
            self.tell_but(&Change::Applied(applied), Some(writer));
        }
        Ok(object)
    }

    /// Takes an object that was read past the watch, with what others did to it.
    pub fn take(&self, live: Object) {
        if let Some(applied) = self.cache.apply(live) {
            self.tell(&Change::Applied(applied));
        }
    }

    /// Takes word that an object is gone, which the watch will not show as news any more.
    pub fn lose(&self, known: &Object) {
        if let Some(gone) = self.cache.delete(known) {
            self.tell(&Change::Deleted(gone));
        }
    }

    pub(super) fn widen(&self, lens: &Lens) -> bool {
        let mut mine = self.lens.write();
        let mut wider = Lens::clone(&mine);
        wider.projection.merge(&lens.projection);
        wider.status |= lens.status;
        wider.labels.extend(lens.labels.iter().filter(|label| !mine.labels.contains(label)).cloned());
        let widens = wider != **mine;
        *mine = Arc::new(wider);
        widens
    }

    fn tell(&self, change: &Change) {
        self.tell_but(change, None);
    }

    fn tell_but(&self, change: &Change, writer: Option<(&str, Role)>) {
        let subscribers = self.subscribers.lock();
        for ((plugin, role), subscriber) in subscribers.iter() {
            if !writer.as_ref().is_some_and(|(name, wrote)| **plugin == **name && role == wrote) {
                subscriber(change);
            }
        }
    }

    pub(super) fn report(&self, health: Health) {
        self.health.send_if_modified(|known| {
            let changed = *known != health;
            if changed {
                match &health {
                    Health::Failing(why) => tracing::warn!(kind = %self.scope.kind, "{why}"),
                    Health::Synced => {
                        tracing::info!(kind = %self.scope.kind, objects = self.cache.len(), "the watch is up");
                    }
                    Health::Silent(why) => tracing::debug!(kind = %self.scope.kind, "{why}"),
                    Health::Starting => {}
                }
                *known = health;
            }
            changed
        });
    }

    pub(super) fn see(&self, event: watcher::Event<Wire>) {
        match event {
            watcher::Event::Init => self.cache.begin_list(),
            watcher::Event::InitApply(wire) | watcher::Event::Apply(wire) => self.see_applied(&wire),
            watcher::Event::Delete(wire) => self.see_deleted(&wire),
            watcher::Event::InitDone => {
                for gone in self.cache.end_list() {
                    self.tell(&Change::Deleted(gone));
                }
                self.report(Health::Synced);
            }
        }
    }

    fn see_applied(&self, wire: &Wire) {
        let key = wire.key();
        if key.namespace.as_ref() == Some(&self.closed) {
            self.closed_told.call_once(|| {
                tracing::warn!(kind = %self.scope.kind, object = %key, "it is in the namespace of the host, where no plugin may do anything, so it is not served; create it in another one");
            });
            return;
        }
        if self.cache.is_echo(&key, wire.version()) {
            return;
        }
        if let Some(applied) = self.read(wire).and_then(|object| self.cache.apply(object)) {
            self.tell(&Change::Applied(applied));
        }
    }

    fn see_deleted(&self, wire: &Wire) {
        if let Some(gone) = self.read(wire).and_then(|object| self.cache.delete(&object)) {
            self.tell(&Change::Deleted(gone));
        }
    }

    /// An object that cannot be read is skipped and named; it does not stop the others.
    fn read(&self, wire: &Wire) -> Option<Object> {
        match Object::read(wire.json(), &self.lens()) {
            Ok(object) => Some(object),
            Err(error) => {
                let object = wire.key();
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
    use hotshoe_core::model::object::Key;
    use hotshoe_core::model::projection::Projection;

    fn reply(version: u64) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"n","uid":"1","resourceVersion":"{version}"}}}}"#)
    }

    #[test]
    fn a_write_wakes_all_but_who_wrote_and_what_others_did_wakes_all() {
        let lens = Lens { projection: Projection::new::<&str>(&[]), labels: Vec::new(), status: false };
        let watched = Watched::new(
            Scope { kind: Kind::new("", "v1", "ConfigMap"), selector: String::new() },
            lens,
            "system".into(),
        );
        let woken = ["writer", "other"].map(|plugin| {
            [Role::Parent, Role::Read("parent".into())].map(|role| {
                let count = Arc::new(AtomicUsize::new(0));
                let counted = count.clone();
                let subscriber: Subscriber = Arc::new(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
                watched.subscribers.lock().insert((plugin.into(), role), subscriber);
                count
            })
        });
        let counts = || woken.each_ref().map(|roles| roles.each_ref().map(|count| count.load(Ordering::Relaxed)));
        watched.learn(&reply(1), ("writer", Role::Parent)).unwrap();
        assert_eq!(counts(), [[0, 1], [1, 1]]);
        watched.take(Object::read(&reply(2), &watched.lens()).unwrap());
        assert_eq!(counts(), [[1, 2], [2, 2]]);
        // The watch brings both once more.
        watched.learn(&reply(2), ("writer", Role::Parent)).unwrap();
        assert_eq!(counts(), [[1, 2], [2, 2]]);
        watched.lose(&Object::read(&reply(2), &watched.lens()).unwrap());
        assert_eq!(counts(), [[2, 3], [3, 3]]);
    }

    #[test]
    fn nothing_is_kept_of_what_is_in_the_closed_namespace() {
        let scope = Scope { kind: Kind::new("example.com", "v1", "Cache"), selector: String::new() };
        let lens = Lens { projection: Projection::new(&["spec"]), labels: Vec::new(), status: false };
        let watched = Watched::new(scope, lens, "system".into());
        let told = Arc::new(Mutex::new(0));
        let counts = told.clone();
        let subscriber: Subscriber = Arc::new(move |_| *counts.lock() += 1);
        watched.subscribers.lock().insert(("demo".into(), Role::Parent), subscriber);
        let wire = |namespace: &str| {
            let json = format!(
                r#"{{"metadata":{{"name":"a","namespace":"{namespace}","uid":"{namespace}","resourceVersion":"7"}}}}"#
            );
            serde_json::from_str::<Wire>(&json).unwrap()
        };
        watched.see(watcher::Event::Init);
        watched.see(watcher::Event::InitApply(wire("system")));
        watched.see(watcher::Event::InitApply(wire("systems")));
        watched.see(watcher::Event::InitDone);
        watched.see(watcher::Event::Apply(wire("system")));
        watched.see(watcher::Event::Delete(wire("system")));
        assert_eq!(watched.cache.keys(), [Key::new(Some("systems"), "a")]);
        assert_eq!(*told.lock(), 1);
    }
}
