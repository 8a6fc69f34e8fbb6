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
pub mod candidate;
pub mod cases;
pub mod child;
pub mod code_cache;
pub mod compile;
pub mod confinement;
pub mod contract;
pub mod descriptor;
pub mod engine;
pub mod error;
pub mod executor;
pub mod followed_file;
pub mod load;
pub mod revision;
pub mod safe_file;
pub mod store;
#[cfg(test)]
pub(crate) mod test_disk;
pub mod volume;
pub mod yaml;

pub use bindings::CONTRACT;
pub use store::{Level, LogLine};
