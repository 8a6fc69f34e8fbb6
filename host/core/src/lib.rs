//! The pure half of Hotshoe: what a plugin sees, what it may do, what must be written, and when to hold back.
//!
//! ```text
//! model ◀── check ◀── diff ◀── flow ◀── plugin
//!                ◀── compare
//!                ◀── rbac
//! ```
//!
//! Nothing in here does I/O, awaits, or knows a Kubernetes client or wasmtime. Cargo enforces this, for none of them is
//! among the dependencies.

pub mod check;
pub mod compare;
pub mod diff;
pub mod flow;
pub mod model;
pub mod plugin;
pub mod rbac;
pub mod simulation;
