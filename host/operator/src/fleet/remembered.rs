//! What the host remembers of a plugin in its `Plugin` object, for a host that takes over or starts without any files.
//!
//! It is kept in an annotation, and the history in the status is only shown: an account that may write `plugins/status`
//! alone cannot change metadata, and so can neither approve a component nor roll one back in the host's name.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::plugin_resource::{ParentStatus, PluginStatus};

/// The annotation.
pub(super) const ANNOTATION: &str = "hotshoe.dev/history";

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remembered {
    /// The uid of the object: the annotation of a copy is about another plugin.
    uid: String,
    /// The kind of the parents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentStatus>,
    /// The finalizers that parents may have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    /// What happened to the revisions, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<Value>,
}

impl Remembered {
    /// Returns the annotation of an object with this status.
    pub(super) fn of(uid: &str, status: &PluginStatus) -> String {
        let PluginStatus { parent, finalizers, history, .. } = status.clone();
        serde_json::to_string(&Self { uid: uid.to_owned(), parent, finalizers, history }).unwrap_or_default()
    }

    /// Returns the status that the host may trust: the fields that it acts upon come from the annotation. Without an
    /// annotation, the object is new, or it `was_served` by an earlier version of the host, which kept these fields in
    /// the status.
    pub(super) fn believed(
        annotation: Option<&str>,
        uid: &str,
        shown: &PluginStatus,
        was_served: bool,
    ) -> PluginStatus {
        let own = annotation.and_then(|text| serde_json::from_str::<Self>(text).ok()).filter(|own| own.uid == uid);
        if own.is_none() && annotation.is_none() && was_served {
            return shown.clone();
        }
        let revisions = if own.is_some() { shown.revisions.clone() } else { Vec::new() };
        let Self { parent, finalizers, history, .. } = own.unwrap_or_default();
        PluginStatus { parent, finalizers, history, revisions, ..shown.clone() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(event: &str) -> PluginStatus {
        PluginStatus {
            finalizers: vec![format!("example.com/{event}")],
            history: vec![json!({ "event": event })],
            digest: Some("d".to_owned()),
            ..PluginStatus::default()
        }
    }

    #[test]
    fn what_is_written_to_the_status_by_others_is_not_believed() {
        let (ours, forged) = (status("RolledBack"), status("Approved"));
        let annotation = Remembered::of("u", &ours);
        let believed = Remembered::believed(Some(&annotation), "u", &forged, true);
        assert_eq!((&believed.history, &believed.finalizers), (&ours.history, &ours.finalizers));
        assert_eq!(believed.digest, forged.digest, "the rest is only compared with what is to be shown");
    }

    #[test]
    fn of_a_new_object_or_a_copy_nothing_is_believed() {
        let forged = status("Approved");
        let copied = Remembered::of("other", &status("RolledBack"));
        for annotation in [None, Some(&*copied), Some("no JSON")] {
            let believed = Remembered::believed(annotation, "u", &forged, false);
            assert!(believed.history.is_empty() && believed.finalizers.is_empty(), "{annotation:?}");
        }
        let believed = Remembered::believed(Some(&copied), "u", &forged, true);
        assert!(believed.history.is_empty(), "a copy that has the finalizer, too");
    }

    #[test]
    fn the_status_that_an_earlier_version_of_the_host_wrote_is_taken_over() {
        let before = status("RolledBack");
        assert_eq!(Remembered::believed(None, "u", &before, true), before);
    }
}
