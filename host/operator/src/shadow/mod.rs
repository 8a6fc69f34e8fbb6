//! Calls two revisions for the same parent, and finds what their answers would change. Nothing is written.

pub mod evaluate;
pub mod impact;
pub mod stored;
