//! The `Plugin` resource: its status, and its CustomResourceDefinition. Its spec is that of
//! [`plugin.yaml`](crate::config::manifest).

use std::fmt;

use hotshoe_crd::{Column, CustomResource, Error, Rule, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::RESERVED_NAMES;
use crate::config::manifest::{INTERVAL_PATTERN, KIND, PluginSpec};
use hotshoe_core::model::kind::Kind;

/// The API group of `Plugin`.
pub const GROUP: &str = "hotshoe.dev";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// Its plural name, as it stands in paths.
pub const PLURAL: &str = "plugins";
/// The finalizer by which the host keeps a `Plugin` object until its parents no longer need the plugin.
pub const FINALIZER: &str = "hotshoe.dev/plugin";
/// The number of digits of a digest that are shown.
const SHORT_DIGEST: usize = 12;

/// What the host says about a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginStatus {
    /// The generation of the object that this is about.
    pub observed_generation: i64,
    /// The namespace and name of the Lease of the host that works for it; none if that host keeps no Lease. Other hosts
    /// wait until that Lease has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The digest of the active component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The version in its descriptor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The versions of the contract that the host offers.
    pub contract: String,
    /// Where the active component was fetched from, exactly; none if its source is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The kind of its parents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentStatus>,
    /// How many parents it serves.
    pub parents: i64,
    /// How many of them are in trouble by their last reconcile.
    pub errors: i64,
    /// Recent bad calls minus the good ones since; too many of them open the circuit.
    pub strikes: i64,
    /// Whether it is called: `closed`, `open` or `half-open`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub circuit: String,
    /// A component that decides for some of the parents before it decides for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanaryStatus>,
    /// A component that is not activated, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// The components that were offered and what became of them, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<RevisionStatus>,
    /// The finalizers that parents may have from this plugin.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// What the host remembers of the plugin's revisions, the newest last. It is the host's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Value>,
    /// Ready, Reconciling and Stalled.
    #[schemars(skip)]
    pub conditions: Vec<Condition>,
}

/// The kind of a plugin's parents, as the active component has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentStatus {
    /// Its API group; empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind.
    pub kind: String,
}

impl ParentStatus {
    /// Describes a kind.
    pub fn of(kind: &Kind) -> Self {
        Self { group: kind.group.to_string(), version: kind.version.to_string(), kind: kind.kind.to_string() }
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        Kind::new(&self.group, &self.version, &self.kind)
    }
}

/// A component that decides for some of the parents, beside the active one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CanaryStatus {
    /// Its digest.
    pub digest: String,
    /// The version in its descriptor.
    pub version: String,
    /// Where it was fetched from, exactly; none if its source is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// For which parents it decides: `10%`, or `namespaces with tier=canary`.
    pub share: String,
    /// How many they are.
    pub parents: i64,
    /// Since when.
    pub since: String,
    /// Until when at least; then it decides for all.
    pub until: String,
    /// What it waits for where that time is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// How its answers about proposed parents compare with those of the active revision, which are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviews: Option<CanaryReviews>,
}

/// How often a canary was asked about a proposed parent, too, by what would have become of the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CanaryReviews {
    /// The same.
    pub same: i64,
    /// It alone would have refused the object.
    pub refused: i64,
    /// It alone would have admitted the object.
    pub admitted: i64,
    /// It would have filled in something else.
    pub other_defaults: i64,
    /// It did not answer in time.
    pub unanswered: i64,
}

impl fmt::Display for CanaryReviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { same, refused, admitted, other_defaults, unanswered } = self;
        let asked = same + refused + admitted + other_defaults + unanswered;
        let different = [
            ("refused", refused),
            ("admitted", admitted),
            ("other defaults", other_defaults),
            ("no answer in time", unanswered),
        ];
        let different: Vec<String> = different
            .into_iter()
            .filter(|(_, count)| **count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        match different.is_empty() {
            true => write!(f, "{asked} admission answers compared, all the same"),
            false => write!(f, "{asked} admission answers compared, different: {}", different.join(", ")),
        }
    }
}

impl fmt::Display for CanaryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, version, share, parents, since, until, waits_for, reviews, .. } = self;
        let digest = short(digest);
        write!(f, "revision {digest} ({version}) is the canary for {share}: {parents} parents since {since}, ")?;
        match waits_for {
            None => write!(f, "until {until}")?,
            Some(why) => write!(f, "{why}")?,
        }
        reviews.iter().try_for_each(|reviews| write!(f, "; {reviews}"))
    }
}

/// Returns the short form of a digest.
pub fn short(digest: &str) -> &str {
    let digits = digest.strip_prefix("sha256:").unwrap_or(digest);
    digits.get(..SHORT_DIGEST).unwrap_or(digits)
}

/// A component that is not activated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Pending {
    /// Its digest; none where there were no bytes at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Where it was fetched from, exactly; none if its source is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Why it is not activated, in one word.
    pub reason: String,
    /// Why, and what to do.
    pub message: String,
    /// What would change if it were active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowVerdict>,
}

