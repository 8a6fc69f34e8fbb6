//! One pass over one parent: what may come of it, and when the parent is looked at again.

use std::time::Duration;

/// When to look at a parent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// At once: our own writes changed what the plugin sees.
    Again,
    /// After this long, or when something changes.
    After(Duration),
}

impl Next {
    /// The same, but after this long at the latest.
    pub fn no_later_than(self, latest: Duration) -> Self {
        match self {
            Next::Again => Next::Again,
            Next::Wait => Next::After(latest),
            Next::After(after) => Next::After(after.min(latest)),
        }
    }
}

/// What came of one pass over a parent that did not fail.
pub enum Ended {
    /// It is looked at again.
    Look(Next),
    /// It is looked at again, and all is not well.
    Troubled {
        /// One PascalCase word for Event and condition.
        reason: &'static str,
        /// What is wrong.
        message: String,
        /// When it is looked at again.
        again: Next,
    },
}

/// How one pass over a parent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// When to look again.
    pub next: Next,
    /// Whether it failed.
    pub failed: bool,
}
