//! One rule of a grant: the schema of `spec.grants`, and the validation that finds rules without a sensible meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::check::access_request::{Access, LabelOf, Request, Verb};
use crate::check::pod::grant::Pods;
use crate::check::service::Services;
use crate::check::violation::{Checked, all};
use crate::check::{foreign_pods, glob, helm_release, labels, pod, pvc, selector, service, snapshot_content};
use crate::model::kind::{Kind, ObjectRef};
use crate::model::names::{is_group, is_kind, is_label, is_plain, is_qualified};

/// One line of a grant: verbs on a kind, in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// API group; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Kind, for example `Deployment`.
    pub kind: String,
    /// What may be done with objects of that kind.
    pub verbs: Vec<Verb>,
    /// In which namespaces: `own`, `cluster`, a list of names, or `{matchLabels: …}`. A child never leaves the
    /// namespace of its parent, if that has one, whatever this says.
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    pub namespaces: Namespaces,
    /// Names of the objects, in each one `*` at most; empty for all. Secrets are read by name
    /// only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether objects of this kind hold data, as those of a database do. Of PersistentVolumeClaims, PersistentVolumes,
    /// VolumeSnapshots, Secrets and Namespaces that is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holds_data: bool,
    /// Whether children of this kind that hold data may be pruned; they are otherwise left alone. Of a StatefulSet,
    /// whether it may have its claims deleted with it.
    #[serde(default)]
    pub prune_data: bool,
    /// Whether children of this kind may be deleted and made anew where a field would change that may not change, if
    /// the plugin says so of them. Needs the verb `delete`. No grant allows it for objects that hold data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recreate: bool,
    /// Whether objects of a custom kind may set container images: another component makes Pods of these objects, and
    /// the host does not check those Pods.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign_pods: bool,
    /// Labels with a prefix on Pods, on what Pods are made of, and on Namespaces, such as `istio.io/rev`: those mean
    /// something to another component, which may do for them what is denied here. `app.kubernetes.io/*`, `helm.sh/*` and
    /// the group of the parents need no item. One `*` in each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Whether VolumeSnapshotContents and VolumeGroupSnapshotContents may be written: one names any snapshot of the
    /// storage system, whichever tenant made it, and Secrets of any namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign_snapshots: bool,
    /// Whether Secrets and ConfigMaps may be written that Helm takes for its releases: the next person who upgrades or
    /// rolls back such a release applies what is in it with that person's rights.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub helm_releases: bool,
    /// What the Pods of such objects may use beyond what is harmless.
    #[serde(default)]
    pub pods: Pods,
    /// What such Services may ask for beyond an address inside the cluster.
    #[serde(default)]
    pub services: Services,
}

/// The namespaces in which a rule applies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    untagged,
    expecting = "namespaces are `own`, `cluster`, a list of names, or {matchLabels: {KEY: VALUE}} and nothing else"
)]
pub enum Namespaces {
    /// `own` or `cluster`.
    Keyword(Keyword),
    /// These.
    Named(Vec<String>),
    /// Those with certain labels.
    Selected(Selector),
}

/// A keyword for namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keyword {
    /// The parent's; of a parent that is a Namespace, that one.
    Own,
    /// All, and objects without a namespace.
    Cluster,
}

/// Which labels a namespace must have, all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Selector {
    /// Key and value.
    pub match_labels: BTreeMap<String, String>,
}

impl Default for Namespaces {
    fn default() -> Self {
        Namespaces::Keyword(Keyword::Own)
    }
}

const SECRET: (&str, &str) = ("", "Secret");

