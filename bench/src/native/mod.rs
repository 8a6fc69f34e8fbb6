//! The native operator: what an author would write who wants the same behaviour from kube-rs alone
//! and tunes it. One reconcile of each object at a time and ten at once; predicates keep echoes of
//! its own status writes out; children and status are written only where they differ from the
//! caches; `managedFields` are dropped from the caches and Pods kept by name only.
//!
//! | file | contents |
//! |---|---|
//! | `watch.rs` | the watches, the caches they fill, and what wakes a reconcile |
//! | `reconcile.rs` | from caches to writes |
//! | `pods.rs` | which Pods belong to which `Memcached` |
//! | `difference.rs` | whether a child must be applied |
//!
//! It does less than the host where that only helps it: it would take over a Deployment of
//! another controller's that carries its labels, and counts nothing.

mod difference;
mod pods;
mod reconcile;
mod watch;

pub use watch::run;
