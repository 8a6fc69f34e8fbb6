//! All contact with the API server: watches and caches on the way in, one writer on the way out.
//!
//! ```text
//! watch ─▶ cache ─▶ observe ─▶ (decide, check, diff) ─▶ apply
//! ```

pub mod apply;
pub mod apply_body;
pub mod cache;
pub mod client;
pub mod discovery;
pub mod events;
pub mod identity;
mod in_flight;
pub mod namespace;
pub mod observe;
pub mod pace;
pub mod parent;
pub mod served;
pub mod silence;
mod transport;
mod turns;
pub mod watch;
pub mod watched;
mod wire;
