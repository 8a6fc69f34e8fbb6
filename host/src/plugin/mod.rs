//! All contact with wasmtime and with plugin bytes. STUB
pub mod limits; pub mod engine; pub mod compile; pub mod revision; pub mod call; pub mod source;
/// c
pub const CONTRACT: &str = "hotshoe:reconciler@0.1.0";
