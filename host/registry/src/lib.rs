//! Components in registries: found by `oci://` references, pulled by digest, checked for who signed them.
//!
//! A registry is not trusted. Its answers are bounded in size and time, each blob is checked against the digest that
//! was asked for, and a tag is resolved once.
//!
//! A host uses a [`Puller`], which works in a confined process: [`Puller::resolve`] finds the digest of a tag by one
//! small request or two, and [`Puller::pull`] takes a [`Pull`], which names the image, the access to its registry and
//! the accepted signers. The caller reads the pull secret ([`Credentials::of_secret`]) and the CA bundle.
//! `hotshoe pull` pulls in its own process.
//!
//! | file | contents |
//! |---|---|
//! | `reference.rs` | `oci://registry/repository:tag@digest` |
//! | `credentials.rs` | credentials, from a Docker configuration or a pull secret |
//! | `connection.rs` | a client of one registry: TLS, proxy, credentials, redirects, timeouts |
//! | `challenge.rs` | what a registry asks its clients for, and to whom credentials may go |
//! | `names.rs` | resolves names, and refuses addresses that a registry may not send a request on to |
//! | `reach.rs` | from where an address can be reached |
//! | `authorities.rs` | which certificate authorities are trusted |
//! | `manifest.rs` | which layer of an image is its component |
//! | `pull.rs` | from a reference to a component |
//! | `push.rs` | from a component to a reference |
//! | `signature/` | who signed an image |
//! | `process.rs` | pulls in a process of its own |
//! | `verification.rs` | verifies signatures in another one, which has no network |
//! | `confinement.rs` | what that process may do |

mod authorities;
mod challenge;
pub mod confinement;
pub mod connection;
pub mod credentials;
pub mod error;
mod manifest;
mod names;
pub mod process;
pub mod pull;
pub mod push;
mod reach;
pub mod reference;
pub mod signature;
pub mod verification;

#[cfg(test)]
mod hostile;

pub use connection::Access;
pub use credentials::Credentials;
pub use error::RegistryError;
pub use process::Puller;
pub use pull::{Pull, Pulled};
pub use reference::ImageRef;
pub use signature::{Accepted, Keyless, Verify};
