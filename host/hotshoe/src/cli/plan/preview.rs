//! What a plugin would change for objects that are in a cluster, as counts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use serde_json::Value;
use tokio::time::timeout;

use super::changes::Action;
use super::page::{Plan, sign};
use super::plans;
use super::plugin::Plugin;
use super::source::Source;
use super::subjects::name;
use hotshoe_cluster::client::Cluster;
use hotshoe_cluster::discovery::Kinds;
use hotshoe_cluster::read;
use hotshoe_core::model::kind::ObjectRef;

/// For how many objects at most a preview is made, and for how many at a time.
const MAX_PARENTS: usize = 10;
const AT_A_TIME: usize = 4;
/// How long a preview may take.
const MAX_TIME: Duration = Duration::from_secs(3);

/// What would change for the first objects of a plugin's kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct Preview {
    /// How many children would be created, changed or deleted, by sign and kind.
    children: BTreeMap<(char, String), usize>,
    /// For how many objects their own labels or annotations would change.
    metadata: usize,
    /// For how many objects the status alone would change.
    statuses: usize,
    /// For how many objects the plugin does not decide, or a host would deny it, and why for the first of them.
    undecided: usize,
    pub(in crate::cli) problem: Option<String>,
    /// How many objects were looked at, if there are more.
    of_first: Option<usize>,
}

impl Preview {
    /// Asks a plugin for its decisions about the first objects of its kind that are in a cluster.
    ///
    /// # Errors
    /// When the objects cannot be read, or that takes too long.
    pub(in crate::cli) async fn of(plugin: &Plugin, cluster: &Cluster) -> anyhow::Result<Self> {
        let previewed = timeout(MAX_TIME, Self::of_first(plugin, cluster)).await;
        previewed.with_context(|| format!("the cluster at {} did not answer within {MAX_TIME:?}", cluster.server))?
    }

    async fn of_first(plugin: &Plugin, cluster: &Cluster) -> anyhow::Result<Self> {
        let source = Source::Cluster { cluster: Box::new(cluster.clone()), kinds: Kinds::default() };
        let (parents, has_more) = first(plugin, &source).await?;
        let mut preview = Self { of_first: has_more.then_some(parents.len()), ..Self::default() };
        let planned = parents.iter().map(|parent| plans(plugin, parent, &source));
        let planned: Vec<_> = futures::stream::iter(planned).buffered(AT_A_TIME).collect().await;
        for (parent, planned) in parents.iter().zip(planned) {
            preview.add(parent, planned);
        }
        Ok(preview)
    }

    /// Counts what would change for an object.
    fn add(&mut self, parent: &Value, planned: anyhow::Result<Vec<Plan>>) {
        let plans = match planned {
            Ok(plans) => plans,
            Err(why) => {
                self.undecided += 1;
                self.problem.get_or_insert_with(|| format!("{}: {why:#}", name(parent)));
                return;
            }
        };
        let changes = plans.iter().flat_map(|plan| &plan.changes.children);
        let changes: Vec<_> = changes.filter(|change| change.action != Action::Keep).collect();
        let changes_metadata = plans.iter().any(|plan| !plan.changes.metadata.is_empty());
        self.metadata += usize::from(changes_metadata);
        let changes_anything = plans.iter().any(|plan| !plan.changes.is_empty());
        self.statuses += usize::from(changes.is_empty() && !changes_metadata && changes_anything);
        for change in changes {
            *self.children.entry((sign(change.action), change.child.kind.kind.to_string())).or_default() += 1;
        }
    }
}

/// Returns the first parents of a plugin, and whether there are more.
async fn first(plugin: &Plugin, source: &Source) -> anyhow::Result<(Vec<Value>, bool)> {
    let Source::Cluster { cluster, kinds } = source else { return Ok((Vec::new(), false)) };
    let kind = &plugin.revision.descriptor().parent;
    let (selector, namespaces) = (plugin.config.parent_selector().to_string(), plugin.config.parent_namespaces());
    let namespaces: Vec<Option<String>> =
        namespaces.map_or_else(|| vec![None], |named| named.into_iter().map(Some).collect());
    let mut parents = Vec::new();
    for namespace in namespaces {
        let most = MAX_PARENTS + 1 - parents.len();
        parents.extend(read::first_objects(cluster, kinds, kind, namespace.as_deref(), &selector, most).await?);
        if parents.len() > MAX_PARENTS {
            break;
        }
    }
    let has_more = parents.len() > MAX_PARENTS;
    parents.truncate(MAX_PARENTS);
    let annotations = plugin.config.parent_annotations();
    parents.retain(|parent| {
        let annotation = |key: &str| parent.pointer("/metadata/annotations")?.get(key)?.as_str();
        annotations.matches(annotation) && ObjectRef::of(parent).is_ok()
    });
    Ok((parents, has_more))
}

/// As in `~ 1 Deployment, + 2 Service`.
impl fmt::Display for Preview {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.children.iter().map(|((sign, kind), count)| format!("{sign} {count} {kind}"));
        let counted = |count: usize, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let others = [
            counted(self.metadata, "metadata"),
            counted(self.statuses, "status only"),
            counted(self.undecided, "undecided"),
        ];
        let parts: Vec<String> = children.chain(others.into_iter().flatten()).collect();
        formatter.write_str(&if parts.is_empty() { "no changes".to_owned() } else { parts.join(", ") })?;
        match self.of_first {
            Some(count) => write!(formatter, " (of the first {count} objects)"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_by_what_happens_and_by_kind() {
        let child = |sign, kind: &str, count| ((sign, kind.to_owned()), count);
        let mut preview = Preview {
            children: [child('~', "Deployment", 1), child('+', "Service", 2), child('-', "Pod", 3)].into(),
            ..Preview::default()
        };
        assert_eq!(preview.to_string(), "+ 2 Service, - 3 Pod, ~ 1 Deployment");
        (preview.statuses, preview.of_first) = (1, Some(10));
        assert_eq!(
            preview.to_string(),
            "+ 2 Service, - 3 Pod, ~ 1 Deployment, 1 status only (of the first 10 objects)"
        );
        assert_eq!(Preview::default().to_string(), "no changes");
    }

    #[test]
    fn an_object_without_a_decision_is_counted_and_the_first_reason_is_kept() {
        let mut preview = Preview::default();
        for (name, why) in [("a", "no size"), ("b", "no image")] {
            let parent =
                serde_json::json!({ "apiVersion": "example.com/v1", "kind": "Cache", "metadata": { "name": name } });
            preview.add(&parent, Err(anyhow::anyhow!(why)));
        }
        assert_eq!(preview.to_string(), "2 undecided");
        assert_eq!(preview.problem.as_deref(), Some("Cache.example.com a: no size"));
    }
}
