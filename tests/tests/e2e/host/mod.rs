//! The host as a process. Each test has a host of its own, which watches a namespace of its own.

mod audit_log;
mod configuration;
mod ports;
mod proxied;
mod reporting;
mod restart;
mod timers;
