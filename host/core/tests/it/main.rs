//! What needs neither the host to be built nor a cluster: the order of the folders, and the gate against an
//! evaluator of another make.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture;
mod architecture_page;
mod denial;
mod enumeration;
mod harmless;
mod imports;
mod result;
