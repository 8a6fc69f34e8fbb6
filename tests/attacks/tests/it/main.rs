//! The table itself: complete, equal to that in docs/src/security.md, and each forged object denied by the expected
//! rule.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod gate;
mod table;
