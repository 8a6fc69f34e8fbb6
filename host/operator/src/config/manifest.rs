//! The `Plugin` object, in which an administrator describes a plugin. The file `plugin.yaml` and the
//! object in the cluster have the same schema.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use hotshoe_core::check::finalizer::{AllowedFinalizers, Named};
use hotshoe_core::check::grant::{CleanUpKind, GrantedMetadata, Rule};
use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::check::provenance::SignatureRule;
use hotshoe_core::flow::retry::RetryOverrides;
use hotshoe_core::model::digest_prefix::DigestPrefix;
use hotshoe_core::model::label_selector::LabelSelector;
use hotshoe_core::model::limits::{Overrides, Span};
use hotshoe_core::model::predecessors::{Predecessor, Predecessors};
use hotshoe_core::plugin::removal::DeletionPolicy;
use hotshoe_core::plugin::wanted::Mode;
use hotshoe_registry::Verify;

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

impl Plugin {
    /// Returns the finalizers that the plugin may hold.
    ///
    /// # Errors
    /// When `spec.finalizers` or `spec.takesOverFrom` is invalid.
    pub fn allowed_finalizers(&self) -> Result<AllowedFinalizers, String> {
        let (name, spec) = (&self.metadata.name, &self.spec);
        let predecessors = Predecessors::new(name, spec.takes_over_from.clone())?;
        AllowedFinalizers::new(name, spec.finalizers.clone(), predecessors.managers())
    }
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
    /// Where its component comes from: exactly one of `file`, `configMap` and `oci`.
    pub source: Source,
    /// Whether another component takes over once it is verified, or waits for `approve` while it is compared with
    /// the active one.
    #[serde(default, skip_serializing_if = "Mode::is_active")]
    pub mode: Mode,
    /// Whether no parent is reconciled: nothing is created, changed or deleted for them until this is false again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The digest, or its beginning, of a component that is approved: one that waits for that is activated. Each
    /// value counts for one activation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<DigestPrefix>,
    /// The digest, or its beginning, of the revision that is to be active, whatever the source has: an earlier one is
    /// rolled back to, and no other is activated until this is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<DigestPrefix>,
    /// What becomes of parents with the plugin's finalizer when a `Plugin` object is deleted.
    #[serde(default, skip_serializing_if = "DeletionPolicy::is_block")]
    pub deletion_policy: DeletionPolicy,
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
    /// Kinds of children that a clean-up may create, such as a last backup Job. A grant must have `create` on each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalize: Vec<CleanUpKind>,
    /// The labels and annotations of its parents that it may set, by their keys.
    #[serde(default, skip_serializing_if = "GrantedMetadata::is_empty")]
    pub parent_metadata: GrantedMetadata,
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
    /// When another component may decide without approval.
    #[serde(default)]
    pub swap: Swap,
    /// How another component takes over once it is verified. Unless said otherwise, it decides for all parents at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// What the host's webhook answers to the API server about a proposed parent, which `hotshoe webhooks` sets up.
    #[serde(default, skip_serializing_if = "Admission::is_off")]
    pub admission: Admission,
    /// Whether its code for validation and defaulting is shown who writes a parent: the name, the uid and the groups.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub show_user: bool,
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

/// What the host's webhook answers to the API server about a proposed parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Admission {
    /// Every parent is admitted.
    #[default]
    Off,
    /// Every parent is admitted; one that the plugin rejects, or whose children are denied, with a warning.
    Warn,
    /// A parent that the plugin rejects, or whose children are denied, is refused.
    Enforce,
}

impl Admission {
    /// Returns whether every parent is admitted without a word.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// Returns whether parents may be refused.
    pub fn is_enforced(&self) -> bool {
        *self == Self::Enforce
    }
}

/// When another component may decide without approval.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Swap {
    /// Of how many parents in 100 it may delete children; one that would of more requires
    /// `hotshoe approve`. 10 unless said otherwise.
    #[schemars(range(max = 100))]
    pub max_losing: Option<u8>,
    /// On how many parents in 100 it may fail where the active one does not; one that fails on more requires
    /// `hotshoe approve`. 0 unless said otherwise.
    #[schemars(range(max = 100))]
    pub max_failing: Option<u8>,
}

