//! All contact with the API server: watches and stores on the way in, one writer on the way out.
//!
//! ```text
//! watch ─▶ store ─▶ view ─▶ (observe, decide, check, diff) ─▶ prepare, apply, repair
//! ```

pub mod access_review;
pub mod apply;
pub mod apply_body;
mod boot_clock;
pub mod checked_apply;
pub mod client;
pub mod config_map;
mod connector;
pub mod counts;
pub mod credentials;
pub mod discovery;
pub mod error;
pub mod events;
mod fair_semaphore;
mod field_index;
pub mod foreign_lease;
pub mod holders;
pub mod host_object;
pub mod identity;
mod immutable;
pub mod impersonation;
pub mod lease;
mod lease_keeper;
mod lease_object;
pub mod lease_status;
mod live_patch;
pub mod namespace;
pub mod needed_list;
pub mod needed_watch;
pub mod object_watch;
pub mod outage;
mod pages;
pub mod parent;
mod permitted_body;
mod place;
pub mod plugin_object;
mod prepare;
mod proxy;
pub mod pull_secret;
pub mod rate_limit;
pub mod raw_object;
pub mod read;
mod recreate;
pub mod repair;
pub mod scale;
#[cfg(test)]
mod served;
pub mod shards;
mod shared_connections;
pub mod shared_watch;
pub mod status_schema;
pub mod storage_migration;
pub mod store;
pub mod stored_objects;
pub mod time;
mod time_limit;
pub mod transport;
pub mod view;
pub mod watch;
pub mod write;

// So that a file that the tests of other crates include names this crate as they do.
#[cfg(test)]
extern crate self as hotshoe_cluster;
