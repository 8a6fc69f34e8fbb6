//! *decide*: all contact with wasmtime and with plugin bytes.
//!
//! ```text
//! Source ─bytes─▶ Revision::load ─▶ Slot ─▶ Revision::decide ─▶ Outcome
//! (a file)        (Compiler, Engine)        (a fresh sandbox)
//! ```
//!
//! Everything in here assumes that the component was written by somebody who wishes us harm.

mod answer;
mod bindings;
mod cache;
pub mod call;
pub mod candidate;
pub mod cases;
pub mod compile;
pub mod contract;
pub mod descriptor;
pub mod digest;
pub mod engine;
pub mod expect;
pub mod history;
mod json;
pub mod limits;
mod native;
pub mod revision;
mod sandbox;
pub mod slot;
pub mod source;
pub mod text;
mod threads;

pub use bindings::CONTRACT;
pub use sandbox::{Level, LogLine};
