//! The host without a cluster: its program and its loader, from outside of the crate. All tests are in one binary,
//! because each binary is linked with the whole host.

#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod confinement;
mod conversion;
mod disk;
mod image;
mod javascript;
mod new;
mod plugin_cli;
mod plugin_limits;
mod plugin_load;
mod plugin_support;
mod python;
mod recipes;
mod registry;
