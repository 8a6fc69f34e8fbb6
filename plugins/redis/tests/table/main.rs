//! What the plugin promises, row by row.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what broke by breaking"
)]

mod by_hand;
mod children;
mod rollouts;
mod servers;
mod storage;
mod world;
