//! Flow control: signals, circuit breaker, fair queue, flapping, contention, probation, canary, backoff, tries, rate limits,
//! unanswered writes, turns of calls and of Events, room on the disk; when a CA signs; which objects are needed by name;
//! and which of several hosts may write: leases and shards.

pub mod backoff;
pub mod boot_time;
pub mod ca_rotation;
pub mod canary;
pub mod circuit;
pub mod circuit_breaker;
pub mod contention;
pub mod disk_share;
pub mod event_queue;
pub mod fair_queue;
pub mod flapping;
pub mod lanes;
pub mod lease;
pub mod needs;
pub mod page_size;
pub mod probation;
pub mod rate_limit;
pub mod restated;
pub mod retry;
pub mod shards;
pub mod signal;
pub mod tries;
pub mod unanswered;
pub mod write_cost;
