//! Components in registries: found by `oci://` references, pulled by digest, checked for who signed them.
//!
//! A registry is not trusted. What it serves is bound in size and time, each blob is checked against the digest that
//! was asked for, and a tag is resolved once.
//!
//! A host asks by a [`Puller`], in a confined process: [`Puller::resolve`] follows a tag at the price of one small request or
//! two, and [`Puller::pull`] takes a [`Pull`], which says where the component is, how its registry is reached and who must have
//! signed it. The caller reads the pull secret ([`Credentials::of_secret`]) and the CA bundle. `hotshoe pull` asks in its own
//! process.
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
