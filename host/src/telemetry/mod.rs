//! The metrics of the host.

pub mod by_revision;
pub mod metrics;
pub mod swap_timer;
