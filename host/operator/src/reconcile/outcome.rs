//! The ways in which a pass over one parent ends without a failure.

use std::fmt;

use crate::reconcile::error::{CHILDREN_REFUSED, CLEAN_UP_WAITS, CONTENDED};
use crate::reconcile::parent_state::ParentState;
use crate::reconcile::refused_writes::DENIED;

/// The end of a pass without a failure. [`Requeue`](crate::reconcile::requeue::Requeue) says for each when the parent
/// is reconciled again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do now; a timer may be due later.
    Settled,
    /// Our own writes changed what the plugin sees.
    Changed,
    /// Another writer changed the parent first.
    Overtaken,
    /// A write met a conflict, an overload or no answer.
    Stalled,
    /// The parent's namespace is being deleted, and accepts no new children.
    NamespaceTerminating,
    /// Clean-up is not done; says what it waits for.
    CleaningUp(String),
    /// The parent is being deleted, and has a finalizer that possibly no controller removes.
    Orphaned(Orphan),
    /// The parent is being deleted, and has no finalizer of this plugin.
    Released,
}

/// A finalizer that possibly no controller removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The name of the finalizer.
    pub finalizer: String,
    /// The other field manager that set a finalizer with a name of this plugin's; `None` if no known component has the
    /// finalizer.
    pub set_by: Option<String>,
}

/// A problem to report although the pass did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason in Event and condition.
    pub reason: &'static str,
    /// What is wrong.
    pub message: String,
    /// Whether an Event reports it, too. A refused child has an Event of its own.
    pub has_event: bool,
}

impl Trouble {
    fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message, has_event: true }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { finalizer, set_by } = self;
        match set_by {
            Some(manager) => write!(
                f,
                "the finalizer {finalizer} was set by {manager} and not by this plugin, which leaves it; \
                 where no other operator removes it, remove it by hand, or, if {manager} set it in place of this \
                 plugin, as the restore of a backup does, add {manager} to alsoSetBy of this finalizer in spec.finalizers of plugin.yaml"
            ),
            None => write!(
                f,
                "no component of this host holds the finalizer {finalizer}; another operator may, and where none does, remove it by hand"
            ),
        }
    }
}

impl Outcome {
    /// Returns the reason and message for Event and condition.
    pub fn trouble(&self, state: &ParentState) -> Option<Trouble> {
        let late = |what: String| {
            let message = format!("its clean-up is not done: {what}");
            state.until_late().is_zero().then(|| Trouble::new(CLEAN_UP_WAITS, message))
        };
        let of_clean_up = match self {
            Self::CleaningUp(what) => late(what.clone()),
            Self::Orphaned(orphan) => late(orphan.to_string()),
            _ => None,
        };
        let denied = || state.refused.denied().map(|message| Trouble::new(DENIED, message));
        let refused = || {
            let message = state.refused.lasting()?;
            Some(Trouble { has_event: false, ..Trouble::new(CHILDREN_REFUSED, message) })
        };
        let contended = || state.contention.message().map(|message| Trouble::new(CONTENDED, message));
        of_clean_up.or_else(denied).or_else(refused).or_else(contended)
    }

    /// Returns what a parent that is being deleted waits for.
    pub fn awaited(&self) -> &str {
        match self {
            Self::CleaningUp(what) => what,
            Self::Orphaned(_) | Self::Released => "finalizers of others",
            Self::NamespaceTerminating => "its namespace is being deleted",
            Self::Stalled | Self::Overtaken => "a write is retried",
            Self::Settled | Self::Changed => "it is about to be reconciled again",
        }
    }
}
