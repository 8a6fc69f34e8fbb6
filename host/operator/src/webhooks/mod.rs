//! Admission: the API server asks about a proposed parent before it stores it. First the plugin fills in what is left out,
//! if it has code for that. Then its code for validation is asked, and then the answer is what the next reconcile would
//! say.
//!
//! ```text
//! proposed parent ─▶ default ─▶ check ─▶ patch
//!
//! proposed parent ─▶ validate ─▶ refuse what has errors
//!                 ─▶ observe ─▶ decide ─▶ check ─▶ refuse what the plugin rejects or the gate denies
//!                                                └▶ in a dry run: warn what would be written
//! ```
//!
//! Nothing is written, and nothing of a call is logged, counted against the revision or seen by the circuit breaker.
//! Whatever prevents an answer admits the object as it came, so that a plugin that fails stops no user.
//!
//! | file | contents |
//! |---|---|
//! | `review.rs` | the request of the API server and its response |
//! | `admission.rs` | answers with what the active revision says of a proposed parent |
//! | `answer.rs` | what a revision says of it |
//! | `code.rs` | asks the code that a revision has for admission |
//! | `scale.rs` | a change of the number of replicas alone, as a change of the parent |
//! | `beside.rs` | asks the canary, too, and counts how its answers differ |
//! | `conversion_review.rs`, `conversion.rs` | objects that are to be written in another version, and the plugin that does |
//! | `dry_run.rs` | which children a decision would write |
//! | `configuration.rs` | the objects that make the API server ask |
//! | `own_certificates.rs` | keeps the certificates by which the API server trusts the host |
//! | `authorities.rs` | the CAs that sign them, as the content of a Secret |
//! | `conversion_patch.rs` | what makes the API server have a plugin convert its parents |

pub mod admission;
pub mod answer;
pub mod authorities;
mod beside;
mod code;
pub mod configuration;
pub mod conversion;
pub mod conversion_patch;
pub mod conversion_review;
mod dry_run;
pub mod own_certificates;
pub mod review;
mod scale;
