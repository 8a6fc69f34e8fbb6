//! The native operator: the same behaviour on kube-rs alone, written and tuned by hand. Each object has one
//! reconcile at a time, and ten run at once. Predicates filter out the operator's own status writes. Children
//! and status are written only where they differ from the caches. The caches drop `managedFields` and keep only
//! the names of Pods.
//!
//! | file | contents |
//! |---|---|
//! | `watch.rs` | the watches, their caches, and the triggers of a reconcile |
//! | `reconcile.rs` | from caches to writes |
//! | `pods.rs` | which Pods belong to which `Memcached` |
//! | `difference.rs` | whether a child must be applied |
//!
//! It does less than the host, which only makes it faster: it would take over another controller's
//! Deployment that has its labels, and it has no metrics.

mod difference;
mod pods;
mod reconcile;
mod watch;

pub use watch::run;
