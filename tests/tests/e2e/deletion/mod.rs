//! Deletions: finalizers, clean-ups, and what is reported about those that take long.

mod begun_to_gone;
mod finalizers;
mod orphaned;
mod reported;
