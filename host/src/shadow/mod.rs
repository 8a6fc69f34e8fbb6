//! Two revisions asked about one parent, and what their answers would change. Nothing is written.

pub mod evaluate;
pub mod impact;
pub mod summary;
