//! The `Plugin` object: what an administrator says about a plugin. One schema for the file
//! `plugin.yaml` and for the cluster object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hotshoe_core::check::finalizer::Named;
use hotshoe_core::check::grant::Rule;
use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::flow::retry::RetryOverrides;
use hotshoe_core::model::limits::Overrides;
use hotshoe_core::model::predecessors::Predecessor;

/// `apiVersion` of a `Plugin`.
pub const API_VERSION: &str = "hotshoe.dev/v1alpha1";
/// `kind` of a `Plugin`.
pub const KIND: &str = "Plugin";

/// A plugin, as written in `plugin.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Plugin {
    /// `hotshoe.dev/v1alpha1`.
    pub api_version: String,
    /// `Plugin`.
    pub kind: String,
    /// Its name.
    pub metadata: Metadata,
    /// Everything else.
    pub spec: PluginSpec,
}

/// The part of an object's metadata that a file may have.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// The plugin's name: of its field manager, its ServiceAccount and its label on children.
    pub name: String,
}

/// Where a plugin is, how it is configured, and what it may do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PluginSpec {
    /// Where its component comes from.
    pub source: Source,
    /// The kind of its parents. Where none is named, it may be a custom kind that no other plugin of
    /// the host has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentKind>,
    /// Finalizers that it may hold beside those that carry its name, `DOMAIN/NAME` and `DOMAIN/NAME.ANYTHING`. No other
    /// program may use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Named>,
    /// What it sees as its configuration.
    #[serde(default)]
    pub config: Config,
    /// What it may do; the rest is denied.
    #[serde(default)]
    pub grants: Vec<Rule>,
    /// Whether an answer without any child may delete all children that are there; also whether those of an object
    /// go that is no parent any more, for it lost the labels of `parent.selector`.
    #[serde(default)]
    pub prune_all: bool,
    /// Whether children of its parents that no plugin made are its own from now on: those that another operator left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
    /// Earlier names of this plugin: what those made for the same parents is its own from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_over_from: Vec<Predecessor>,
    /// When a parent is tried again whose reconcile failed, and how often.
    #[serde(default)]
    pub retry: RetryOverrides,
    /// When another component may decide unasked.
    #[serde(default)]
    pub swap: Swap,
    /// Limits other than the defaults, within the host's caps.
    #[serde(default)]
    pub limits: Overrides,
    /// What is spread over the shards of several hosts: whole plugins, or the parents of this one.
    #[serde(default, skip_serializing_if = "ShardBy::is_default")]
    pub shard_by: ShardBy,
}

/// What is spread over the shards of several hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ShardBy {
    /// All parents of a plugin are in the shard of its name.
    #[default]
    Plugin,
    /// Each parent is in the shard of its namespace and name.
    Parent,
}

impl ShardBy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// When another component may decide unasked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Swap {
    /// Of how many parents in 100 it may delete children; one that would of more requires
    /// `hotshoe approve`. 10 unless said otherwise.
    #[schemars(range(max = 100))]
    pub max_losing: Option<u8>,
}

/// Where a component comes from.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Source {
    /// A file: absolute, or beside `plugin.yaml`, or a build product in the `target/plugins` of its
    /// project.
    pub file: String,
}

/// A plugin's configuration: a JSON object.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Members with fixed values.
    #[serde(default)]
    pub values: BTreeMap<String, serde_json::Value>,
    /// Members from the host's environment: member name to variable. A variable that is not set
    /// leaves the member out.
    #[serde(default)]
    pub from_env: BTreeMap<String, String>,
}
