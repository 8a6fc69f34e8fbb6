//! What fails costs its own parent a decision, is reported, and is tried again.

mod broken;
mod javascript;
mod python;
mod refused;
mod refused_for_long;
mod retries;
