//! Hotshoe: a Kubernetes operator host whose operators' logic is a sandboxed WebAssembly component.
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
//! | [`cli`] | the command line, one file for each verb | all below |
//! | [`server`] | metrics, health, readiness; an administrator's commands on a socket | fleet and below |
//! | [`fleet`] | the plugins of a host, as files or `Plugin` objects name them | rollout and below |
//! | [`rollout`] | which revision is active, and how another replaces it | shadow and below |
//! | [`shadow`] | calls two revisions for one parent and compares their answers | reconcile and below |
//! | [`reconcile`] | observe, decide, check, apply, report | cluster and below |
//! | [`config`] | flags, environment, `plugin.yaml` and `Plugin` objects, validated | registry, sandbox, core |
//! | [`telemetry`] | metrics | cluster, sandbox, core |
//! | [`cluster`] | all contact with the API server; the only place for `kube` | core |
//! | [`registry`] | components in registries, and who signed them | sandbox, core |
//! | [`sandbox`] | all contact with wasmtime and with plugin bytes | core |
//! | [`hotshoe_core`] | pure: model, check, diff, flow, rbac, comparing two decisions | |

pub mod cli;
pub mod cluster;
pub mod config;
pub mod fleet;
pub mod reconcile;
pub mod registry;
pub mod rollout;
pub mod sandbox;
pub mod server;
pub mod shadow;
pub mod telemetry;