/// What would change if a component were active, by a run in the shadow of the active one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShadowVerdict {
    /// The active component that it was compared with.
    pub compared_with: String,
    /// Parents that were looked at.
    pub parents: i64,
    /// Parents for which something would change.
    pub changed: i64,
    /// Parents on which it alone fails.
    pub failing: i64,
    /// Children that would be created.
    pub created: i64,
    /// Children that would be changed.
    pub updated: i64,
    /// Children that would be deleted.
    pub deleted: i64,
    /// Some of the differences, one a line: objects and paths of fields, without values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sample: Vec<String>,
    /// Why there is no verdict, or not about all parents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// What became of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionStatus {
    /// Its digest.
    pub digest: String,
    /// Its version, where it was read.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What became of it last: `Active`, `Canary`, `Replaced`, `RolledBack`, `Approved`, `ApprovalRequired` or `Refused`.
    pub state: String,
    /// When.
    pub time: String,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A condition, as Kubernetes has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `Ready`, `Reconciling` or `Stalled`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// What it means, and what to do.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: String,
    /// The generation of the object that this is about.
    pub observed_generation: i64,
}

impl PluginStatus {
    /// Reads the status of an object; the default one where it has none, or one that cannot be read.
    pub fn of(object: &Value) -> Self {
        object.get("status").cloned().and_then(|status| serde_json::from_value(status).ok()).unwrap_or_default()
    }
}

/// Returns the CustomResourceDefinition.
///
/// # Errors
/// Where the types have no structural schema, which a test rules out.
pub fn definition() -> Result<Value, Error> {
    let version = Version::of::<PluginSpec, PluginStatus>(VERSION)
        .conditions("Ready: a revision is active and serves. Reconciling: another is on its way. Stalled: something has to be changed for the plugin to go on.")
        .columns([
            Column::condition("Ready").description("Whether a revision is active and serves."),
            Column::string("Digest", ".status.digest").description("The digest of the active component."),
            Column::integer("Parents", ".status.parents").description("How many objects it serves."),
            Column::integer("Errors", ".status.errors").description("How many of them are in trouble."),
            Column::age(),
        ])
        .rule("", not_reserved())
        .rule("spec", same_shards())
        .rule("spec", still_parent())
        .rule("spec.source", one_source())
        .rule("spec.source", only_of_images())
        .rule("spec.source.interval", long_enough())
        .rule("spec.parent", same_parent())
        .rule("spec.rollout.canary", one_share());
    let mut definition = CustomResource::new(GROUP, KIND)
        .cluster_scoped()
        .categories(["hotshoe"])
        .description("An operator: a WebAssembly component, its configuration and what it may do.")
        .version(version)
        .definition()?;
    without_defaults(&mut definition);
    Ok(definition)
}

/// Removes the defaults of a schema. The host applies its defaults itself: they change with its version, while a
/// default that the API server fills in would stay in the object.
fn without_defaults(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove("default");
            members.values_mut().for_each(without_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(without_defaults),
        _ => {}
    }
}

fn not_reserved() -> Rule {
    let quoted = RESERVED_NAMES.map(|name| format!("'{name}'")).join(", ");
    let rule = format!(
        "!(self.metadata.name in [{quoted}]) && self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')"
    );
    let names = RESERVED_NAMES.join(", ");
    Rule::new(&rule).message(&format!(
        "The name is that of a ServiceAccount and part of a label: at most 63 letters, digits and `-`, and none of {names}."
    ))
}

fn one_source() -> Rule {
    Rule::new("[has(self.file), has(self.configMap), has(self.oci)].filter(named, named).size() == 1")
        .message("Exactly one of file, configMap and oci must be named.")
}

fn only_of_images() -> Rule {
    Rule::new(
        "has(self.oci) || !(has(self.pullSecret) || has(self.caBundle) || has(self.plainHttp) || has(self.tokenHost) || has(self.verify))",
    )
    .message("pullSecret, caBundle, plainHttp, tokenHost and verify are for oci alone.")
}

fn long_enough() -> Rule {
    Rule::new(&format!("self.matches('{INTERVAL_PATTERN}')")).message("At least 10s must be given.")
}

fn same_shards() -> Rule {
    Rule::new("(has(self.shardBy) ? self.shardBy : 'Plugin') == (has(oldSelf.shardBy) ? oldSelf.shardBy : 'Plugin')")
        .message("shardBy cannot change; create another Plugin.")
}

fn one_share() -> Rule {
    Rule::new("[has(self.percent), has(self.namespaces)].filter(named, named).size() == 1")
        .message("Exactly one of percent and namespaces must be named.")
}

/// Without this rule, another kind could be named in two steps: the API server compares only what is there both before
/// and after.
fn still_parent() -> Rule {
    Rule::new("!has(oldSelf.parent) || has(self.parent)")
        .message("parent cannot be removed, for the kind of the parents cannot change; create another Plugin.")
}

fn same_parent() -> Rule {
    Rule::new(
        "self.kind == oldSelf.kind && (has(self.group) ? self.group : '') == (has(oldSelf.group) ? oldSelf.group : '')",
    )
    .message("The kind of the parents cannot change; create another Plugin.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_has_every_key_of_the_spec_and_the_promised_columns() {
        let definition = definition().unwrap();
        let version = &definition["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["Ready", "Digest", "Parents", "Errors", "Age"]);
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        for key in [
            "source",
            "mode",
            "paused",
            "approve",
            "revision",
            "deletionPolicy",
            "parent",
            "grants",
            "limits",
            "rollout",
        ] {
            assert!(spec[key].is_object(), "{key}");
        }
        assert_eq!(definition["spec"]["scope"], "Cluster");
    }
}