/// Kinds whose deletion loses data. A Secret may be the only copy of a generated password or key.
const HOLDS_DATA: [(&str, &str); 8] = [
    ("", "PersistentVolumeClaim"),
    ("", "PersistentVolume"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
    ("snapshot.storage.k8s.io", "VolumeSnapshotContent"),
    ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshot"),
    ("groupsnapshot.storage.k8s.io", "VolumeGroupSnapshotContent"),
    SECRET,
    ("", "Namespace"),
];

/// The kind for which `pruneData` allows the deletion of its claims.
const DELETES_CLAIMS: (&str, &str) = ("apps", "StatefulSet");

impl Rule {
    /// Builds a rule for a kind that grants nothing.
    pub(in crate::check) fn new(kind: &Kind) -> Self {
        Self {
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            verbs: Vec::new(),
            namespaces: Namespaces::default(),
            names: Vec::new(),
            holds_data: false,
            prune_data: false,
            recreate: false,
            foreign_pods: false,
            labels: Vec::new(),
            foreign_snapshots: false,
            helm_releases: false,
            pods: Pods::default(),
            services: Services::default(),
        }
    }

    /// Returns whether the rule grants the verb for at least some objects of the kind.
    pub fn is_for(&self, verb: Verb, kind: &Kind) -> bool {
        kind.is(&self.group, &self.kind) && self.verbs.contains(&verb)
    }

    /// Returns whether the rule can grant the verb: reading Secrets is granted only by name.
    pub fn can_grant(&self, verb: Verb) -> bool {
        !self.names.is_empty() || !verb.reads() || !self.is_of_secrets()
    }

    /// Returns whether it is a rule for Secrets.
    pub fn is_of_secrets(&self) -> bool {
        (self.group.as_str(), self.kind.as_str()) == SECRET
    }

    /// Returns whether objects of the rule's kind hold data, according to `holdsData` or to [`HOLDS_DATA`].
    pub(super) fn is_about_data(&self) -> bool {
        self.holds_data || HOLDS_DATA.contains(&(&self.group, &self.kind))
    }

    pub(super) fn covers_name(&self, name: &str) -> bool {
        self.names.is_empty() || glob::matches_any(&self.names, name)
    }

    pub(in crate::check) fn check_body(&self, request: &Request<'_>, body: &Value) -> Checked {
        let kind = &request.object.kind;
        // An apply replaces a selector as a whole, so nothing in a resulting selector comes from others. Labels are
        // the responsibility of those who set them.
        let (selector, labels) = match request.access {
            Access::Result(_) => (Ok(()), Ok(())),
            _ => (selector::check(request, body, &self.pods), labels::check(request, body, &self.labels)),
        };
        all([
            pod::check(kind, body, &self.pods),
            pvc::check(request, body, &self.pods, self.prune_data),
            labels,
            selector,
            service::check(kind, body, &self.services),
            foreign_pods::check(kind, body, self.foreign_pods),
            snapshot_content::check(kind, self.foreign_snapshots),
            helm_release::check(request.object, body, self.helm_releases),
        ])
    }

    /// Returns the rule as an administrator writes it, without what it has by default.
    pub(in crate::check) fn without_defaults(&self) -> Map<String, Value> {
        match serde_json::to_value(self).ok().and_then(without_defaults) {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        }
    }

    /// Checks that the rule is meaningful.
    ///
    /// # Errors
    /// When it is not; the message is for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        self.validate_kind()?;
        self.namespaces.validate()?;
        glob::validate_names("names", &self.names)?;
        glob::validate("labels", &self.labels)?;
        self.validate_items(&Kind::new(&self.group, "", &self.kind))?;
        self.pods.validate()?;
        self.services.validate()?;
        match self.verbs.is_empty() {
            true => Err("verbs is an empty list, which gives nothing; name some, or remove the rule".into()),
            false => Ok(()),
        }
    }

    fn validate_kind(&self) -> Result<(), String> {
        let Self { group, kind, .. } = self;
        if !is_group(group) {
            return Err(format!("group has {group:?}; a group is written without a version, such as `apps`"));
        }
        if is_kind(kind) {
            return Ok(());
        }
        let hint = hint(&Kind::new(group, "", kind)).unwrap_or_else(|| "subresources cannot be granted".to_owned());
        Err(format!("kind has {kind:?}, which is no kind, such as `Deployment`; {hint}"))
    }

    /// Checks that the rule has only items that apply to its kind.
    fn validate_items(&self, kind: &Kind) -> Result<(), String> {
        let (pods, services) = (self.pods != Pods::default(), self.services != Services::default());
        let remove = || hint(kind).unwrap_or_else(|| "remove it".to_owned());
        if pods && pvc::is_claim(kind) && !pvc::has_only_claim_items(kind, &self.pods) {
            return Err(format!(
                "pods is set for {kind}, which makes no Pods; keep only claimSources and annotations of it"
            ));
        }
        if pods && !pvc::is_claim(kind) && !pod::makes_pods(kind) {
            return Err(format!("pods is set for {}, which makes no Pods; {}", in_full(kind), remove()));
        }
        if services && !service::is_service(kind) {
            return Err(format!("services is set for {}, which is not a Service; {}", in_full(kind), remove()));
        }
        if self.prune_data && !self.is_about_data() && !kind.is(DELETES_CLAIMS.0, DELETES_CLAIMS.1) {
            let remedy = hint(kind).unwrap_or_else(|| "remove it, or set holdsData: true".to_owned());
            return Err(format!("pruneData is set for {}, which holds no data; {remedy}", in_full(kind)));
        }
        if self.recreate && self.is_about_data() {
            return Err(format!("recreate is set for {}, which holds data; remove it", in_full(kind)));
        }
        if self.recreate && !self.verbs.contains(&Verb::Delete) {
            return Err(format!("recreate is set for {kind} without the verb delete; add the verb, or remove it"));
        }
        if self.foreign_pods && pod::makes_pods(kind) {
            return Err(format!(
                "foreignPods is set for {}, whose Pods are checked against `pods`; remove it",
                in_full(kind)
            ));
        }
        if !self.labels.is_empty() && !labels::are_checked(kind) {
            let what = "which makes no Pods and is no Namespace, so that its labels need no item";
            return Err(format!("labels is set for {}, {what}; {}", in_full(kind), remove()));
        }
        if self.foreign_snapshots && !snapshot_content::is_content(kind) {
            return Err(format!("foreignSnapshots is set for {}, which names no snapshots; remove it", in_full(kind)));
        }
        if self.helm_releases && !helm_release::may_be_one(kind) {
            let what = "in which Helm keeps no releases";
            return Err(format!("helmReleases is set for {}, {what}; remove it", in_full(kind)));
        }
        Ok(())
    }
}

