//! Admission by decision: the API server asks about a proposed parent before it stores it, and the answer is what the
//! next reconcile would say.
//!
//! ```text
//! proposed parent ─▶ observe ─▶ decide ─▶ check ─▶ refuse what the plugin rejects or the gate denies
//!                                                └▶ in a dry run: warn what would be written
//! ```
//!
//! Nothing is written, and nothing of a call is logged, counted against the revision or seen by the circuit breaker.
//! Whatever prevents a decision admits the object: the reconcile that follows says the same a second later. So
//! admission is never stricter than the operator.
//!
//! | file | contents |
//! |---|---|
//! | `review.rs` | the request of the API server and its response |
//! | `admission.rs` | asks the active revision about a proposed parent |
//! | `dry_run.rs` | which children a decision would write |
//! | `configuration.rs` | the objects that make the API server ask |

pub mod admission;
pub mod configuration;
mod dry_run;
pub mod review;
