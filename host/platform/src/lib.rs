//! What all of the host needs around its work: files that are safe to read, child processes that are confined, the
//! space on a volume, and the spans of its log lines. Knows neither plugins nor the API server.
//!
//! | file | contents |
//! |---|---|
//! | `safe_file.rs` | reads and writes files that others may replace |
//! | `followed_file.rs` | follows a file, and offers each new content once |
//! | `candidate.rs` | bytes and their digest, before anything in them is trusted |
//! | `child.rs` | runs this program as a short-lived child |
//! | `confinement.rs` | what such a child may do |
//! | `volume.rs` | the space on a volume |
//! | `spans.rs` | what log lines are about |

pub mod candidate;
pub mod child;
pub mod confinement;
pub mod followed_file;
pub mod safe_file;
pub mod spans;
#[cfg(test)]
mod test_disk;
pub mod volume;

// So that a file that the tests of other crates include names this crate as they do.
#[cfg(test)]
extern crate self as hotshoe_platform;
