//! The operator: which plugins run, which revision of each is active, and how the objects are reconciled.
//!
//! ```text
//!  API server ──watch──▶ observe ──▶ decide ──▶ check ──▶ apply ──write──▶ API server
//!                         host       plugin      host      host
//!                      (caches)   (Wasm, pure) (hostile?) (only writer)
//! ```
//!
//! Begin with [`reconcile`]: one parent, all four steps.
//!
//! | folder | what lives there | imports |
//! |---|---|---|
//! | [`fleet`] | the plugins of a host, as files or `Plugin` objects name them | rollout, webhooks, reconcile, api, config |
//! | [`rollout`] | which revision is active, and how another replaces it | shadow and below |
//! | [`webhooks`] | answers the API server about a proposed parent | shadow and below |
//! | [`shadow`] | calls two revisions for one parent and compares their answers | reconcile and below |
//! | [`reconcile`] | observe, decide, check, apply, report | config, telemetry |
//! | [`api`] | what the host answers to an administrator, as types | config |
//! | [`config`] | environment, `plugin.yaml` and `Plugin` objects, validated | |
//! | [`telemetry`] | metrics | |

pub mod api;
pub mod config;
pub mod fleet;
pub mod reconcile;
pub mod rollout;
pub mod shadow;
pub mod telemetry;
pub mod webhooks;

#[cfg(test)]
#[path = "../../cluster/src/served.rs"]
mod served;
#[cfg(test)]
#[path = "../../platform/src/test_disk.rs"]
mod test_disk;
