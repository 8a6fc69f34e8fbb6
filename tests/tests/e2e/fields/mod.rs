//! Which fields of a child are written, whose they are, and what becomes of them.

mod contended;
mod drift;
mod empty_lists;
mod left;
mod old_style;
mod recreated;
mod unions;
mod write_only;
