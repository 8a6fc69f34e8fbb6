//! The host as a process. Each test has a host of its own, which watches a namespace of its own.

mod acts;
mod broken;
mod configuration;
mod contended;
mod crowd;
mod deleting;
mod empty_lists;
mod finalizers;
mod granted;
mod old_style;
mod orphaned;
mod ports;
mod reporting;
mod restart;
mod stalled;
mod timers;
mod unserved;