/// How another component takes over: as a canary, which decides for some of the parents first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rollout {
    /// For which parents it decides first.
    pub canary: Canary,
    /// How long it decides for them alone, for example `30m`; if it does no worse than the active one meanwhile, it
    /// then decides for all. `10m` unless said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
}

/// The parents that a canary decides for: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Canary {
    /// So many of 100, chosen by a hash of their uid.
    #[schemars(range(min = 1, max = 99))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Those in namespaces with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<LabelSelector>,
}

/// Where a component comes from: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Source {
    /// A file: absolute, or beside `plugin.yaml`, or a build product in the `target/plugins` of its project. Of a
    /// `Plugin` object, a file of the host: absolute, or below the folder that it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A key of a ConfigMap in the host's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKey>,
    /// An image of a registry: `oci://REGISTRY/REPOSITORY:TAG`, or with `@sha256:DIGEST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
    /// A Secret of the type `kubernetes.io/dockerconfigjson` in the host's namespace, for the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<String>,
    /// Certificates in PEM of the authorities of the registry, beside those that the host's system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Whether the registry is asked without TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
    /// The server (`HOST` or `HOST:PORT`) that hands out the registry's tokens, and so gets its user and password. It is
    /// named only where it is another one than the registry, and is known for docker.io and registry.gitlab.com.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_host: Option<String>,
    /// How often it is looked whether the tag means another image; 1m unless said otherwise, 10s at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// Who must have signed the image. One that is not signed so is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

impl Source {
    /// Returns whether exactly one place is named, and keys for images only beside an image.
    pub fn is_one(&self) -> bool {
        let named = [self.file.is_some(), self.config_map.is_some(), self.oci.is_some()];
        let of_image = [
            self.pull_secret.is_some(),
            self.ca_bundle.is_some(),
            self.plain_http,
            self.token_host.is_some(),
            self.verify.is_some(),
        ];
        let count = named.into_iter().filter(|named| *named).count();
        count == 1 && (self.oci.is_some() || !of_image.contains(&true))
    }

    /// Returns whether another source names the same component, however that is fetched and checked.
    pub fn is_same_place(&self, other: &Self) -> bool {
        (&self.file, &self.config_map, &self.oci) == (&other.file, &other.config_map, &other.oci)
    }

    /// Returns by whom the image must be signed.
    pub fn signature_rule(&self) -> SignatureRule {
        self.verify.as_ref().map_or(SignatureRule::Nothing, |verify| SignatureRule::OneOf(verify.signers()))
    }

    /// Returns how often the registry is asked what a tag means.
    pub fn interval(&self) -> Duration {
        self.interval.map_or(DEFAULT_INTERVAL, |interval| interval.0)
    }

    /// Checks that the registry is not asked too often.
    ///
    /// # Errors
    /// Names the interval and the shortest one.
    pub fn check_interval(&self) -> anyhow::Result<()> {
        ensure!(
            self.interval() >= MIN_INTERVAL,
            "interval is {:?}, but at least {MIN_INTERVAL:?} must be given; raise it, or leave it out for {DEFAULT_INTERVAL:?}",
            self.interval()
        );
        Ok(())
    }
}

/// The default and the shortest time between two look-ups of a tag.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
const MIN_INTERVAL: Duration = Duration::from_secs(10);
/// The intervals that are no shorter. CEL's `duration()` would fail where it cannot read the text, or where the time is
/// too long for it.
pub(super) const INTERVAL_PATTERN: &str = "^(0*[1-9][0-9]{4,}ms|0*[1-9][0-9]+s|0*[1-9][0-9]*[mh])$";

/// A key of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// The name of the ConfigMap, which is in the host's namespace.
    pub name: String,
    /// The key below `binaryData`.
    pub key: String,
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
