//! The plugins of a host: those of the files that it was started with, or those that
//! [`Plugin` objects](objects) describe, which are created, changed and deleted while it runs.
//!
//! | file | contents |
//! |---|---|
//! | `objects.rs` | watches the objects, and shows each to its task |
//! | `object_task.rs` | the task of one object: starts and stops its plugin, and writes its status |
//! | `lease_claim.rs` | the claim of a host to an object, by which one of several hosts works for it |
//! | `parsed_plugin.rs` | an object and its parsed content |
//! | `remembered.rs` | what the host remembers of a plugin in its object |
//! | `running.rs` | a plugin that runs for an object |
//! | `removal.rs` | what happens to parents before a plugin is removed |
//! | `status.rs` | the status of an object, from the state of its plugin |
//! | `events.rs` | the Events about an object, from the changes of its status |
//! | `registration.rs` | registers the webhooks of all plugins with the API server |
//! | `verdict.rs` | runs a component that waits for approval in the shadow of the active one |

mod events;
mod lease_claim;
mod object_task;
pub mod objects;
mod parsed_plugin;
pub mod registration;
mod remembered;
mod removal;
mod running;
pub mod status;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::rollout::managed_plugin::ManagedPlugin;

/// How long the loop over the `Plugin` objects may make no pass before the host is not ready.
const LONGEST_PASS: Duration = Duration::from_secs(30);

/// The plugins that run, by name.
#[derive(Default)]
pub struct Fleet(RwLock<State>);

#[derive(Default)]
struct State {
    running: BTreeMap<Arc<str>, Arc<ManagedPlugin>>,
    /// Why the plugins are not known yet; none once they are.
    unknown: Option<String>,
    /// When the loop over the `Plugin` objects made its last pass; none without such a loop.
    passed: Option<Instant>,
}

impl Fleet {
    /// Creates a fleet of the plugins of files.
    pub fn of(plugins: impl IntoIterator<Item = Arc<ManagedPlugin>>) -> Self {
        let running = plugins.into_iter().map(|plugin| (plugin.controller.name.clone(), plugin)).collect();
        Self(RwLock::new(State { running, ..State::default() }))
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

    /// Returns the plugins that [keep the host from being ready](ManagedPlugin::keeps_host_unready).
    pub fn unready(&self) -> Vec<String> {
        let unready = self.all().into_iter().filter(|plugin| plugin.keeps_host_unready());
        unready.map(|plugin| plugin.controller.name.to_string()).collect()
    }

    /// Returns why the plugins are not known; none if they are.
    pub fn unknown_because(&self) -> Option<String> {
        self.0.read().unknown.clone()
    }

    /// Returns why the loop over the `Plugin` objects keeps the host from being ready, if it does: it hangs, so no change
    /// of an object is seen.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        let idle = now.saturating_duration_since(self.0.read().passed?);
        (idle >= LONGEST_PASS).then(|| format!("the Plugin objects were not looked at for {} s", idle.as_secs()))
    }

    fn note_pass(&self, now: Instant) {
        self.0.write().passed = Some(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_makes_no_pass_makes_the_host_unready_until_the_next_pass() {
        let (fleet, start) = (Fleet::unknown(), Instant::now());
        assert_eq!(fleet.stuck(start + LONGEST_PASS), None, "no loop has begun");
        fleet.note_pass(start);
        assert_eq!(fleet.stuck(start + LONGEST_PASS / 2), None);
        assert!(fleet.stuck(start + LONGEST_PASS).is_some_and(|why| why.contains("30 s")));
        fleet.note_pass(start + LONGEST_PASS);
        assert_eq!(fleet.stuck(start + LONGEST_PASS), None);
    }
}
