//! Everything that is counted.

pub mod by_revision;
pub mod metrics;
pub mod swap_timer;
