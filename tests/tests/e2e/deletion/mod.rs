//! Deletions: finalizers and clean-ups. What is reported about those that take long is in `monitoring/provoked.rs`.

mod begun_to_gone;
mod finalizers;
mod orphaned;
