//! The trait that a plugin implements, and how it is called.

use serde::de::DeserializeOwned;

use crate::{Answer, Cleanup, Decision, Descriptor, Failure, Observation, Request};

/// The logic of an operator as a pure function: from an observation to what should be.
pub trait Reconciler: Sized {
    /// The parent, as far as the plugin reads it. Its `spec` is always shown; other fields only
    /// where [`Descriptor::parent_fields`] asked for them. Names come from the request.
    type Parent: DeserializeOwned;

    /// The plugin's configuration. The host checks it against no schema, and a variable that is not set
    /// leaves its key out, so let absent keys be absent. `()` for a plugin that has none.
    type Config: DeserializeOwned;

    /// What the plugin is and asks for. Must answer the same each time.
    fn describe() -> Descriptor;

    /// What should be, given what is.
    ///
    /// # Errors
    ///
    /// A [`Failure`] says why there is no decision; nothing is written then but a condition and
    /// an Event about it.
    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure>;

    /// What to do before the parent goes: called instead of `reconcile` while the parent is being
    /// deleted and holds the finalizer that `describe` named, until the answer is
    /// [`Cleanup::Done`]. Beside the fields asked for, the parent shows its `status.conditions`,
    /// so that a clean-up sees what it reported before.
    ///
    /// # Errors
    ///
    /// A [`Failure`] keeps the finalizer, is shown, and is tried again with back-off.
    fn finalize(_request: &Request<Self>) -> Result<Cleanup, Failure> {
        Ok(Cleanup::Done(Decision::keep()))
    }
}

/// Answer an observation as the host would have it answered.
///
/// # Errors
///
/// The failure of the plugin, or one that says which part of the observation does not parse.
pub fn reconcile<R: Reconciler>(observation: Observation) -> Result<Answer, Failure> {
    R::reconcile(&Request::read(observation)?)
}

/// Clean up after an observation as the host would have it done.
///
/// # Errors
///
/// The failure of the plugin, or one that says which part of the observation does not parse.
pub fn finalize<R: Reconciler>(observation: Observation) -> Result<Cleanup, Failure> {
    R::finalize(&Request::read(observation)?)
}
