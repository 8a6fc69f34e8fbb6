//! Hotshoe: a Kubernetes operator host whose operators' logic is a sandboxed WebAssembly component.
//!
//! ```text
//!  API server ──watch──▶ observe ──▶ decide ──▶ check ──▶ apply ──write──▶ API server
//!                         host       plugin      host      host
//!                      (caches)   (Wasm, pure) (hostile?) (only writer)
//! ```
//!
//! | step | where |
//! |---|---|
//! | observe | [`cluster::watch`] fills [`cluster::cache`]; [`cluster::observe`] reads an [`Observation`](decision::Observation) from it |
//! | decide | [`plugin`]: a fresh instance of the component for each call |
//! | check | [`check`] and [`grant`]: pure, and they assume that the plugin is hostile |
//! | apply | [`diff`] says what must be written; [`cluster::apply`] is the only writer |
//! | all four | [`reconcile`]; deletion in [`finalize`] |
//!
//! [`shadow`] does the first three with a revision that is not yet at work, and shows what would change.
//!
//! `kube` is used only below [`cluster`] and [`server`], `wasmtime` only below [`plugin`].

pub mod adoption;
pub mod api;
pub mod backoff;
pub mod breaker;
pub mod carry_out;
pub mod check;
pub mod claim_policy;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod controller;
pub mod debut;
pub mod decide;
pub mod decision;
pub mod diff;
pub mod error;
pub mod finalize;
pub mod followed;
pub mod grant;
pub mod metrics;
pub mod never;
pub mod object;
pub mod ownership;
pub mod parentage;
pub mod pattern;
pub mod plugin;
pub mod pod_policy;
pub mod probation;
pub mod projection;
pub mod queue;
pub mod rbac;
pub mod reconcile;
pub mod refusals;
pub mod report;
pub mod rollout;
pub mod server;
pub mod service_policy;
pub mod shadow;
pub mod shape;
pub mod status;
pub mod supervisor;
pub mod taking;
pub mod tally;
pub mod whole_file;
pub mod wiring;
