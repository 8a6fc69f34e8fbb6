//! What the API server says of an object before it asks a webhook, without a cluster: by the schema and the rules (CEL) of
//! the object's CRD.
//!
//! | file | contents |
//! |---|---|
//! | `files.rs` | the CRDs and samples of a project |
//! | `review.rs` | the review of one object |
//! | `stored.rs` | unknown fields left out, and defaults filled in |
//! | `valid.rs` | whether a value is valid by its schema |
//! | `rules.rs` | whether a value keeps the rules of its schema |
//! | `apart.rs` | the same in a process with limits |
//! | `findings.rs` | what was found |
//! | `smaller.rs` | objects that are smaller than another one |
//! | `texts.rs` | formats and patterns |
//! | `members.rs` | the members of a value with what the schema says of each |
//! | `keywords.rs` | what a schema says |

pub(super) mod apart;
pub(super) mod files;
pub(super) mod findings;
pub(super) mod keywords;
pub(super) mod members;
pub(super) mod review;
pub(super) mod rules;
pub(super) mod smaller;
mod stored;
mod texts;
pub(super) mod valid;
