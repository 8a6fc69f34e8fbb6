//! The trait that a plugin implements, and how it is called.

use serde::de::DeserializeOwned;

use crate::{Answer, Cleanup, Decision, Descriptor, Failure, Observation, Request};

/// The logic of an operator as a pure function from what is observed to what is desired.
pub trait Reconciler: Sized {
    /// The parent, as far as the plugin reads it. Its `spec` is always shown; other fields only
    /// where [`Descriptor::parent_fields`] asked for them. Names come from the request.
    type Parent: DeserializeOwned;

    /// The plugin's configuration. The host checks it against no schema, and an environment variable that is
    /// not set leaves its key out, so make such keys optional. `()` for a plugin that has none.
    type Config: DeserializeOwned;

    /// Describes the plugin and what it asks for. Must answer the same each time.
    fn describe() -> Descriptor;

    /// Decides what is desired, given what is observed.
    ///
    /// # Errors
    ///
    /// A [`Failure`] says why there is no decision; the host then writes only a condition and an
    /// Event about it.
    fn reconcile(request: &Request<Self>) -> Result<Answer, Failure>;

    /// Cleans up before the parent goes: called instead of `reconcile` while the parent is being
    /// deleted and holds the finalizer that `describe` named, until the answer is
    /// [`Cleanup::Done`]. Beside the fields asked for, the parent shows its `status.conditions`,
    /// so that a clean-up sees what it reported before.
    ///
    /// # Errors
    ///
    /// After a [`Failure`] the finalizer stays, the failure is reported, and the call is retried with backoff.
    fn finalize(_request: &Request<Self>) -> Result<Cleanup, Failure> {
        Ok(Cleanup::Done(Decision::keep()))
    }
}

/// Calls the plugin's `reconcile` with an observation, as the host does.
///
/// # Errors
///
/// The failure of the plugin, or one that says which part of the observation does not parse.
pub fn reconcile<R: Reconciler>(observation: Observation) -> Result<Answer, Failure> {
    let parent = observation.parent.reference.clone();
    Ok(match R::reconcile(&Request::read(observation)?)? {
        Answer::Decided(decision) => Answer::Decided(decision.stated_of(&parent)?),
        needs @ Answer::Needs(_) => needs,
    })
}

/// Calls the plugin's `finalize` with an observation, as the host does.
///
/// # Errors
///
/// The failure of the plugin, or one that says which part of the observation does not parse.
pub fn finalize<R: Reconciler>(observation: Observation) -> Result<Cleanup, Failure> {
    let parent = observation.parent.reference.clone();
    Ok(match R::finalize(&Request::read(observation)?.in_clean_up())? {
        Cleanup::Waiting(decision) => Cleanup::Waiting(decision.stated_of(&parent)?),
        Cleanup::Done(decision) => Cleanup::Done(decision.stated_of(&parent)?),
    })
}
