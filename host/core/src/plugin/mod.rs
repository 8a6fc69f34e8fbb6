//! What a `Plugin` is to do next: pure decisions, which the host carries out. This is the page of a plugin's life: which
//! function decides when, and its rows, of which the first that applies counts.
//!
//! ```text
//! Wanted (the spec) ─┐
//! Seen   (the host) ─┼▶ next, once a second ─▶ Step ─▶ the host does it
//! Attempts           ┘
//! the source offers a component ─▶ Stage ─▶ Offer ─▶ loaded ─▶ Examination ─▶ Verdict ─▶ refused, canary, active
//! a definition, a verdict, a command ─▶ Stage ─▶ which work begins, goes on or ends
//! ```
//!
//! No work is in progress, [`next`](next::next):
//!
//! | wanted and seen | step |
//! |---|---|
//! | `verify` refuses the active revision, and no fetched component is due | `Retire` |
//! | a canary, and another host has activated it | `Promote` |
//! | … and `spec.revision` names it | `Promote` |
//! | … and `spec.revision` names another revision | `EndCanary` |
//! | … and `spec.rollout` is gone, or its time is over | `Promote` |
//! | none is active, and the source cannot be fetched | `FallBack`, after a pause |
//! | `spec.revision` names a revision that is not active | `Return` or `FailReturn`, after a pause |
//! | `spec.approve` names the component that waits, for the first time | `Approve` |
//! | a canary, and `spec.rollout` has another share | `Share` |
//! | else | `Wait` |
//!
//! Something happens, whether or not work is in progress, [`Stage::next`](stage::Stage::next). `offer` means that the
//! source's component is offered again; `waits` means that it is not looked at until the work has ended:
//!
//! ```text
//! event ▶              Offered       FileChanged     RollbackNeeded   RollbackAsked       Ended
//! Idle                 Activating    Idle, offer     RollingBack      Returning           Idle
//! Activating           Activating¹   Idle, offer     RollingBack²     Returning           Idle
//! RollingBack          waits         waits           waits            Returning           Idle
//! Returning            waits         waits           waits            refused             Idle³
//! ```
//!
//! ¹ The newer component replaces the one that was being activated. ² That one is offered again after the rollback.
//! ³ If the return failed, the work that it had interrupted starts again.
//!
//! A component is offered, [`Offer::of`](offer::Offer::of):
//!
//! | wanted and seen | what is done |
//! |---|---|
//! | it is active, or the canary | nothing; beside the active one a canary ends |
//! | `spec.revision` names another one | refused |
//! | `spec.revision` names it | loaded |
//! | it was rolled back, and not approved since | refused |
//! | it requires approval for what it would delete, and none is active to compare it with | refused |
//! | else | loaded |
//!
//! It was loaded, [`Loaded::verdict`](takeover::Loaded::verdict):
//!
//! | wanted and seen | what is done |
//! |---|---|
//! | new and not approved; `spec.rollout` is set, and it cannot be a canary | refused until it is approved |
//! | new and not approved; `spec.mode` is `Shadow`, and it was not active when the host ended | the same |
//! | new and not approved; it fails on parents, or would delete much | the same |
//! | active before; it fails on the first parents | refused |
//! | new; `spec.rollout` is set, and another revision is active | the canary |
//! | else | active |
//!
//! An [`earlier`] revision follows: at a start the last one that was active, so that another component is verified
//! beside it; while none is active, the one that `spec.revision` names, or else the last good one; on a rollback the
//! last good one. An approval or a rollback names a component, or none: [`meant`]. Its object is being deleted:
//! [`removal`].
//!
//! The state of a plugin:
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
pub mod earlier;
pub mod meant;
pub mod next;
pub mod offer;
pub mod past;
pub mod removal;
pub mod seen;
pub mod stage;
pub mod step;
pub mod takeover;
pub mod wanted;

#[cfg(test)]
mod model_check;
