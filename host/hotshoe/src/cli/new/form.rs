//! The form of a new plugin: whose objects its parents are, and what it makes of them.

use hotshoe_cluster::discovery;
use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::names as rules;

use super::names;

/// Kinds of Kubernetes with their groups and versions, to correct a parent that is not named in full.
const KNOWN: [(&str, &[&str]); 7] = [
    ("apps/v1", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling/v2", &["HorizontalPodAutoscaler"]),
    ("batch/v1", &["CronJob", "Job"]),
    ("networking.k8s.io/v1", &["Ingress", "NetworkPolicy"]),
    ("policy/v1", &["PodDisruptionBudget"]),
    ("storage.k8s.io/v1", &["StorageClass"]),
    ("v1", &["ConfigMap", "Namespace", "Node", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"]),
];

/// What the parents of a new plugin are, and whether it makes anything of them.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Form {
    /// Make nothing of the parents: the least that builds, passes its case and runs
    #[arg(long, conflicts_with_all = ["webhooks", "image", "image_container_command", "image_container_port", "run_as_user"])]
    pub(super) empty: bool,
    /// Serve a kind that the cluster has, such as apps/v1/StatefulSet or v1/Service: those objects that have a label
    #[arg(long, value_name = "[GROUP/]VERSION/KIND", value_parser = existing, conflicts_with_all = ["cluster_scoped", "group",
        "version", "kind", "plural", "webhooks", "image", "image_container_command", "image_container_port", "run_as_user"])]
    pub(super) parent: Option<Kind>,
    /// Make a kind whose objects are in no namespace; the spec of each names the namespace of its Deployment
    #[arg(long)]
    pub(super) cluster_scoped: bool,
}

/// What a new plugin makes of a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Makes {
    Nothing,
    /// Of a parent of a new kind.
    Deployment,
    /// Of a parent of a kind that exists already.
    ConfigMap,
}

/// Where the child of a parent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildNamespace {
    /// In the namespace of the parent, or in the Namespace that it is.
    OfParent,
    /// In the one that the parent's spec names.
    InSpec,
    /// In the one that the configuration names.
    InConfig,
}

impl Form {
    pub(super) fn makes(&self) -> Makes {
        match (self.empty, &self.parent) {
            (true, _) => Makes::Nothing,
            (false, None) => Makes::Deployment,
            (false, Some(_)) => Makes::ConfigMap,
        }
    }

    /// Returns whether a CRD is made.
    pub(super) fn has_crd(&self) -> bool {
        self.parent.is_none()
    }

    /// Returns whether the parents are in namespaces. For a kind that exists already, a rule decides.
    pub(super) fn is_namespaced(&self) -> bool {
        let by_rule = |kind| discovery::conventional(kind).namespaced;
        self.parent.as_ref().map_or(!self.cluster_scoped, by_rule)
    }

    pub(super) fn child_namespace(&self) -> ChildNamespace {
        match &self.parent {
            None if self.cluster_scoped => ChildNamespace::InSpec,
            Some(kind) if !self.is_namespaced() && !kind.is("", "Namespace") => ChildNamespace::InConfig,
            _ => ChildNamespace::OfParent,
        }
    }
}

/// Reads the kind of parents that the cluster has already.
fn existing(text: &str) -> Result<Kind, String> {
    let parts: Vec<_> = text.split('/').collect();
    let kind = match *parts {
        [version, kind] => Kind::new("", version, kind),
        [group, version, kind] => Kind::new(group, version, kind),
        [kind] => Kind::new("", "", kind),
        _ => return Err(form()),
    };
    if let Some(known) = known(&kind) {
        return if known == kind { checked(kind) } else { Err(format!("write {}", typed(&known))) };
    }
    let has_group = parts.len() != 3 || rules::is_subdomain(&kind.group);
    if parts.len() == 1 || !has_group || names::version(&kind.version).is_err() || names::kind(&kind.kind).is_err() {
        return Err(form());
    }
    checked(kind)
}

fn form() -> String {
    "a kind is named with its version and, unless it is of the core group, its group, as in apps/v1/StatefulSet, v1/Service or \
     example.com/v1/Widget"
        .to_owned()
}

/// Returns the kind as it is typed on the command line.
pub(super) fn typed(kind: &Kind) -> String {
    format!("{}/{}", kind.api_version(), kind.kind)
}

/// Returns the kind of Kubernetes that was meant, if the group is one of Kubernetes, or is not given. Other groups have
/// kinds of the same names, such as Knative's Service.
fn known(kind: &Kind) -> Option<Kind> {
    let all = KNOWN.iter().flat_map(|(api_version, kinds)| kinds.iter().map(|name| Kind::of(api_version, name)));
    all.into_iter().find(|known| kind.is_builtin() && known.kind.eq_ignore_ascii_case(&kind.kind))
}

fn checked(kind: Kind) -> Result<Kind, String> {
    let parent = ParentKind {
        group: kind.group.to_string(),
        kind: kind.kind.to_string(),
        selector: None,
        annotation_selector: None,
        namespaces: None,
    };
    parent.validate().map(|()| kind).map_err(|why| format!("no plugin may serve {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_exists_is_named_in_full() {
        for good in ["apps/v1/StatefulSet", "v1/Service", "example.com/v1/Widget", "serving.knative.dev/v1/Service"] {
            assert_eq!(existing(good).map(|kind| typed(&kind)), Ok(good.to_owned()));
        }
        for (bad, meant) in [
            ("StatefulSet", "apps/v1/StatefulSet"),
            ("statefulset", "apps/v1/StatefulSet"),
            ("apps/StatefulSet", "apps/v1/StatefulSet"),
            ("v1/StatefulSet", "apps/v1/StatefulSet"),
            ("apps/v1beta2/StatefulSet", "apps/v1/StatefulSet"),
            ("Service", "v1/Service"),
            ("core/v1/Service", "v1/Service"),
            ("networking.k8s.io/Ingress", "networking.k8s.io/v1/Ingress"),
        ] {
            assert_eq!(existing(bad).unwrap_err(), format!("write {meant}"), "{bad}");
        }
        for bad in
            ["", "/", "Widget", "example.com/Widget", "example.com/v1/widget", "a/b/v1/Widget", "/v1/Widget", "v1/"]
        {
            assert!(existing(bad).unwrap_err().contains("apps/v1/StatefulSet, v1/Service or"), "{bad}");
        }
        for closed in ["rbac.authorization.k8s.io/v1/Role", "hotshoe.dev/v1alpha1/Plugin"] {
            assert!(existing(closed).unwrap_err().contains("no plugin may serve"), "{closed}");
        }
    }

    #[test]
    fn a_child_is_beside_its_parent_or_where_spec_or_configuration_say() {
        let of = |parent: Option<&str>, cluster_scoped| {
            let parent = parent.map(|kind| existing(kind).unwrap());
            Form { empty: false, parent, cluster_scoped }.child_namespace()
        };
        for (parent, cluster_scoped, expected) in [
            (None, false, ChildNamespace::OfParent),
            (None, true, ChildNamespace::InSpec),
            (Some("v1/Service"), false, ChildNamespace::OfParent),
            (Some("v1/Namespace"), false, ChildNamespace::OfParent),
            (Some("v1/Node"), false, ChildNamespace::InConfig),
            (Some("example.com/v1/Node"), false, ChildNamespace::OfParent),
        ] {
            assert_eq!(of(parent, cluster_scoped), expected, "{parent:?}");
        }
    }
}
