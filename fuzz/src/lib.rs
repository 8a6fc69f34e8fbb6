//! Fuzz targets: what comes from outside and is read by the host's own code.
//!
//! | target | whose bytes | what is read | what must hold |
//! |---|---|---|---|
//! | [`decision`] | a plugin's | the first look at an answer | what passes is within the limits and clean |
//! | [`pruning`] | the API server's | an object, and the fields that are kept of it | nothing is kept that was not there or not asked for |
//! | [`ownership`] | everybody's, by way of the API server | `managedFields` against what is desired | coverage and excess agree with each other and with a walk that compares each with each, repairs point into the live object |
//! | [`gate`] | a plugin's | a decision against a grant | what passes is granted, in its place, and carries the host's stamps |
//!
//! What is fuzzed is in `hotshoe-core`, so neither wasmtime nor kube is compiled for it. An input is text in
//! sections, so that seeds can be read and written by hand.

mod targets;

pub use targets::answers::decision;
pub use targets::gate::gate;
pub use targets::objects::{ownership, pruning};
