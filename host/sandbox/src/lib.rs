//! Everything that touches wasmtime or the bytes of plugins: the *decide* step.
//!
//! ```text
//! FollowedFile ─bytes─▶ Revision::load ─▶ Slot ─▶ Revision::decide ─▶ Outcome
//! (a file)             (Compiler, Engine)        (a fresh sandbox)
//! ```
//!
//! Everything here assumes that the component was written by an attacker.

pub mod bindings;
pub mod call;
pub mod cases;
pub mod code_cache;
pub mod compile;
pub mod contract;
pub mod descriptor;
pub mod engine;
pub mod error;
pub mod executor;
pub mod load;
pub mod revision;
pub mod store;
pub mod yaml;

#[cfg(test)]
#[path = "../../platform/src/test_disk.rs"]
mod test_disk;

pub use bindings::CONTRACTS;
pub use store::{Level, LogLine};
