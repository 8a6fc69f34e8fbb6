//! The metrics and the log of the host.

pub mod by_revision;
pub mod exercise;
mod families;
pub mod family;
pub mod log_format;
pub mod metrics;
mod process;
pub mod queue_metrics;
pub mod swap_timer;
pub mod table;
pub mod webhook_metrics;
