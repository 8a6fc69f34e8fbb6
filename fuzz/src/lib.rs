//! Fuzz targets: input from outside that the host's own code reads.
//!
//! | target | source of the bytes | what is read | what must hold |
//! |---|---|---|---|
//! | [`decision`] | a plugin | the validation of an answer | an accepted answer is within the limits and clean |
//! | [`pruning`] | the API server | an object, and the fields that are kept of it | all kept fields were there and were asked for |
//! | [`ownership`] | any client, through the API server | `managedFields` compared with what is desired | coverage and excess agree with each other and with a naive comparison of all pairs; repairs point into the live object |
//! | [`gate`] | a plugin | a decision checked against a grant | an admitted object is granted, in the right namespace, and has the host's labels, annotations and owner |
//!
//! The fuzzed code is in `hotshoe-core`, so neither wasmtime nor kube has to be compiled. An input is text in
//! sections, so that seeds can be read and written by hand.

mod targets;

pub use targets::answers::decision;
pub use targets::gate::gate;
pub use targets::objects::{ownership, pruning};
