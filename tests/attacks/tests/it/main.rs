//! The table by itself: whole, the same in docs/src/security.md, and each forged object denied by the rule that is about it.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod gate;
mod table;
