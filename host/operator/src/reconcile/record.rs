//! What a pass has done so far, for an [explanation](crate::reconcile::decided) of its parent.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::api::explain::Act;
use hotshoe_core::model::decision::Observation;
use hotshoe_core::model::kind::ObjectRef;
use hotshoe_core::model::object::{Object, ObservedChildren};
use hotshoe_core::model::sanitize;
use hotshoe_core::model::wanted::Wanted;

/// How many writes of a pass are listed.
const MAX_ACTS: usize = 8;
/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 120;

/// What a pass has done so far.
#[derive(Default)]
pub struct Record {
    /// What the plugin is called with; none as long as it was not called.
    pub call: Option<Called>,
    /// The parent as our last write left it.
    pub parent: Option<Arc<Object>>,
    acts: Mutex<Acts>,
}

/// What a plugin is called with.
pub struct Called {
    /// What it is shown.
    pub shown: Arc<Observation>,
    /// The parent.
    pub parent: Arc<Object>,
    /// The children.
    pub children: ObservedChildren,
    /// What has changed of what it needs.
    pub needed: Vec<Wanted>,
}

#[derive(Default)]
struct Acts {
    listed: Vec<Written>,
    more: usize,
}

/// A write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// What was done.
    pub what: Act,
    /// With which object; none for the parent.
    pub object: Option<ObjectRef>,
    /// In which fields; of a finalizer or an Event, which one.
    pub fields: Vec<String>,
}

impl Record {
    /// Notes the parent as a write of ours left it.
    pub fn note_parent(&mut self, parent: Option<&Arc<Object>>) {
        self.parent = parent.cloned();
    }

    /// Notes a write.
    pub fn note(&self, what: Act, object: Option<&ObjectRef>, fields: Vec<String>) {
        let mut acts = self.acts.lock();
        if acts.listed.len() < MAX_ACTS {
            acts.listed.push(Written { what, object: object.cloned(), fields });
        } else {
            acts.more += 1;
        }
    }

    /// Takes the writes that are listed, and how many more there were.
    pub fn take_acts(&self) -> (Vec<Written>, usize) {
        let Acts { listed, more } = mem::take(&mut *self.acts.lock());
        (listed, more)
    }
}

/// Returns a name that others choose as it may be shown: printable, and short.
pub fn name(object: &impl ToString) -> String {
    sanitize::clean(object.to_string(), MAX_NAME_BYTES)
}
