//! The plugins of a host: those of the files that it was started with, or those that
//! [`Plugin` objects](objects) describe, which are created, changed and deleted while it runs.
//!
//! | file | contents |
//! |---|---|
//! | `objects.rs` | watches the objects: starts and stops plugins, and writes the status of each |
//! | `described.rs` | an object and its parsed content |
//! | `running.rs` | a plugin that runs for an object |
//! | `removal.rs` | what happens to parents before a plugin is removed |
//! | `status.rs` | the status of an object, from the state of its plugin |
//! | `events.rs` | the Events about an object, from the changes of its status |
//! | `verdict.rs` | runs a component that waits for approval in the shadow of the active one |

mod described;
mod events;
pub mod objects;
mod removal;
mod running;
pub mod status;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::rollout::managed_plugin::ManagedPlugin;

/// The plugins that run, by name.
#[derive(Default)]
pub struct Fleet(RwLock<State>);

#[derive(Default)]
struct State {
    running: BTreeMap<Arc<str>, Arc<ManagedPlugin>>,
    /// Why the plugins are not known yet; none once they are.
    unknown: Option<String>,
}

impl Fleet {
    /// Creates a fleet of the plugins of files.
    pub fn of(plugins: impl IntoIterator<Item = Arc<ManagedPlugin>>) -> Self {
        let running = plugins.into_iter().map(|plugin| (plugin.controller.name.clone(), plugin)).collect();
        Self(RwLock::new(State { running, unknown: None }))
    }

    /// Creates a fleet whose plugins are not known yet.
    pub fn unknown() -> Self {
        let unknown = Some("the Plugin objects are being listed".to_owned());
        Self(RwLock::new(State { unknown, ..State::default() }))
    }

    /// Returns all plugins.
    pub fn all(&self) -> Vec<Arc<ManagedPlugin>> {
        self.0.read().running.values().cloned().collect()
    }

    /// Returns the plugin with this name.
    ///
    /// # Errors
    /// When there is no such plugin; the error names those that there are.
    pub fn find(&self, name: &str) -> Result<Arc<ManagedPlugin>, String> {
        let state = self.0.read();
        state.running.get(name).cloned().ok_or_else(|| {
            let known: Vec<_> = state.running.keys().map(|name| &**name).collect();
            match known.as_slice() {
                [] => format!("this host has no plugin {name}, nor any other"),
                known => format!("this host has no plugin {name}; it has {}", known.join(", ")),
            }
        })
    }

    /// Returns the plugins that keep the host from being ready. A plugin of a file does if it has no active revision,
    /// or not all of its watches are synced. A plugin of an object does only while it starts: one that cannot start
    /// must not block the rollout of the host's Deployment forever, and its object says why.
    pub fn unready(&self) -> Vec<String> {
        let plugins = self.all();
        let unready = plugins.iter().filter(|plugin| match plugin.plugin().origin.file() {
            Some(_) => !plugin.status().ready,
            None => plugin.is_starting(),
        });
        unready.map(|plugin| plugin.controller.name.to_string()).collect()
    }

    /// Returns why the plugins are not known; none if they are.
    pub fn unknown_because(&self) -> Option<String> {
        self.0.read().unknown.clone()
    }

    fn set_unknown(&self, unknown: Option<String>) {
        let mut state = self.0.write();
        if state.unknown != unknown {
            state.unknown = unknown;
        }
    }

    fn add(&self, plugin: Arc<ManagedPlugin>) {
        self.0.write().running.insert(plugin.controller.name.clone(), plugin);
    }

    fn remove(&self, name: &str) {
        self.0.write().running.remove(name);
    }
}
