//! Components in registries: found by `oci://` references, pulled by digest, checked for who signed them.
//!
//! A registry is not trusted. What it serves is bound in size and time, each blob is checked against the digest that
//! was asked for, and a tag is resolved once. A host asks through [`process`], so that no answer uses its memory.
//!
//! | file | contents |
//! |---|---|
//! | `reference.rs` | `oci://registry/repository:tag@digest` |
//! | `credentials.rs` | what to log in with, of a Docker configuration or a pull secret |
//! | `connection.rs` | a client of one registry: TLS, proxy, credentials, time |
//! | `authorities.rs` | which certificate authorities are trusted |
//! | `manifest.rs` | which layer of an image is its component |
//! | `pull.rs` | from a reference to a component |
//! | `push.rs` | from a component to a reference |
//! | `signature/` | who signed an image |
//! | `process.rs` | pulls in a process of its own |
//! | `confinement.rs` | what that process may do |

pub mod authorities;
pub mod confinement;
pub mod connection;
pub mod credentials;
pub mod error;
mod manifest;
pub mod process;
pub mod pull;
pub mod push;
pub mod reference;
pub mod signature;

#[cfg(test)]
mod hostile;

pub use connection::Access;
pub use credentials::Credentials;
pub use error::RegistryError;
pub use process::Puller;
pub use pull::{Pull, Pulled};
pub use reference::ImageRef;
pub use signature::{Keyless, Verify};
