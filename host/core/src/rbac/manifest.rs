//! The printed objects, and the rules from which Roles and ClusterRoles are built.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::model::kind::Kind;
use crate::rbac::installation::Installation;

/// A printed object, with a comment about its purpose.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    #[serde(skip)]
    pub(super) comment: String,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) metadata: Metadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) automount_service_account_token: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rules: Option<Vec<PolicyRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role_ref: Option<RoleRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subjects: Option<Vec<Subject>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spec: Option<Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) labels: BTreeMap<&'static str, &'static str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyRule {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub(super) non_resource_urls: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_names: Vec<String>,
    pub(super) verbs: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoleRef {
    pub(super) api_group: &'static str,
    pub(super) kind: &'static str,
    pub(super) name: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Subject {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) namespace: String,
}

pub(super) const RBAC: &str = "rbac.authorization.k8s.io";
pub(super) const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Rules by namespace; those without a namespace apply to the whole cluster.
#[derive(Default)]
pub(super) struct Rules(pub(super) BTreeMap<Option<String>, Vec<PolicyRule>>);

impl Rules {
    /// Adds verbs on a resource, merged into an existing rule for the same resource and names.
    pub(super) fn add(
        &mut self,
        scope: &Option<String>,
        kind: &Kind,
        resource: &str,
        names: &[String],
        verbs: &[&'static str],
    ) {
        if verbs.is_empty() {
            return;
        }
        let rules = self.0.entry(scope.clone()).or_default();
        let rule = PolicyRule {
            api_groups: vec![kind.group.to_string()],
            resources: vec![resource.to_owned()],
            resource_names: names.to_vec(),
            ..PolicyRule::default()
        };
        let known = rules.iter().position(|other| PolicyRule { verbs: Vec::new(), ..other.clone() } == rule);
        let index = known.unwrap_or_else(|| {
            rules.push(rule);
            rules.len() - 1
        });
        let Some(rule) = rules.get_mut(index) else { return };
        rule.verbs.extend(verbs);
        rule.verbs.sort_unstable();
        rule.verbs.dedup();
    }

    /// Returns a role and its binding for each namespace, and for the cluster.
    pub(super) fn into_manifests(
        self,
        name: &str,
        account: &str,
        comment: &str,
        installation: &Installation,
    ) -> Vec<Manifest> {
        let both = |(namespace, rules): (Option<String>, Vec<PolicyRule>)| {
            let (role, binding) =
                if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
            let role_ref = RoleRef { api_group: RBAC, kind: role, name: name.to_owned() };
            let subject =
                Subject { kind: "ServiceAccount", name: account.to_owned(), namespace: installation.namespace.clone() };
            [
                Manifest {
                    comment: comment.to_owned(),
                    rules: Some(rules),
                    ..Manifest::new(RBAC_VERSION, role, name, namespace.as_deref())
                },
                Manifest {
                    role_ref: Some(role_ref),
                    subjects: Some(vec![subject]),
                    ..Manifest::new(RBAC_VERSION, binding, name, namespace.as_deref())
                },
            ]
        };
        self.0.into_iter().flat_map(both).collect()
    }
}

impl Manifest {
    pub(super) fn new(api_version: &'static str, kind: &'static str, name: &str, namespace: Option<&str>) -> Self {
        let labels = BTreeMap::from([("app.kubernetes.io/name", "hotshoe")]);
        let metadata = Metadata { name: name.to_owned(), namespace: namespace.map(str::to_owned), labels };
        Self {
            comment: String::new(),
            api_version,
            kind,
            metadata,
            automount_service_account_token: None,
            rules: None,
            role_ref: None,
            subjects: None,
            spec: None,
        }
    }

    /// Formats the object as a document of a YAML stream, with the comment above it.
    ///
    /// # Errors
    /// When the object cannot be serialised.
    pub fn to_yaml(&self) -> Result<String, String> {
        let object = serde_saphyr::to_string(self).map_err(|error| error.to_string())?;
        let comment: String = wrapped(&self.comment, 98).map(|line| format!("# {line}\n")).collect();
        Ok(comment + &object)
    }
}

/// Breaks a text into lines of at most `width` bytes.
pub(super) fn wrapped(text: &str, width: usize) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.len() + 1 + word.len() <= width) {
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.into_iter()
}
