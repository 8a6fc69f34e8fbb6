//! The plugins of a host: those of the files that it was started with, or those that
//! [`Plugin` objects](objects) describe, which come, change and go while it runs.
//!
//! | file | contents |
//! |---|---|
//! | `objects.rs` | follows the objects: starts and stops plugins, and writes what became of each |
//! | `claim.rs` | which of two plugins with the same parents works |
//! | `removal.rs` | what happens to parents before a plugin goes |
//! | `status.rs` | the status of an object, of what is known of its plugin |
//! | `events.rs` | the Events about an object, of how its status changes |
//! | `verdict.rs` | runs a component in the shadow that waits for an approval |

pub mod claim;
mod events;
pub mod objects;
mod removal;
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
    /// Why it is not known yet which plugins there are.
    unknown: Option<String>,
}

impl Fleet {
    /// Builds it from the plugins of files.
    pub fn of(plugins: impl IntoIterator<Item = Arc<ManagedPlugin>>) -> Self {
        let running = plugins.into_iter().map(|plugin| (plugin.controller.name.clone(), plugin)).collect();
        Self(RwLock::new(State { running, unknown: None }))
    }

    /// Builds it before it is known which plugins there are.
    pub fn unknown() -> Self {
        let unknown = Some("the Plugin objects are being listed".to_owned());
        Self(RwLock::new(State { unknown, ..State::default() }))
    }

    /// Returns all of them.
    pub fn all(&self) -> Vec<Arc<ManagedPlugin>> {
        self.0.read().running.values().cloned().collect()
    }

    /// Returns the one of this name.
    ///
    /// # Errors
    /// Which there are.
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

    /// Returns the plugins that keep the host from being ready. Of those of files each that has no active revision, or
    /// does not see all that it asks for. Of those of objects only the ones that will soon be ready by themselves: one that
    /// cannot start must not have a Deployment wait for ever, and its object says why.
    pub fn unready(&self) -> Vec<String> {
        let plugins = self.all();
        let unready = plugins.iter().filter(|plugin| match plugin.plugin().origin.file() {
            Some(_) => !plugin.status().ready,
            None => plugin.is_starting(),
        });
        unready.map(|plugin| plugin.controller.name.to_string()).collect()
    }

    /// Returns why it is not known which plugins there are.
    pub fn unknown_because(&self) -> Option<String> {
        self.0.read().unknown.clone()
    }

    fn know(&self, unknown: Option<String>) {
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
