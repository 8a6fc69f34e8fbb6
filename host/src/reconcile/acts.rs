//! The info log: one line for each thing that the operator does to the cluster, with plugin, digest and object.
//! The lines are rate-limited as the plugin's own lines are.

use std::time::Instant;

use crate::reconcile::decide::LINE;
use crate::reconcile::pass::Pass;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::sanitize;

/// The most that a line says of changed fields, bytes: a plugin chooses their names.
const FIELDS: usize = 400;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act<'a> {
    /// This finalizer of the parent.
    FinalizerAdded(&'a str),
    /// This finalizer of the parent.
    FinalizerRemoved(&'a str),
    /// A child.
    Created(&'a ObjectRef),
    /// A child, in these fields.
    Changed(&'a ObjectRef, &'a [String]),
    /// A child.
    Deleted(&'a ObjectRef),
    /// The plugin's part of the parent's status.
    StatusChanged,
    /// An object that is no parent any more, with so many children.
    Released(usize),
    /// Clean-up of a parent that is being deleted.
    DeletionBegun,
    /// The same.
    DeletionDone,
}

impl<'a> Act<'a> {
    fn message(self) -> &'static str {
        match self {
            Self::FinalizerAdded(_) => "finalizer added",
            Self::FinalizerRemoved(_) => "finalizer removed",
            Self::Created(_) => "child created",
            Self::Changed(..) => "child changed",
            Self::Deleted(_) => "child deleted",
            Self::StatusChanged => "status changed",
            Self::Released(_) => "no longer selected; let go",
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

    /// Names of fields, never their values.
    fn fields(self) -> Option<String> {
        match self {
            Self::Changed(_, fields) if !fields.is_empty() => Some(sanitize::clean(fields.join(", "), FIELDS)),
            _ => None,
        }
    }
}

/// Logs what was done.
pub fn log(pass: &Pass<'_>, act: Act<'_>) {
    if !tracing::enabled!(tracing::Level::INFO) {
        return;
    }
    let (plugin, digest) = (&*pass.controller.name, pass.active.revision.digest());
    let (child, fields) = (act.child().map(ObjectRef::to_string), act.fields());
    let more = child.as_deref().map_or(0, str::len) + fields.as_deref().map_or(0, str::len);
    if pass.controller.act_lines.allows(LINE + more) {
        let (object, finalizer, children) = (pass.reference(), act.finalizer(), act.children());
        let child = child.as_deref().map(tracing::field::display);
        let fields = fields.as_deref().map(tracing::field::display);
        tracing::info!(plugin, %digest, %object, child, children, finalizer, fields, "{}", act.message());
        return;
    }
    pass.controller.metrics.lines_dropped(plugin, 1);
    if let Some(dropped) = pass.controller.act_lines.dropped(1, Instant::now()) {
        tracing::warn!(plugin, %digest, dropped, "the plugin has more done than is logged; some lines were dropped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotshoe_core::model::kind::Kind;

    #[test]
    fn a_name_of_a_field_that_a_plugin_chose_forges_no_line() {
        let kind = Kind::new("", "v1", "ConfigMap");
        let child = ObjectRef { kind, namespace: Some("n".into()), name: "a".into() };
        let fields = ["data.a\n2026-01-01T00:00:00Z INFO forged \u{1b}[2J".to_owned(), "x".repeat(10_000)];
        let text = Act::Changed(&child, &fields).fields().unwrap();
        assert!(!text.contains(|letter: char| letter.is_control()) && text.len() <= FIELDS, "{text}");
        assert_eq!(Act::Changed(&child, &[]).fields(), None);
    }
}
