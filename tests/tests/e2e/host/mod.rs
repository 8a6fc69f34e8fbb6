//! The host as a process. Each test has a host of its own, which watches a namespace of its own.

mod acts;
mod broken;
mod configuration;
mod contended;
mod crowd;
mod deleting;
mod dictated;
mod empty_lists;
mod finalizers;
mod granted;
mod kstatus;
mod left;
mod old_style;
mod orphaned;
mod orphans;
mod ports;
mod refused_for_long;
mod reporting;
mod restart;
mod stalled;
mod timers;
mod unions;
mod unserved;
mod write_only;
