//! Hotshoe: a Kubernetes operator host whose operators' logic is a sandboxed WebAssembly component.
//!
//! This crate is the program: its command line, and what it serves. Begin with [`hotshoe_operator`].
//!
//! | crate | what lives there | imports |
//! |---|---|---|
//! | `hotshoe` | [`cli`]: one file for each verb; [`server`]: metrics, health, readiness, an administrator's commands | all below |
//! | [`hotshoe_operator`] | which plugins run, which revision is active, how objects are reconciled | all below |
//! | [`hotshoe_cluster`] | all contact with the API server; the only crate with `kube` | platform, core |
//! | [`hotshoe_registry`] | components in registries, and who signed them | platform, core |
//! | [`hotshoe_sandbox`] | all contact with wasmtime and with plugin bytes | platform, core |
//! | [`hotshoe_platform`] | files, confined child processes, volumes, the spans of log lines | core |
//! | [`hotshoe_core`] | pure: model, check, diff, flow, rbac, comparing two decisions | |

pub mod cli;
pub mod server;

#[cfg(test)]
#[path = "../../cluster/src/served.rs"]
mod served;
