//! The state of a plugin: one value, which the tasks of its rollout change, and all others read or wait for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;

use crate::api::status::RefusedComponent;
use crate::config::PluginConfig;
use crate::rollout::history::History;
use crate::rollout::step::Underway;
use crate::rollout::unaccepted::Unaccepted;
use hotshoe_core::check::provenance::Signer;
use hotshoe_core::model::digest::Digest;
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::revision::Revision;

/// The state of a plugin.
pub(crate) struct PluginState {
    /// The definition that was applied last.
    pub(crate) config: Arc<PluginConfig>,
    /// Why the present definition is not applied.
    pub(crate) config_refused: Option<String>,
    /// The active revision, and those beside it.
    pub(crate) revisions: Revisions,
    /// Why the last component was refused; none if it was activated.
    pub(crate) refused: Option<RefusedComponent>,
    /// The history as it was written last.
    pub(crate) history: Arc<History>,
    /// The number of changes of the history that are being written.
    pub(crate) unwritten: usize,
    /// Whether the definition names a source that was not read yet.
    pub(crate) is_source_unread: bool,
    /// The component that was fetched last.
    pub(crate) fetched: Fetched,
    /// The signers of components that were fetched by this host: one of them has signed the image.
    pub(crate) signed: Vec<(Digest, Vec<Signer>)>,
    /// The component that was active, and that `verify` does not accept.
    pub(crate) unaccepted: Option<Unaccepted>,
    /// Why `spec.revision` or `spec.approve` cannot be carried out.
    pub(crate) control_failing: Option<String>,
    /// Why this host waits, if another one runs this plugin.
    pub(crate) standby: Option<String>,
    /// Why its `Plugin` object, which is being deleted, is still there.
    pub(crate) removal: Option<String>,
    /// Why the API server does not ask the host about the parents of the plugin, as it should.
    pub(crate) unregistered: Option<String>,
    /// The tasks that panicked lately, and why.
    pub(crate) panics: BTreeMap<&'static str, String>,
}

/// The revisions of a plugin beside the one in the controller's slot.
#[derive(Default)]
pub(crate) struct Revisions {
    /// The revision that is being activated.
    pub(crate) underway: Option<Underway>,
    /// When the active revision was activated.
    pub(crate) since: Option<Instant>,
    /// The revision that was active before the active one.
    pub(crate) before: Option<Arc<Revision>>,
    /// The component of the canary, which is kept for rollbacks once the canary is active.
    pub(crate) canary: Option<Candidate>,
    /// Whether the active revision is the one of before the host's last stop, which stays active until the component
    /// that was offered at the start is activated or refused.
    pub(crate) is_restored: bool,
}

/// The state of a component that is fetched from a registry or a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The component that was fetched last.
    pub component: Option<FetchedComponent>,
    /// Why the component cannot be fetched now: a PascalCase reason and a message.
    pub failing: Option<(&'static str, String)>,
}

/// A component that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedComponent {
    /// The component's digest.
    pub digest: Digest,
    /// Where it was fetched from, exactly: the image with the digest of its manifest, or the version of the ConfigMap.
    pub source: String,
}

impl PluginState {
    /// Creates the state of a plugin without an active revision.
    pub(crate) fn new(config: Arc<PluginConfig>, history: History) -> Self {
        Self {
            config,
            config_refused: None,
            revisions: Revisions::default(),
            refused: None,
            history: Arc::new(history),
            unwritten: 0,
            is_source_unread: false,
            fetched: Fetched::default(),
            signed: Vec::new(),
            unaccepted: None,
            control_failing: None,
            standby: None,
            removal: None,
            unregistered: None,
            panics: BTreeMap::new(),
        }
    }

    /// Returns the state of a component that is fetched; none if its source is a file.
    pub(crate) fn fetched(&self) -> Option<&Fetched> {
        self.config.source.file.is_none().then_some(&self.fetched)
    }

    /// Returns where a component was fetched from, exactly; none if its source is a file, or it was never active and
    /// another one was fetched since.
    pub(crate) fn source_of(&self, digest: Digest) -> Option<&str> {
        let fetched = self.fetched.component.as_ref().filter(|fetched| fetched.digest == digest);
        fetched.map(|fetched| &*fetched.source).or_else(|| self.history.source_of(digest))
    }

    /// Returns which tasks of the plugin panicked lately, and why.
    pub(crate) fn panics(&self) -> Option<String> {
        let shown: Vec<String> =
            self.panics.iter().map(|(task, why)| format!("its {task} task panicked: {why}")).collect();
        (!shown.is_empty()).then(|| shown.join("; "))
    }
}

/// Publishes a state. The state is locked only within a call, so a closure must not read or change it by another one.
#[derive(Debug)]
pub(crate) struct Published<S>(watch::Sender<S>);

impl<S> Published<S> {
    /// Publishes a first state.
    pub(crate) fn new(state: S) -> Self {
        Self(watch::Sender::new(state))
    }

    /// Reads a part of the state.
    pub(crate) fn read<T>(&self, part: impl FnOnce(&S) -> T) -> T {
        part(&self.0.borrow())
    }

    /// Changes the state.
    pub(crate) fn change(&self, change: impl FnOnce(&mut S)) {
        self.0.send_modify(change);
    }

    /// Replaces a part of the state. Returns what was there, for the caller to drop.
    pub(crate) fn replace<T>(&self, part: impl FnOnce(&mut S) -> &mut T, mut value: T) -> T {
        self.change(|state| std::mem::swap(part(state), &mut value));
        value
    }

    /// Sets a part of the state. Wakes those that wait for a change only if the part differs.
    pub(crate) fn set<T: PartialEq>(&self, part: impl FnOnce(&mut S) -> &mut T, mut value: T) {
        self.0.send_if_modified(|state| {
            let part = part(state);
            let differs = *part != value;
            std::mem::swap(part, &mut value);
            differs
        });
    }

    /// Waits for a state that meets a condition.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&S) -> bool) {
        // It cannot fail: the sender is borrowed meanwhile.
        drop(self.0.subscribe().wait_for(condition).await);
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;
    use crate::config::HostSettings;

    impl PluginState {
        /// Creates the state of a plugin that was just started.
        pub(crate) fn of_test() -> Self {
            let text =
                "{apiVersion: hotshoe.dev/v1alpha1, kind: Plugin, metadata: {name: a}, spec: {source: {file: a.wasm}}}";
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("plugin.yaml"), text).unwrap();
            let config = PluginConfig::read(dir.path(), &HostSettings::default()).unwrap();
            Self::new(Arc::new(config), History::default())
        }
    }

    #[tokio::test]
    async fn a_state_that_is_waited_for_is_seen_at_once_and_after_a_change() {
        let state = Published::new((1, "a"));
        state.wait_for(|(number, _)| *number == 1).await;
        let mut waiting = Box::pin(state.wait_for(|(number, _)| *number == 3));
        for number in [2, 3] {
            assert!(poll!(&mut waiting).is_pending());
            state.set(|(present, _)| present, number);
        }
        waiting.await;
        assert_eq!(state.replace(|(_, text)| text, "b"), "a");
        assert_eq!(state.read(|state| *state), (3, "b"));
    }

    #[test]
    fn what_is_set_to_the_same_value_is_no_change() {
        let state = Published::new(1);
        let seen = state.0.subscribe();
        state.set(|number| number, 1);
        assert!(!seen.has_changed().unwrap());
        state.set(|number| number, 2);
        assert!(seen.has_changed().unwrap());
    }
}
