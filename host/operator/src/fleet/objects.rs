//! Watches `Plugin` objects: starts, changes and stops plugins as the objects describe, and writes the status of each.
//!
//! ```text
//! object ──▶ is it valid? ──▶ are its parents free? ──▶ runs; changes go to its rollout
//!               └ no: Stalled      └ no: Stalled, until the older one is gone
//! object is being deleted ──▶ parents as spec.deletionPolicy says ──▶ stopped, and the object may go
//! ```
//!
//! Level-triggered: each pass compares all objects, and shows each to its task, with what it has to know
//! of the others. A pass is made when an object changes, and once a second, and waits for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tracing::Instrument;

use crate::config::manifest::KIND;
use crate::config::plugin_resource::{GROUP, PLURAL, VERSION};
use crate::fleet::Fleet;
use crate::fleet::object_task::{Context, ObjectTask, REMOVALS_AT_ONCE, Taken, View};
use crate::fleet::parsed_plugin::ParsedPlugin;
use crate::fleet::remembered::ANNOTATION;
use crate::rollout::managed_plugin::Shared;
use hotshoe_cluster::plugin_object;
use hotshoe_cluster::shared_watch::{Change, Health};
use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::check::parents_claim::{Claim, holder};
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::object::Object;
use hotshoe_platform::spans;

/// The time between two passes while no object changes.
const PASS_INTERVAL: Duration = Duration::from_secs(1);

/// The `Plugin` objects of a cluster, and the tasks that work for them.
pub struct Objects {
    context: Arc<Context>,
    /// The parsed objects, the oldest first. Each version of an object is parsed only once.
    described: Vec<Arc<ParsedPlugin>>,
    /// The tasks by the names of their objects. A task ends once its object is gone and its plugin is stopped.
    tasks: BTreeMap<Arc<str>, Task>,
}

struct Task {
    views: watch::Sender<View>,
    runs: watch::Receiver<bool>,
    handle: JoinHandle<()>,
    /// The object as it was seen last.
    last: Arc<ParsedPlugin>,
}

impl Objects {
    /// Begins to watch the objects with these labels.
    pub fn watch(shared: Arc<Shared>, fleet: Arc<Fleet>, labels: &LabelSelector) -> Self {
        let resource = plugin_object::resource(GROUP, VERSION, KIND, PLURAL);
        let woken = Arc::new(Notify::new());
        let wakes = woken.clone();
        let wake = Arc::new(move |_: &Change| wakes.notify_one());
        let watch = plugin_object::watch(&shared.watches, &resource, labels, ANNOTATION, wake);
        let removals = Semaphore::new(REMOVALS_AT_ONCE);
        let claim = shared.leases.claim();
        let context = Arc::new(Context { shared, fleet, resource, watch, woken, removals, claim });
        Self { context, described: Vec::new(), tasks: BTreeMap::new() }
    }

