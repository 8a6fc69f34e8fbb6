//! Fuzz targets: what comes from outside and is read by the host's own code.
//!
//! | target | whose bytes | what is read | what must hold |
//! |---|---|---|---|
//! | [`decision`] | a plugin's | the first look at an answer | what passes is within the limits and clean |
//! | [`pruning`] | the API server's | an object, and the fields that are kept of it | nothing is kept that was not there or not asked for |
//! | [`ownership`] | everybody's, by way of the API server | `managedFields` against what is desired | coverage and excess agree with each other and with a walk that compares each with each, repairs point into the live object |
//! | [`gate`] | a plugin's | a decision against a grant | what passes is granted, in its place, and carries the host's stamps |
//!
//! The files that are fuzzed are the host's own, included here by their paths: nothing of them has to
//! become public for it, and nothing else of the host is compiled. An input is text in sections, so
//! that seeds can be read and written by hand.

#![allow(dead_code, unfulfilled_lint_expectations, reason = "the included files serve the host, by its lints")]

#[path = "../../host/src/access.rs"]
mod access;
#[path = "../../host/src/adoption.rs"]
mod adoption;
#[path = "../../host/src/check.rs"]
mod check;
#[path = "../../host/src/claim_policy.rs"]
mod claim_policy;
#[path = "../../host/src/decision.rs"]
mod decision;
#[path = "../../host/src/diff.rs"]
mod diff;
#[path = "../../host/src/error.rs"]
mod error;
#[path = "../../host/src/grant.rs"]
mod grant;
#[path = "../../host/src/keys.rs"]
mod keys;
#[path = "../../host/src/names.rs"]
mod names;
#[path = "../../host/src/never.rs"]
mod never;
#[path = "../../host/src/object.rs"]
mod object;
#[path = "../../host/src/ownership.rs"]
mod ownership;
#[path = "../../host/src/pattern.rs"]
mod pattern;
mod plugin;
#[path = "../../host/src/pod_containers.rs"]
mod pod_containers;
#[path = "../../host/src/pod_grant.rs"]
mod pod_grant;
#[path = "../../host/src/pod_policy.rs"]
mod pod_policy;
#[path = "../../host/src/pod_security.rs"]
mod pod_security;
#[path = "../../host/src/pod_volumes.rs"]
mod pod_volumes;
#[path = "../../host/src/projection.rs"]
mod projection;
#[path = "../../host/src/service_policy.rs"]
mod service_policy;
#[path = "../../host/src/shape.rs"]
mod shape;

mod targets;

pub use targets::answers::decision;
pub use targets::gate::gate;
pub use targets::objects::{ownership, pruning};
