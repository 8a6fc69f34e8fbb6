//! Prepares a live child for an apply, in steps that each replace parts of it. An apply alone would keep what a
//! predecessor applied, remove what is left to others, add a second element where one of ours was renamed, and remove a
//! list that is desired to be empty.

use std::sync::Arc;

use serde_json::Value;

use crate::apply::{Target, WriteError, Writer};
use hotshoe_core::check::Desired;
use hotshoe_core::diff::hand_over::hand_over;
use hotshoe_core::diff::repair::Repair;
use hotshoe_core::diff::{Apply, emptied, left, renamed_elements, written_only};
use hotshoe_core::model::object::{LEFT_MANAGER, Object, PLUGIN_LABEL};

/// The steps in their order. Those that change the ownership come first, because the others and the check of the result
/// depend on it.
const STEPS: [Step; 5] = [TAKE_OVER, OWN_AS_STORED, LEAVE, RENAME_BACK, EMPTY];

/// Makes this plugin the owner of the fields that a predecessor applied. An apply then removes what is no longer
/// desired, as if the plugin had always had this name.
const TAKE_OVER: Step = Step {
    is_needed: |basis, child| basis.predecessors.iter().any(|manager| child.owned_fields(manager, false).is_some()),
    find: |basis, _, live| hand_over(live, basis.predecessors, basis.manager).into_iter().collect(),
    must_succeed: false,
    log: Some("child taken over"),
};

/// Makes this plugin the owner of what the API server stored of fields that are only written, if it applied such fields
/// with an earlier version of the host.
const OWN_AS_STORED: Step = Step {
    is_needed: |basis, child| {
        let kind = &basis.desired.reference.kind;
        basis.owned(child).is_some_and(|fields| written_only::is_needed(kind, fields))
    },
    find: |basis, _, live| written_only::as_stored(live, basis.manager).into_iter().collect(),
    must_succeed: false,
    log: None,
};

/// Hands the fields that the plugin leaves to others to another field manager, so that the apply does not remove them.
const LEAVE: Step = Step {
    is_needed: |basis, child| {
        let others = child.owned_fields(LEFT_MANAGER, false);
        left::is_needed(basis.owned(child), others, &basis.left, &basis.desired.body)
    },
    find: |basis, _, live| {
        left::handed_over(live, basis.manager, &basis.left, &basis.desired.body).into_iter().collect()
    },
    must_succeed: true,
    log: None,
};

/// Restores the names of list elements of ours if the child is known to lack them: an apply alone would succeed, and
/// add a second element.
const RENAME_BACK: Step = Step {
    is_needed: |basis, child| {
        let is_unchanged = child.applied.as_deref() == Some(&*basis.desired.digest);
        let fields = basis.owned(child).filter(|_| is_unchanged);
        fields.is_some_and(|fields| renamed_elements::is_missing(fields, &basis.desired.body))
    },
    find: |basis, _, live| renamed_elements::repairs(&basis.desired.body, live),
    must_succeed: false,
    log: None,
};

/// Empties lists and maps that are desired to be empty and hold what we applied before: an apply alone would remove the
/// field.
const EMPTY: Step = Step {
    is_needed: |basis, child| basis.owned(child).is_some_and(|fields| emptied::is_needed(fields, &basis.desired.body)),
    find: |basis, child, live| emptied::repairs(basis.owned(child).unwrap_or("{}"), &basis.desired.body, live),
    must_succeed: false,
    log: None,
};

/// A step of the preparation.
struct Step {
    /// Returns whether the newest known version of the child needs the step.
    is_needed: fn(&Basis<'_>, &Object) -> bool,
    /// Finds what is replaced in the live child.
    find: fn(&Basis<'_>, &Object, &Value) -> Vec<Repair>,
    /// Whether nothing may be applied if the API server refuses the step.
    must_succeed: bool,
    /// What is logged after it.
    log: Option<&'static str>,
}

/// What the steps depend on, beside the child.
struct Basis<'a> {
    desired: &'a Desired,
    /// The paths of the fields that the plugin leaves to others.
    left: Vec<&'a str>,
    /// The field manager of the plugin.
    manager: &'a str,
    /// The field managers of its predecessors.
    predecessors: &'a [String],
}

impl Basis<'_> {
    /// Returns the fields that the plugin applied.
    fn owned<'a>(&self, child: &'a Object) -> Option<&'a str> {
        child.owned_fields(self.manager, false)
    }
}

impl Writer {
    /// Prepares a child for an apply; `known` is the newest known version of the child. Returns the child if a step
    /// changed it.
    ///
    /// # Errors
    /// A transient error, a denial of the object that would result, or the refusal of a step that must succeed.
    pub(super) async fn prepare(
        &self,
        apply: &Apply,
        known: &Object,
        target: Target<'_>,
    ) -> Result<Option<Arc<Object>>, WriteError> {
        let desired = &apply.desired;
        let basis = Basis {
            desired,
            left: left::paths(&desired.left, target.resource.has_scale, &desired.body),
            manager: &self.manager,
            predecessors: target.parent.predecessors.managers(),
        };
        let mut prepared = None;
        for step in &STEPS {
            let known = prepared.as_deref().unwrap_or(known);
            if !(step.is_needed)(&basis, known) {
                continue;
            }
            let find = |child: &Object, live: &Value| (step.find)(&basis, child, live);
            let changed = match step.must_succeed {
                true => self.must_patch_live(apply, find, target).await?,
                false => self.patch_live(apply, find, target).await?,
            };
            let Some(changed) = changed else { continue };
            if let Some(log) = step.log {
                let (child, from) = (&desired.reference, known.label(PLUGIN_LABEL));
                tracing::info!(%child, from, "{log}");
            }
            prepared = Some(changed);
        }
        Ok(prepared)
    }
}