/// Formats a kind with its group, even for the core group.
fn in_full(kind: &Kind) -> String {
    format!("the kind {:?} of the group {:?}", &*kind.kind, &*kind.group)
}

/// Returns a question that names the known kind which was probably meant: one that differs only in its group or in
/// case.
fn hint(kind: &Kind) -> Option<String> {
    let mut known = HOLDS_DATA.iter().chain(&[DELETES_CLAIMS, ("", "Service")]);
    let similar = known.find(|(_, name)| name.eq_ignore_ascii_case(&kind.kind));
    let similar = similar.map(|(group, name)| Kind::new(group, "", name)).filter(|similar| !similar.is_served_as(kind));
    pod::similar_kind(kind).or(similar).map(|meant| format!("is {} meant?", in_full(&meant)))
}

impl Namespaces {
    pub(super) fn cover(&self, parent: &ObjectRef, object: &ObjectRef, label_of: &LabelOf<'_>) -> bool {
        let Some(namespace) = &object.namespace else { return *self == Namespaces::Keyword(Keyword::Cluster) };
        match self {
            Namespaces::Keyword(Keyword::Cluster) => true,
            Namespaces::Keyword(Keyword::Own) => parent.own_namespace() == Some(namespace),
            Namespaces::Named(names) => names.iter().any(|name| **name == **namespace),
            Namespaces::Selected(Selector { match_labels }) => {
                let mut labels = match_labels.iter();
                !match_labels.is_empty() && labels.all(|(key, value)| label_of(namespace, key).as_ref() == Some(value))
            }
        }
    }

    fn validate(&self) -> Result<(), String> {
        match self {
            Namespaces::Keyword(_) => Ok(()),
            Namespaces::Named(names) if names.is_empty() => {
                Err("namespaces is an empty list; name some, or remove it".into())
            }
            Namespaces::Named(names) => names.iter().try_for_each(|name| validate_namespace(name)),
            Namespaces::Selected(Selector { match_labels }) if match_labels.is_empty() => {
                Err("namespaces.matchLabels is empty; for every namespace say `namespaces: cluster`".into())
            }
            Namespaces::Selected(Selector { match_labels }) => {
                match match_labels.iter().find(|(key, value)| !is_qualified(key) || !is_value(value)) {
                    Some((key, value)) => {
                        Err(format!("namespaces.matchLabels has {key:?}: {value:?}, which is no label"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// Removes the values that a rule has by default.
fn without_defaults(value: Value) -> Option<Value> {
    match value {
        Value::Bool(false) | Value::Null => None,
        Value::String(text) if text.is_empty() || text == "own" => None,
        Value::Array(elements) if elements.is_empty() => None,
        Value::Object(members) => {
            let kept = members.into_iter().filter_map(|(key, value)| Some((key, without_defaults(value)?)));
            let kept: Map<_, _> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other),
    }
}

fn is_value(label: &str) -> bool {
    label.is_empty() || is_plain(label)
}

/// Denies the keywords in a list. A namespace can have such a name, but the administrator probably means the keyword.
fn validate_namespace(name: &str) -> Result<(), String> {
    match name {
        "own" | "cluster" => Err(format!(
            "namespaces has {name:?} in a list; write `namespaces: {name}` without brackets, or, \
             for a namespace of that name, {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}"
        )),
        _ if is_label(name) => Ok(()),
        _ => Err(format!("namespaces has {name:?}, which is no name of a namespace")),
    }
}

impl std::fmt::Display for Namespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Namespaces::Keyword(Keyword::Own) => f.write_str("the parent's namespace"),
            Namespaces::Keyword(Keyword::Cluster) => f.write_str("every namespace"),
            Namespaces::Named(names) => write!(f, "namespaces {}", names.join(", ")),
            Namespaces::Selected(Selector { match_labels }) => {
                let labels: Vec<_> = match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "namespaces with {}", labels.join(","))
            }
        }
    }
}
