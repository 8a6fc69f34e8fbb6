//! The metrics and the log of the host.

pub mod by_revision;
pub mod log_format;
pub mod metrics;
pub mod swap_timer;
pub mod webhook_metrics;