    /// Makes passes until the process ends.
    pub async fn run(mut self) {
        let context = self.context.clone();
        let mut ticks = tokio::time::interval(PASS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_synced = false;
        loop {
            tokio::select! {
                () = context.woken.notified() => {}
                _ = ticks.tick() => {}
            }
            let health = context.watch.health();
            was_synced |= health == Health::Synced;
            context.fleet.set_unknown(unknown_because(&health, was_synced));
            context.fleet.note_pass(Instant::now());
            // Running plugins go on while the objects cannot be watched.
            if health == Health::Synced {
                self.pass();
            }
        }
    }

    /// Shows each object to its task.
    fn pass(&mut self) {
        let objects = self.read();
        self.tasks.retain(|_, task| !task.handle.is_finished());
        for (name, task) in &self.tasks {
            if !objects.iter().any(|described| described.name() == &**name) {
                task.show(View::default());
            }
        }
        let views: Vec<View> = objects.iter().map(|described| self.view(described, &objects)).collect();
        for (described, view) in objects.iter().zip(views) {
            self.show(described, view);
        }
    }

    fn show(&mut self, described: &Arc<ParsedPlugin>, view: View) {
        match self.tasks.get_mut(described.name()) {
            Some(task) => {
                task.last = described.clone();
                task.show(view);
            }
            None => {
                self.note_parents(described, &view);
                let name: Arc<str> = described.name().into();
                let (views, seen) = watch::channel(view);
                let (is_running, runs) = watch::channel(false);
                let task = ObjectTask::new(name.clone(), self.context.clone(), is_running);
                let handle = tokio::spawn(task.run(seen).instrument(spans::plugin(&name)));
                self.tasks.insert(name, Task { views, runs, handle, last: described.clone() });
            }
        }
    }

    /// Notes the parents of a plugin that is about to be started. Tasks start in any order, and an older plugin must
    /// not lose its parents to a newer one.
    fn note_parents(&self, described: &ParsedPlugin, view: &View) {
        let (Ok(plugin), None, false) = (&described.plugin, &view.taken, described.object.deleting) else { return };
        let (name, parentage) = (described.name().into(), &self.context.shared.host.parentage);
        parentage.note_named(&name, plugin.spec.parent.as_ref());
        if let Some(parent) = &described.status.parent {
            parentage.note_active(&name, &parent.kind());
        }
    }

    /// Parses the objects that have changed, and returns all.
    fn read(&mut self) -> Vec<Arc<ParsedPlugin>> {
        let before = std::mem::take(&mut self.described);
        let read = |object: Arc<Object>| {
            let known = before.iter().find(|known| Arc::ptr_eq(&known.object, &object));
            known.cloned().unwrap_or_else(|| Arc::new(ParsedPlugin::read(object)))
        };
        self.described = self.context.watch.cache.all(|_| true).into_iter().map(read).collect();
        self.described.sort_by(|a, b| (&a.created, &a.object.key).cmp(&(&b.created, &b.object.key)));
        self.described.clone()
    }

    fn view(&self, described: &Arc<ParsedPlugin>, objects: &[Arc<ParsedPlugin>]) -> View {
        let stopping = self.tasks.values().map(|task| &task.last).filter(|last| {
            let is_shown = objects.iter().any(|described| described.name() == last.name());
            !is_shown && self.runs(last.name())
        });
        let others = objects.iter().filter(|other| !other.is_gone() || self.runs(other.name()));
        let claims: Vec<Claim<'_>> = others.chain(stopping).map(|other| self.claim(other)).collect();
        let own = self.claim(described);
        let taken = holder(&claims, &own).map(|by| Taken {
            by: by.to_owned(),
            parents: own.parent.as_ref().map(ToString::to_string).unwrap_or_default(),
        });
        View { described: Some(described.clone()), taken }
    }

    /// Returns whether a plugin runs, or is still being stopped.
    fn runs(&self, name: &str) -> bool {
        self.tasks.get(name).is_some_and(|task| *task.runs.borrow())
    }

    /// Returns a plugin's claim to its parents: those that the object names, or that the plugin has though the object
    /// is invalid now, or else all of the kind that its revisions had.
    fn claim<'a>(&self, described: &'a ParsedPlugin) -> Claim<'a> {
        let running = || self.context.fleet.find(described.name()).ok().map(|plugin| plugin.plugin());
        let named = match &described.plugin {
            Ok(plugin) => plugin.spec.parent.clone(),
            Err(_) => running().and_then(|config| config.parent.clone()),
        };
        let had = || described.status.parent.as_ref().map(|parent| ParentKind::all_of(&parent.kind()));
        Claim { name: described.name(), created: &described.created, parent: named.or_else(had) }
    }
}

impl Task {
    /// Shows a view to the task, if it is another one.
    fn show(&self, view: View) {
        self.views.send_if_modified(|shown| {
            let is_new = !shown.is_same(&view);
            *shown = view;
            is_new
        });
    }
}

/// Returns why the plugins of the host are not known; none if they are.
fn unknown_because(health: &Health, was_synced: bool) -> Option<String> {
    match health {
        Health::Synced => None,
        // The plugins that were seen are running.
        _ if was_synced => None,
        Health::Starting => Some("the Plugin objects are being listed".to_owned()),
        Health::Failing(why) | Health::Broken(why) | Health::Silent(why) | Health::Refused(why) => Some(why.clone()),
    }
}
