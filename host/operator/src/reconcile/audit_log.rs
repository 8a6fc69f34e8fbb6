//! The info log: one line for each change that the host makes in the cluster, with plugin, digest and object.
//! The lines are rate-limited as the plugin's own lines are.

use crate::api::explain::Act;
use crate::reconcile::pass::Pass;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::sanitize;

/// The maximum length of the names of changed fields in a line, in bytes: a plugin chooses these names.
const MAX_FIELDS_BYTES: usize = 400;

/// A change that the host made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Added this finalizer to the parent.
    FinalizerAdded(&'a str),
    /// Removed this finalizer from the parent.
    FinalizerRemoved(&'a str),
    /// Created this child.
    Created(&'a ObjectRef),
    /// Changed these fields of this child.
    Changed(&'a ObjectRef, &'a [String]),
    /// Deleted this child.
    Deleted(&'a ObjectRef),
    /// Changed the plugin's part of the parent's status.
    StatusChanged,
    /// Changed labels or annotations of the parent that the plugin states.
    MetadataChanged,
    /// Released an object that is no longer a parent, with this number of children.
    Released(usize),
    /// Began the clean-up of a parent that is being deleted.
    DeletionBegun,
    /// Ended the clean-up of a parent that is being deleted.
    DeletionDone,
}

impl<'a> Change<'a> {
    fn message(self) -> &'static str {
        match self {
            Self::FinalizerAdded(_) => "finalizer added",
            Self::FinalizerRemoved(_) => "finalizer removed",
            Self::Created(_) => "child created",
            Self::Changed(..) => "child changed",
            Self::Deleted(_) => "child deleted",
            Self::StatusChanged => "status changed",
            Self::MetadataChanged => "metadata changed",
            Self::Released(_) => "no longer selected; released",
            Self::DeletionBegun => "deletion begun",
            Self::DeletionDone => "deletion done",
        }
    }

    fn child(self) -> Option<&'a ObjectRef> {
        match self {
            Self::Created(child) | Self::Changed(child, _) | Self::Deleted(child) => Some(child),
            _ => None,
        }
    }

    fn children(self) -> Option<usize> {
        if let Self::Released(children) = self { Some(children) } else { None }
    }

    fn finalizer(self) -> Option<&'a str> {
        match self {
            Self::FinalizerAdded(finalizer) | Self::FinalizerRemoved(finalizer) => Some(finalizer),
            _ => None,
        }
    }

    /// Returns the change as an explanation of the parent names it, with the fields or the finalizer.
    fn act(self) -> (Act, Vec<String>) {
        match self {
            Self::FinalizerAdded(finalizer) => (Act::FinalizerAdded, vec![finalizer.to_owned()]),
            Self::FinalizerRemoved(finalizer) => (Act::FinalizerRemoved, vec![finalizer.to_owned()]),
            Self::Created(_) => (Act::Created, Vec::new()),
            Self::Changed(_, fields) => (Act::Changed, fields.to_vec()),
            Self::Deleted(_) => (Act::Deleted, Vec::new()),
            Self::StatusChanged => (Act::Status, Vec::new()),
            Self::MetadataChanged => (Act::Metadata, Vec::new()),
            Self::Released(_) => (Act::Released, Vec::new()),
            Self::DeletionBegun => (Act::CleanUpBegun, Vec::new()),
            Self::DeletionDone => (Act::CleanUpEnded, Vec::new()),
        }
    }

    /// Returns the names of the changed fields, never their values.
    fn fields(self) -> Option<String> {
        match self {
            Self::Changed(_, fields) if !fields.is_empty() => {
                Some(sanitize::clean(fields.join(", "), MAX_FIELDS_BYTES))
            }
            _ => None,
        }
    }
}

/// Logs a change, and notes it for an explanation.
pub fn log(pass: &Pass<'_>, act: Change<'_>) {
    let (what, fields) = act.act();
    pass.record.note(what, act.child(), fields);
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let (child, fields) = (act.child().map(ObjectRef::to_string), act.fields());
    let more = child.as_deref().map_or(0, str::len) + fields.as_deref().map_or(0, str::len);
    if pass.controller.may_log(&pass.controller.act_lines, more) {
        let (finalizer, children) = (act.finalizer(), act.children());
        let child = child.as_deref().map(tracing::field::display);
        let fields = fields.as_deref().map(tracing::field::display);
        tracing::info!(child, children, finalizer, fields, "{}", act.message());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::kind::Kind;

    #[test]
    fn a_field_name_that_a_plugin_chose_forges_no_log_line() {
        let kind = Kind::new("", "v1", "ConfigMap");
        let child = ObjectRef { kind, namespace: Some("n".into()), name: "a".into() };
        let fields = ["data.a\n2026-01-01T00:00:00Z INFO forged \u{1b}[2J".to_owned(), "x".repeat(10_000)];
        let text = Change::Changed(&child, &fields).fields().unwrap();
        assert!(!text.contains(|letter: char| letter.is_control()) && text.len() <= MAX_FIELDS_BYTES, "{text}");
        assert_eq!(Change::Changed(&child, &[]).fields(), None);
    }
}
