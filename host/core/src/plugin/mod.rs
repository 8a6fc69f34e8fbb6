//! What a `Plugin` is to do next: pure decisions, which the driver of the host carries out.
//!
//! ```text
//! Wanted (the spec) ─┐                        ┌▶ no work in progress: next  ─▶ Step
//! Seen   (the host) ─┼▶ decided once a second ┘
//! Attempts           ┘
//! the source offers a component ──▶ Stage ─▶ an activation begins ─▶ Offer ─▶ refused, or tried
//! a definition, a verdict, a command ─▶ Stage ─▶ which work begins, goes on or ends
//! ```
//!
//! These types decide which work begins. How a work goes on, from loading a component to publishing or refusing it, and in
//! which order earlier revisions are tried, is still decided by the host. The state of a plugin:
//!
//! | state | values | changed by |
//! |---|---|---|
//! | [`Wanted`](wanted::Wanted) | `spec.approve`, `spec.revision`, `spec.rollout`, `spec.mode` | the administrator |
//! | [`Stage`](stage::Stage) | idle, activating, rolling back, returning; the work that a return has interrupted | each event |
//! | active, canary, refused | a component or none, each | the end of a work |
//! | [`past`] | what happened to each component, in order | the end of a work, an approval |
//! | [`Attempts`](attempts::Attempts) | approvals that were used up, pauses | each step |
//! | source | not read, or the component that it offered; whether it can be fetched | the administrator, the network |

pub mod attempts;
pub mod next;
pub mod offer;
pub mod past;
pub mod seen;
pub mod stage;
pub mod step;
pub mod wanted;

#[cfg(test)]
mod model_check;
